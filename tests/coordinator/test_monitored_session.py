"""The observed session: counting writes, and the broker beside the coordinator, on a port that a
test drives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from zkcoord.coordinator.monitored_session import MonitoredEnsemble, MonitoredPort, outcome_of
from zkcoord.zk.port import (
    Change,
    Check,
    Children,
    Closed,
    Committed,
    Connected,
    Create,
    Delete,
    Denied,
    Done,
    Expired,
    Fired,
    GetChildren,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Refused,
    Rejected,
    Suspended,
    Unanswered,
    WatchMode,
    ZkError,
)
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.stat import Stat

BROKER = "/brokers/ids/5"
THERE = Node(b"{}", Stat(1, 1, 0, 0, 9, 0))


class Script:
    """A port and its ensemble whose answers the test gives."""

    def __init__(self) -> None:
        self.reads: list[tuple[Sequence[Read], Callable[[ReadResult], None]]] = []
        self.watched: list[str] = []
        self.closed = 0
        self.on_event: Callable[[PortEvent], None]

    def open(self, on_event: Callable[[PortEvent], None]) -> Script:
        self.on_event = on_event
        return self

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        done(Committed((Done(),)))

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        self.reads.append((reads, done))

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        done(ReadDone(()))

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        self.watched.append(path)
        done(ReadDone(()))

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        self.watched.remove(path)
        done(ReadDone(()))

    def ignore(self, paths: Sequence[str]) -> None:
        self.ignored = paths

    def close(self) -> None:
        self.closed += 1

    def answer(self, answer: ReadAnswer, others: ReadAnswer = Children(("7",))) -> None:
        """Answer the oldest read."""
        reads, done = self.reads.pop(0)
        assert list(reads) == [GetData(BROKER), GetChildren("/brokers/ids")]
        done(ReadDone((answer, others)))


class Scene:
    """An observed port over a script, and what the driver and the service were told."""

    def __init__(self, broker_id: int | None = 5, asks: bool = False) -> None:
        self.script = Script()
        self.events: list[PortEvent] = []
        self.broker: list[bool] = []
        self.outcomes: list[str] = []
        self.ensemble = MonitoredEnsemble(
            self.script, Layout.DRAFT, broker_id, self.outcomes.append, self.broker.append, asks
        )
        self.port: MonitoredPort = self.ensemble.open(self.events.append)


def test_without_a_broker_everything_passes() -> None:
    scene = Scene(broker_id=None)
    for event in (Connected(1, 6_000), Fired(Change.DATA, BROKER), Suspended(), Expired()):
        scene.script.on_event(event)
    assert scene.events == [Connected(1, 6_000), Fired(Change.DATA, BROKER), Suspended(), Expired()]
    assert scene.script.reads == [] and scene.script.watched == []


def test_the_first_connection_waits_for_the_broker_and_watches_it() -> None:
    scene = Scene()
    scene.script.on_event(Connected(1, 6_000))
    assert scene.events == [] and scene.script.watched == [BROKER]
    scene.script.answer(THERE)
    assert scene.events == [Connected(1, 6_000)] and scene.broker == [True]


@pytest.mark.parametrize(
    ("answer", "words"),
    [(Missing(), "is not there"), (Denied(ZkError.NO_AUTH), "cannot be read (NoAuth)")],
)
def test_a_broker_that_was_never_there_ends_the_session_with_a_sentence(
    answer: ReadAnswer, words: str
) -> None:
    scene = Scene()
    scene.script.on_event(Connected(1, 6_000))
    scene.script.answer(answer)
    assert scene.script.closed == 1 and scene.events == []
    scene.script.on_event(Closed())
    (event,) = scene.events
    assert isinstance(event, Refused) and words in event.reason and "--broker-id" in event.reason


NOBODY = Children(())
HIDDEN = Denied(ZkError.NO_AUTH)


@pytest.mark.parametrize("nobody", [Missing(), NOBODY])
def test_where_zookeeper_knows_no_broker_it_is_not_waited_for(nobody: ReadAnswer) -> None:
    """It is known once the coordinator, who asks brokers, leads."""
    scene = Scene(asks=True)
    scene.script.on_event(Connected(1, 6_000))
    scene.script.answer(Missing(), nobody)
    assert scene.events == [Connected(1, 6_000)] and scene.broker == []
    scene.script.on_event(Fired(Change.CREATED, BROKER))
    scene.script.answer(Missing(), nobody)
    assert scene.broker == [], "what was never there is not lost"
    scene.script.on_event(Fired(Change.DATA, BROKER))
    scene.script.answer(THERE, Children(("5",)))
    assert scene.broker == [True] and scene.script.closed == 0
    scene.script.on_event(Fired(Change.DELETED, BROKER))
    scene.script.answer(Missing(), nobody)
    assert scene.broker == [True, False]


@pytest.mark.parametrize(
    ("asks", "answer", "others"),
    [(True, Missing(), Children(("7",))), (False, Missing(), NOBODY), (True, HIDDEN, HIDDEN)],
)
def test_it_is_refused_where_others_are_known_or_nobody_asks(
    asks: bool, answer: ReadAnswer, others: ReadAnswer
) -> None:
    scene = Scene(asks=asks)
    scene.script.on_event(Connected(1, 6_000))
    scene.script.answer(answer, others)
    assert scene.script.closed == 1 and scene.events == []


def test_a_connection_lost_before_the_answer_is_asked_again() -> None:
    scene = Scene()
    scene.script.on_event(Connected(1, 6_000))
    scene.script.on_event(Suspended())
    scene.script.reads.pop(0)[1](Unanswered())
    assert scene.events == [Suspended()]
    scene.script.on_event(Connected(1, 6_000))
    scene.script.answer(THERE)
    assert scene.events == [Suspended(), Connected(1, 6_000)]


def test_later_only_changes_are_told_and_nobody_waits() -> None:
    scene = Scene()
    scene.script.on_event(Connected(1, 6_000))
    scene.script.answer(THERE)
    for answer in (THERE, Missing(), Missing(), THERE):
        scene.script.on_event(Fired(Change.DELETED, BROKER))
        scene.script.answer(answer)
    assert scene.broker == [True, False, True]
    scene.script.on_event(Connected(2, 6_000))
    assert scene.events == [
        Connected(1, 6_000),
        Connected(2, 6_000),
    ], "a reconnection goes on at once, and a fired broker watch is nothing for the driver"
    scene.script.answer(Missing())
    assert scene.broker == [True, False, True, False] and scene.script.closed == 0


def test_other_events_pass_as_they_are() -> None:
    scene = Scene()
    scene.script.on_event(Connected(1, 6_000))
    scene.script.answer(THERE)
    scene.script.on_event(Fired(Change.DATA, "/x"))
    scene.script.on_event(Refused("why"))
    assert scene.events[1:] == [Fired(Change.DATA, "/x"), Refused("why")]


def test_multis_are_counted_by_how_they_ended() -> None:
    scene = Scene()
    results: list[MultiResult] = []
    scene.port.multi([Check("/e", 1)], results.append)
    assert scene.outcomes == ["ok"] and len(results) == 1
    ops: list[Op] = [Check("/e", 1), Create("/x", b"")]
    assert outcome_of(ops, Rejected(0, ZkError.BAD_VERSION)) == "fenced"
    assert outcome_of(ops, Rejected(0, ZkError.NO_NODE)) == "fenced"
    assert outcome_of(ops, Rejected(1, ZkError.NODE_EXISTS)) == "refused"
    assert outcome_of(ops, Rejected(0, ZkError.NO_AUTH)) == "refused"
    assert outcome_of([Delete("/x")], Rejected(0, ZkError.BAD_VERSION)) == "refused"
    assert outcome_of(ops, Unanswered()) == "unknown"
