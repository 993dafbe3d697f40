"""Groups as ZooKeeper holds them now, for people and tools: read from outside, by a session that
writes nothing.

`list_groups` and `describe_group` read in rounds: what a round needs to know comes from the one
before. Each request of at most `READS_PER_REQUEST_MAX` reads is one snapshot of the server, the
rounds together are not: a group that is being rebalanced may show an owner that has just left. It
begins with a sync, so nothing is older than the call.

A state in the metadata is the last coordinator's report. Where the registrations contradict it (no
coordinator has looked since), they win: see `shown_state`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from zkcoord.core.model import (
    Command,
    GroupMetadata,
    GroupState,
    Malformed,
    Member,
    Mode,
    Owner,
    Topic,
    TopicPartition,
)
from zkcoord.core.shared import KEEPS_OUT
from zkcoord.core.value_type import value
from zkcoord.errors import UnavailableError, UnknownGroupError
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Missing, Node, Read, ReadAnswer
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.zk.sync.led_seen import NOT_KNOWN, LedSnapshot
from zkcoord.zk.sync.listed_names import no_such_group
from zkcoord.zk.sync.read_modes import believed_modes
from zkcoord.znodes import codec, names
from zkcoord.znodes.codec import EpochData, LeaderData
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.patterns import match_patterns

CHILDREN_LISTED_MAX = 20_000
"""A node of a group with more children is not listed: people cannot read that, and it says that
something is wrong.
"""

K = TypeVar("K")
V = TypeVar("V")


@value
class CoordinatorSeen:
    """The leader node and the epoch, as far as they can be read; None: there is no such node."""

    leader: LeaderData | Malformed | None
    epoch: int


@value
class GroupListed:
    """One group of a list. `topics` is what its last coordinator reported as subscribed, `paused`
    who paused it ("": nobody); `client_led`: its leader is a client, who knows that. `unknown`:
    nobody knows whether it has members, and so not its state.
    """

    name: str
    state: GroupState
    members: int
    generation: int
    topics: tuple[str, ...]
    malformed: tuple[Malformed, ...] = ()
    protocol_type: str = "consumer"
    protocol: str = ""
    client_led: bool = False
    paused: str = ""
    unknown: bool = False

    @property
    def shown(self) -> str:
        """Its state, in a word."""
        return NOT_KNOWN if self.unknown else self.state.value


@dataclass(frozen=True)
class GroupSnapshot:
    """One group, whole. `topics` holds the topics that it subscribes to, owns, or has offsets of,
    as far as they exist; `subscribed` the topics of each member with its streams. `led`: where its
    leader is, or was, a client; `pinned`: who an operator has said is to run it ("": nobody).
    `in_kafka_at`: a gateway that keeps its offsets in Kafka, where it is pinned to be coordinated.
    `left_alone`: why no coordinator serves it, as far as that was asked ("": one may).
    """

    group: str
    layout: Layout
    coordinator: CoordinatorSeen
    metadata: GroupMetadata
    members: dict[str, Member]
    commands: dict[str, tuple[Command, ...]]
    owners: dict[TopicPartition, Owner]
    offsets: dict[TopicPartition, int]
    topics: dict[str, Topic]
    subscribed: dict[str, dict[str, int]]
    malformed: tuple[Malformed, ...] = ()
    mode: Mode | None = None
    led: LedSnapshot | None = None
    pinned: str = ""
    in_kafka_at: str = ""
    left_alone: str = ""
    holders: dict[TopicPartition, str] = field(init=False)

    def __post_init__(self) -> None:
        by_session = {member.session: name for name, member in self.members.items()}
        object.__setattr__(
            self,
            "holders",
            {tp: by_session.get(owner.session, "") for tp, owner in self.owners.items()}
            | {
                tp: one.member_id
                for one in (self.led.members if self.led is not None else ())
                for tp in one.partitions or ()
            },
        )

    @property
    def is_led(self) -> bool:
        """Whether its members have a leader of their own."""
        return self.led is not None and bool(self.led.members or not self.members)

    @property
    def unknown(self) -> str:
        """Why nobody knows who is in it; "": that is known, or somebody is registered."""
        return self.led.unknown if self.led is not None and self.is_led else ""

    @property
    def paused(self) -> str:
        """Who has paused it, by its mode, or by the report where there is none; "": nobody."""
        return self.metadata.paused if self.mode is None else self.mode.paused_by

    @property
    def names(self) -> list[str]:
        """All its members', sorted."""
        led = self.led.members if self.led is not None else ()
        return sorted({*self.members, *(one.member_id for one in led)})

    @property
    def state(self) -> GroupState:
        """See `shown_state`."""
        if self.led is not None and self.is_led:
            return self.led.state
        return shown_state(self.metadata, len(self.members))

    @property
    def shown(self) -> str:
        """The state, in a word."""
        return NOT_KNOWN if self.unknown else self.state.value

    @property
    def partitions(self) -> list[TopicPartition]:
        """Partitions that are owned, have an offset (readable or not), or are subscribed to,
        sorted.
        """
        wanted = {topic for topics in self.subscribed.values() for topic in topics}
        found = {
            TopicPartition(name, number)
            for name in wanted
            if name in self.topics
            for number in self.topics[name].partitions
        }
        unreadable = {
            tp
            for bad in self.malformed
            if bad.what in ("offset", "owner")
            and (tp := names.parse_partition(bad.name)) is not None
        }
        return sorted(found | set(self.holders) | set(self.offsets) | unreadable)

    def held_by(self, member: str) -> list[TopicPartition]:
        """What a member owns, sorted."""
        return sorted(tp for tp, holder in self.holders.items() if holder == member)


def shown_state(metadata: GroupMetadata, members: int) -> GroupState:
    """The reported state, unless the registrations say that no coordinator has looked since: a
    group without members is Empty, and one with members is not.
    """
    if members == 0:
        return GroupState.EMPTY
    return (
        GroupState.PREPARING_REBALANCE
        if metadata.state in (GroupState.EMPTY, GroupState.DEAD)
        else metadata.state
    )


def list_groups(reader: SyncClient, layout: Layout) -> list[GroupListed]:
    """All groups of the ensemble, sorted by name; of one whose members may not be seen `malformed`
    says so, and the others are whole. Raises `UnavailableError`.
    """
    reader.sync()
    (answer,) = reader.read([GetChildren(layout.groups_root)])
    found = [name for name in _children(answer, layout.groups_root) if names.is_group(name)]
    answers = iter(
        reader.read(
            [
                read
                for name in found
                for read in (GetData(layout.group(name)), GetData(layout.ids(name)))
            ]
        )
    )
    groups = []
    for name, data, ids in zip(found, answers, answers, strict=False):
        if isinstance(data, Missing):
            continue  # deleted since the names were read
        bad: list[Malformed] = []
        told = _metadata(name, data, bad)
        count = ids.stat.num_children if isinstance(ids, Node) else 0
        state, topics = shown_state(told, count), told.topics
        if isinstance(ids, Denied):
            path = layout.ids(name)
            bad.append(Malformed("members of a group", name, not_allowed(path, ids)))
            state = told.state
        listed = GroupListed(name, state, count, told.generation, topics, tuple(bad))
        groups.append(replace(listed, paused=told.paused))
    return groups


def coordinator_seen(reader: SyncClient, layout: Layout) -> CoordinatorSeen:
    """Who leads. Raises `UnavailableError`."""
    leader, epoch = reader.read([GetData(layout.leader), GetData(layout.epoch)])
    _allowed(leader, layout.leader)
    _allowed(epoch, layout.epoch)
    value = codec.decode_epoch(epoch.data) if isinstance(epoch, Node) else None
    return CoordinatorSeen(
        codec.decode_leader(leader.data) if isinstance(leader, Node) else None,
        value.epoch if isinstance(value, EpochData) else 0,
    )


def describe_group(reader: SyncClient, layout: Layout, group: str) -> GroupSnapshot:
    """Everything about one group. Raises `UnknownGroupError`, `UnavailableError`;
    `InvalidGroupError` for a name that no group can have.
    """
    names.validate_group(group)
    reader.sync()
    return _GroupReading(reader, layout, group).snapshot()


class _GroupReading:
    """The rounds of `describe_group`. `_read` runs one: pairs of what to read and what takes the
    answer.
    """

    def __init__(self, reader: SyncClient, layout: Layout, group: str) -> None:
        self.reader = reader
        self.layout = layout
        self.group = group
        self.malformed: list[Malformed] = []
        self.metadata: GroupMetadata | None = None
        self.members: dict[str, Member] = {}
        self.commands: dict[str, list[Command]] = {}
        self.owners: dict[TopicPartition, Owner] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self.topics: dict[str, Topic] = {}

    def snapshot(self) -> GroupSnapshot:
        """Read it all."""
        layout, group = self.layout, self.group
        seen = coordinator_seen(self.reader, layout)
        parents = [
            layout.ids(group),
            layout.channels(group),
            layout.owners(group),
            layout.offsets(group),
        ]
        node, said, *heads = self.reader.read(
            [GetData(layout.group(group)), GetData(layout.mode(group)), *map(GetData, parents)]
        )
        if (
            isinstance(node, Missing)
            and isinstance(heads[0], Missing)
            and isinstance(heads[-1], Missing)
        ):
            raise UnknownGroupError(no_such_group(self.reader, layout, group))
        _allowed(node, layout.group(group))
        _allowed(said, layout.mode(group))
        metadata = _metadata(group, node, self.malformed)
        mode = believed_modes(self.reader, layout, {group: said}).get(group)
        self.malformed += [mode] if isinstance(mode, Malformed) else []
        members, channels, owned, stored = (
            self._names(head, path) for head, path in zip(heads, parents, strict=False)
        )
        owned, stored = tuple(filter(names.is_topic, owned)), tuple(filter(names.is_topic, stored))
        nodes, owner_tps, offset_tps = self._read_lists(members, channels, owned, stored)
        subscribed = _subscribed(self.reader, layout, self.members)
        wanted = {topic for topics in subscribed.values() for topic in topics}
        self._read_nodes(nodes, owner_tps, offset_tps, sorted(wanted | set(owned) | set(stored)))
        commands = {name: tuple(found) for name, found in self.commands.items()}
        return GroupSnapshot(
            group,
            layout,
            seen,
            metadata,
            self.members,
            commands,
            self.owners,
            self.offsets,
            self.topics,
            subscribed,
            tuple(self.malformed),
            mode if isinstance(mode, Mode) else None,
        )

    def _read_lists(
        self,
        members: tuple[str, ...],
        channels: tuple[str, ...],
        owned: tuple[str, ...],
        stored: tuple[str, ...],
    ) -> tuple[list[tuple[str, str]], list[TopicPartition], list[TopicPartition]]:
        """The registrations, and the names of commands (with their members), owner nodes and
        offsets.
        """
        layout, group = self.layout, self.group
        nodes: list[tuple[str, str]] = []
        owner_tps: list[TopicPartition] = []
        offset_tps: list[TopicPartition] = []
        pairs: list[tuple[Read, Callable[[ReadAnswer], None]]] = []
        for name in members:
            keep = self._taker(self.members, name, partial(_registration, name))
            pairs.append((GetData(layout.registration(group, name)), keep))
        for name in channels:
            listed = GetChildren(layout.channel(group, name))
            pairs.append((listed, partial(_add_nodes, nodes, name)))
        for topic in owned:
            listed = GetChildren(layout.owner_topic(group, topic))
            pairs.append((listed, partial(_add_partitions, owner_tps, topic)))
        for topic in stored:
            listed = GetChildren(layout.offset_topic(group, topic))
            pairs.append((listed, partial(_add_partitions, offset_tps, topic)))
        self._read(pairs)
        return nodes, owner_tps, offset_tps

    def _read_nodes(
        self,
        nodes: list[tuple[str, str]],
        owner_tps: list[TopicPartition],
        offset_tps: list[TopicPartition],
        topics: list[str],
    ) -> None:
        """Commands, owners, offsets and topics."""
        layout, group = self.layout, self.group
        pairs: list[tuple[Read, Callable[[ReadAnswer], None]]] = []
        for name, node in nodes:
            keep = partial(self._command, name, node)
            pairs.append((GetData(layout.command(group, name, node)), keep))
        for tp in owner_tps:
            keep_owner = self._taker(self.owners, tp, partial(_owner, tp))
            pairs.append((GetData(layout.owner(group, tp)), keep_owner))
        for tp in offset_tps:
            keep_offset = self._taker(self.offsets, tp, partial(_offset, tp))
            pairs.append((GetData(layout.offset(group, tp)), keep_offset))
        for topic in topics:
            keep_topic = self._taker(self.topics, topic, partial(_topic, topic))
            pairs.append((GetData(layout.topic(topic)), keep_topic))
        self._read(pairs)

    def _names(self, head: ReadAnswer, path: str) -> tuple[str, ...]:
        """The names below a node; none, and a note, where there are too many."""
        _allowed(head, path)
        count = head.stat.num_children if isinstance(head, Node) else 0
        if count > CHILDREN_LISTED_MAX:
            self.malformed.append(
                Malformed(
                    "group",
                    self.group,
                    f"there are {count} nodes below {path}, more than the {CHILDREN_LISTED_MAX}"
                    " that are listed",
                )
            )
        if not 0 < count <= CHILDREN_LISTED_MAX:
            return ()
        (answer,) = self.reader.read([GetChildren(path)])
        return _children(answer, path)

    def _read(self, pairs: list[tuple[Read, Callable[[ReadAnswer], None]]]) -> None:
        for (read, take), answer in zip(
            pairs, self.reader.read([read for read, _ in pairs]), strict=False
        ):
            _allowed(answer, read.path)
            take(answer)

    def _taker(
        self, into: dict[K, V], key: K, decode: Callable[[Node], V | Malformed | None]
    ) -> Callable[[ReadAnswer], None]:
        def take(answer: ReadAnswer) -> None:
            value: V | Malformed | None = None
            if isinstance(answer, Node):
                value = decode(answer)
            if isinstance(value, Malformed):
                self.malformed.append(value)
            elif value is not None:
                into[key] = value

        return take

    def _command(self, member: str, node: str, answer: ReadAnswer) -> None:
        found: dict[str, Command] = {}
        self._taker(found, node, lambda n: codec.decode_command(member, node, n.data))(answer)
        self.commands.setdefault(member, []).extend(found.values())


def _registration(name: str, node: Node) -> Member | Malformed | None:
    found = codec.decode_registration(name, node.data, node.stat)
    return None if found == KEEPS_OUT else found


def _owner(tp: TopicPartition, node: Node) -> Owner | Malformed:
    return codec.decode_owner(str(tp), node.data, node.stat)


def _offset(tp: TopicPartition, node: Node) -> int | Malformed:
    return codec.decode_offset(str(tp), node.data)


def _topic(name: str, node: Node) -> Topic | Malformed | None:
    # the node exists before the broker writes its partitions
    return codec.decode_topic(name, node.data, node.stat) if node.data else None


def _add_nodes(nodes: list[tuple[str, str]], member: str, answer: ReadAnswer) -> None:
    nodes.extend((member, name) for name in _children(answer, member))


def _add_partitions(tps: list[TopicPartition], topic: str, answer: ReadAnswer) -> None:
    tps.extend(
        TopicPartition(topic, int(name))
        for name in _children(answer, topic)
        if names.is_number(name)
    )


def _metadata(group: str, answer: ReadAnswer, malformed: list[Malformed]) -> GroupMetadata:
    """What the group's node says; nothing where it is missing or malformed, which is then noted."""
    value: GroupMetadata | Malformed = GroupMetadata()
    if isinstance(answer, Node):
        value = codec.decode_metadata(group, answer.data)
    elif isinstance(answer, Denied):
        value = Malformed("group", group, f"cannot be read ({answer.error.value})")
    malformed += [value] if isinstance(value, Malformed) else []
    return GroupMetadata() if isinstance(value, Malformed) else value


def _subscribed(
    reader: SyncClient, layout: Layout, members: dict[str, Member]
) -> dict[str, dict[str, int]]:
    """Member -> its topics with its streams; wildcards are matched against the topics that
    exist.
    """
    patterns = {
        member.subscription.pattern
        for member in members.values()
        if member.subscription.pattern is not None
    }
    existing: list[str] = []
    if patterns:
        (answer,) = reader.read([GetChildren(layout.topics_root)])
        existing = [name for name in _children(answer, layout.topics_root) if names.is_topic(name)]
    matches = match_patterns(sorted(patterns, key=repr), existing)
    subscribed = {}
    for name, member in members.items():
        pattern, streams = member.subscription.pattern, member.subscription.streams
        if pattern is None:
            subscribed[name] = dict(member.subscription.topics)
        else:
            matched = matches.get(pattern)
            known = matched if isinstance(matched, frozenset) else frozenset()
            subscribed[name] = dict.fromkeys(sorted(known), streams)
    return subscribed


def _children(answer: ReadAnswer, path: str) -> tuple[str, ...]:
    """The children's names; none where there is no node. Raises `UnavailableError` where they may
    not be seen: a list with holes would be taken for the truth.
    """
    _allowed(answer, path)
    return answer.names if isinstance(answer, Children) else ()


def _allowed(answer: ReadAnswer, path: str) -> None:
    if isinstance(answer, Denied):
        raise UnavailableError(not_allowed(path, answer))
