"""Topics, groups and members for the scale benchmark: written by hand where only their nodes
matter, real drivers where their behaviour does.

`Seeder` writes groups at rest: every node that a coordinator would have left there, every
registration and owner node by a session of its own, which is then abandoned (see `scale_wire`): it
lives on at the server and needs nobody to ping for it. `Member` is the consumer's own driver with
an application that gives up what it is asked to at once.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumer.core import messages as msg
from consumer.core.options import MemberOptions
from consumer.member.driver import MemberDriver
from tests.bench.scale_wire import Hub, WirePort
from zkcoord.core.model import (
    Cause,
    GroupMetadata,
    GroupState,
    Subscription,
    Thread,
    TopicPartition,
)
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.port import (
    OPS_PER_MULTI_MAX,
    Committed,
    Connected,
    Create,
    Ensemble,
    GetData,
    MultiResult,
    Node,
    Op,
    PortEvent,
    Read,
    ReadDone,
    ReadResult,
    SetData,
)
from zkcoord.znodes import codec, names
from zkcoord.znodes.paths import Layout, parents

LAYOUT = Layout.DRAFT
WAIT_S = 600.0
SESSIONS_AT_ONCE = 200
REQUESTS_AT_ONCE = 8


@dataclass(frozen=True)
class Seed:
    """A group to be written: member -> its partitions. `connected`: keep these members'
    connections.
    """

    group: str
    topics: tuple[str, ...]
    members: Mapping[str, tuple[TopicPartition, ...]]
    connected: frozenset[str] = frozenset()


def member_name(group: str, host: str) -> str:
    """As a consumer draws it."""
    return names.consumer_id(group, host, wall_ms(), secrets.token_hex(4))


def spread_evenly(
    group: str, members: int, topic: str, partitions: int, connected: Iterable[int] = ()
) -> Seed:
    """A group at rest: partition p belongs to member p modulo `members`, in the order of their
    names.
    """
    found = sorted(member_name(group, f"host-{number:05d}") for number in range(members))
    owned = {
        name: tuple(TopicPartition(topic, p) for p in range(number, partitions, members))
        for number, name in enumerate(found)
    }
    return Seed(group, (topic,), owned, frozenset(found[number] for number in connected))


class Seeder:
    """Writes through sessions of one hub; AssertionError when ZooKeeper refuses something."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.client = self.session()
        self.sessions: dict[str, WirePort] = {}

    def session(self) -> WirePort:
        """A connected session."""
        events: list[PortEvent] = []
        port = self.hub.open(events.append)
        self.hub.run_until(lambda: events, WAIT_S, "a session")
        assert isinstance(events[0], Connected), events
        return port

    def multis(self, port: WirePort, batches: Iterator[Sequence[Op]]) -> None:
        """Run transactions one after the other, a few at a time under way."""
        under_way = 0
        results: list[MultiResult] = []
        ended = False

        def done(result: MultiResult) -> None:
            nonlocal under_way
            under_way -= 1
            if not isinstance(result, Committed):
                results.append(result)

        while not ended or under_way:
            while not ended and under_way < REQUESTS_AT_ONCE:
                batch = next(batches, None)
                if batch is None:
                    ended = True
                else:
                    under_way += 1
                    port.multi(batch, done)
            self.hub.turn(0.05)
            assert not results, results[0]

    def multi(self, port: WirePort, ops: Sequence[Op]) -> MultiResult:
        """One transaction, and its answer."""
        found: list[MultiResult] = []
        port.multi(ops, found.append)
        self.hub.run_until(lambda: found, WAIT_S, "the answer to a multi")
        return found[0]

    def read(self, *reads: Read) -> tuple[object, ...]:
        """What is there."""
        found: list[ReadResult] = []
        self.client.read(reads, found.append)
        self.hub.run_until(lambda: found, WAIT_S, "the answer to a read")
        assert isinstance(found[0], ReadDone), found[0]
        return found[0].answers

    def metadata(self, group: str) -> GroupMetadata:
        """The group's report; an empty one where there is none yet."""
        (answer,) = self.read(GetData(LAYOUT.group(group)))
        found = (
            codec.decode_metadata(group, answer.data)
            if isinstance(answer, Node) and answer.data
            else GroupMetadata()
        )
        assert isinstance(found, GroupMetadata), found
        return found

    def make(self, paths: Iterable[str], data: bytes = b"") -> None:
        """Persistent nodes that do not exist yet, parents first."""
        self.multis(self.client, batched([Create(path, data)] for path in paths))

    def roots(self) -> None:
        """What is above everything else."""
        wanted = [*parents(LAYOUT.topic("t")), *parents(LAYOUT.group("g")), *parents(LAYOUT.leader)]
        self.make(dict.fromkeys(wanted))

    def topic(self, name: str, partitions: int) -> None:
        """As a broker writes it."""
        assert isinstance(
            self.multi(self.client, [Create(LAYOUT.topic(name), topic_data(partitions))]), Committed
        )

    def grow(self, name: str, partitions: int) -> None:
        """More partitions."""
        assert isinstance(
            self.multi(self.client, [SetData(LAYOUT.topic(name), topic_data(partitions), -1)]),
            Committed,
        )

    def groups(self, seeds: Sequence[Seed]) -> None:
        """Everything of these groups, at rest."""
        self.multis(self.client, batched(group_nodes(seed) for seed in seeds))
        self._members([(seed, name) for seed in seeds for name in seed.members])

    def _members(self, wanted: Sequence[tuple[Seed, str]]) -> None:
        waiting = iter(wanted)
        under_way: dict[str, WirePort] = {}

        def begin(seed: Seed, name: str) -> None:
            def on_event(event: PortEvent) -> None:
                assert isinstance(event, Connected), f"{name}: {event}"
                under_way[name].multi(
                    member_nodes(seed, name), lambda result: written(seed, name, result)
                )

            under_way[name] = self.hub.open(on_event)

        def written(seed: Seed, name: str, result: MultiResult) -> None:
            assert isinstance(result, Committed), f"{name}: {result}"
            port = under_way.pop(name)
            if name in seed.connected:
                self.sessions[name] = port
            else:
                port.abandon()

        ended = False
        while not ended or under_way:
            while not ended and len(under_way) < SESSIONS_AT_ONCE:
                found = next(waiting, None)
                if found is None:
                    ended = True
                else:
                    begin(*found)
            self.hub.turn(0.05)


def topic_data(partitions: int) -> bytes:
    """A topic's node."""
    return json.dumps(
        {"version": 2, "partitions": {str(n): [0] for n in range(partitions)}}
    ).encode()


def group_nodes(seed: Seed) -> list[Op]:
    """The persistent nodes of a group at rest."""
    owners = [LAYOUT.owner_topic(seed.group, topic) for topic in seed.topics]
    metadata = GroupMetadata(
        generation=1,
        state=GroupState.STABLE,
        assignor="sticky",
        topics=seed.topics,
        members=len(seed.members),
        cause=Cause("member joined", "m"),
        since_ms=wall_ms(),
    )
    group: list[Op] = [Create(LAYOUT.group(seed.group), codec.encode_metadata(metadata))]
    return group + [
        Create(path, b"")
        for path in (
            LAYOUT.ids(seed.group),
            LAYOUT.channels(seed.group),
            LAYOUT.owners(seed.group),
            *owners,
        )
    ]


def registration(topics: Sequence[str]) -> bytes:
    """A consumer's registration with the shipped defaults."""
    return codec.encode_registration(
        Subscription(dict.fromkeys(topics, 1)),
        timestamp_ms=wall_ms(),
        assignors=("sticky",),
        process=secrets.token_hex(4),
        host="host-1",
        client="scale",
    )


def member_nodes(seed: Seed, name: str) -> list[Op]:
    """A member's channel, registration and owner nodes."""
    ops: list[Op] = [
        Create(LAYOUT.channel(seed.group, name), b""),
        Create(LAYOUT.registration(seed.group, name), registration(seed.topics), ephemeral=True),
    ]
    for tp in seed.members[name]:
        ops += owner_nodes(seed.group, name, tp)
    return ops


def owner_nodes(group: str, name: str, tp: TopicPartition) -> list[Op]:
    """An owner node of ours: created, then set once, so that its version is 1."""
    data = codec.encode_owner(Thread(name, 0))
    return [
        Create(LAYOUT.owner(group, tp), data, ephemeral=True),
        SetData(LAYOUT.owner(group, tp), data, 0),
    ]


def batched(pieces: Iterable[list[Op]]) -> Iterator[list[Op]]:
    """Operations in transactions of a size that ZooKeeper takes."""
    batch: list[Op] = []
    for piece in pieces:
        if batch and len(batch) + len(piece) > OPS_PER_MULTI_MAX:
            yield batch
            batch = []
        batch += piece
    if batch:
        yield batch


class Member:
    """A real member: the consumer's own driver, and an application that processes nothing.
    `answers`: whether it gives up what it is asked to. `topics` are names, or a whole subscription;
    `ensemble` is where its sessions are, if they are not just the hub's; `instance` makes it a
    static member.
    """

    def __init__(
        self,
        hub: Hub,
        group: str,
        topics: Sequence[str] | Subscription,
        host: str = "host",
        answers: bool = True,
        user_data: str = "",
        assignors: tuple[str, ...] = ("sticky",),
        rebalance_timeout_ms: int = 60_000,
        ensemble: Ensemble | None = None,
        instance: str | None = None,
    ) -> None:
        self.hub = hub
        self.answers = answers
        self.names: list[str] = []
        self.assignment_epoch = 0
        self.group = group
        options = MemberOptions(
            group=group,
            host=host,
            user_data=user_data,
            assignors=assignors,
            instance=instance,
            rebalance_timeout_ms=rebalance_timeout_ms,
            max_poll_interval_ms=0,  # it has nothing to poll
        )
        self.driver = MemberDriver(
            ensemble or hub,
            LAYOUT,
            options,
            boot_ms,
            wall_ms,
            self._new_id,
            self._hear,
            lambda record: None,
        )
        wants = (
            topics if isinstance(topics, Subscription) else Subscription(dict.fromkeys(topics, 1))
        )
        hub.drive(self.driver, lambda: self.driver.receive(msg.Subscribe(wants)))

    def _new_id(self) -> str:
        self.names.append(member_name(self.group, self.driver.options.host))
        return self.names[-1]

    def _hear(self, message: msg.ToFetcher) -> None:
        if isinstance(message, (msg.Assigned, msg.Lost, msg.Seek)):
            self.assignment_epoch = message.assignment_epoch
        if isinstance(message, msg.Revoke) and self.answers:
            self.hub.post(
                lambda: self.driver.receive(
                    msg.Revoked(message.token, dict.fromkeys(message.partitions, 0))
                )
            )
        elif isinstance(message, msg.Resolve):
            self.hub.post(
                lambda: self.driver.receive(
                    msg.Resolved(message.token, dict.fromkeys(message.partitions, 0))
                )
            )

    @property
    def joined(self) -> bool:
        """Whether it is registered."""
        return self.driver.core.state.phase.value == "member"

    @property
    def held(self) -> frozenset[TopicPartition]:
        """What it owns by its own account."""
        return frozenset(self.driver.core.session.held)

    def leave(self) -> None:
        """Close, as an application does."""
        self.hub.drive(
            self.driver, lambda: self.driver.receive(msg.Close({}, self.assignment_epoch))
        )

    @property
    def gone(self) -> bool:
        """Whether its session is over after `leave`."""
        return self.driver.finished
