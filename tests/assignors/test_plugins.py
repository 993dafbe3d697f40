"""Which assignors are found, and what is said of those that are left out. Nothing of theirs is
imported to know it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.assignors import installed
from zkcoord.assignors.plugins import PluginsFound, find
from zkcoord.core.assignment import ASSIGNORS


def test_without_any_there_is_nothing_to_say() -> None:
    assert find(ASSIGNORS) == PluginsFound((), ())


def test_names_in_order_and_nothing_is_imported(packages: None) -> None:
    assert find(ASSIGNORS) == PluginsFound(tuple(sorted(installed.ALL)), ())
    assert not {"nasty_assignors", "rack_aware"} & set(sys.modules)


def test_what_is_left_out_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, offers in {
        "one": {"mine": "one:assign", "twice": "one:other"},
        "two": {"twice": "two:assign", "sticky": "two:sticky", "not good,": "two:x"},
    }.items():
        monkeypatch.syspath_prepend(str(installed.package(tmp_path / name, name, offers)))
    found = find(ASSIGNORS)
    assert found.names == ("mine",)
    odd, shadowing, twice = found.notes
    assert "'not good,' of two (two:x) is left out: a name has" in odd
    assert "sticky of two (two:sticky) is left out" in shadowing and "another name" in shadowing
    assert (
        "twice is offered by one (one:other) and two (two:assign)" in twice and "uninstall" in twice
    )


def test_a_folder_that_is_twice_on_the_path_is_one_package(
    packages: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find(ASSIGNORS).notes == ()


def test_the_childs_program_started_by_hand_is_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zkcoord.assignors.child"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (
        done.returncode == 2
        and done.stdout == ""
        and done.stderr.count("\n") == 1
        and "docs/assignors.md" in done.stderr
    )


def test_the_childs_program_of_a_parent_that_is_gone_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zkcoord.assignors.child", "1", "512"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
