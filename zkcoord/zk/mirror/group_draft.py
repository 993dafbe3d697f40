"""One group while it is read as a whole, and what takes each answer into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from zkcoord.core.classic.state import ClassicState
from zkcoord.core.events import GroupDelta
from zkcoord.core.model import GroupMetadata, Malformed, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.zk.port import Children, Denied, Missing, Node, ReadAnswer, ZkError
from zkcoord.znodes import codec, names
from zkcoord.znodes.classic.documents import decode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.registration import is_somebodys

from .answers import Delta, command_of, member_of, mode_of, owner_of, request_of
from .pending_reads import SizeLimits

K = TypeVar("K")


@value
class GroupRead:
    """A group that was read: a full delta (None: it does not exist), and its size. `left_alone`
    says that it was not read to its end.
    """

    delta: GroupDelta | None
    registrations: int
    nodes: int
    left_alone: Malformed | None


class GroupDraft:
    """One group while it is being read. `filled` holds the paths that have children, of the
    channels' (`commanded`) their members; some of its nodes may not be read where it `hides_some`.
    """

    def __init__(self, name: str, limits: SizeLimits) -> None:
        self.delta = Delta()
        self.name = name
        self.limits = limits
        self.exists = True
        self.registrations = 0
        self.nodes = 0
        self.left_alone: Malformed | None = None
        self.filled: set[str] = set()
        self.commanded: list[str] = []
        self.metadata: GroupMetadata | None = None
        self.topics: list[str] = []
        self.elsewhere: tuple[str, ...] = ()
        self.live_elsewhere = self.dead_elsewhere = 0
        self.hides_some = False

    def counted(self, children: int, registrations: bool = False) -> None:
        """A node of it has so many children."""
        self.nodes += children
        self.registrations += children if registrations else 0
        reason = self.limits.exceeded(self.registrations, self.nodes)
        if reason:
            self.left_alone = Malformed("group", self.name, reason)

    def leave_alone(self, reason: str) -> None:
        """It is not to be followed."""
        self.left_alone = Malformed("group", self.name, reason)

    def hidden(self, path: str, answer: ReadAnswer) -> None:
        """A node of it was read, perhaps in vain."""
        if isinstance(answer, Denied) and answer.error is ZkError.TOO_LARGE:
            self.leave_alone(
                f"what {path} holds, or the names below it, are larger than any answer that is"
                " taken: delete what is no member's or coordinator's there"
            )
        elif isinstance(answer, Denied):
            self.leave_alone(
                f"the coordinator may not read {path} ({answer.error.value}), and cannot tell what"
                " the group is: give it credentials that may, or delete that node with those that"
                " may (ZooKeeper's superuser always may)"
            )

    @property
    def can_wait(self) -> bool:
        """Whether what was read stays true as long as none of its nodes is heard of. (When one can
        be read that could not be before, nothing is heard.)
        """
        is_whole = self.exists and self.left_alone is None and not self.hides_some
        return is_whole and not self.elsewhere

    def read(self) -> GroupRead:
        """Everything, as one full delta."""
        delta = self.delta.build(full=True, metadata=self.metadata)
        return GroupRead(
            delta if self.exists and self.left_alone is None else None,
            self.registrations,
            self.nodes,
            self.left_alone,
        )


def take_size(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    """How many children a node has."""
    draft.hidden(path, answer)
    if isinstance(answer, Node) and answer.stat.num_children:
        draft.filled.add(path)
        draft.counted(answer.stat.num_children)


def take_registrations(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Node) and answer.stat.num_children:
        draft.filled.add(path)
        draft.counted(answer.stat.num_children, registrations=True)


def take_elsewhere(draft: GroupDraft, other: Layout, answer: ReadAnswer) -> None:
    """The parent of its registrations in the other layout: with any there that live it is not ours
    to move, since both have the same offsets.
    """
    path = other.ids(draft.name)
    draft.hidden(path, answer)
    if isinstance(answer, Node) and answer.stat.num_children > draft.limits.registrations_max:
        draft.live_elsewhere = answer.stat.num_children
        draft.leave_alone(_lives_elsewhere(draft, other))
    elif isinstance(answer, Node) and answer.stat.num_children:
        draft.filled.add(path)


def take_names_elsewhere(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    draft.elsewhere = answer.names if isinstance(answer, Children) else ()


def take_registered_elsewhere(draft: GroupDraft, other: Layout, answer: ReadAnswer) -> None:
    """One of them. A persistent one outlives whoever made it, and is no member; one that may not be
    read may be.
    """
    if isinstance(answer, Missing):
        return
    if isinstance(answer, Node) and not answer.stat.ephemeral_owner:
        draft.dead_elsewhere += 1
        path = other.ids(draft.name)
        draft.delta.members[path] = Malformed(
            "registration",
            path,
            f"{draft.dead_elsewhere} nodes in the layout {other.name} are persistent: they are no"
            " consumers' and do not count, delete them",
        )
        return
    draft.live_elsewhere += 1
    draft.leave_alone(_lives_elsewhere(draft, other))


def _lives_elsewhere(draft: GroupDraft, other: Layout) -> str:
    return (
        f"it has {draft.live_elsewhere} registrations in the layout {other.name}"
        f" ({other.ids(draft.name)}), and both layouts share its offsets: stop those consumers, or"
        " run coordinator and consumers with that layout"
    )


def take_led(
    draft: GroupDraft, key: tuple[Layout, Callable[[str], bool]], answer: ReadAnswer
) -> None:
    """What was decided of its clients, if one of them leads it, while others are registered:
    whoever came without looking (members of before there were such groups), or between two looks.
    Both would own everything.
    """
    layout, may_be_led = key
    draft.hidden(ClassicPaths(layout).state(draft.name), answer)
    if not isinstance(answer, Node) or not may_be_led(draft.name):
        return
    led = decode_state(draft.name, answer.data)
    if (
        isinstance(led, ClassicState)
        and led.members
        and any(map(is_somebodys, draft.delta.members))
    ):
        draft.leave_alone(
            f"one of its {len(led.members)} clients leads it, and others are registered, to whom"
            " nothing is assigned: stop those of one kind"
        )


def take_metadata(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.exists = not isinstance(answer, Missing)
    draft.hidden(path, answer)
    if isinstance(answer, Node) and answer.data:
        value = codec.decode_metadata(draft.name, answer.data)
        draft.metadata = value if isinstance(value, GroupMetadata) else None


def take_mode(draft: GroupDraft, _: None, answer: ReadAnswer) -> None:
    _keep(draft.delta.mode, "mode", mode_of(answer))


def take_member_names(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Children):
        draft.delta.members.update(dict.fromkeys(map(names.kept, answer.names)))


def take_request_names(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Children):
        draft.delta.requests.update(dict.fromkeys(map(names.kept, answer.names)))


def take_channel_names(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Children):
        draft.delta.channels.update(dict.fromkeys(filter(names.is_member, answer.names), True))


def take_command_names(draft: GroupDraft, member: str, answer: ReadAnswer) -> None:
    if isinstance(answer, Children):
        draft.delta.commands.update(dict.fromkeys((member, node) for node in answer.names))
    else:
        draft.delta.channels.pop(member, None)  # gone, or no command in it can be known


def take_topic_names(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Children):
        draft.topics.extend(n for n in answer.names if names.is_topic(n))


def take_partition_numbers(draft: GroupDraft, topic: str, answer: ReadAnswer) -> None:
    draft.hidden(f"the owner nodes of {topic}", answer)
    if isinstance(answer, Children):
        draft.delta.owners.update(
            dict.fromkeys(
                [TopicPartition(topic, int(name)) for name in answer.names if names.is_number(name)]
            )
        )


def take_member(draft: GroupDraft, name: str, answer: ReadAnswer) -> None:
    _keep(draft.delta.members, name, member_of(answer, name))


def take_channel(draft: GroupDraft, member: str, answer: ReadAnswer) -> None:
    if not isinstance(answer, Node):
        del draft.delta.channels[member]
    elif answer.stat.num_children:
        draft.counted(answer.stat.num_children)
        draft.commanded.append(member)


def take_command(draft: GroupDraft, key: tuple[str, str], answer: ReadAnswer) -> None:
    _keep(draft.delta.commands, key, command_of(answer, *key))


def take_request(draft: GroupDraft, node: str, answer: ReadAnswer) -> None:
    _keep(draft.delta.requests, node, request_of(answer, node))


def take_owner(draft: GroupDraft, tp: TopicPartition, answer: ReadAnswer) -> None:
    owner = owner_of(answer, tp)
    if owner is not None:
        draft.delta.owners[tp] = owner
    else:
        del draft.delta.owners[tp]


def _keep(part: dict[K, Any], key: K, value: object) -> None:
    """What was read; a node that went since its name was read is not there."""
    if value is None:
        part.pop(key, None)
    else:
        part[key] = value
