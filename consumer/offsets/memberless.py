"""Commits in a group's name by who is no member of it: an application that assigns its partitions
itself, or a tool.

They are refused while the group has a member, and fenced against one that comes: the registrations
are read, after a sync, with the versions of the offsets, and each offset is written at the version
read. A member's start moves the version, so either its start is older, and the commit fails, or it
is newer, and begins at what was committed. Of a group whose leader is a client its state is read,
too, and must be the same when they are stored; a member's commit is fenced there by the state by
which it may, and by who serves it. Who registers beside it is no matter, for nothing is assigned to
those while clients lead; but old consumers help themselves: what one of them owns is not stored.
Owners are looked for after the versions of the offsets were read: what one stores who comes later,
but before this is stored, moves a version. Nothing more can be had: an old consumer reads where it
begins before it owns, so nobody can see that it has, and what it stores later goes over this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from kafka.structs import TopicPartition

from consumer.core import messages as msg
from consumer.core.messages import CommitDone, CommitOutcome
from consumer.core.topic_incarnations import IncarnationMark, mark
from consumer.errors import not_let
from consumer.member.joining.missing_nodes import with_parents
from consumer.member.multis import metadata_ops, offset_op
from consumer.member.partition_reader import beside_of
from consumer.offsets.committed import hidden, stored_reads
from consumer.offsets.owned_beside import owned_beside, owner_reads
from zkcoord.core.model import Malformed, Topic
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.core.value_type import value
from zkcoord.zk.port import (
    AclEntry,
    Check,
    Children,
    Committed,
    Create,
    GetChildren,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    Read,
    ReadAnswer,
    Rejected,
    SetData,
    Unanswered,
    ZkError,
)
from zkcoord.zk.sync.beliefs import doubts
from zkcoord.zk.sync.client import SyncClient, fitting
from zkcoord.znodes import codec
from zkcoord.znodes.classic.documents import decode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.codec import OffsetsOf
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import LAYOUTS, Layout

TRIES_MAX = 5
PARTITIONS_PER_MULTI_MAX = 100
TOPIC_BYTES_MAX = 256
MEMBERS_NAMED_MAX = 5
BACK = "it goes back, and may be older than what was committed at another gateway"
OVERTAKEN = f"others wrote these offsets at the same time, {TRIES_MAX} times in a row"


@value
class ByMember:
    """A member of a group whose leader is a client: while its state has this version, and the
    gateway with this session serves the member. `forward`: it has just come to that, and what it
    commits must not go back.
    """

    member_id: str
    version: int
    session: int
    forward: bool = False


class MemberlessCommits:
    """Those of one group. `have_made` has the nodes made that the group consists of, where the
    coordinator makes them, and says why they are not there ("": they are). `by_member`: they are a
    member's, of a group whose leader is a client, as long as it may; else they end as
    NO_LONGER_MEMBER. Where others own some of these beside it, they end as GROUP_ALIVE, nothing is
    stored, and those are named; the rest may be stored by itself. `tell` hears why, of each topic.
    """

    def __init__(
        self,
        layout: Layout,
        group: str,
        acl: tuple[AclEntry, ...],
        have_made: Callable[[], str] | None = None,
        by_member: ByMember | None = None,
        tell: Callable[[str, str], None] = lambda topic, why: None,
    ) -> None:
        self._layout = layout
        self._group = group
        self._acl = acl
        self._have_made = have_made
        self._by_member = by_member
        self._tell = tell
        self._state = ClassicPaths(layout).state(group)
        self._presence = (
            ClassicPaths(layout).presence(group, by_member.member_id) if by_member else ""
        )
        self._made: set[str] = set()

    def parts(self, message: msg.Commit) -> Iterator[tuple[ModelPartition, ...]]:
        """What of a commit one multi holds, by number and by size, in order."""
        named = sorted(message.offsets)
        while named:
            first = named[:PARTITIONS_PER_MULTI_MAX]
            count = fitting([self._written(message, tp) for tp in first])
            yield tuple(named[:count])
            named = named[count:]

    def _written(self, message: msg.Commit, tp: ModelPartition) -> list[Op]:
        """At most what one partition is in a multi, with what may be said of its topic."""
        layout, group, acl = self._layout, self._group, self._acl
        offset, text = message.offsets[tp], message.metadata.get(tp, "")
        return [
            SetData(layout.offset_topic(group, tp.topic), bytes(TOPIC_BYTES_MAX), -1),
            offset_op(layout, group, acl, tp, offset, None),
            *metadata_ops(layout, group, acl, tp, offset, text, False),
        ]

    def store(
        self,
        client: SyncClient,
        message: msg.Commit,
        part: Sequence[ModelPartition],
        stores: bool = True,
    ) -> CommitDone | None:
        """Store a part of a commit (`parts`); None once it is stored. Where it
        `stores` not, only whether it may be is looked at.
        """
        result: MultiResult = Unanswered()
        refused = partial(CommitDone, message.token, CommitOutcome.REFUSED, tuple(part))
        for _ in range(TRIES_MAX):
            seen = self._look(client, message, part)
            if isinstance(seen, CommitDone):
                return seen
            reads, answers, members = seen
            doubt = self._doubt(client, answers[-1])
            if doubt:
                return refused(doubt)
            fence, led = self._fence(answers[-1])
            members += led
            if members:
                return CommitDone(
                    message.token, CommitOutcome.GROUP_ALIVE, tuple(part), _named(members)
                )
            if not stores:
                return None
            forward = self._by_member is not None and self._by_member.forward
            for tp in part:
                path = self._layout.offset(self._group, tp)
                stored = _offset(path, reads, answers)
                if isinstance(stored, Malformed):
                    return refused(f"what is stored in {path} is no offset ({stored.reason})")
                if forward and message.offsets[tp] < stored:
                    return CommitDone(message.token, CommitOutcome.UNAVAILABLE, tuple(part), BACK)
            why = self._make_parents(client, message, part)
            if why:
                return refused(why)
            ops = [*fence, *self._ops(message, part, answers)]
            result = client.multi(ops)
            if isinstance(result, Committed):
                return None
            if self._by_member is not None and isinstance(result, Rejected) and not result.index:
                return self._no_longer(message, part)
            if isinstance(result, Rejected) and result.error is ZkError.NO_AUTH:
                return refused(not_let(ops[result.index].path, "write"))
            self._made.clear()
        why = OVERTAKEN if isinstance(result, Rejected) else ""
        return CommitDone(message.token, CommitOutcome.UNAVAILABLE, tuple(part), why)

    def _look(
        self, client: SyncClient, message: msg.Commit, part: Sequence[ModelPartition]
    ) -> CommitDone | tuple[list[Read], list[ReadAnswer], list[str]]:
        """What is stored and then the state, and who is there; or why nothing may be stored. Others
        are looked for last: what one stores who comes later moves a version that was read before.
        """
        client.sync()
        group, by_member = self._group, self._by_member
        partitions = [TopicPartition(*tp) for tp in part]
        reads = [*stored_reads(self._layout, group, partitions), GetData(self._state)]
        where: list[Read] = [GetChildren(layout.ids(group)) for layout in LAYOUTS.values()]
        if by_member is not None:
            where = [GetData(self._presence), *owner_reads(group, part)]
        found = client.read([*reads, *where])
        answers, others = found[: len(reads)], found[len(reads) :]
        secret = hidden(reads, answers)
        if not secret:
            secret = hidden(where, others) if by_member is None else hidden(where[:1], others[:1])
        if secret:
            return CommitDone(message.token, CommitOutcome.REFUSED, tuple(part), not_let(secret))
        if by_member is None:
            there = [name for one in others if isinstance(one, Children) for name in one.names]
            return reads, answers, there
        if not _is_served(others[0], by_member.session):
            return self._no_longer(message, part)
        owned = owned_beside(client, group, part, others[1:])
        return self._owned(message, owned) if owned else (reads, answers, [])

    def _owned(self, message: msg.Commit, owned: Mapping[ModelPartition, str]) -> CommitDone:
        """What others own is named, and told of once a topic."""
        told = {tp.topic: why for tp, why in sorted(owned.items(), reverse=True)}
        for topic, why in sorted(told.items()):
            self._tell(topic, why)
        whys = "; ".join(list(told.values())[:MEMBERS_NAMED_MAX])
        return CommitDone(message.token, CommitOutcome.GROUP_ALIVE, tuple(sorted(owned)), whys)

    def _no_longer(self, message: msg.Commit, part: Sequence[ModelPartition]) -> CommitDone:
        return CommitDone(message.token, CommitOutcome.NO_LONGER_MEMBER, tuple(part))

    def _doubt(self, client: SyncClient, state: ReadAnswer) -> str:
        """Why it is not known whether clients lead the group: others than coordinators can have
        written what is said of that.
        """
        if self._by_member is not None or not isinstance(state, Node) or client.roles is None:
            return ""
        above, group = ClassicPaths(self._layout).above_groups(), self._group
        own = {group: (ClassicPaths(self._layout).group(group), self._state)}
        why = doubts(client, self._layout, above, own).get(group, "")
        return f"it cannot be told who leads group {shown(group)}: {why}" if why else ""

    def _fence(self, state: ReadAnswer) -> tuple[list[Op], list[str]]:
        """What must stay as it is in a group whose leader is a client, and who is in it, where that
        is in the way.
        """
        if self._by_member is not None:
            return [Check(self._state, self._by_member.version)], []
        if not isinstance(state, Node):
            return [], []
        found = decode_state(self._group, state.data)
        members = () if isinstance(found, Malformed) else found.members
        return [Check(self._state, state.stat.version)], [one.member_id for one in members]

    def _make_parents(
        self, client: SyncClient, message: msg.Commit, part: Iterable[ModelPartition]
    ) -> str:
        """Why what must be above them cannot be made; "" once it is there."""
        lay, group = self._layout, self._group
        wanted = {lay.offset_topic(group, tp.topic) for tp in part} | {
            f"{lay.commit_metadata_root(group)}/{tp.topic}"
            for tp in part
            if message.metadata.get(tp)
        }
        for have_made in (self._have_made, None):
            missing, asked_for = self._missing(client, sorted(wanted - self._made))
            if asked_for and have_made is not None:
                why = have_made()
                if why:
                    return why
                continue
            for path in missing:
                result = client.multi([Create(path, b"", acl=self._acl)])
                if isinstance(result, Rejected) and result.error is ZkError.NO_AUTH:
                    return not_let(path, "create")
            break
        self._made |= wanted
        return ""

    def _missing(self, client: SyncClient, wanted: list[str]) -> tuple[list[str], bool]:
        """What is missing of these and above them, and whether it is asked for: members do not make
        what their group consists of where coordinators do.
        """
        if not wanted:
            return [], False
        paths = with_parents(wanted)
        *found, asks = client.read([*map(GetData, paths), GetData(self._layout.asks)])
        missing = [p for p, a in zip(paths, found, strict=True) if isinstance(a, Missing)]
        parts = self._layout.parts(self._group)
        return missing, isinstance(asks, Node) and any(path in parts for path in missing)

    def _ops(
        self,
        message: msg.Commit,
        part: Sequence[ModelPartition],
        answers: Sequence[ReadAnswer],
    ) -> list[Op]:
        """As a member's commit, and whose the offsets are, as a member's first start says it."""
        topics = sorted({tp.topic for tp in part})
        found = iter(answers)
        ops: list[Op] = []
        for topic in topics:
            said, now = next(found), next(found)
            new = _mark(topic, said, now)
            path = self._layout.offset_topic(self._group, topic)
            if new is not None:
                data = codec.encode_incarnation(OffsetsOf(new.incarnation, new.newer_only))
                ops.append(SetData(path, data, new.version))
            elif isinstance(said, Node):
                ops.append(Check(path, said.stat.version))
        for tp in part:
            offset, beside = next(found), next(found)
            version = offset.stat.version if isinstance(offset, Node) else None
            value, text = message.offsets[tp], message.metadata.get(tp, "")
            ops.append(offset_op(self._layout, self._group, self._acl, tp, value, version))
            noted = not isinstance(beside, Missing)
            ops += metadata_ops(self._layout, self._group, self._acl, tp, value, text, noted)
        return ops


def _mark(topic: str, said: ReadAnswer, now: ReadAnswer) -> IncarnationMark | None:
    """What is to be said of the offsets of a topic; None where it has been said, or cannot be."""
    if not isinstance(said, Node) or not isinstance(now, Node):
        return None
    value = codec.decode_topic(topic, now.data, now.stat)
    return (
        mark(topic, value.incarnation, beside_of(topic, said)) if isinstance(value, Topic) else None
    )


def _offset(path: str, reads: Sequence[Read], answers: Sequence[ReadAnswer]) -> int | Malformed:
    """What is stored in this node; -1 where nothing is there."""
    for read, answer in zip(reads, answers, strict=True):
        if read.path == path and isinstance(answer, Node):
            return codec.decode_offset(path, answer.data)
    return -1


def _is_served(presence: ReadAnswer, session: int) -> bool:
    """Whether it is still this gateway that serves the member. One that takes it over and commits
    after this was read moves the versions of the offsets that were read with it.
    """
    return isinstance(presence, Node) and presence.stat.ephemeral_owner == session


def _named(members: Sequence[str]) -> str:
    more = len(members) - MEMBERS_NAMED_MAX
    named = ", ".join(shown(name) for name in sorted(members)[:MEMBERS_NAMED_MAX])
    return named + (f" and {more} more" if more > 0 else "")
