"""A member without its threads: session, registration, channel and offsets, driven by events.

Single-threaded and deterministic, as the coordinator's driver: every method runs on the loop's
thread. The core (`consumer.core.group_member`) decides; this turns its actions into reads and
multis through the port, and their answers into events. Every write of a member is one multi that
begins with a check of its own registration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.group_member import GroupMember
from consumer.core.options import MemberOptions
from consumer.core.phases import Phase
from consumer.member.joining.group_nodes import read_mode
from consumer.member.joining.missing_nodes import make_missing, with_parents
from consumer.member.joining.registration import Ended, Joined, Registration
from consumer.member.joining.unserved_asks import UnservedAsks
from zkcoord.core.model import GroupState
from zkcoord.core.value_type import assert_never
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.backoff import Backoff
from zkcoord.zk.port import (
    OPEN_ACL,
    READS_PER_REQUEST_MAX,
    AclEntry,
    Change,
    Children,
    Closed,
    Connected,
    Ensemble,
    Expired,
    Fired,
    GetChildren,
    GetData,
    Node,
    Port,
    PortEvent,
    ReadDone,
    ReadResult,
    Refused,
    Suspended,
    WatchMode,
)
from zkcoord.zk.term.election import leads
from zkcoord.znodes import codec, names
from zkcoord.znodes.codec import EpochData
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.places import (
    AskAt,
    ChannelAt,
    CommandAt,
    IdsAt,
    LeaderAt,
    ModeAt,
    RegistrationAt,
    TopicAt,
    TopicsAt,
)

from .legacy_reader import LegacyGroupReader
from .multis import MemberMulti, MemberMultis
from .partition_reader import PartitionReader

REOPEN = Backoff(first_ms=100, max_ms=5_000, at_once=True)


class Outage(Protocol):
    """Looks whether the ensemble serves anybody while this member is cut off from it."""

    def begin(self, proved: Callable[[int], None]) -> None:
        """From now on `proved(at_ms)` is called, on the loop's thread, whenever it is certain that
        there was no quorum at some moment since `at_ms`.
        """

    def end(self) -> None:
        """No more."""


class MemberDriver:
    """One member. `new_id()` draws a consumer id for each session; `to_fetcher` takes what the
    fetching side must hear; `on_session(session_id)` tells of a new session; `finished` becomes
    true after `Close`, when the session is closed. `outage`: where leases are prolonged while
    nobody serves (`MemberOptions.failsafe`). With `roles` a node is believed only where nobody else
    could have written it.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        layout: Layout,
        options: MemberOptions,
        clock: Callable[[], int],
        wall_clock: Callable[[], int],
        new_id: Callable[[], str],
        to_fetcher: Callable[[msg.ToFetcher], None],
        journal: Callable[[dict[str, object]], None],
        acl: tuple[AclEntry, ...] = OPEN_ACL,
        on_session: Callable[[int], None] = lambda session_id: None,
        outage: Outage | None = None,
        roles: Roles | None = None,
        unserved: UnservedAsks | None = None,
    ) -> None:
        self.ensemble = ensemble
        self.layout = layout
        self.options = options
        self.clock = clock
        self.wall_clock = wall_clock
        self.new_id = new_id
        self.to_fetcher = to_fetcher
        self.journal = journal
        self.acl = acl
        self.on_session = on_session
        self.outage = outage
        self.roles = roles
        self.unserved = unserved
        self.core = GroupMember(options)
        self.multis = MemberMultis(layout, options, acl, wall_clock)
        self.reopen_at_ms: int | None = None
        self.failures = 0
        self._forget_session()

    def _forget_session(self) -> None:
        self._looks_no_more()
        self.port: Port | None = None
        self.session_id = 0
        self.name = ""
        self.connected = False
        self.joining: Registration | None = None
        # What fired while it was joining, which may be younger than what joining has seen: the mode
        # was written, and whether a leader came or went last.
        self.mode_fired = False
        self.leader_fired: bool | None = None
        # Topics whose parents exist: of owners and offsets, and of what is beside offsets.
        self.made: set[str] = set()
        self.made_metadata: set[str] = set()

    # life

    def start(self) -> None:
        """Nothing happens before the application subscribes."""

    def receive(self, message: msg.FromFetcher) -> None:
        """Take a message of the fetching side."""
        self._feed(ev.FromApplication(self.clock(), message))

    def tick(self) -> None:
        """Do what is due."""
        now = self.clock()
        if self.reopen_at_ms is not None and now >= self.reopen_at_ms:
            self._open()
        if self.joining is not None:
            self.joining.tick()
        wake = self.core.next_wake_ms()
        if wake is not None and now >= wake:
            self._feed(ev.MemberTick(now))

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do; None = only after an event."""
        joins = self.joining.wake_ms if self.joining is not None else None
        times = [t for t in (self.reopen_at_ms, joins, self.core.next_wake_ms()) if t is not None]
        return min(times) if times else None

    @property
    def lease_until_ms(self) -> int:
        """Hand out records only before this time (0: not at all). Safe to read from any thread."""
        return self.core.lease.until_ms

    def lease_until(self, assignment_epoch: int) -> int:
        """Hand out what was assigned in `assignment_epoch` only before this time (0: not at all).
        Any thread.
        """
        return self.core.lease.until(assignment_epoch)

    @property
    def registered(self) -> bool:
        """Whether its registration is there, as far as is known."""
        return self.core.state.is_member

    @property
    def finished(self) -> bool:
        """Closed for good, its session over."""
        return self.core.state.phase in (Phase.CLOSED, Phase.FAILED) and self.port is None

    def _feed(self, event: ev.MemberEvent) -> None:
        for action in self.core.step(event):
            self._act(action)

    def _act(self, action: ev.MemberAction) -> None:
        match action:
            case ev.SendMessage():
                self._note(action.message)
                self.to_fetcher(action.message)
            case ev.OpenSession():
                delay = max(REOPEN.delay_ms(self.failures), action.after_ms)
                self.failures += 1
                self.reopen_at_ms = self.clock() + delay
                if not delay:
                    self._open()
            case ev.CloseSession():
                self._close()
            case _:
                if self.port is not None and self.connected:
                    self._request(self.port, action)

    def _note(self, message: msg.ToFetcher) -> None:
        if isinstance(message, msg.Notice):
            self.journal(
                {
                    "t": self.wall_clock(),
                    "kind": message.kind.value,
                    "group": self.options.group,
                    "member": self.name,
                    **message.detail,
                }
            )

    # the session

    def _open(self) -> None:
        self.reopen_at_ms = None
        self._forget_session()
        holder: list[Port] = []
        port = self.ensemble.open(lambda event: self._event(holder, event))
        holder.append(port)
        self.port = port

    def _close(self) -> None:
        self.connected, self.joining = False, None
        self._looks_no_more()
        if self.port is not None:
            self.port.close()
        elif self.reopen_at_ms is not None:
            self.reopen_at_ms = None
            self._feed(ev.SessionOver(self.clock()))

    def _event(self, holder: Sequence[Port], event: PortEvent) -> None:
        if not holder or holder[0] is not self.port:
            return
        now = self.clock()
        match event:
            case Connected():
                self._connected(event)
            case Suspended():
                self.connected, self.joining = False, None
                self._feed(ev.SessionSuspended(now))
                if self.outage is not None and self.core.session.proof_ms is not None:
                    self.outage.begin(self._nobody_serves)
            case Fired():
                self._fired(event)
            case Expired() | Closed():
                self._forget_session()
                self._feed(ev.SessionOver(now))
            case Refused():
                self._forget_session()
                self._feed(ev.JoinFailed(now, msg.FailureCode.REFUSED, event.reason))
            case _:
                assert_never(event)

    def _looks_no_more(self) -> None:
        if self.outage is not None:
            self.outage.end()

    def _nobody_serves(self, at_ms: int) -> None:
        self._feed(ev.NobodyServes(self.clock(), at_ms))

    def _connected(self, event: Connected) -> None:
        again = self.session_id == event.session_id
        self.connected = True
        self._looks_no_more()
        if not again:
            self.session_id = event.session_id
            self.multis.session_timeout_ms = event.timeout_ms
            self.name = self.new_id()
            self.on_session(event.session_id)
            self._feed(ev.SessionOpened(self.clock(), self.name, event.timeout_ms))
            return
        assert self.port is not None
        group = self.options.group
        self.port.watch(self.layout.channel(group, self.name), WatchMode.RECURSIVE, lambda r: None)
        self.port.watch(
            self.layout.registration(group, self.name), WatchMode.PERSISTENT, lambda r: None
        )
        self.port.watch(self.layout.leader, WatchMode.PERSISTENT, lambda r: None)
        self.port.watch(self.layout.mode(group), WatchMode.PERSISTENT, lambda r: None)
        self._feed(ev.SessionResumed(self.clock()))
        self._read_mode(self.port)

    def _fired(self, event: Fired) -> None:
        where = self.layout.locate(event.path)
        now = self.clock()
        if (
            isinstance(where, CommandAt)
            and where.member == self.name
            and event.change is Change.CREATED
        ):
            self._read_command(where.node)
        elif (
            isinstance(where, CommandAt)
            and where.member == self.name
            and event.change is Change.DELETED
        ):
            self._feed(ev.CommandVanished(now, where.node))
        elif (isinstance(where, RegistrationAt) and event.change is not Change.CHILDREN) or (
            isinstance(where, ChannelAt) and event.change in (Change.DELETED, Change.DATA)
        ):
            self._feed(ev.RegistrationTouched(now))
        elif isinstance(where, (IdsAt, TopicsAt, TopicAt)):
            self._feed(ev.LegacyGroupTouched(now))
        elif isinstance(where, AskAt) and event.change is Change.DELETED:
            if self.joining is not None:
                self.joining.ask_gone()
        elif isinstance(where, ModeAt) and self.port is not None:
            self.mode_fired = True
            self._read_mode(self.port)
        elif isinstance(where, LeaderAt) and event.change in (Change.CREATED, Change.DELETED):
            self.leader_fired = event.change is Change.CREATED
            self._feed(ev.LeaderSeen(now, self.leader_fired, ""))

    # requests

    def _request(self, port: Port, action: ev.MemberRequest) -> None:
        group = self.options.group
        match action:
            case ev.Join():
                self._join(port, action)
            case ev.ReadPartitions():
                if action.sync:
                    self.made_metadata.clear()
                PartitionReader(
                    port,
                    self.session_id,
                    self.layout,
                    group,
                    self.name,
                    self.made,
                    self.acl,
                    self.clock,
                    self._when(port, self._feed),
                ).read(action)
            case ev.ReadLegacyGroup():
                LegacyGroupReader(
                    port, self.layout, group, action, self.clock, self._when(port, self._feed)
                ).read()
            case ev.ReadCommands():
                channel = self.layout.channel(group, self.name)
                port.read([GetChildren(channel)], self._when(port, self._channel))
            case ev.ReadEpoch():
                port.read([GetData(self.layout.epoch)], self._when(port, self._epoch))
            case ev.ReadLeader():
                reads = [GetData(self.layout.leader), GetData(self.layout.group(group))]
                port.read(reads, self._when(port, self._leader))
            case ev.Store() if self._lacks_parents(action):
                self._write_below_parents(port, action)
            case ev.Ack() | ev.Store() | ev.DropOwners() | ev.Resubscribe():
                self._write(port, action)
            case _:
                assert_never(action)

    def _when(self, port: Port, then: Callable[..., None]) -> Callable[..., None]:
        """An answer counts only while its session is the present one."""

        def answered(result: object) -> None:
            if port is self.port:
                then(result)

        return answered

    def _join(self, port: Port, join: ev.Join) -> None:
        self.mode_fired, self.leader_fired = False, None
        self.joining = Registration(
            port,
            self.session_id,
            self.layout,
            self.options,
            join,
            self.multis.registration(join.subscription, join.user_data, join.ended),
            self.clock,
            self._when(port, self._joined),
            self.acl,
            self.roles,
            self._waits,
            self.unserved,
        )
        self.joining.begin()

    def _waits(self, reason: str) -> None:
        self._act(ev.SendMessage(msg.Notice(msg.NoticeKind.GROUP_NOT_READY, {"reason": reason})))

    def _joined(self, ended: Ended) -> None:
        now, self.joining = self.clock(), None
        if not isinstance(ended, Joined):
            self._feed(ev.JoinFailed(now, ended.code, ended.message))
            return
        self.failures = 0
        self._feed(
            ev.Registered(now, ended.incarnation, ended.epoch, ended.lease_max_ms, ended.sent_ms)
        )
        alive = ended.leader_alive if self.leader_fired is None else self.leader_fired
        self._feed(ev.LeaderSeen(now, alive, ended.group_state))
        self._feed(ev.ModeRead(now, ended.mode))
        if self.mode_fired and self.port is not None:
            self._read_mode(self.port)
        for topic in ended.missing_topics:
            self._act(ev.SendMessage(msg.Notice(msg.NoticeKind.TOPIC_MISSING, {"topic": topic})))

    def _read_mode(self, port: Port) -> None:
        take = self._when(port, lambda mode: self._feed(ev.ModeRead(self.clock(), mode)))
        read_mode(port, self.layout, self.options.group, self.roles, take)

    def _read_command(self, node: str) -> None:
        assert self.port is not None
        self.port.read(
            [GetData(self.layout.command(self.options.group, self.name, node))],
            self._when(self.port, lambda r: self._commands((node,), r, False)),
        )

    def _channel(self, result: ReadResult) -> None:
        if not isinstance(result, ReadDone) or self.port is None:
            return
        answer = result.answers[0]
        nodes = (
            tuple(filter(names.is_node, answer.names))[:READS_PER_REQUEST_MAX]
            if isinstance(answer, Children)
            else ()
        )
        reads = [GetData(self.layout.command(self.options.group, self.name, n)) for n in nodes]
        if reads:
            self.port.read(reads, self._when(self.port, lambda r: self._commands(nodes, r, True)))
        else:
            self._feed(ev.CommandsRead(self.clock(), (), True))

    def _commands(self, nodes: Sequence[str], result: ReadResult, complete: bool) -> None:
        if isinstance(result, ReadDone):
            found = tuple(
                codec.decode_command(self.name, n, a.data)
                for n, a in zip(nodes, result.answers, strict=False)
                if isinstance(a, Node)
            )
            self._feed(ev.CommandsRead(self.clock(), found, complete))

    def _epoch(self, result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            node = result.answers[0]
            value = codec.decode_epoch(node.data) if isinstance(node, Node) else None
            known = value if isinstance(value, EpochData) else EpochData(0, 0, 0)
            self._feed(ev.EpochRead(self.clock(), known.epoch, known.lease_max_ms))

    def _leader(self, result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            leader, group = result.answers
            found = (
                codec.decode_group_state(self.options.group, group.data)
                if isinstance(group, Node) and group.data
                else None
            )
            state = found.value if isinstance(found, GroupState) else "new"
            alive = leads(leader)
            self._feed(ev.LeaderSeen(self.clock(), alive, state))

    # writes

    def _write(self, port: Port, action: ev.MemberWrite) -> None:
        multi = self._multi(action)
        sent = self.clock()
        port.multi(
            multi.ops,
            self._when(
                port,
                lambda result: self._feed(multi.ending(self.clock(), action.token, sent, result)),
            ),
        )

    def _lacks_parents(self, store: ev.Store) -> set[str]:
        """Topics of which something is stored beside an offset for the first time."""
        topics = {tp.topic for tp, (text, _) in store.metadata.items() if text}
        return topics - self.made_metadata

    def _write_below_parents(self, port: Port, store: ev.Store) -> None:
        topics = self._lacks_parents(store)
        root = self.layout.commit_metadata_root(self.options.group)

        def made() -> None:
            if port is self.port:
                self.made_metadata |= topics
                self._write(port, store)

        make_missing(port, with_parents(f"{root}/{t}" for t in topics), self.acl, made)

    def _multi(self, action: ev.MemberWrite) -> MemberMulti:
        return self.multis.of(action, self.name)
