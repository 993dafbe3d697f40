"""Offsets in Kafka alone (`offsets_storage="kafka"`): a commit goes to the broker that coordinates
the group there, once the member has answered that it owns the partitions and its lease holds.

The guarantee is weaker than ZooKeeper's: nothing fences the broker's side. A commit that was sent
while the lease held may reach the broker after somebody else has gone on, and move the offset back:
records since then are delivered again if nothing is committed after it. What can be done about it
is done: requests leave one after the other, each is checked again when it leaves, and a partition
is given up only after the commits before it were answered.

A partition begins at what is committed in Kafka (`consumer.offsets.initial_offsets`). Nothing is
stored for a partition before its first commit, and an operator's reset in Kafka is not noticed by a
consumer that runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import kafka.errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.core import messages as msg
from consumer.core.messages import CommitDone, CommitOutcome
from consumer.errors import described, kafka_away, kafka_refused
from consumer.fetch.group_offsets import RETRY_MS
from consumer.offsets.store import REFRESH_S, OffsetStoreLinks, public_offsets
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.zk.bell import Bell

log = logging.getLogger(__name__)

GIVE_UP_AFTER_S = 10.0
Offsets = dict[TopicPartition, OffsetAndMetadata]


class KafkaOffsetStore:
    """The store of one membership. Fields that are changed later are under `_lock`."""

    def __init__(self, links: OffsetStoreLinks) -> None:
        self._links = links
        self.offsets = links.offsets
        self.state = links.state
        self._lock = threading.Lock()
        # Token of a `Commit` that the member has not answered yet: what it is to store.
        self._asked: dict[int, Offsets] = {}
        # They run on the IO thread, one after the other. Each knows how much had been lost when it
        # was asked for (`_losses` of then), so that what is lost since is left out.
        self._tasks: deque[Callable[[], Awaitable[None]]] = deque()
        # Set while no task runs.
        self._idle = Bell()
        self._idle.set()
        # How many `Lost` have come, and by partition the number of the last that names it.
        self._losses = 0
        self._lost_at: dict[TopicPartition, int] = {}
        # By partition what was to be committed last, or was committed when it began: what is
        # committed anew is never more than the application has asked for.
        self._last: Offsets = {}

    def begin(self) -> None:
        """From now on what is owned is committed again before Kafka forgets it."""
        self.offsets.start(self._refresh_async).add_errback(
            lambda e: log.debug("refreshing offsets of group %s ended: %s", self.offsets.group, e)
        )

    def receive(self, message: msg.ToFetcher) -> None:
        """A permission becomes a commit; everything else passes."""
        match message:
            case msg.Lost():
                lost = [TopicPartition(*tp) for tp in message.partitions]
                with self._lock:
                    self._losses += 1
                    self._lost_at.update(dict.fromkeys(lost, self._losses))
            case msg.Assigned():
                with self._lock:
                    seen = self.offsets.seen
                    self._last.update(
                        {
                            tp: seen[tp]
                            for tp, assigned in public_offsets(message.offsets, {}).items()
                            if tp in seen and seen[tp].offset == assigned.offset
                        }
                    )
            case msg.CommitDone():
                with self._lock:
                    offsets, losses = self._asked.pop(message.token, {}), self._losses
                if message.outcome is CommitOutcome.OK and offsets:
                    self._queue(lambda: self._commit_async(message.token, offsets, losses))
                    return
            case _:
                pass
        self._links.deliver(message)

    def send(self, message: msg.FromFetcher) -> None:
        """A commit is remembered until it is permitted; what is given up is committed first.
        Everything else passes.
        """
        match message:
            case msg.Commit():
                with self._lock:
                    self._asked[message.token] = public_offsets(message.offsets, message.metadata)
            case msg.Revoked():
                with self._lock:
                    losses = self._losses
                self._queue(lambda: self._give_up_async(message, losses))
                return
            case _:
                pass
        self._links.send(message)

    def leave(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit the last positions, after what was asked for before, and wait for it."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            losses = self._losses
        wanted = {tp: self._at(tp, offset) for tp, offset in positions.items()}
        self._queue(lambda: self._store_async(wanted, losses, deadline))
        self._idle.wait(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Nothing: see `leave`."""

    def figures(self) -> dict[str, Any]:
        """None."""
        return {}

    def _queue(self, task: Callable[[], Awaitable[None]]) -> None:
        with self._lock:
            self._tasks.append(task)
            if not self._idle.is_set():
                return
            self._idle.clear()
        self.offsets.start(self._run_async).add_errback(self._ended)

    def _ended(self, error: Exception) -> None:
        log.log(
            logging.DEBUG if self.state.closed else logging.WARNING,
            "commits of group %s ended: %r; they begin again with the next one",
            self.offsets.group,
            error,
        )
        self._idle.set()

    # the IO thread

    async def _run_async(self) -> None:
        while True:
            with self._lock:
                if not self._tasks:
                    self._idle.set()
                    return
                task = self._tasks.popleft()
            await task()

    def _lost_since(self, offsets: Offsets, losses: int) -> tuple[ModelPartition, ...]:
        with self._lock:
            return tuple(
                sorted(ModelPartition(*tp) for tp in offsets if self._lost_at.get(tp, 0) > losses)
            )

    async def _commit_async(self, token: int, offsets: Offsets, losses: int) -> None:
        """The application's commit, answered as Kafka answers it."""
        named = tuple(sorted(ModelPartition(*tp) for tp in offsets))
        lost = self._lost_since(offsets, losses)
        if lost or not self._links.lease_holds():
            done = (
                CommitDone(token, CommitOutcome.NOT_OWNED, lost)
                if lost
                else CommitDone(token, CommitOutcome.UNAVAILABLE, named)
            )
            return self._links.deliver(done)
        with self._lock:
            self._last.update(offsets)
        try:
            await self.offsets.commit_async(offsets)
        except kafka.errors.RetriableError as e:
            self._links.deliver(CommitDone(token, CommitOutcome.UNAVAILABLE, named, kafka_away(e)))
        except kafka.errors.KafkaError as e:
            self._links.deliver(CommitDone(token, CommitOutcome.REFUSED, named, kafka_refused(e)))
        else:
            self._links.deliver(CommitDone(token, CommitOutcome.OK))

    async def _give_up_async(self, m: msg.Revoked, losses: int) -> None:
        """What is given up is committed where it stands (automatic commits), and the member gets
        its answer in any case.
        """
        wanted = {
            TopicPartition(*tp): self._at(TopicPartition(*tp), offset)
            for tp, offset in m.positions.items()
        }
        await self._store_async(wanted, losses, time.monotonic() + GIVE_UP_AFTER_S)
        self._links.send(m)

    def _at(self, tp: TopicPartition, position: int) -> OffsetAndMetadata:
        """A position to be stored; where it is what was committed, with what stands beside it."""
        with self._lock:
            last = self._last.get(tp)
        same = last is not None and last.offset == position
        return last if same else OffsetAndMetadata(position, "", -1)

    async def _refresh_async(self) -> None:
        while not self.state.closed:
            await self.offsets.sleep(REFRESH_S)
            self._queue(self._store_again_async)

    async def _store_again_async(self) -> None:
        with self.state.lock:
            owned = self.state.data.assigned()
        with self._lock:
            last, losses = (
                {tp: offset for tp, offset in self._last.items() if tp in owned},
                self._losses,
            )
        await self._store_async(last, losses, time.monotonic() + GIVE_UP_AFTER_S)

    async def _store_async(self, wanted: Offsets, losses: int, deadline: float) -> None:
        """Store positions without being asked by the application. What cannot be stored is
        delivered again.
        """
        why = "the lease is over"
        while wanted and self._links.lease_holds() and time.monotonic() < deadline:
            for tp in self._lost_since(wanted, losses):
                del wanted[TopicPartition(*tp)]
            with self._lock:
                self._last.update(wanted)
            try:
                await self.offsets.commit_async(wanted)
                return
            except kafka.errors.KafkaError as e:
                why = described(e)
                if not isinstance(e, kafka.errors.RetriableError):
                    break
            await self.offsets.sleep(RETRY_MS / 1000)
        if wanted:
            log.warning(
                "the last positions of %d partitions of group %s are not stored (%s): what was"
                " processed since the commit before is delivered again",
                len(wanted),
                self.offsets.group,
                why,
            )
