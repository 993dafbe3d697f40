"""Random histories of one group against the core alone: members of all kinds that come, go, come
back and stay silent, writes of every outcome, reconnections, takeovers, topics made again,
requests. A group is one of cooperative, eager or mixed members, so that each form is met often.

The world here is a tiny ZooKeeper: it carries out what the core writes, refuses what does not
apply, and checks each command against what it holds. At the end everybody answers, time passes, and
all that is subscribed must be owned as the core wants it, with nothing remembered of those that are
gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zkcoord.core import events as ev
from zkcoord.core.assignment import Assignment, assign_range
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.error_codes import REBALANCE_FAILED
from zkcoord.core.group.machine import Group
from zkcoord.core.model import (
    Command,
    GroupMetadata,
    GroupState,
    Member,
    Option,
    Owner,
    Request,
    RequestKind,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.target import EAGER

OPTIONS = CoordinatorOptions(
    lease_max_ms=1_000,
    rebalance_timeout_max_ms=2_000,
    partitions_per_command_max=2,
    ops_per_write_max=10,
    channel_orphan_ms=5_000,
    members_per_group_max=5,
    external_assignors=("rack",),
    max_rebalance_retries=2,
    retries_forgotten_ms=5_000,
    quarantine_ms=3_000,
    quarantine_backoff_ms=500,
    quarantine_backoff_max_ms=4_000,
    grace_max_ms=20_000,
)
G = "g"
TOPICS = ("t", "u")
KINDS = {
    "cooperative": (("sticky", "range"), ("cooperative",)),
    "both": (("range", "sticky"), ("cooperative", "eager")),
    "eager": (("sticky", "range"), ("eager",)),
    "custom": (("rack", "sticky"), ("cooperative", "eager")),
}
FORMS = {
    "mixed": ("both", "cooperative", "custom", "eager"),
    "cooperative": ("cooperative", "cooperative", "both", "custom"),
    "eager": ("eager", "eager", "both"),
}
SETTLING_MS = 120_000
SETTLING_STEPS_MAX = 5_000
IDLE_WAKES_MAX = 3
any_of = st.integers(0, 7)  # picks one of what there is
subscriptions = st.sampled_from([{"t": 1}, {"t": 2}, {"u": 1}, {"t": 1, "u": 1}, {"t": 1, "u": 2}])


class Histories(RuleBasedStateMachine):
    """ZooKeeper as far as one group needs it, and the core."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Coordinator(OPTIONS)
        self.now = 1_000
        self.zxid = 100
        self.epoch = 0
        self.topics: dict[str, Topic] = {}
        self.members: dict[str, Member] = {}
        self.gone_ms: dict[int, int] = {}
        self.channels: set[str] = set()
        self.commands: dict[tuple[str, str], Command] = {}
        self.owners: dict[TopicPartition, Owner] = {}
        self.requests: dict[str, Request] = {}
        self.metadata = GroupMetadata()
        self.writes: list[ev.Write] = []
        self.to_read = False
        self.paused = False
        self.asked: ev.Assign | None = None
        self.idle_wakes = 0
        self.kinds = FORMS["mixed"]
        self.left: list[Member] = []  # static members, each as it was when it left
        # the coordinator took over a quarantined group: nothing is started or stopped before
        self.not_before_ms = 0
        self.told: set[str] = set()  # members that the coordinator before told of the quarantine

    @initialize(
        form=st.sampled_from(sorted(FORMS)),
        kinds=st.lists(any_of, min_size=2, max_size=4),
        steps=st.integers(0, 30),
    )
    def begin(self, form: str, kinds: list[int], steps: int) -> None:
        self.kinds = FORMS[form]
        for name in TOPICS:
            self.topics[name] = Topic(name, str(self.next()), (0, 1, 2), self.zxid)
        self.take_over()
        for number, kind in enumerate(kinds):
            self.join(kind, {"t": 1, "u": 1}, (None, "one", "two", None)[number], 20_000, False)
        self.goes_on(steps, True)

    def next(self) -> int:
        self.zxid += 1
        return self.zxid

    # the core is told, and what it says is checked

    def feed(self, event: ev.Event) -> list[ev.Action]:
        actions = self.core.step(event)
        for action in actions:
            if isinstance(action, ev.Write):
                assert not self.writes, "one write of a group is under way at most"
                self.check(action)
                self.writes.append(action)
            elif isinstance(action, ev.ReadGroup):
                self.to_read = True
            elif isinstance(action, ev.Assign):
                self.asked = action
        return actions

    def tell(self, delta: ev.GroupDelta) -> None:
        if not self.paused:  # while there is no connection nothing is read
            self.feed(ev.GroupChanged(self.now, G, delta))

    @property
    def group(self) -> Group:
        return self.core.groups[G]

    def check(self, write: ev.Write) -> None:
        assert not self.paused
        assert len(write.ops) <= OPTIONS.ops_per_write_max + 60
        sent = [op.command for op in write.ops if isinstance(op, ev.Send)]
        stops = [
            c
            for c in (*self.commands.values(), *sent)
            if c.option is Option.STOP and c.member in self.members
        ]
        started = {
            tp for (name, _), c in self.commands.items() if name in self.members for tp in c.start
        }
        for command in sent:
            assert (
                command.member in self.members
                and command.incarnation == self.members[command.member].incarnation
            )
            assert not any(name == command.member for name, _ in self.commands), (
                "one command of a member is outstanding at most"
            )
            moving = command.option in (Option.START, Option.STOP)
            assert not moving or self.now >= self.not_before_ms, (
                "a new coordinator goes on with a quarantine, with its first backoff"
            )
            assert command.code != REBALANCE_FAILED or command.member not in self.told, (
                "a new coordinator tells nobody again"
            )
            self.told.discard(command.member)
            assert not (moving and self.group.quarantine.quarantined), (
                "nothing is started or stopped in quarantine"
            )
            if command.option is Option.START:
                assert not (self.group.result.protocol == EAGER and stops), (
                    "in the eager form all stops come first"
                )
            for tp, thread in command.start.items():
                assert tp not in self.owners and tp not in started, (
                    f"{tp} has an owner, or is being started"
                )
                assert (
                    thread.member == command.member
                    and tp.partition in self.topics[tp.topic].partitions
                )
                started.add(tp)
        for op in write.ops:
            if isinstance(op, ev.DeleteOwner):
                session = self.owners[op.partition].session
                assert self.now - self.gone_ms[session] >= OPTIONS.orphan_wait_ms, (
                    "an orphan is left alone for a lease"
                )

    # members

    @rule(
        kind=any_of,
        topics=subscriptions,
        instance=st.sampled_from([None, None, "one", "two"]),
        grace_ms=st.sampled_from([0, 1_000, 20_000]),
        replaces=st.booleans(),
    )
    def join(
        self, kind: int, topics: dict[str, int], instance: str | None, grace_ms: int, replaces: bool
    ) -> None:
        if len(self.members) >= 7:
            return
        czxid = self.next()
        assignors, protocols = KINDS[self.kinds[kind % len(self.kinds)]]
        member = Member(
            f"m{czxid}",
            czxid,
            czxid,
            Subscription(topics),
            assignors,
            protocols,
            instance,
            grace_ms=grace_ms if instance else 0,
            rebalance_timeout_ms=1_500,
        )
        twin = (
            next(
                (
                    m
                    for m in self.members.values()
                    if instance is not None and m.instance == instance
                ),
                None,
            )
            if replaces
            else None
        )
        self.register(member, twin)

    @precondition(lambda self: self.left)
    @rule(which=any_of)
    def comes_back(self, which: int) -> None:
        """A static member that left is back, as it was."""
        before, czxid = self.left.pop(which % len(self.left)), self.next()
        if len(self.members) < 7 and not any(
            m.instance == before.instance for m in self.members.values()
        ):
            self.register(replace(before, name=f"m{czxid}", incarnation=czxid, session=czxid), None)

    def register(self, member: Member, twin: Member | None) -> None:
        delta: dict[str, Member | None] = {member.name: member}
        if twin is not None:  # one multi of the newcomer; the other's session lives on for a while
            self.forget(twin)
            delta[twin.name] = None
        self.members[member.name] = member
        self.channels.add(member.name)
        self.tell(ev.GroupDelta(members=delta, channels={member.name: True}))

    def forget(self, member: Member) -> None:
        del self.members[member.name]
        self.gone_ms[member.session] = self.now

    def pick(self, which: int) -> Member | None:
        return list(self.members.values())[which % len(self.members)] if self.members else None

    @precondition(lambda self: len(self.members) > 2)
    @rule(which=any_of)
    def leave(self, which: int) -> None:
        member = self.pick(which)
        if member is not None:
            self.close(member)

    def close(self, member: Member) -> None:
        self.forget(member)
        if member.instance is not None:
            self.left.append(member)
        self.end_session(member.session, {member.name: None})

    def end_session(self, session: int, members: dict[str, None]) -> None:
        mine = [tp for tp, owner in self.owners.items() if owner.session == session]
        for tp in mine:
            del self.owners[tp]
        self.tell(ev.GroupDelta(members=members, owners=dict.fromkeys(mine)))

    @rule(which=any_of, topics=subscriptions)
    def subscribe(self, which: int, topics: dict[str, int]) -> None:
        member = self.pick(which)
        if member is None:
            return
        mine = [key for key in self.commands if key[0] == member.name]
        for key in mine:
            del self.commands[key]
        self.told.discard(member.name)
        self.members[member.name] = changed = replace(
            member, incarnation=self.next(), subscription=Subscription(topics)
        )
        self.tell(ev.GroupDelta(members={member.name: changed}, commands=dict.fromkeys(mine)))

    @rule(which=any_of)
    def ghost_ends(self, which: int) -> None:
        ghosts = sorted({o.session for o in self.owners.values()} & self.gone_ms.keys())
        if ghosts:
            self.end_session(ghosts[which % len(ghosts)], {})

    @precondition(lambda self: self.commands)
    @rule(which=any_of)
    def ack(self, which: int) -> None:
        key = sorted(self.commands)[which % len(self.commands)]
        command, member = self.commands[key], self.members.get(key[0])
        if (
            member is None
            or member.incarnation != command.incarnation
            or command.epoch != self.epoch
        ):
            return
        if command.option is Option.REJECT:
            return self.close(member)
        del self.commands[key]
        owners: dict[TopicPartition, Owner | None] = {}
        for tp, thread in command.start.items():
            if tp not in self.owners and tp.topic in self.topics:
                self.owners[tp] = owners[tp] = Owner(member.session, thread, 1, self.next())
        for tp in command.stop:
            if tp in self.owners and self.owners[tp].session == member.session:
                del self.owners[tp]
                owners[tp] = None
        self.tell(ev.GroupDelta(commands={key: None}, owners=owners))

    @precondition(lambda self: self.commands and not self.paused and not self.writes)
    @rule(which=any_of)
    def stays_silent(self, which: int) -> None:
        """A member lets the deadline of a command pass: it is evicted, and its owner nodes stay
        with its session.
        """
        self.goes_on(12, False)
        due = sorted(self.group.deadlines.overdue_ms.items())
        if due:
            self.now = max(self.now, due[which % len(due)][1])
            self.feed(ev.Tick(self.now))
            self.goes_on(2, False)

    @precondition(
        lambda self: any(m.instance is not None and m.grace_ms for m in self.members.values())
    )
    @rule(which=any_of)
    def restarts(self, which: int) -> None:
        """A static member of a group at rest goes and is back at once: it has what it had, and
        nobody else hears of it.
        """
        self.settle()
        able = [m for m in self.members.values() if m.instance is not None and m.grace_ms]
        if not able or self.group.state is not GroupState.STABLE:
            return
        before, czxid = able[which % len(able)], self.next()
        had = {tp for tp, owner in self.owners.items() if owner.session == before.session}
        self.forget(before)
        self.end_session(before.session, {before.name: None})
        self.register(replace(before, name=f"m{czxid}", incarnation=czxid, session=czxid), None)
        moved = {name for name, _ in self.commands} - {f"m{czxid}"}
        self.goes_on(40, True)
        assert {
            tp for tp, owner in self.owners.items() if owner.session == czxid
        } == had and not moved, "a static member that is back takes its place"

    @rule()
    def fails(self) -> None:
        """Members stay silent until the group is quarantined; then the coordinator dies."""
        for _ in range(4):
            if self.paused or self.group.quarantine.quarantined:
                break
            self.join(0, {"t": 1, "u": 1}, None, 0, False)
            self.stays_silent(0)
        self.goes_on(20, True)
        self.take_over()
        self.goes_on(20, True)

    # topics, requests, answers

    @rule(name=st.sampled_from(TOPICS), count=st.sampled_from([0, 2, 4]), again=st.booleans())
    def topic(self, name: str, count: int, again: bool) -> None:
        before = self.topics.get(name)
        if not count:
            self.topics.pop(name, None)
        elif before is None or again:
            self.topics[name] = Topic(name, str(self.next()), tuple(range(count)), self.zxid)
        else:
            self.topics[name] = replace(
                before, partitions=tuple(range(max(count, len(before.partitions))))
            )
        if not self.paused:
            self.feed(ev.TopicsChanged(self.now, {name: self.topics.get(name)}))

    @rule(fresh=st.booleans())
    def ask(self, fresh: bool) -> None:
        node = f"r{self.next()}"
        self.requests[node] = Request(RequestKind.REBALANCE, fresh, "somebody")
        self.not_before_ms = 0  # it ends a quarantine
        self.tell(ev.GroupDelta(requests={node: self.requests[node]}))

    @precondition(lambda self: self.asked is not None)
    @rule(how=st.sampled_from(["good", "good", "foreign", "failure"]))
    def answer(self, how: str) -> None:
        assert self.asked is not None
        token, self.asked, given = self.asked.token, None, self.asked.given
        good = assign_range(given)
        told = replace(good, user_data=dict.fromkeys(given.members, f"told {token}"))
        foreign = Assignment({TopicPartition("nowhere", 0): Thread("nobody", 0)})
        self.feed(
            ev.AssignorAnswered(
                self.now,
                G,
                token,
                {"good": told, "foreign": foreign, "failure": None}[how],
                "" if how != "failure" else "it failed",
            )
        )

    # how writes end, reads, time, connections, terms

    @precondition(lambda self: self.writes)
    @rule(how=st.sampled_from(["ok", "ok", "ok", "ok", "refused", "lost", "unanswered"]))
    def write_ends(self, how: str) -> None:
        write = self.writes.pop()
        nodes = self.carry_out(write.ops) if how in ("ok", "unanswered") else None
        outcome = (
            ev.Outcome.UNKNOWN
            if how in ("lost", "unanswered")
            else ev.Outcome.REFUSED
            if nodes is None
            else ev.Outcome.OK
        )
        self.feed(
            ev.Written(
                self.now,
                G,
                write.token,
                outcome,
                tuple(nodes or ()) if outcome is ev.Outcome.OK else (),
            )
        )

    def carry_out(self, ops: tuple[ev.WriteOp, ...]) -> list[str] | None:
        """One multi: the names of the nodes made, or nothing happens."""
        for op in ops:
            missing = (
                (isinstance(op, ev.Send) and op.command.member not in self.channels)
                or (isinstance(op, ev.DeleteCommand) and (op.member, op.node) not in self.commands)
                or (isinstance(op, ev.DeleteRegistration) and op.member not in self.members)
                or (isinstance(op, ev.DeleteOwner) and op.partition not in self.owners)
                or (isinstance(op, ev.DeleteRequest) and op.node not in self.requests)
                or (
                    isinstance(op, ev.DeleteChannel)
                    and (
                        op.member not in self.channels
                        or any(name == op.member for name, _ in self.commands)
                    )
                )
            )
            if missing:
                return None
        nodes = []
        for op in ops:
            if isinstance(op, ev.Send):
                nodes.append(f"{op.command.epoch}-{op.command.seq}-{self.next():010d}")
                self.commands[(op.command.member, nodes[-1])] = replace(op.command, node=nodes[-1])
            elif isinstance(op, ev.DeleteCommand):
                del self.commands[(op.member, op.node)]
            elif isinstance(op, ev.DeleteRegistration):
                self.forget(self.members[op.member])
            elif isinstance(op, ev.DeleteOwner):
                del self.owners[op.partition]
            elif isinstance(op, ev.DeleteRequest):
                del self.requests[op.node]
            elif isinstance(op, ev.DeleteChannel):
                self.channels.remove(op.member)
            else:
                self.metadata = op.metadata
        return nodes

    def whole(self) -> ev.GroupDelta:
        return ev.GroupDelta(
            True,
            dict(self.members),
            dict.fromkeys(self.channels, True),
            dict(self.commands),
            dict(self.owners),
            dict(self.requests),
            self.metadata,
        )

    @precondition(lambda self: self.to_read and not self.paused)
    @rule()
    def read(self) -> None:
        self.to_read = False
        self.tell(self.whole())

    @rule(steps=st.integers(1, 12), acks=st.booleans())
    def goes_on(self, steps: int, acks: bool) -> None:
        for _ in range(steps):
            self.goes_on_once(acks, self.now + 400)

    @rule(steps=st.integers(1, 30))
    def goes_well(self, steps: int) -> None:
        self.goes_on(steps, True)

    @rule(ms=st.sampled_from([1, 5, 50, 500, 1_500, 5_000, 25_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.feed(ev.Tick(self.now))

    @precondition(lambda self: not self.paused and self.core.next_wake_ms() is not None)
    @rule()
    def wake(self) -> None:
        """A timer ends. That it does so again and again at once, for nothing, is a busy loop."""
        before, at_ms = self.now, self.core.next_wake_ms()
        assert at_ms is not None
        self.now = max(self.now, at_ms)
        actions = self.feed(ev.Tick(self.now))
        self.idle_wakes = self.idle_wakes + 1 if not actions and self.now - before <= 1 else 0
        assert self.idle_wakes <= IDLE_WAKES_MAX, f"it wakes for nothing at {self.now}"

    @precondition(lambda self: not self.paused)
    @rule(happened=st.booleans())
    def disconnected(self, happened: bool) -> None:
        self.paused = True
        self.feed(ev.Paused(self.now))
        while self.writes:
            self.write_ends("unanswered" if happened else "lost")

    @precondition(lambda self: self.paused)
    @rule()
    def connected(self) -> None:
        self.paused = self.to_read = False
        self.feed(ev.TopicsChanged(self.now, {name: self.topics.get(name) for name in TOPICS}))
        self.tell(self.whole())
        self.feed(ev.Ready(self.now))

    @rule()
    def take_over(self) -> None:
        self.epoch += 1
        self.writes.clear()
        self.paused = self.to_read = False
        self.asked = None
        quarantined = self.metadata.state is GroupState.QUARANTINED and not self.requests
        self.not_before_ms = self.now + OPTIONS.quarantine_backoff_ms if quarantined else 0
        self.told = set(self.members) if quarantined else set()
        self.feed(ev.Elected(self.now, self.epoch))
        self.feed(ev.TopicsChanged(self.now, dict(self.topics)))
        self.tell(self.whole())
        self.feed(ev.Ready(self.now))

    @invariant()
    def no_more_of_the_past(self) -> None:
        assert (
            self.paused
            or self.core.next_wake_ms() is None
            or self.core.next_wake_ms() > self.now - 1
        )

    # the end

    def settle(self) -> None:
        """Everybody answers at once, until nothing has anything to do; then time passes."""
        deadline_ms = self.now + SETTLING_MS
        steps = 0
        while self.goes_on_once(True, deadline_ms):
            steps += 1
            assert steps < SETTLING_STEPS_MAX, (
                f"it does not come to rest: {self.group.state} at {self.now}, {self.commands}"
            )

    def goes_on_once(self, acks: bool, until_ms: int) -> bool:
        """One thing happens as it should; False if there is nothing."""
        at_ms = self.core.next_wake_ms()
        todo: list[tuple[object, Callable[[], object]]] = [
            (self.paused, self.connected),
            (self.writes, lambda: self.write_ends("ok")),
            (self.to_read, self.read),
            (self.asked, lambda: self.answer("good")),
            (acks and any(self.due(k) for k in self.commands), self.ack_next),
            (at_ms is not None and at_ms <= until_ms, self.wake),
        ]
        act = next((act for when, act in todo if when), None)
        if act is not None:
            act()
        return act is not None

    def due(self, key: tuple[str, str]) -> bool:
        command, member = self.commands[key], self.members.get(key[0])
        return (
            member is not None
            and member.incarnation == command.incarnation
            and command.epoch == self.epoch
        )

    def ack_next(self) -> None:
        self.ack(next(i for i, key in enumerate(sorted(self.commands)) if self.due(key)))

    def teardown(self) -> None:
        """All that is subscribed is where it shall be, and nothing is remembered of those that are
        gone.
        """
        if not self.epoch:
            return
        self.settle()
        group, names = self.group, self.members.keys()
        assert group.state is (GroupState.STABLE if names else GroupState.EMPTY), (
            f"{group.state}: {group.quarantine.reason}"
        )
        wanted = {
            TopicPartition(t, n)
            for m in self.members.values()
            for t in m.subscription.topics
            if t in self.topics
            for n in self.topics[t].partitions
        }
        sessions = {m.session: m.name for m in self.members.values()}
        held = {tp: Thread(sessions[o.session], o.thread.number) for tp, o in self.owners.items()}
        assert held == group.view.target and held.keys() == wanted
        assert self.metadata.state is group.state and not self.commands and not self.requests
        assert self.channels == set(names) and group.removals.departed <= names, (
            "channels of the gone"
        )
        remembered = {
            *group.planner.told,
            *group.planner.told_data,
            *group.log.sent_ms,
            *group.planner.gathering,
            *(m for m, _ in group.deadlines.overdue_ms),
        }
        assert (
            remembered <= names and not group.view.start_pending and not group.deadlines.gone_since
        )
        assert {p.instance for p in group.static_members.promises.values()} == {
            m.instance for m in self.members.values()
        } - {None}


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
