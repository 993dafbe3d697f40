"""For whom a thread works, by a clock of the test's."""

from __future__ import annotations

from zkcoord.zk.term.work_meter import TOLD_FROM_NS, WorkMeter

MS = 1_000_000


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def test_work_is_counted_from_one_call_to_the_next_and_told_when_it_is_something() -> None:
    clock = Clock()
    meter = WorkMeter(clock)
    for group, took_ns in (("a", 3 * MS), ("", 50 * MS), ("b", TOLD_FROM_NS - 1), ("a", MS)):
        meter.works_for(group)
        clock.now_ns += took_ns
    meter.works_for("")
    assert meter.due and meter.take_us() == {"a": 4_000}
    assert not meter.due and meter.take_us() == {}
    meter.charge("b", 1)
    assert meter.due and meter.take_us() == {"b": TOLD_FROM_NS // 1_000}


def test_another_term_begins_with_nothing() -> None:
    meter = WorkMeter(Clock())
    meter.charge("a", 5 * MS)
    meter.charge("b", 1)
    meter.forget()
    assert not meter.due and meter.take_us() == {}
    meter.charge("b", TOLD_FROM_NS - 1)
    assert not meter.due
