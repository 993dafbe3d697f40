"""Stand-ins for the two neighbours of a membership: the fetching side (a table of positions) and
the agent (a list of what it was told).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.assignment.state import AssignmentState
from consumer.core import messages as msg
from consumer.fetch.record_iterator import RecordIterator
from consumer.observer import AssignmentObserver
from zkcoord.core.model import TopicPartition as ModelPartition


def tp(number: int) -> TopicPartition:
    """A partition of the topic t."""
    return TopicPartition("t", number)


def model(*numbers: int) -> tuple[ModelPartition, ...]:
    """Partitions of the topic t, as the agent names them."""
    return tuple(ModelPartition("t", n) for n in numbers)


class FakeFetcher:
    """Counts newcomers."""

    def __init__(self) -> None:
        self.asked: list[TopicPartition] = []

    def newcomers(self, partitions: Iterable[TopicPartition]) -> None:
        self.asked.extend(partitions)


class FakeData:
    """The fetching side without fetching: positions and holds by partition."""

    def __init__(self, policy: bool = True) -> None:
        self.lock = threading.RLock()
        self.wakeup = threading.Event()
        self.fetcher = FakeFetcher()
        self.at: dict[TopicPartition, int] = {}
        self.held: set[TopicPartition] = set()
        # Assigned, without a position.
        self.unplaced: set[TopicPartition] = set()
        self.policy = policy
        self.subscription = self

    def all_consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: OffsetAndMetadata(o, "", -1) for p, o in self.at.items()}

    def assigned(self) -> set[TopicPartition]:
        return set(self.at) | self.unplaced

    def without_place(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        return self.unplaced & set(partitions)

    def add(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        self.at.update({p: o.offset for p, o in offsets.items() if o is not None})
        self.unplaced.update(p for p, o in offsets.items() if o is None)
        self.held -= set(offsets)

    def hold(self, partitions: Iterable[TopicPartition], held: bool = True) -> None:
        (self.held.update if held else self.held.difference_update)(partitions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for p in partitions:
            self.at.pop(p, None)
            self.unplaced.discard(p)
            self.held.discard(p)

    def position(self, p: TopicPartition) -> OffsetAndMetadata | None:
        return OffsetAndMetadata(self.at[p], "", -1) if p in self.at else None

    def put_back(self, p: TopicPartition, offset: int) -> None:
        self.at[p] = offset

    def seek(self, p: TopicPartition, offset: int) -> None:
        self.at[p] = offset
        self.unplaced.discard(p)

    def resolve(
        self,
        partitions: Collection[TopicPartition],
        done: Callable[[dict[TopicPartition, int]], None],
        earliest: Collection[TopicPartition] = (),
    ) -> bool:
        known = self.policy or set(partitions) <= set(earliest)
        if known:
            done({p: 0 if p in earliest else 7 for p in partitions})
        return known


class Recorder:
    """A rebalance listener that notes its calls, and may act in them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.act: Callable[[str], None] = lambda name: None

    def _note(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        self.calls.append((name, tuple(sorted(p.partition for p in partitions))))
        self.act(name)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._note("revoked", revoked)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._note("assigned", assigned)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._note("lost", lost)


class Bench:
    """A membership between two fakes."""

    def __init__(
        self,
        listener: Recorder | None = None,
        auto_commit: bool = True,
        policy: bool = True,
        observer: AssignmentObserver | None = None,
        raises: bool = False,
        eager: bool = False,
    ) -> None:
        self.data: Any = FakeData(policy)
        self.records = RecordIterator(self.data)
        self.listener = RebalanceListenerInvoker()
        self.listener.listener = listener
        self.told: list[msg.FromFetcher] = []
        self.state = AssignmentState(
            self.data,
            self.records,
            self.listener,
            self.told.append,
            auto_commit,
            observer,
            raises,
            eager=eager,
            unset_because="auto_offset_reset is 'none': seek",
        )

    def assign(self, *numbers: int, offset: int = 10, epoch: int = 1) -> None:
        """The agent assigns partitions, and the application hears of it."""
        self.state.receive(msg.Assigned(dict.fromkeys(model(*numbers), offset), epoch))
        self.state.run_callbacks()
        self.state.seen_assignment_epoch = self.state.assignment_epoch

    def stored(self) -> dict[int, int]:
        """What is stored, as far as the application's side knows, by number."""
        return {p.partition: one.offset for p, one in self.state.ledger.committed.items()}

    def hand_out(self, number: int, count: int) -> None:
        """The application gets `count` records of a partition."""
        self.data.at[tp(number)] += count
        self.state.handed_out = (tp(number),)

    def answers(self) -> list[msg.Revoked]:
        return [m for m in self.told if isinstance(m, msg.Revoked)]
