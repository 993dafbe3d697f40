"""A group that is paused: that nobody consumes is what was wanted."""

from __future__ import annotations

import pytest

from zkcoord.core.model import TopicPartition
from zkcoord.health.log_ends import LogEnd
from zkcoord.health.monitor import HealthMonitor
from zkcoord.health.rules import HealthLimits, HealthVerdict
from zkcoord.health.sampler import GroupLook, HealthLook
from zkcoord.health.window import StoredSeen

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
EVERY_MS = 2_000


def watched(paused: str, beyond: bool = False) -> HealthMonitor:
    """A minute without a commit, with a lag that grows."""
    monitor = HealthMonitor(HealthLimits())
    for look in range(31):
        at = look * EVERY_MS
        offsets = {tp: StoredSeen(5, at, 7, 0) for tp in (ONE, TWO)}
        ends = {ONE: LogEnd(3 if beyond else 10 + look, at), TWO: LogEnd(5, at)}
        monitor.take(
            HealthLook(
                {"g": GroupLook(True, "Stable", "zookeeper", offsets, paused=paused)}, ends, {}
            )
        )
    return monitor


def test_a_group_that_stands_still_is_an_error_unless_it_is_paused() -> None:
    (standing,) = watched("").groups()
    assert standing.verdict is HealthVerdict.ERROR and standing.why.startswith("STOP")
    monitor = watched("ann@host")
    (paused,) = monitor.groups()
    assert (paused.verdict, paused.why, paused.paused) == (
        HealthVerdict.OK,
        "paused by ann@host; lag 35",
        "ann@host",
    )
    assert paused.partitions[0].why == "its group is paused (by ann@host); lag 35"
    assert {one.verdict for one in paused.partitions} == {HealthVerdict.OK}


@pytest.mark.parametrize(("paused", "more"), [("", 1), ("ann@host", 0)])
def test_more_looks_would_say_no_more_of_it(paused: str, more: int) -> None:
    monitor = HealthMonitor(HealthLimits())
    look = GroupLook(True, "Stable", "zookeeper", {ONE: StoredSeen(5, 0)}, paused=paused)
    monitor.take(HealthLook({"g": look}, {ONE: LogEnd(9, 0)}, {}))
    assert monitor.unsettled() == more


def test_what_is_wrong_with_its_offsets_is_still_said() -> None:
    (group,) = watched("ann@host", beyond=True).groups()
    assert group.verdict is HealthVerdict.ERROR
    assert group.why.startswith("paused by ann@host; ERROR: committed is 5, and the log ends at 3")
