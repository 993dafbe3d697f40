"""What a group's record of a rebalance says of its steps and of who owns what afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from zkcoord.core.group.rebalance_log import (
    OWNED_PARTITIONS_MAX,
    STEPS_MAX,
    TAKEOVER,
    RebalanceLog,
)
from zkcoord.core.model import Cause, Command, GroupState, Option, Owner, Thread, TopicPartition
from zkcoord.core.target import TargetAssignment

RESULT = TargetAssignment({}, "sticky", {}, (), ())


def view(**owners: tuple[int, ...]) -> Any:
    """A group whose members own these partitions of t."""
    sessions = {name: number for number, name in enumerate(owners, 1)}
    return SimpleNamespace(
        members=dict.fromkeys(owners),
        by_session={number: name for name, number in sessions.items()},
        owners={
            TopicPartition("t", n): Owner(sessions[name], Thread(name, 0), 1)
            for name, numbers in owners.items()
            for n in numbers
        },
    )


def told(log: RebalanceLog, at_ms: int, member: str, option: Option) -> None:
    log.sent(at_ms, Command(member, 1, option, 1, 1, 1))


def record(log: RebalanceLog, at_ms: int, of: Any) -> dict[str, Any]:
    log.state(at_ms, GroupState.STABLE, of, RESULT)
    (found,) = log.take_records(1)
    return dict(found.detail)


def test_each_command_is_a_step_with_its_time() -> None:
    log = RebalanceLog("g")
    log.begin(1_000, Cause("member joined", "b"))
    log.assigned(1_012, 2, RESULT)
    told(log, 1_012, "a", Option.STOP)
    log.acked(1_030, "a")
    told(log, 1_031, "b", Option.START)
    log.acked(1_040, "b")
    log.acked(1_040, "c")  # who was told nothing
    found = record(log, 1_041, view(a=(0, 1, 2, 5), b=(3, 4)))
    assert found["decided_ms"] == 12 and found["duration_ms"] == 41
    assert found["steps"] == [
        {"member": "a", "option": "stop-fetcher", "at_ms": 12, "ms": 18},
        {"member": "b", "option": "start-fetcher", "at_ms": 31, "ms": 9},
    ]
    assert found["owned"] == {"a": {"t": "0-2,5"}, "b": {"t": "3-4"}}


def test_the_next_rebalance_begins_without_the_steps_of_this_one() -> None:
    log = RebalanceLog("g")
    for began in (1_000, 2_000):
        log.begin(began, Cause("member left", "a"))
        told(log, began + 1, "b", Option.START)
        log.acked(began + 4, "b")
        found = record(log, began + 5, view(b=(0,)))
        assert [step["ms"] for step in found["steps"]] == [3]


def test_a_takeover_in_between_begins_anew() -> None:
    """What was read then is not news; what somebody was told before it began is told from there."""
    log = RebalanceLog("g")
    log.begin(1_000, Cause("member left", "a"))
    told(log, 1_001, "b", Option.STOP)
    log.acked(1_004, "b")
    told(log, 1_005, "c", Option.START)
    log.begin(2_000, Cause(TAKEOVER, "n1"))
    log.acked(2_003, "c")
    told(log, 2_004, "b", Option.START)
    log.acked(2_006, "b")
    found = record(log, 2_010, view(b=(0,)))
    assert found["decided_ms"] == 0
    assert [(step["member"], step["at_ms"], step["ms"]) for step in found["steps"]] == [
        ("c", 0, 998),
        ("b", 4, 2),
    ]


def test_it_is_the_same_whichever_answer_of_one_moment_came_first() -> None:
    """A term that is replayed says the same, and looks at sets in another order."""
    found = []
    for names in (["a", "b", "c"], ["c", "a", "b"]):
        log = RebalanceLog("g")
        log.begin(0, Cause("member joined", "a"))
        for name in "abc":
            told(log, 1, name, Option.STOP)
        for name in names:
            log.acked(5, name)
        found.append(record(log, 6, view(a=(0,))))
    assert found[0] == found[1]


def test_a_record_is_bounded() -> None:
    log = RebalanceLog("g")
    log.begin(0, Cause("member joined", "a"))
    for number in range(STEPS_MAX + 9):
        told(log, number, f"m{number}", Option.STOP)
        log.acked(number, f"m{number}")
    found = record(log, 1, view(a=tuple(range(OWNED_PARTITIONS_MAX + 1))))
    assert len(found["steps"]) == STEPS_MAX and "owned" not in found
    log.begin(2, Cause("member joined", "a"))
    found = record(log, 3, view(a=tuple(range(OWNED_PARTITIONS_MAX))))
    assert found["owned"] == {"a": {"t": f"0-{OWNED_PARTITIONS_MAX - 1}"}}
