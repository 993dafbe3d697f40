"""How a member comes into its group.

Watch first: its own channel, its own registration, the leader node. Then look (one multiRead): is
this ensemble used with the other layout, is the chosen consumer id taken, what are epoch and lease,
does every subscribed topic exist, how many members are there; only a member with an id or an
instance of its own lists them. Then make what is missing above, and channel and registration in ONE
multi; then read the registration back for its incarnation. A registration that exists already and
belongs to this session is ours (an answer was lost); one that belongs to another session is not,
and the name is drawn anew.

A static member is alone with its instance id: a consumer that registers for the first time deletes
the registration of the process before it in the multi that makes its own; one that comes back finds
such a newcomer and gives up (`FENCED_INSTANCE_ID`). A registration that it left behind itself is
replaced in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.core.events import Join
from consumer.core.messages import FailureCode
from consumer.core.options import MemberOptions
from zkcoord.core.model import GroupMetadata, GroupMode, GroupState, Malformed, Member, Mode
from zkcoord.zk.port import (
    OPEN_ACL,
    READS_PER_REQUEST_MAX,
    AclEntry,
    Check,
    Children,
    Create,
    Delete,
    Denied,
    GetChildren,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    Unanswered,
    WatchMode,
    ZkError,
)
from zkcoord.znodes import codec, names
from zkcoord.znodes.codec import EpochData
from zkcoord.znodes.paths import Layout, parents

JOIN_ROUNDS_MAX = 50
TOPICS_LOOKED_AT_MAX = 200
REGISTRATIONS_LISTED_MAX = 20_000
REGISTRATIONS_SEEN_MAX = 100
EMPTY = GroupState.EMPTY.value


@dataclass(frozen=True, slots=True)
class Joined:
    """Registered. `sent_ms` is when the registration was asked for: the first proof of
    membership.
    """

    incarnation: int
    epoch: int
    lease_max_ms: int
    sent_ms: int
    leader_alive: bool
    group_state: str
    missing_topics: tuple[str, ...]
    mode: Mode | Malformed | None = None


@dataclass(frozen=True, slots=True)
class NotJoined:
    """It cannot join: one sentence for the user."""

    code: FailureCode
    message: str


Ended = Joined | NotJoined


class Registration:
    """One attempt to join under one name. `done` is called once, or never when the connection is
    lost.
    """

    def __init__(
        self,
        port: Port,
        session_id: int,
        layout: Layout,
        options: MemberOptions,
        join: Join,
        data: bytes,
        clock: Callable[[], int],
        done: Callable[[Ended], None],
        acl: tuple[AclEntry, ...] = OPEN_ACL,
    ) -> None:
        self.port = port
        self.session_id = session_id
        self.layout = layout
        self.options = options
        self.name = join.name
        self.join = join
        self.data = data
        self.clock = clock
        self.done = done
        self.acl = acl
        self.rounds = 0
        self.sent_ms = 0
        self.seen: Joined | None = None
        self.replaced: list[Op] = []
        # Whether it is known that those who are registered are not old consumers alone.
        self.among_ours = False

    def begin(self) -> None:
        """Watch, then look."""
        group = self.options.group
        self.port.watch(self.layout.channel(group, self.name), WatchMode.RECURSIVE, _ignore)
        self.port.watch(self.layout.registration(group, self.name), WatchMode.PERSISTENT, _ignore)
        self.port.watch(self.layout.leader, WatchMode.PERSISTENT, _ignore)
        self.port.watch(self.layout.mode(group), WatchMode.PERSISTENT, _ignore)
        if self.options.instance is None:
            self._look()
        else:
            # who else has the instance must not be read from the past
            self.port.sync(lambda result: self._look() if isinstance(result, ReadDone) else None)

    def _look(self) -> None:
        self.rounds += 1
        if self.rounds > JOIN_ROUNDS_MAX:
            return self._fail(
                FailureCode.REFUSED,
                f"the nodes of group {self.options.group} cannot be made under"
                f" {self.layout.group(self.options.group)}: somebody keeps deleting them",
            )
        group, lay = self.options.group, self.layout
        other = lay.other_profile()
        topics = tuple(sorted(self.join.subscription.topics))[:TOPICS_LOOKED_AT_MAX]
        above = self._above()
        reads = [
            GetData(lay.epoch),
            GetData(lay.leader),
            GetData(other.leader),
            GetData(lay.ids(group)),
            GetData(other.ids(group)),
            GetData(lay.group(group)),
            GetData(lay.mode(group)),
            *(GetData(lay.topic(t)) for t in topics),
            *(GetData(p) for p in above),
        ]
        self.port.read(reads, lambda result: self._looked(topics, above, result))

    def _above(self) -> tuple[str, ...]:
        """What must exist before channel and registration, from the root down."""
        group, lay = self.options.group, self.layout
        wanted = [
            *parents(lay.channel(group, "c")),
            *parents(lay.registration(group, "c")),
            lay.owners(group),
            lay.offsets(group),
        ]
        wanted += [p for path in (lay.owners(group), lay.offsets(group)) for p in parents(path)]
        return tuple(sorted(dict.fromkeys(wanted), key=lambda p: (p.count("/"), p)))

    def _looked(self, topics: tuple[str, ...], above: tuple[str, ...], result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        epoch, leader, other_leader, ids, other_ids, group_node, mode_node, *rest = result.answers
        denied = next((a for a in result.answers if isinstance(a, Denied)), None)
        if denied is not None:
            return self._fail(
                FailureCode.REFUSED,
                f"ZooKeeper does not let this consumer read the nodes of group {self.options.group}"
                f" ({denied.error.value}): give it credentials that may",
            )
        problem = self._conflict(other_leader, other_ids)
        if problem is not None:
            return self.done(problem)
        value = codec.decode_epoch(epoch.data) if isinstance(epoch, Node) else None
        known = value if isinstance(value, EpochData) else EpochData(0, 0, 0)
        report = (
            codec.decode_metadata(self.options.group, group_node.data)
            if isinstance(group_node, Node) and group_node.data
            else None
        )
        state = report.state.value if isinstance(report, GroupMetadata) else "new"
        missing = tuple(t for t, a in zip(topics, rest, strict=False) if isinstance(a, Missing))
        mode = codec.decode_mode(mode_node.data) if isinstance(mode_node, Node) else None
        if isinstance(mode, Mode) and mode.kind is GroupMode.LEGACY:
            return self._fail(
                FailureCode.REJECTED,
                f"group {self.options.group} belongs to its old consumers (mode legacy), whom"
                " another registration would disturb: let both share it with `zkcoord groups mode"
                f" {self.options.group} mixed` first",
            )
        there = ids.stat.num_children if isinstance(ids, Node) else 0
        nobodys = mode is None and state in ("new", EMPTY) and not self.among_ours
        if nobodys and 0 < there <= min(REGISTRATIONS_SEEN_MAX, REGISTRATIONS_LISTED_MAX):
            return self._see_whose()
        self.seen = Joined(
            0, known.epoch, known.lease_max_ms, 0, isinstance(leader, Node), state, missing, mode
        )
        lacking = [
            p for p, a in zip(above, rest[len(topics) :], strict=False) if isinstance(a, Missing)
        ]
        if lacking:
            self.port.multi([Create(lacking[0], b"", acl=self.acl)], self._made)
        elif self.options.instance is None and self.options.consumer_id is None:
            self._register()
        else:
            self._list(ids.stat.num_children if isinstance(ids, Node) else 0)

    def _see_whose(self) -> None:
        """Nobody has assigned this group, nobody said whose it is, and somebody is registered: old
        consumers, who would leave a share of their partitions to another registration?
        """

        def listed(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                (answer,) = result.answers
                found = answer.names if isinstance(answer, Children) else ()
                self._see_who([name for name in found if names.is_member(name)], [])

        self.port.read([GetChildren(self.layout.ids(self.options.group))], listed)

    def _see_who(self, members: Sequence[str], old: list[str]) -> None:
        """One by one, since each may be a megabyte long, until one is ours. `old` are the old
        consumers so far.
        """
        group = self.options.group
        if not members and old:
            return self._fail(
                FailureCode.REJECTED,
                f"group {group} belongs to old consumers ({', '.join(old[:3])}), who would leave"
                " partitions to another registration: stop them, or let both share the group with"
                f" `zkcoord groups mode {group} mixed` first",
            )
        if not members:
            self.among_ours = True
            return self._look()
        name, *rest = members

        def answered(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return
            (answer,) = result.answers
            found = (
                codec.decode_registration(name, answer.data, answer.stat)
                if isinstance(answer, Node)
                else None
            )
            if isinstance(found, Member) and not found.legacy:
                return self._see_who([], [])
            self._see_who(rest, [*old, name] if isinstance(found, Member) else old)

        self.port.read([GetData(self.layout.registration(group, name))], answered)

    def _list(self, size: int) -> None:
        """Who else is there; asked only where they are not too many for one answer."""
        ids = self.layout.ids(self.options.group)
        if size > REGISTRATIONS_LISTED_MAX:
            return self._fail(
                FailureCode.REFUSED,
                f"group {self.options.group} has {size} registrations, too many to see whether this"
                f" consumer_id or group_instance_id is in use: delete those under {ids} that are no"
                " consumers'",
            )

        def answered(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return
            answer = result.answers[0]
            members = (
                [name for name in answer.names if name != self.name]
                if isinstance(answer, Children)
                else []
            )
            self.replaced = []
            if self.options.instance is not None:
                return self._rivals(members, [])
            problem = self._taken(members)
            return self._register() if problem is None else self.done(problem)

        self.port.read([GetChildren(ids)], answered)

    def _rivals(self, members: Sequence[str], others: list[str]) -> None:
        """Who else is registered with this instance: to be replaced, or to give way to. `others`
        are the members that are not.
        """
        part, rest = members[:READS_PER_REQUEST_MAX], members[READS_PER_REQUEST_MAX:]
        if not part:
            problem = self._taken(others)
            return self._register() if problem is None else self.done(problem)
        paths = [self.layout.registration(self.options.group, name) for name in part]

        def answered(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return
            found = {
                path: codec.decode_registration(name, a.data, a.stat)
                for name, path, a in zip(part, paths, result.answers, strict=False)
                if isinstance(a, Node)
            }
            rivals = {
                path: member
                for path, member in found.items()
                if isinstance(member, Member) and member.instance == self.options.instance
            }
            other = next(
                (member for member in rivals.values() if member.process != self.options.process),
                None,
            )
            if other is not None and not self.join.first:
                return self._fail(
                    FailureCode.FENCED_INSTANCE_ID,
                    f"another process (member {other.name}) runs group_instance_id"
                    f" {self.options.instance!r} of group {self.options.group} now: give each"
                    " process a group_instance_id of its own, and start each only once",
                )
            self.replaced += [Delete(path, 0) for path in rivals]
            self._rivals(
                rest,
                others
                + [name for name, path in zip(part, paths, strict=False) if path not in rivals],
            )

        self.port.read([GetData(path) for path in paths], answered)

    def _conflict(self, other_leader: ReadAnswer, other_ids: ReadAnswer) -> NotJoined | None:
        """The other layout must not be in use for this group."""
        other = self.layout.other_profile()
        if isinstance(other_leader, Node):
            return NotJoined(
                FailureCode.OTHER_LAYOUT,
                f"a coordinator with layout {other.name} leads on this ensemble: set"
                f" zookeeper_layout={other.name!r}",
            )
        if isinstance(other_ids, Node) and other_ids.stat.num_children:
            return NotJoined(
                FailureCode.OTHER_LAYOUT,
                f"group {self.options.group} has members under {other.ids(self.options.group)}"
                f" (layout {other.name}, or old consumers): use zookeeper_layout={other.name!r}, or"
                " another group_id",
            )
        return None

    def _taken(self, members: Sequence[str]) -> NotJoined | None:
        """A consumer id that the user chose is for one process at a time."""
        chosen = self.options.consumer_id
        if chosen is None:
            return None
        for member in members:
            if names.origin_of(self.options.group, member) == chosen:
                return NotJoined(
                    FailureCode.DUPLICATE_CONSUMER_ID,
                    f"consumer id {chosen!r} is in use in group {self.options.group} (member"
                    f" {member}): give each process a consumer_id of its own, or none; if that"
                    " process has just died, its session must end first",
                )
        return None

    def _made(self, result: MultiResult) -> None:
        if isinstance(result, Unanswered):
            return
        if isinstance(result, Rejected) and result.error not in (
            ZkError.NODE_EXISTS,
            ZkError.NO_NODE,
        ):
            return self._fail(
                FailureCode.REFUSED,
                "ZooKeeper does not let this consumer create the nodes of group"
                f" {self.options.group} ({result.error.value}): start a coordinator first, which"
                " makes what is above them, or give it credentials that may",
            )
        self._look()

    def _register(self) -> None:
        self.port.multi(
            self._ops(
                Create(self.layout.channel(self.options.group, self.name), b"", acl=self.acl)
            ),
            self._registered,
        )

    def _ops(self, channel: Op) -> list[Op]:
        """What registers, at once: with it go the registrations of the same instance. Each of ours
        is never written again, so it is version 0.
        """
        self.sent_ms = self.clock()
        return [
            *self.replaced,
            channel,
            Create(
                self.layout.registration(self.options.group, self.name),
                self.data,
                ephemeral=True,
                acl=self.acl,
            ),
        ]

    def _registered(self, result: MultiResult) -> None:
        if isinstance(result, Unanswered):
            return
        if isinstance(result, Rejected) and result.error in (ZkError.NO_NODE, ZkError.BAD_VERSION):
            return self._look()
        if isinstance(result, Rejected) and result.error is not ZkError.NODE_EXISTS:
            return self._fail(
                FailureCode.REFUSED,
                f"ZooKeeper refused the registration of {self.name}: {result.error.value}",
            )
        exists = isinstance(result, Rejected)
        self.port.read(
            [GetData(self.layout.registration(self.options.group, self.name))],
            lambda r: self._read_back(exists, r),
        )

    def _read_back(self, exists: bool, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        answer = result.answers[0]
        if isinstance(answer, Node) and answer.stat.ephemeral_owner == self.session_id:
            assert self.seen is not None
            s = self.seen
            return self.done(
                Joined(
                    answer.stat.czxid,
                    s.epoch,
                    s.lease_max_ms,
                    self.sent_ms,
                    s.leader_alive,
                    s.group_state,
                    s.missing_topics,
                    s.mode,
                )
            )
        if exists and isinstance(answer, Missing):
            return self._only_registration()
        if isinstance(answer, Missing):
            return self._fail(
                FailureCode.REFUSED,
                f"the registration of {self.name} vanished at once: was it deleted by hand?",
            )
        self._fail(
            FailureCode.DUPLICATE_CONSUMER_ID,
            f"another session registered the name {self.name}: start this consumer again",
        )

    def _only_registration(self) -> None:
        """The channel exists (an earlier answer was lost, or the registration was refused then),
        the registration does not.
        """
        ops = self._ops(Check(self.layout.channel(self.options.group, self.name), 0))
        self.rounds += 1
        self.port.multi(ops, self._registered if self.rounds <= JOIN_ROUNDS_MAX else self._made)

    def _fail(self, code: FailureCode, message: str) -> None:
        self.done(NotJoined(code, message))


def _ignore(_result: ReadResult) -> None:
    """A watch that was not set means that the connection is gone, which is heard elsewhere."""
