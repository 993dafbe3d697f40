"""Every path of zkcoord, in exactly one place, and back.

A `Layout` is a value: `DRAFT` keeps the paths of the coordinator draft, everything of a group under
/consumers/groups/[g]. `ISOLATED` is for ensembles where old consumers or their tools live:
registrations, owners and offsets stay where those have them, and all else is under /zkcoord, out of
their sight. Offsets are at /consumers/[g]/offsets in both, which is why a watch on the groups' root
never sees a commit; nobody may watch recursively above offsets.

Paths are relative to the connection's chroot. `locate` is the inverse of the builders: it gives
what a path is, and `Elsewhere` for whatever is not ours or has a name that cannot be
(`zkcoord.znodes.names`). A member's name is only known to be a path component:
`decode_registration` judges it, so that a bad one is reported with its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zkcoord.core.model import TopicPartition
from zkcoord.errors import ConfigurationError
from zkcoord.znodes import names
from zkcoord.znodes.places import (
    AskAt,
    BrokerAt,
    BrokersAt,
    ChannelAt,
    ChannelsAt,
    CommandAt,
    Elsewhere,
    EpochAt,
    GroupAt,
    IdsAt,
    LeaderAt,
    ModeAt,
    OwnerAt,
    OwnersAt,
    OwnerTopicAt,
    PublicationAt,
    RegistrationAt,
    RequestAt,
    TopicAt,
    TopicsAt,
    Where,
)


@dataclass(frozen=True)
class Layout:
    """Where everything is. `home` holds ids and owners of the groups as [home]/[g]/ids,
    `groups_root` their metadata and channels; in the draft layout they are the same.
    """

    name: str
    leader: str
    groups_root: str
    home: str

    DRAFT: ClassVar[Layout]
    ISOLATED: ClassVar[Layout]

    @property
    def epoch(self) -> str:
        """The node whose data is the epoch and whose version fences the coordinator: the groups'
        root.
        """
        return self.groups_root

    @property
    def asks(self) -> str:
        """The root of asks. No group can have the name above it, and older coordinators pass over
        it.
        """
        return f"{self.groups_root}/coordinator/asks"

    def ask(self, group: str) -> str:
        """What a member makes that misses nodes of this group."""
        return f"{self.asks}/{group}"

    def roots(self) -> tuple[str, ...]:
        """What is above all groups, from the root down."""
        above = parents(self.asks)[-1]
        found = (CONSUMERS, *parents(self.leader), self.epoch, above, self.asks)
        return tuple(dict.fromkeys(found))

    def above_parts(self, group: str) -> tuple[str, ...]:
        """The nodes of a group that only hold others of it."""
        return tuple(dict.fromkeys((*self.group_roots(group), f"{CONSUMERS}/{group}")))

    def parts(self, group: str) -> tuple[str, ...]:
        """Every node that a group is made with, those above first."""
        found = (
            *self.above_parts(group),
            self.ids(group),
            self.owners(group),
            self.channels(group),
            self.publications(group),
            self.replayed_plans(group),
            self.clients(group),
            self.requests(group),
            self.offsets(group),
            self.commit_metadata_root(group),
        )
        return tuple(dict.fromkeys(found))

    def group(self, group: str) -> str:
        """The group's node: metadata, channels."""
        return f"{self.groups_root}/{group}"

    def mode(self, group: str) -> str:
        """Whether the group is shared with old consumers: an operator's word, for coordinator and
        members.
        """
        return f"{self.groups_root}/{group}/mode"

    def rescue(self, group: str) -> str:
        """A registration that is made and deleted in one multi, so that nobody ever reads it: old
        consumers look again at a change below ids.
        """
        return f"{self.home}/{group}/ids/zkcoord-rescue"

    def ids(self, group: str) -> str:
        """The parent of the group's registrations."""
        return f"{self.home}/{group}/ids"

    def registration(self, group: str, member: str) -> str:
        """A member's registration."""
        return f"{self.home}/{group}/ids/{member}"

    def channels(self, group: str) -> str:
        """The parent of the group's channels."""
        return f"{self.groups_root}/{group}/channel"

    def channel(self, group: str, member: str) -> str:
        """A member's channel, the parent of its commands."""
        return f"{self.groups_root}/{group}/channel/{member}"

    def command_prefix(self, group: str, member: str, epoch: int, seq: int) -> str:
        """What to create a command with: ZooKeeper appends its ten digits."""
        return f"{self.groups_root}/{group}/channel/{member}/{epoch}-{seq}-"

    def command(self, group: str, member: str, node: str) -> str:
        """A command; `node` is its last path component."""
        return f"{self.groups_root}/{group}/channel/{member}/{node}"

    def requests(self, group: str) -> str:
        """The parent of operators' requests."""
        return f"{self.group(group)}/requests"

    def request_prefix(self, group: str) -> str:
        """What ZooKeeper's sequence suffix is appended to."""
        return f"{self.requests(group)}/request-"

    def request(self, group: str, node: str) -> str:
        """An operator's request."""
        return f"{self.requests(group)}/{node}"

    def publications(self, group: str) -> str:
        """The parent of what sinks have committed and not yet made visible."""
        return f"{self.group(group)}/publish"

    def publication(self, group: str, node: str) -> str:
        """A committed batch of a sink; `node` is `[incarnation]-[n]`."""
        return f"{self.publications(group)}/{node}"

    def replayed_plans(self, group: str) -> str:
        """The parent of plans of batches that Spark applications read again."""
        return f"{self.group(group)}/plans"

    def replayed_plan(self, group: str, incarnation: int, number: int) -> str:
        """The plan that takes the place of plan `number` of the member `incarnation`, which is
        gone.
        """
        return f"{self.replayed_plans(group)}/{incarnation}-{number}"

    def clients(self, group: str) -> str:
        """The parent of what gateways remember of their clients."""
        return f"{self.group(group)}/clients"

    def client(self, group: str, instance: str) -> str:
        """What is remembered of the client whose member is this instance."""
        return f"{self.clients(group)}/{instance}"

    @property
    def gateways(self) -> str:
        """The parent of the gateways that are there, the same in both layouts: out of the sight of
        old consumers, and of what a coordinator watches.
        """
        return f"{GATEWAYS_ABOVE}/gateways"

    @property
    def gateway_prefix(self) -> str:
        """What ZooKeeper's sequence suffix is appended to."""
        return f"{self.gateways}/gateway-"

    def owners(self, group: str) -> str:
        """The parent of the group's owner nodes."""
        return f"{self.home}/{group}/owners"

    def owner_topic(self, group: str, topic: str) -> str:
        """The parent of a topic's owner nodes."""
        return f"{self.home}/{group}/owners/{topic}"

    def owner(self, group: str, partition: TopicPartition) -> str:
        """A partition's owner node."""
        return f"{self.home}/{group}/owners/{partition.topic}/{partition.partition}"

    def owner_fixed_bytes(self, group: str, chroot: str = "") -> int:
        """Bytes of an owner node's full path without the topic's name and the partition's digits:
        what a session's cap counts for each node, beside those.
        """
        return len(f"{chroot}{self.home}/{group}/owners//".encode())

    def offsets(self, group: str) -> str:
        """The parent of the group's offsets."""
        return f"{CONSUMERS}/{group}/offsets"

    def offset_topic(self, group: str, topic: str) -> str:
        """The parent of a topic's offsets; its data is the topic's incarnation that they belong
        to.
        """
        return f"{CONSUMERS}/{group}/offsets/{topic}"

    def offset(self, group: str, partition: TopicPartition) -> str:
        """A partition's stored offset."""
        return f"{CONSUMERS}/{group}/offsets/{partition.topic}/{partition.partition}"

    def commit_metadata_root(self, group: str) -> str:
        """The parent of what was committed beside the group's offsets: a tree of its own, so that
        whoever knows of offsets only sees nothing else there.
        """
        return f"{CONSUMERS}/{group}/commit-metadata"

    def commit_metadata(self, group: str, partition: TopicPartition) -> str:
        """What was committed beside a partition's offset."""
        return f"{CONSUMERS}/{group}/commit-metadata/{partition.topic}/{partition.partition}"

    @property
    def topics_root(self) -> str:
        """The parent of Kafka's topics."""
        return TOPICS

    def topic(self, topic: str) -> str:
        """A topic: its data is the map of partitions."""
        return f"{TOPICS}/{topic}"

    @property
    def brokers_root(self) -> str:
        """The parent of Kafka's live brokers."""
        return BROKERS

    def broker(self, broker: str | int) -> str:
        """A live broker."""
        return f"{BROKERS}/{broker}"

    def watch_roots(self) -> tuple[str, ...]:
        """What a coordinator watches recursively from the start."""
        return (self.groups_root,)

    def group_watch_roots(self, group: str) -> tuple[str, ...]:
        """What it watches recursively for each group beside that."""
        return () if self.home == self.groups_root else (self.ids(group), self.owners(group))

    def group_roots(self, group: str) -> tuple[str, ...]:
        """What everything that a coordinator hears of a group is below."""
        return tuple(dict.fromkeys((f"{self.groups_root}/{group}", f"{self.home}/{group}")))

    def group_above(self, path: str) -> str:
        """The first component below the root of groups, where a path has more than that; else "".
        Nothing is checked: this is for what `locate` is too thorough for.
        """
        for root in (self.groups_root, self.home):
            if path.startswith(f"{root}/"):
                group, slash, _ = path[len(root) + 1 :].partition("/")
                return group if slash else ""
        return ""

    def other_profile(self) -> Layout:
        """The layout that must not be in use on the same ensemble."""
        return Layout.ISOLATED if self == Layout.DRAFT else Layout.DRAFT

    def locate(self, path: str) -> Where:
        """What a path is."""
        if path == self.leader:
            return LeaderAt()
        if path == self.groups_root:
            return EpochAt()
        if path.startswith(f"{self.asks}/"):
            group = path[len(self.asks) + 1 :]
            return AskAt(group) if names.is_group(group) else Elsewhere(path)
        for root in (self.groups_root, self.home, TOPICS, BROKERS):
            if path == root or path.startswith(f"{root}/"):
                parts = path[len(root) + 1 :].split("/") if path != root else []
                return (
                    _in_kafka(path, root, parts)
                    if root in (TOPICS, BROKERS)
                    else self._in_groups(path, root, parts)
                )
        return Elsewhere(path)

    def _in_groups(self, path: str, root: str, parts: list[str]) -> Where:
        if not parts or not names.is_group(parts[0]):
            return Elsewhere(path)
        group, rest = parts[0], parts[1:]
        if not rest:
            return GroupAt(group) if root == self.groups_root else Elsewhere(path)
        if rest[0] == "channel" and root == self.groups_root:
            return _in_channels(path, group, rest[1:])
        if rest == ["mode"] and root == self.groups_root:
            return ModeAt(group)
        if rest[0] == "requests" and root == self.groups_root:
            return RequestAt(group, rest[1]) if len(rest) == 2 else Elsewhere(path)
        if rest[0] == "publish" and root == self.groups_root:
            return PublicationAt(group, rest[1]) if len(rest) == 2 else Elsewhere(path)
        if rest[0] == "ids" and root == self.home:
            return _in_ids(path, group, rest[1:])
        if rest[0] == "owners" and root == self.home:
            return _in_owners(path, group, rest[1:])
        return Elsewhere(path)


CONSUMERS = "/consumers"
TOPICS = "/brokers/topics"
BROKERS = "/brokers/ids"
GATEWAYS_ABOVE = "/zkcoord"
Layout.DRAFT = Layout("draft", "/consumers/coordinator", "/consumers/groups", "/consumers/groups")
Layout.ISOLATED = Layout("isolated", "/zkcoord/coordinator", "/zkcoord/groups", CONSUMERS)
LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in (Layout.DRAFT, Layout.ISOLATED)}


def layout_named(name: str) -> Layout:
    """The layout of this name, or `ConfigurationError`."""
    if name not in LAYOUTS:
        raise ConfigurationError(
            f"the layout {names.shown(name)} does not exist: write {' or '.join(LAYOUTS)}"
        )
    return LAYOUTS[name]


def parents(path: str) -> tuple[str, ...]:
    """The ancestors of a path that may have to be created, from the root down, without the path
    itself.
    """
    parts = path.split("/")[1:-1]
    return tuple("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))


def _in_channels(path: str, group: str, rest: list[str]) -> Where:
    if not rest:
        return ChannelsAt(group)
    if len(rest) == 1:
        return ChannelAt(group, rest[0])
    return CommandAt(group, rest[0], rest[1]) if len(rest) == 2 else Elsewhere(path)


def _in_ids(path: str, group: str, rest: list[str]) -> Where:
    if not rest:
        return IdsAt(group)
    return RegistrationAt(group, rest[0]) if len(rest) == 1 else Elsewhere(path)


def _in_owners(path: str, group: str, rest: list[str]) -> Where:
    if not rest:
        return OwnersAt(group)
    if len(rest) == 1 and names.is_topic(rest[0]):
        return OwnerTopicAt(group, rest[0])
    if len(rest) == 2 and names.is_partition(rest[0], rest[1]):
        return OwnerAt(group, TopicPartition(rest[0], int(rest[1])))
    return Elsewhere(path)


def _in_kafka(path: str, root: str, parts: list[str]) -> Where:
    if not parts:
        return TopicsAt() if root == TOPICS else BrokersAt()
    if len(parts) > 1:
        return Elsewhere(path)
    if root == TOPICS:
        return TopicAt(parts[0]) if names.is_topic(parts[0]) else Elsewhere(path)
    return BrokerAt(parts[0]) if names.is_broker(parts[0]) else Elsewhere(path)
