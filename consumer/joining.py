"""How a member comes into its group.

Watch first: its own channel, its own registration, the leader node. Then look (one multiRead): is this ensemble used with the other layout, is the chosen consumer id taken, what
are epoch and lease, does every subscribed topic exist. Then make what is missing above, and channel and registration in ONE multi; then read the registration back for its
incarnation. A registration that exists already and belongs to this session is ours (an answer was lost); one that belongs to another session is not, and the name is drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from zkcoord.core.model import GroupMetadata, Subscription
from zkcoord.znodes import codec, names
from zkcoord.znodes.codec import EpochData
from zkcoord.znodes.paths import Layout, parents

from zkcoord.zk.port import (OPEN_ACL, AclEntry, Check, Children, Create, Denied, GetChildren, GetData, Missing, MultiResult, Node, Op, Port, ReadAnswer, ReadDone,
                             ReadResult, Rejected, Unanswered, WatchMode, ZkError)

from .core.messages import FailureCode
from .core.options import AgentOptions

JOIN_ROUNDS_MAX = 50
TOPICS_LOOKED_AT_MAX = 200


@dataclass(frozen=True, slots=True)
class Joined:
    """Registered. `sent_ms` is when the registration was asked for: the first proof of membership."""

    incarnation: int
    epoch: int
    lease_max_ms: int
    sent_ms: int
    leader_alive: bool
    group_state: str
    missing_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotJoined:
    """It cannot join: one sentence for the user."""

    code: FailureCode
    message: str


Ended = Union[Joined, NotJoined]


class Joining:
    """One attempt to join under one name. `done` is called once, or never when the connection is lost."""

    def __init__(self, port: Port, session_id: int, layout: Layout, options: AgentOptions, name: str, subscription: Subscription, data: bytes, clock: Callable[[], int],
                 done: Callable[[Ended], None], acl: tuple[AclEntry, ...] = OPEN_ACL) -> None:
        self.port = port
        self.session_id = session_id
        self.layout = layout
        self.options = options
        self.name = name
        self.subscription = subscription
        self.data = data
        self.clock = clock
        self.done = done
        self.acl = acl
        self.rounds = 0
        self.sent_ms = 0
        self.seen: Joined | None = None

    def begin(self) -> None:
        """Watch, then look."""
        group = self.options.group
        self.port.watch(self.layout.channel(group, self.name), WatchMode.RECURSIVE, _ignore)
        self.port.watch(self.layout.registration(group, self.name), WatchMode.PERSISTENT, _ignore)
        self.port.watch(self.layout.leader, WatchMode.PERSISTENT, _ignore)
        self._look()

    def _look(self) -> None:
        self.rounds += 1
        if self.rounds > JOIN_ROUNDS_MAX:
            return self._fail(FailureCode.REFUSED, f"the nodes of group {self.options.group} cannot be made under {self.layout.group(self.options.group)}: somebody keeps deleting them")
        group, lay = self.options.group, self.layout
        other = lay.other_profile()
        topics = tuple(sorted(self.subscription.topics))[:TOPICS_LOOKED_AT_MAX]
        above = self._above()
        reads = [GetData(lay.epoch), GetData(lay.leader), GetData(other.leader), GetChildren(lay.ids(group)), GetChildren(other.ids(group)), GetData(lay.group(group)),
                 *(GetData(lay.topic(t)) for t in topics), *(GetData(p) for p in above)]
        self.port.read(reads, lambda result: self._looked(topics, above, result))

    def _above(self) -> tuple[str, ...]:
        """What must exist before channel and registration, from the root down."""
        group, lay = self.options.group, self.layout
        wanted = [*parents(lay.channel(group, "c")), *parents(lay.registration(group, "c")), lay.owners(group), lay.offsets(group)]
        wanted += [p for path in (lay.owners(group), lay.offsets(group)) for p in parents(path)]
        return tuple(sorted(dict.fromkeys(wanted), key=lambda p: (p.count("/"), p)))

    def _looked(self, topics: tuple[str, ...], above: tuple[str, ...], result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        epoch, leader, other_leader, ids, other_ids, group_node, *rest = result.answers
        denied = next((a for a in result.answers if isinstance(a, Denied)), None)
        if denied is not None:
            return self._fail(FailureCode.REFUSED, f"ZooKeeper does not let this consumer read the nodes of group {self.options.group} ({denied.error.value}): give it credentials that may")
        problem = self._conflict(other_leader, other_ids) or self._taken(ids)
        if problem is not None:
            return self.done(problem)
        value = codec.decode_epoch(epoch.data) if isinstance(epoch, Node) else None
        known = value if isinstance(value, EpochData) else EpochData(0, 0, 0)
        report = codec.decode_metadata(self.options.group, group_node.data) if isinstance(group_node, Node) and group_node.data else None
        state = report.state.value if isinstance(report, GroupMetadata) else "new"
        missing = tuple(t for t, a in zip(topics, rest) if isinstance(a, Missing))
        self.seen = Joined(0, known.epoch, known.lease_max_ms, 0, isinstance(leader, Node), state, missing)
        lacking = [p for p, a in zip(above, rest[len(topics):]) if isinstance(a, Missing)]
        if lacking:
            self.port.multi([Create(lacking[0], b"", acl=self.acl)], self._made)
        else:
            self._register()

    def _conflict(self, other_leader: ReadAnswer, other_ids: ReadAnswer) -> NotJoined | None:
        """The other layout must not be in use for this group."""
        other = self.layout.other_profile()
        if isinstance(other_leader, Node):
            return NotJoined(FailureCode.OTHER_LAYOUT, f"a coordinator with layout {other.name} leads on this ensemble: set zookeeper_layout={other.name!r}")
        if isinstance(other_ids, Children) and other_ids.names:
            return NotJoined(FailureCode.OTHER_LAYOUT, f"group {self.options.group} has members under {other.ids(self.options.group)} (layout {other.name}, or old consumers): "
                             f"use zookeeper_layout={other.name!r}, or another group_id")
        return None

    def _taken(self, ids: ReadAnswer) -> NotJoined | None:
        """A consumer id that the user chose is for one process at a time."""
        chosen = self.options.consumer_id
        if chosen is None or not isinstance(ids, Children):
            return None
        for member in ids.names:
            if member != self.name and names.origin_of(self.options.group, member) == chosen:
                return NotJoined(FailureCode.DUPLICATE_CONSUMER_ID, f"consumer id {chosen!r} is in use in group {self.options.group} (member {member}): give each process a "
                                 "consumer_id of its own, or none; if that process has just died, its session must end first")
        return None

    def _made(self, result: MultiResult) -> None:
        if isinstance(result, Unanswered):
            return
        if isinstance(result, Rejected) and result.error not in (ZkError.NODE_EXISTS, ZkError.NO_NODE):
            return self._fail(FailureCode.REFUSED, f"ZooKeeper does not let this consumer create the nodes of group {self.options.group} ({result.error.value})")
        self._look()

    def _register(self) -> None:
        self.sent_ms = self.clock()
        group = self.options.group
        ops: list[Op] = [Create(self.layout.channel(group, self.name), b"", acl=self.acl), Create(self.layout.registration(group, self.name), self.data, ephemeral=True, acl=self.acl)]
        self.port.multi(ops, self._registered)

    def _registered(self, result: MultiResult) -> None:
        if isinstance(result, Unanswered):
            return
        if isinstance(result, Rejected) and result.error is ZkError.NO_NODE:
            return self._look()
        if isinstance(result, Rejected) and result.error is not ZkError.NODE_EXISTS:
            return self._fail(FailureCode.REFUSED, f"ZooKeeper refused the registration of {self.name}: {result.error.value}")
        exists = isinstance(result, Rejected)
        self.port.read([GetData(self.layout.registration(self.options.group, self.name))], lambda r: self._read_back(exists, r))

    def _read_back(self, exists: bool, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        answer = result.answers[0]
        if isinstance(answer, Node) and answer.stat.ephemeral_owner == self.session_id:
            assert self.seen is not None
            s = self.seen
            return self.done(Joined(answer.stat.czxid, s.epoch, s.lease_max_ms, self.sent_ms, s.leader_alive, s.group_state, s.missing_topics))
        if exists and isinstance(answer, Missing):
            return self._only_registration()
        if isinstance(answer, Missing):
            return self._fail(FailureCode.REFUSED, f"the registration of {self.name} vanished at once: was it deleted by hand?")
        self._fail(FailureCode.DUPLICATE_CONSUMER_ID, f"another session registered the name {self.name}: start this consumer again")

    def _only_registration(self) -> None:
        """The channel exists (an earlier answer was lost, or the registration was refused then), the registration does not."""
        self.sent_ms = self.clock()
        group = self.options.group
        ops: list[Op] = [Check(self.layout.channel(group, self.name), 0), Create(self.layout.registration(group, self.name), self.data, ephemeral=True, acl=self.acl)]
        self.rounds += 1
        self.port.multi(ops, self._registered if self.rounds <= JOIN_ROUNDS_MAX else self._made)

    def _fail(self, code: FailureCode, message: str) -> None:
        self.done(NotJoined(code, message))


def _ignore(_result: ReadResult) -> None:
    """A watch that was not set means that the connection is gone, which is heard elsewhere."""


