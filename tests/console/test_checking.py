"""An examination for the pages, and the way from old consumers, on a real ensemble."""

from __future__ import annotations

import threading

import pytest

from tests.check.old_world import old_world
from tests.harness.wait import wait_until
from zkcoord.console import checking
from zkcoord.console.checking import Checked, Checker
from zkcoord.core.model import GroupMode, Mode
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout

PATIENCE_S = 30.0
LAYOUT = Layout.ISOLATED


def examined(checker: Checker) -> Checked:
    """The first examination that is over."""
    return wait_until(
        lambda: found if not (found := checker.newest()).is_running else None,
        PATIENCE_S,
        "an examination",
    )


def test_findings_come_the_worst_first_and_each_old_group_with_its_next_step(zk_hosts: str) -> None:
    told = threading.Event()
    with old_world(zk_hosts) as here:
        here.broker()
        here.topic("orders", 2)
        here.healthy("alone", "orders", 2)
        here.healthy("mixed", "orders", 2)
        here.put(LAYOUT.mode("mixed"), codec.encode_mode(Mode(GroupMode.MIXED)))
        here.put(LAYOUT.mode("arrived"), codec.encode_mode(Mode(GroupMode.MIXED)))
        here.topic("users", 1)
        here.offset("alone", "users", 0, "no number")
        checker = Checker(ZkOptions(zk_hosts), LAYOUT, told.set)
        assert checker.newest() == Checked(is_running=True)
        found = examined(checker)
        checker.close()
    assert told.is_set() and not found.problem and found.at_ms
    ranks = [finding.severity.rank for finding in found.findings]
    assert ranks == sorted(ranks)
    assert (found.findings[0].group, found.findings[0].code) == ("alone", "offset-no-number")
    steps = {one.name: (one.old, one.next_step) for one in found.legacy}
    assert steps["alone"][0] == 1 and "docs/migration.md" in steps["alone"][1]
    assert steps["mixed"] == (1, "replace its 1 old consumers one by one")
    assert "mode GROUP coordinated" in steps["arrived"][1]


def test_one_is_enough_for_all_who_look_within_a_minute(zk_hosts: str) -> None:
    checker = Checker(ZkOptions(zk_hosts), LAYOUT, lambda: None)
    found = examined(checker)
    assert all(checker.newest() is found for _ in range(5))
    checker.close()


def test_what_fails_is_said_and_what_was_known_stays(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "AGAIN_MS", 0)
    away = ZkOptions("127.0.0.1:1", connect_timeout_ms=200)
    checker = Checker(away, LAYOUT, lambda: None)
    checker.newest()
    found = wait_until(lambda: checker.newest().problem, PATIENCE_S, "a sentence")
    assert "127.0.0.1:1" in found
    checker.close()
