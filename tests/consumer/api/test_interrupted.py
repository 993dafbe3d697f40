"""A signal handler closes a consumer, or ends the process, at any instruction of a poll or an
iteration: what counts as handed out is what the application was given, neither more nor less.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Mapping
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from kafka.errors import IllegalStateError

from consumer.api import kafka_consumer, poll_loop
from consumer.api.kafka_consumer import KafkaConsumer
from consumer.api.lifetime import CloseArguments, Lifetime
from consumer.api.poll_loop import PollLoop
from consumer.fetch import record_iterator
from consumer.fetch.record_iterator import RecordIterator
from tests.consumer.fakes import tp
from zkcoord.zk.bell import Bell

FILES = (kafka_consumer.__file__, poll_loop.__file__, record_iterator.__file__)
# behind these, and where a function begins, Python lets signal handlers run
PLACES = ("RESUME", "CALL", "JUMP_BACKWARD")
BATCH = 3


class Record(NamedTuple):
    """As much of a record as is looked at."""

    offset: int


class Source:
    """Three records at a time; it notes what it gives before it moves on, as the real ones do."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.given: dict[Any, list[Record]] = {}

    def take(self, count: int) -> tuple[Mapping[Any, list[Record]], bool]:
        at = self.data.at
        self.given = {tp(0): [Record(o) for o in range(at, at + min(count, BATCH))]}
        self.data.at = self.given[tp(0)][-1].offset + 1
        return self.given, True


def a_consumer() -> Any:
    """One whose membership and brokers are as if all were well."""
    one: Any = KafkaConsumer.__new__(KafkaConsumer)
    data = one._data = SimpleNamespace(
        at=0, lock=threading.RLock(), wakeup=Bell(), housekeeping=lambda alone: None
    )
    data.put_back = lambda partition, offset: setattr(data, "at", offset)
    data.fetcher = Source(data)
    records = one._records = RecordIterator(data)
    one.stored = []

    def end(arguments: CloseArguments) -> None:
        one.stored.append(records.positions().get(tp(0), data.at))

    one._lifetime = Lifetime(end, data.wakeup.set, 1_000)
    state = SimpleNamespace(
        processed=lambda: None,
        due_callbacks=(),
        failure=None,
        unraised=None,
        lease_seen_ms=2**62,
        handed_out=(),
        seen_assignment_epoch=0,
        assignment_epoch=0,
        lost_of=lambda partitions: {},
    )
    session: Any = SimpleNamespace(
        state=state,
        lifetime=one._lifetime,
        lease_holds=lambda: True,
        leased_in=lambda epoch: True,
    )
    duties: Any = SimpleNamespace(run=lambda: 2**62, wait=lambda deadline: None)
    setup: Any = SimpleNamespace(
        config={"max_poll_records": BATCH, "consumer_timeout_ms": -1}, data=data, alone=False
    )
    one._polling = PollLoop(setup, session, duties, records)
    return one


def interrupted(one: Any, way: str, number: int, raises: bool) -> tuple[list[int], bool]:
    """Ask for records with an interruption at the place of this number: the offsets that were
    given, and whether there is such a place.
    """
    seen, before = 0, dict[FrameType, str]()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            last = before.get(frame, "RESUME")
            before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last.startswith(PLACES):
                seen += 1
                if seen == number:
                    sys.settrace(None)
                    one._lifetime.close()
                    if raises:
                        raise SystemExit
        return trace

    given: list[int] = []
    sys.settrace(trace)
    try:
        if way == "poll":
            batch = one.poll(1_000)
            sys.settrace(None)
            given += [record.offset for records in batch.values() for record in records]
        else:
            record = next(one)
            sys.settrace(None)
            given.append(record.offset)
    except (StopIteration, SystemExit, IllegalStateError):
        pass
    finally:
        sys.settrace(None)
    return given, seen >= number


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("way", ["poll", "iterate"])
@pytest.mark.parametrize("asked_before", [0, 1, BATCH])
def test_at_each_place(way: str, raises: bool, asked_before: int) -> None:
    number = 0
    while True:
        number += 1
        one = a_consumer()
        given: list[int] = []
        for _ in range(asked_before):
            if way == "poll":
                given += [r.offset for r in one.poll(1_000)[tp(0)]]
            else:
                given.append(next(one).offset)
        more, found = interrupted(one, way, number, raises)
        if not found:
            break
        given += more
        one._lifetime.close()  # as a `finally` of the application does
        assert one.stored == [len(given)], f"place {number}: {given}"
        assert given == list(range(len(given)))
    assert number > 5
