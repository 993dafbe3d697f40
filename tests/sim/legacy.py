"""A model of the old consumer: what it does with ZooKeeper, step by step, written from its source
and from what real ones were seen to do, apart from the product.

It registers, watches the registrations and its topics, and at each change tries up to four times,
two seconds apart: commit without any condition, stop, delete its own owner nodes, read all
registrations and topics (one that cannot be parsed makes the attempt fail), compute the whole
group's assignment, make its owner nodes one by one; where one exists with another text, the attempt
fails and what it made is deleted. After four it owns nothing until the next change. It hears of the
end of its session only from the server, and until then goes on delivering and committing what it
had: a zombie.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from tests.sim.application import Log
from tests.sim.kernel import Host, Kernel
from tests.sim.places import Places
from tests.sim.tree import parent_of
from tests.sim.zookeeper import SimEnsemble
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import (
    Children,
    Closed,
    Committed,
    Connected,
    Create,
    Delete,
    Expired,
    Fired,
    GetChildren,
    GetData,
    Missing,
    Node,
    Op,
    PortEvent,
    Read,
    ReadDone,
    Refused,
    Rejected,
    SetData,
    Suspended,
    Unanswered,
    WatchMode,
    ZkError,
)

ATTEMPTS = 4
BACKOFF_MS = 2_000
DELIVER_EVERY_MS = 100
WALL_START_MS = 1_500_000_000_000

Delivered = Callable[["LegacyMember", TopicPartition, int, int], None]


class Poison(ValueError):
    """A registration that the old consumer's readers die of."""


def range_owners(
    registrations: Mapping[str, Mapping[str, int]], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, str]:
    """The old range assignor: partition -> thread id. `registrations` maps a consumer id to its
    topics with their streams.
    """
    owners: dict[TopicPartition, str] = {}
    for topic, numbers in partitions.items():
        threads = sorted(
            f"{cid}-{n}"
            for cid, topics in registrations.items()
            for n in range(topics.get(topic, 0))
        )
        if not threads:
            continue
        each, more = len(numbers) // len(threads), len(numbers) % len(threads)
        for i, thread in enumerate(threads):
            first = each * i + min(i, more)
            for number in sorted(numbers)[first : first + each + (1 if i < more else 0)]:
                owners[TopicPartition(topic, number)] = thread
    return owners


def parse_registration(data: bytes, existing: Sequence[str]) -> dict[str, int]:
    """Topics with their streams. Raises `Poison`."""
    try:
        value = json.loads(data)
        pattern, subscription = value["pattern"], value["subscription"]
        if pattern in ("white_list", "black_list"):
            regex, streams = next(iter(subscription.items()))
            return {
                t: int(streams)
                for t in existing
                if bool(re.fullmatch(regex, t)) is (pattern == "white_list")
            }
        found = {str(topic): int(streams) for topic, streams in subscription.items()}
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, re.error) as error:
        raise Poison(str(error)) from error
    if any(streams < 1 for streams in found.values()):
        raise Poison("no streams")
    return found


def parse_partitions(data: bytes) -> list[int]:
    """The partitions of a topic's node."""
    try:
        return sorted(int(p) for p in json.loads(data)["partitions"])
    except (ValueError, KeyError, TypeError):
        return []


class LegacyMember:
    """One old consumer. `topics` maps topics to streams; `delivered` is told of what it hands to
    its application. `regex`: it subscribes by this, which covers `topics`, instead of by name.
    """

    def __init__(
        self,
        kernel: Kernel,
        zk: SimEnsemble,
        name: str,
        group: str,
        topics: Mapping[str, int],
        timeout_ms: int,
        commit_every_ms: int,
        places: Places,
        log: Log,
        delivered: Delivered,
        regex: str = "",
    ) -> None:
        self.kernel = kernel
        self.host = Host(kernel, name)
        self.group = group
        self.topics = dict(topics)
        self.regex = regex
        self.timeout_ms = timeout_ms
        self.commit_every_ms = commit_every_ms
        self.places = places
        self.log = log
        self.delivered = delivered
        self.id = f"{group}_{name}-{WALL_START_MS + kernel.now}-{kernel.rng.getrandbits(32):08x}"
        self.zk = zk.open_for(self.host, timeout_ms)
        self.closing = False
        self.gave_up = 0
        self.fetching: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.owned: set[TopicPartition] = set()
        self.run = 0
        self.triggered = self.busy = self.connected = False
        self.waiting: list[Callable[[], None]] = []
        self.registered = self.there = False
        self.host.after(0, self._open)
        self.host.after(DELIVER_EVERY_MS, self._deliver, timer=True)
        self.host.after(commit_every_ms, self._commit_timer, timer=True)

    @property
    def running(self) -> bool:
        """Whether the process exists."""
        return self.host.alive

    def close(self) -> None:
        """A clean shutdown: commit, then close the session."""
        self.closing = True

        def close() -> None:
            self.run += 1
            self._commit()
            self.fetching.clear()
            self.port.close()

        self.host.after(0, close)

    # the session

    def _open(self) -> None:
        self.registered = self.there = False
        self.port = self.zk.open(self._event)

    def _event(self, event: PortEvent) -> None:
        if isinstance(event, Connected):
            self.connected = True
            if not self.registered:
                self._new_session()
            again, self.waiting = self.waiting, []
            for thunk in again:
                thunk()
            self._watch()
            if self.there:
                # what it missed while it was away fires as soon as it is connected again
                self._trigger()
        elif isinstance(event, Suspended):
            self.connected = False
        elif isinstance(event, Fired):
            self._trigger()
        elif isinstance(event, (Expired, Refused)):
            self.connected = False
            if not self.closing:
                self._open()
        elif isinstance(event, Closed):
            self.host.after(0, self.host.kill)

    def _new_session(self) -> None:
        """What was owned is forgotten (fetching goes on until the rebalance stops it), the same id
        is registered, everything begins anew.
        """
        self.run += 1
        self.waiting.clear()
        self.busy = self.triggered = False
        self.owned.clear()
        self.registered = True
        self._register(self.run)

    def _register(self, run: int) -> None:
        data = json.dumps(
            {
                "version": 1,
                "subscription": {self.regex: 1} if self.regex else self.topics,
                "pattern": "white_list" if self.regex else "static",
                "timestamp": str(WALL_START_MS + self.kernel.now),
            }
        ).encode()

        def registered(conflict: bool) -> None:
            if conflict:
                return self.host.after(
                    500, lambda: self._register(run) if run == self.run else None
                )
            self.there = True
            self._trigger()

        self._create(run, f"{self.places.ids(self.group)}/{self.id}", data, registered)

    def _watch(self) -> None:
        for path in (self.places.ids(self.group), *(f"/brokers/topics/{t}" for t in self.topics)):
            self.port.watch(path, WatchMode.PERSISTENT, lambda result: None)

    # requests: sent again when the connection is back

    def _read(self, run: int, reads: Sequence[Read], then: Callable[[tuple], None]) -> None:  # type: ignore[type-arg]
        def done(result: object) -> None:
            if run != self.run:
                return
            if isinstance(result, ReadDone):
                then(result.answers)
            else:
                self._again(lambda: self._read(run, reads, then))

        self.port.read(list(reads), done)

    def _write(self, run: int, op: Op, then: Callable[[object], None]) -> None:
        def done(result: object) -> None:
            if run != self.run:
                return
            if isinstance(result, Unanswered):
                self._again(lambda: self._write(run, op, then))
            else:
                then(result)

        self.port.multi([op], done)

    def _again(self, thunk: Callable[[], None]) -> None:
        if self.connected:
            self.host.after(20, thunk)
        else:
            self.waiting.append(thunk)

    def _create(self, run: int, path: str, data: bytes, then: Callable[[bool], None]) -> None:
        """Make an ephemeral node, with what is missing above; then(whether another's is there). One
        with the same text counts as its own, whoever made it.
        """

        def read_back(answers: tuple) -> None:  # type: ignore[type-arg]
            (node,) = answers
            if isinstance(node, Missing):
                return self._create(run, path, data, then)
            then(not (isinstance(node, Node) and node.data == data))

        def made(result: object) -> None:
            if isinstance(result, Committed):
                return then(False)
            assert isinstance(result, Rejected)
            if result.error is ZkError.NO_NODE:
                return self._make(run, parent_of(path), lambda: self._create(run, path, data, then))
            self._read(run, [GetData(path)], read_back)

        self._write(run, Create(path, data, ephemeral=True), made)

    def _make(self, run: int, path: str, then: Callable[[], None]) -> None:
        def made(result: object) -> None:
            if isinstance(result, Rejected) and result.error is ZkError.NO_NODE:
                return self._make(run, parent_of(path), lambda: self._make(run, path, then))
            then()

        self._write(run, Create(path, b""), made)

    # the rebalance

    def _trigger(self) -> None:
        self.triggered = True
        self._next()

    def _next(self) -> None:
        if self.triggered and not self.busy and self.there and not self.closing:
            self.triggered, self.busy = False, True
            self._attempt(self.run, 1)

    def _attempt(self, run: int, number: int) -> None:
        self._commit()
        self.fetching.clear()
        held, self.owned = sorted(self.owned), set()
        self._delete(run, held, lambda: self._look(run, number))

    def _delete(
        self, run: int, partitions: Sequence[TopicPartition], then: Callable[[], None]
    ) -> None:
        """Without any condition, one after the other."""
        if not partitions:
            return then()
        self._write(
            run,
            Delete(self.places.owner((self.group, partitions[0]))),
            lambda _result: self._delete(run, partitions[1:], then),
        )

    def _look(self, run: int, number: int) -> None:
        ids = self.places.ids(self.group)

        def listed(answers: tuple) -> None:  # type: ignore[type-arg]
            members, topics = (a.names if isinstance(a, Children) else () for a in answers)
            reads = [
                *(GetData(f"{ids}/{m}") for m in members),
                *(GetData(f"/brokers/topics/{t}") for t in topics),
            ]
            self._read(run, reads, lambda read: self._assign(run, number, members, topics, read))

        self._read(run, [GetChildren(ids), GetChildren("/brokers/topics")], listed)

    def _assign(
        self, run: int, number: int, members: Sequence[str], topics: Sequence[str], answers: tuple
    ) -> None:  # type: ignore[type-arg]
        try:
            if self.id not in members or any(
                isinstance(a, Missing) for a in answers[: len(members)]
            ):
                raise Poison("a registration is gone")
            registrations = {
                m: parse_registration(a.data, topics) for m, a in zip(members, answers)
            }
        except Poison:
            return self._failed(run, number)
        partitions = {
            t: parse_partitions(a.data)
            for t, a in zip(topics, answers[len(members) :])
            if isinstance(a, Node)
        }
        mine = {
            tp: thread
            for tp, thread in range_owners(registrations, partitions).items()
            if thread.rpartition("-")[0] == self.id
        }
        wanted = sorted(mine)

        def offsets(read: tuple) -> None:  # type: ignore[type-arg]
            begin = {
                tp: int(a.data) if isinstance(a, Node) and a.data.isdigit() else 0
                for tp, a in zip(wanted, read)
            }
            self._claim(run, number, mine, begin, [], wanted)

        reads = [GetData(self.places.offset((self.group, tp))) for tp in wanted]
        if wanted:
            self._read(run, reads, offsets)
        else:
            offsets(())

    def _claim(
        self,
        run: int,
        number: int,
        mine: Mapping[TopicPartition, str],
        begin: Mapping[TopicPartition, int],
        made: list[TopicPartition],
        left: Sequence[TopicPartition],
    ) -> None:
        if not left:
            self.owned = set(mine)
            self.fetching = dict(begin)
            self.committed = dict(begin)
            self.kernel.trace(self.host.name, f"owns {sorted(map(str, mine))}")
            return self._done()

        def claimed(conflict: bool) -> None:
            if conflict:
                return self._delete(run, made, lambda: self._failed(run, number))
            self._claim(run, number, mine, begin, [*made, left[0]], left[1:])

        self._create(run, self.places.owner((self.group, left[0])), mine[left[0]].encode(), claimed)

    def _failed(self, run: int, number: int) -> None:
        self.kernel.happened["old consumer's attempt failed"] += 1
        if number < ATTEMPTS:
            return self.host.after(
                BACKOFF_MS,
                lambda: self._attempt(run, number + 1) if run == self.run else None,
                timer=True,
            )
        self.gave_up += 1
        self.kernel.happened["old consumer gave up"] += 1
        self.kernel.trace(self.host.name, "gives up")
        self._done()

    def _done(self) -> None:
        self.busy = False
        self._next()

    # records and offsets

    def _deliver(self) -> None:
        for tp, position in self.fetching.items():
            end = max(position, self.log.end(tp))
            self.fetching[tp] = end
            self.delivered(self, tp, position, end)
        self.host.after(DELIVER_EVERY_MS, self._deliver, timer=True)

    def _commit_timer(self) -> None:
        self._commit()
        self.host.after(self.commit_every_ms, self._commit_timer, timer=True)

    def _commit(self) -> None:
        """Plain writes, each on its own."""
        for tp, position in self.fetching.items():
            if self.committed.get(tp) != position:
                self.committed[tp] = position
                self._store(self.places.offset((self.group, tp)), str(position).encode())

    def _store(self, path: str, data: bytes) -> None:
        def done(result: object) -> None:
            if isinstance(result, Rejected) and result.error is ZkError.NO_NODE:
                # made with its data at once (`updatePersistentPath`): nobody ever sees it empty
                self._make(
                    self.run,
                    parent_of(path),
                    lambda: self.port.multi([Create(path, data)], lambda _result: None),
                )

        self.port.multi([SetData(path, data, -1)], done)
