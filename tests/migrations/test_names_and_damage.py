"""`zkcoord migrate`: unknown names, damaged journals, rights that are missing: each one sentence,
and exit status 1.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from tests.migrations.conftest import Run
from tests.migrations.groups import BothStores, run_folder

pytestmark = pytest.mark.kafka

THERE = {0: 10, 1: 20, 2: 30}


@pytest.mark.parametrize("command", ["plan", "apply", "verify", "rollback"])
def test_a_name_that_nobody_has(command: str, stores: BothStores, run: Run) -> None:
    """In full it might be Kafka's alone, so that both are asked; a pattern must match something."""
    group = stores.group("billing", THERE)
    status, out, err = run(command, "1", "--only", group, "--only", "TYPO")
    assert status == 1 and "TYPO" in err and "there is no such group" in out
    status, _, err = run(command, "1", "--only", group, "--only", "TYP*")
    assert status == 1 and "no group on this ensemble matches TYP*" in err


def test_a_group_that_a_run_does_not_know(stores: BothStores, tmp_path: Path, run: Run) -> None:
    group = stores.group("billing", THERE)
    assert run("apply", "1")[0] == 0
    status, _, err = run("restore", run_folder(tmp_path).name, "--only", "TYPO")
    assert status == 1 and "no group in the run" in err and "TYPO" in err
    assert run("restore", run_folder(tmp_path).name, "--only", group)[0] == 0


def test_a_journal_that_is_cut_off(stores: BothStores, tmp_path: Path, run: Run) -> None:
    """In the middle of a line, and between two; what it still tells of can be put back by name."""
    groups = sorted(stores.group(name, THERE) for name in ("one", "two", "three", "four"))
    assert run("apply", "1", "--jobs", "1")[0] == 0
    marked = {group: stores.mark(group) for group in groups}
    folder = run_folder(tmp_path)
    journal = folder / "journal.jsonl"
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    began = [n for n, line in enumerate(lines) if b'"began"' in line]
    for cut in (b"".join(lines[: began[2]]), b"".join(lines[: began[2]]) + lines[began[2]][:40]):
        journal.write_bytes(cut)
        status, out, err = run("restore", folder.name)
        assert status == 1 and "is cut off" in err and "2 more" not in out
        assert {group: stores.mark(group) for group in groups} == marked
    told = [line.split(b'"group": "')[1].split(b'"')[0].decode() for line in lines[1 : began[2]]]
    assert run("restore", folder.name, "--only", told[0])[0] == 0 and stores.mark(told[0]) == ""


def test_a_journal_without_what_the_report_says(
    stores: BothStores, tmp_path: Path, run: Run
) -> None:
    group = stores.group("one", THERE)
    assert run("apply", "1")[0] == 0
    folder = run_folder(tmp_path)
    journal = folder / "journal.jsonl"
    kept = [
        line for line in journal.read_bytes().splitlines(keepends=True) if b'"done"' not in line
    ]
    journal.write_bytes(b"".join(kept))
    status, _, err = run("restore", folder.name)
    assert status == 1 and f"by the run's report {group} were written" in err
    status, _, err = run("apply", "1")
    assert status == 1 and "--new-run" in err
    journal.write_bytes(b"nonsense\n")
    status, _, err = run("restore", folder.name)
    assert status == 1 and "is damaged" in err


def test_what_is_unchanged_is_never_less_than_nothing(
    stores: BothStores, tmp_path: Path, run: Run
) -> None:
    """A restoration that only takes notes away."""
    stores.group("billing", THERE)
    assert run("apply", "1")[0] == 0
    status, out, _ = run("restore", run_folder(tmp_path).name, "--dry-run")
    assert status == 0 and [line.split()[-1] for line in out.splitlines()[1:2]] == ["3"], out


def test_a_right_that_is_missing(stores: BothStores, run: Run) -> None:
    """Old consumers with credentials of their own keep their offsets to themselves."""
    group = stores.group("billing", THERE)
    path = f"/consumers/{group}/offsets/{stores.topic}"
    theirs = [make_digest_acl("old", "secret", all=True), make_acl("world", "anyone", read=True)]
    stores.client.set_acls(path, theirs)
    try:
        status, out, _ = run("apply", "1")
    finally:
        stores.client.add_auth("digest", "old:secret")
        stores.client.set_acls(path, OPEN_ACL_UNSAFE)
    assert status == 1 and "somebody else" not in out
    assert f"has not ZooKeeper's right to write {path} (w)" in out and "no credentials" in out
