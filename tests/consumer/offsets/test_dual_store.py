"""The mirror in Kafka of what is stored in ZooKeeper: gathered, one request at a time, silent
without a lease, and complete at the end.
"""

from __future__ import annotations

import logging
import threading
import types
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

import kafka.errors
import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.core import messages as msg
from consumer.offsets.dual_store import DualOffsetStore
from consumer.offsets.store import OffsetStoreLinks
from tests.consumer.fakes import Bench, model, tp

PATIENCE_S = 30.0


class FakeOffsets:
    """A group in Kafka, and the IO thread as a coroutine that is moved by hand: each step ends when
    it sleeps.
    """

    group = "g"

    def __init__(self) -> None:
        self.stored: list[dict[int, int]] = []
        self.beside: list[dict[int, str]] = []
        self.seen: dict[TopicPartition, OffsetAndMetadata] = {}
        self.error: Exception | None = None
        self.running: Any = None
        self.during: Callable[[], None] = lambda: None

    def start(self, task: Callable[..., Awaitable[None]], *arguments: Any) -> FakeOffsets:
        assert self.running is None, "one at a time"
        self.running = task(*arguments)
        return self

    def add_errback(self, _then: object) -> None:
        pass

    async def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.during()
        if self.error is not None:
            raise self.error
        self.stored.append({p.partition: one.offset for p, one in offsets.items()})
        self.beside.append({p.partition: one.metadata for p, one in offsets.items()})

    @types.coroutine
    def sleep(self, _seconds: float) -> Generator[None, None, None]:
        yield

    def step(self) -> list[dict[int, int]]:
        """Go on to the next sleep; what was stored by then."""
        before = len(self.stored)
        if self.running is not None:
            try:
                self.running.send(None)
            except StopIteration:
                self.running = None
        return self.stored[before:]


class Side:
    """A mirror between a member (the test) and a fake Kafka."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.kafka: Any = FakeOffsets()
        self.leased = True
        deliver: Any = self.bench.state.receive
        self.mirror = DualOffsetStore(
            OffsetStoreLinks(
                self.kafka,
                self.bench.state,
                lambda: self.leased,
                self.bench.told.append,
                deliver,
            )
        )

    def stored(self, given: bool = False, **offsets: int) -> None:
        """The member stored these: p0=5 for partition 0."""
        self.mirror.receive(
            msg.Stored({model(int(name[1:]))[0]: offset for name, offset in offsets.items()}, given)
        )

    def lost(self, *numbers: int) -> None:
        self.mirror.receive(msg.Lost(model(*numbers), "gone"))

    def end(self) -> list[dict[int, int]]:
        """Close on a thread of its own, while the IO thread goes on; what was stored by then."""
        before = len(self.kafka.stored)
        closing = threading.Thread(target=self.mirror.close, args=(PATIENCE_S,))
        closing.start()
        while closing.is_alive():
            self.kafka.step()
        return list(self.kafka.stored[before:])


def test_what_is_stored_is_mirrored_and_what_comes_meanwhile_is_gathered() -> None:
    side = Side()
    side.stored(p0=5, p1=1)
    assert side.kafka.step() == [{0: 5, 1: 1}]
    for offset in range(6, 50):
        side.stored(p0=offset)
    assert side.mirror.figures() == {"mirror-waiting": 1, "mirror-failures": 0}
    assert side.kafka.step() == [{0: 49}]
    assert (
        side.kafka.step() == []
        and side.kafka.running is None
        and side.mirror.figures()["mirror-waiting"] == 0
    )
    side.stored(p1=2)
    assert side.kafka.step() == [{1: 2}], "it begins anew"


def test_metadata_is_mirrored_with_its_offset() -> None:
    side = Side()
    (zero,), (one,) = model(0), model(1)
    side.mirror.receive(msg.Stored({zero: 5, one: 6}, False, {zero: "why"}))
    side.kafka.step()
    assert side.kafka.beside == [{0: "why", 1: ""}]


def test_other_messages_pass() -> None:
    side = Side()
    side.mirror.receive(msg.Assigned(dict.fromkeys(model(0), 3), 1))
    assert side.bench.data.at == {tp(0): 3}


def test_without_a_lease_nothing_is_sent_and_what_was_given_up_is_forgotten() -> None:
    """A process that was stopped: somebody else may have gone on with what it gave up, and what it
    owns is settled first.
    """
    side = Side()
    side.stored(p0=5)
    side.stored(given=True, p1=9)
    side.leased = False
    assert side.kafka.step() == [] == side.kafka.step()
    side.leased = True
    assert side.kafka.step() == [{0: 5}]


def test_what_is_lost_is_dropped_also_from_a_request_that_fails() -> None:
    side = Side()
    side.stored(p0=5, p1=6, p2=7)
    side.lost(0)
    side.kafka.error, side.kafka.during = (
        kafka.errors.CoordinatorNotAvailableError(),
        lambda: side.lost(1),
    )
    assert side.kafka.step() == []
    side.kafka.error = None
    assert side.kafka.step() == [{2: 7}]


def test_a_failure_is_counted_said_once_and_does_not_overwrite_what_is_newer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    side = Side()
    side.kafka.error, side.kafka.during = (
        kafka.errors.CommitFailedError("live members"),
        lambda: side.stored(p0=6),
    )
    side.stored(p0=5, p1=1)
    with caplog.at_level(logging.INFO, "consumer"):
        for _ in range(5):
            assert side.kafka.step() == []
        assert side.mirror.figures() == {"mirror-waiting": 2, "mirror-failures": 5}
        side.kafka.error = None
        assert side.kafka.step() == [{0: 6, 1: 1}]
    assert [r.levelname for r in caplog.records] == [
        "WARNING",
        "INFO",
    ] and "live members" in caplog.records[0].getMessage()


def test_the_end_waits_and_says_all_that_is_owned_once_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    side = Side()
    side.stored(p0=5, p1=6)
    side.kafka.step()
    side.stored(given=True, p1=7)
    side.kafka.step()
    side.kafka.step()
    side.leased = False
    assert side.end() == [{0: 5}], "what was given up is its next owner's"


def test_the_end_does_not_wait_for_what_cannot_be(caplog: pytest.LogCaptureFixture) -> None:
    side = Side()
    side.stored(p0=5)
    side.kafka.error = kafka.errors.GroupAuthorizationFailedError()
    with caplog.at_level(logging.WARNING, "consumer"):
        assert side.end() == [] and side.kafka.running is None
    assert "were not mirrored to Kafka before the end" in caplog.text


def test_what_is_owned_is_mirrored_again_before_kafka_forgets_it() -> None:
    side = Side()
    side.stored(p0=5, p1=6)
    assert side.kafka.step() == [{0: 5, 1: 6}] and side.kafka.step() == []
    side.mirror.begin()
    side.kafka.step()
    hour, side.kafka.running = side.kafka.running, None
    side.lost(1)
    hour.send(None)
    assert side.kafka.step() == [{0: 5}]
    hour.close()
