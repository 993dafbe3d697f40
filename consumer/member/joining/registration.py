"""How a member comes into its group.

Watch first: its own channel, its own registration, the leader node. Then look (one multiRead): is
this ensemble used with the other layout, is the chosen consumer id taken, what are epoch and lease,
does every subscribed topic exist, how many members are there; only a member with an id or an
instance of its own lists them. Then have what is missing above made (`group_nodes`), and make
channel and registration in ONE multi; then read the registration back for its incarnation. A
registration that exists already and belongs to this session is ours (an answer was lost); one that
belongs to another session is not, and the name is drawn anew.

A static member is alone with its instance id: a consumer that registers for the first time deletes
the registration of the process before it in the multi that makes its own; one that comes back finds
such a newcomer and gives up (`FENCED_INSTANCE_ID`). A registration that it left behind itself is
replaced in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from consumer.core.events import Join
from consumer.core.messages import FailureCode
from consumer.core.options import MemberOptions
from consumer.member.joining.group_nodes import GroupNodes, believe_mode
from consumer.member.joining.unserved_asks import UnservedAsks
from consumer.member.joining.whose_group import (
    REGISTRATIONS_LISTED_MAX,
    REGISTRATIONS_SEEN_MAX,
    if_not_led_by_clients,
    if_not_used_elsewhere,
    in_use,
    may_be_of,
    reads_of_leader,
    see_whose,
)
from zkcoord.core.model import GroupMode, GroupState, Malformed, Member, Mode
from zkcoord.core.value_type import value
from zkcoord.zk.acl.belief import Belief, judge_other_leader
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import (
    OPEN_ACL,
    READS_PER_REQUEST_MAX,
    AclEntry,
    AclsDone,
    AclsResult,
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
from zkcoord.zk.term.election import leads
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData
from zkcoord.znodes.paths import Layout

JOIN_ROUNDS_MAX = 50
TOPICS_LOOKED_AT_MAX = 200
EMPTY = GroupState.EMPTY.value


@value
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


@value
class NotJoined:
    """It cannot join: one sentence for the user."""

    code: FailureCode
    message: str


Ended = Joined | NotJoined


class Registration:
    """One attempt to join under one name. `done` is called once, or never when the connection is
    lost; `waits` is told why it takes longer. With `roles` it matters who could have made what the
    group consists of. `tick` is due at `wake_ms`.
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
        roles: Roles | None = None,
        waits: Callable[[str], None] = lambda reason: None,
        unserved: UnservedAsks | None = None,
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
        self.roles = roles
        self.nodes = GroupNodes(
            port,
            layout,
            options.group,
            acl,
            roles,
            clock,
            self._look,
            lambda message: self._fail(FailureCode.REFUSED, message),
            waits,
            unserved,
        )
        self.rounds = 0
        self.sent_ms = 0
        self.seen: Joined | None = None
        self.where = port, layout, options.group
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
        if not self._has_rivals:
            self._look()
        else:
            # who else has the instance must not be read from the past
            self.port.sync(lambda result: self._look() if isinstance(result, ReadDone) else None)

    @property
    def _has_rivals(self) -> bool:
        """Whether somebody else may have its instance."""
        new = self.options.instance_is_new and self.join.first
        return self.options.instance is not None and not new

    @property
    def wake_ms(self) -> int | None:
        """When `tick` has something to do; None: never."""
        return self.nodes.wake_ms

    def tick(self) -> None:
        """Time passed."""
        if self.wake_ms is not None:
            self.rounds = 0
            self.nodes.tick()

    def ask_gone(self) -> None:
        """The ask for the group was deleted."""
        self.nodes.ask_gone()

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
        reads = [
            GetData(lay.epoch),
            GetData(lay.leader),
            GetData(other.leader),
            GetData(lay.ids(group)),
            GetData(other.ids(group)),
            GetData(lay.group(group)),
            GetData(lay.mode(group)),
            *reads_of_leader(lay, group),
            *(GetData(lay.topic(t)) for t in topics),
            *(GetData(p) for p in self.nodes.paths),
        ]
        self.port.read(reads, lambda result: self._looked(topics, result))

    def _looked(self, topics: tuple[str, ...], result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        epoch, leader, other_leader, ids, other_ids, group_node, *more = result.answers
        mode_node, led, pin, *rest = more
        # what may not be read there is nobody's word, and keeps nobody out
        judged = (epoch, leader, ids, other_ids, group_node, *rest)
        denied = next((a for a in judged if isinstance(a, Denied)), None)
        if denied is not None:
            return self._fail(
                FailureCode.REFUSED,
                f"ZooKeeper does not let this consumer read the nodes of group {self.options.group}"
                f" ({denied.error.value}): give it credentials that may",
            )
        value = codec.decode_epoch(epoch.data) if isinstance(epoch, Node) else None
        known = value if isinstance(value, EpochData) else EpochData(0, 0, 0)
        found = (
            codec.decode_group_state(self.options.group, group_node.data)
            if isinstance(group_node, Node) and group_node.data
            else None
        )
        state = found.value if isinstance(found, GroupState) else "new"
        missing = tuple(t for t, a in zip(topics, rest, strict=False) if isinstance(a, Missing))
        alive = leads(leader)
        seen = Joined(0, known.epoch, known.lease_max_ms, 0, alive, state, missing)
        nodes = dict(zip(self.nodes.paths, rest[len(topics) :], strict=True))
        size = ids.stat.num_children if isinstance(ids, Node) else 0

        def led_by_nobody() -> None:
            self._if_not_led_elsewhere(
                other_leader,
                lambda: if_not_used_elsewhere(
                    *self.where,
                    other_ids,
                    lambda why: self._fail(FailureCode.OTHER_LAYOUT, why),
                    lambda: believe_mode(
                        *self.where,
                        self.roles,
                        mode_node,
                        lambda mode: self._judged(replace(seen, mode=mode), nodes, size),
                    ),
                ),
            )

        if_not_led_by_clients(
            *self.where,
            self.roles,
            (led, pin),
            bool(size and self.options.gateway),
            self._led,
            led_by_nobody,
        )

    def _judged(self, seen: Joined, nodes: Mapping[str, ReadAnswer], size: int) -> None:
        """Nothing is in the way elsewhere."""
        self.seen = seen
        if isinstance(seen.mode, Mode) and seen.mode.kind is GroupMode.LEGACY:
            return self._fail(
                FailureCode.REJECTED,
                f"group {self.options.group} belongs to its old consumers (mode legacy), whom"
                " another registration would disturb: let both share it with `zkcoord groups mode"
                f" {self.options.group} mixed` first",
            )
        nobodys = seen.mode is None and seen.group_state in ("new", EMPTY) and not self.among_ours
        if nobodys and 0 < size <= min(REGISTRATIONS_SEEN_MAX, REGISTRATIONS_LISTED_MAX):
            return see_whose(
                *self.where,
                self._are_ours,
                lambda why: self._fail(FailureCode.REJECTED, why),
            )
        listed = self._has_rivals or self.options.consumer_id is not None
        self.nodes.arrange(nodes, lambda: self._list(size) if listed else self._register())

    def _are_ours(self) -> None:
        self.among_ours = True
        self._look()

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
                if isinstance(a, Node) and may_be_of(self.options.instance, a.data)
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
            no_rivals = [n for n, path in zip(part, paths, strict=False) if path not in rivals]
            self._rivals(rest, others + no_rivals)

        self.port.read([GetData(path) for path in paths], answered)

    def _if_not_led_elsewhere(self, leader: ReadAnswer, then: Callable[[], None]) -> None:
        """A coordinator of the other layout must not lead."""
        other = self.layout.other_profile()
        problem = NotJoined(
            FailureCode.OTHER_LAYOUT,
            f"a coordinator with layout {other.name} leads on this ensemble: set"
            f" zookeeper_layout={other.name!r}",
        )
        if not leads(leader):
            return then()
        if self.roles is None:
            return self.done(problem)

        def judged(why: str | None) -> None:
            if why:
                then()
            elif why is not None:
                self.done(problem)

        judge_other_leader(self.port, self.roles, self.layout, judged)

    def _taken(self, members: Sequence[str]) -> NotJoined | None:
        why = in_use(self.options.group, self.options.consumer_id, members)
        return NotJoined(FailureCode.DUPLICATE_CONSUMER_ID, why) if why else None

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
        own = GetData(self.layout.registration(self.options.group, self.name))
        whose = reads_of_leader(self.layout, self.options.group)
        self.port.read([own, *whose], lambda r: self._read_back(exists, r))

    def _read_back(self, exists: bool, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        answer, led, pin = result.answers
        if isinstance(answer, Node) and answer.stat.ephemeral_owner == self.session_id:
            assert self.seen is not None
            seen = replace(self.seen, incarnation=answer.stat.czxid, sent_ms=self.sent_ms)
            # they were first: what was said before this registration is seen now
            return if_not_led_by_clients(
                *self.where,
                self.roles,
                (led, pin),
                bool(self.options.gateway),
                self._leave,
                lambda: self.done(seen),
            )
        if exists and isinstance(answer, Missing):
            return self._believe_channel(self._only_registration)
        if isinstance(answer, Missing):
            return self._fail(
                FailureCode.REFUSED,
                f"the registration of {self.name} vanished at once: was it deleted by hand?",
            )
        self._fail(
            FailureCode.DUPLICATE_CONSUMER_ID,
            f"another session registered the name {self.name}: start this consumer again",
        )

    def _led(self, why: str, doubtful: bool) -> None:
        if not (doubtful and self.nodes.doubted(why)):
            self._fail(FailureCode.REJECTED, why)

    def _leave(self, why: str, doubtful: bool) -> None:
        def left(result: MultiResult) -> None:
            if not isinstance(result, Unanswered):
                self._led(why, doubtful)

        own: list[Op] = [Delete(self.layout.registration(self.options.group, self.name))]
        self.port.multi(own, left)

    def _believe_channel(self, then: Callable[[], None]) -> None:
        """A channel is there under this name: nobody but coordinators may make commands in it."""
        path = self.layout.channel(self.options.group, self.name)
        if self.roles is None:
            return then()
        roles = self.roles

        def answered(result: AclsResult) -> None:
            if isinstance(result, AclsDone):
                root, channel = result.answers
                wrong = Belief(roles, root).usable(path, channel)
                if wrong:
                    self._fail(FailureCode.REFUSED, f"somebody else made {path}: {wrong}")
                else:
                    then()

        self.port.acls([self.layout.epoch, path], answered)

    def _only_registration(self) -> None:
        """The channel exists (an earlier answer was lost, or the registration was refused then),
        the registration does not.
        """
        ops = self._ops(Check(self.layout.channel(self.options.group, self.name), 0))
        self.rounds += 1
        self.port.multi(ops, self._registered if self.rounds <= JOIN_ROUNDS_MAX else self._again)

    def _again(self, result: MultiResult) -> None:
        if not isinstance(result, Unanswered):
            self._look()

    def _fail(self, code: FailureCode, message: str) -> None:
        self.done(NotJoined(code, message))


def _ignore(_result: ReadResult) -> None:
    """A watch that was not set means that the connection is gone, which is heard elsewhere."""
