"""The mirror on a real server: what the world holds arrives as values, changes cost what they
change, and no bytes stop it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.harness.wait import wait_until
from tests.harness.zookeeper import fresh_chroot, since_3_6
from tests.zk.port_contract import Session
from tests.zk.real import RealFixture
from zkcoord.core.events import (
    Event,
    GroupChanged,
    GroupGone,
    GroupLeftAlone,
    GroupUnread,
    Ready,
    TopicsChanged,
)
from zkcoord.core.model import (
    Command,
    GroupMetadata,
    Malformed,
    Member,
    Option,
    Owner,
    Pattern,
    PatternKind,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)
from zkcoord.stack.probe import four_letter
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.zk.mirror.mirror import IGNORED_GROUPS_MAX, Mirror
from zkcoord.zk.mirror.pending_reads import SizeLimits
from zkcoord.zk.port import (
    AclEntry,
    Change,
    Create,
    Delete,
    Fired,
    GetChildren,
    GetData,
    MultiResult,
    Op,
    Port,
    PortEvent,
    Read,
    ReadResult,
    SetData,
    WatchMode,
)
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout, parents

G = "g"
EPOCH = 7
OPS_PER_SETUP = 400
LAYOUTS = pytest.mark.parametrize(
    "layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name
)


@pytest.fixture
def fixture(zk_hosts: str) -> Iterator[RealFixture]:
    with RealFixture(zk_hosts, session_timeout_ms=30_000) as real:
        yield real


def registration(topics: dict[str, int] | None = None, pattern: Pattern | None = None) -> bytes:
    """A member's data."""
    return codec.encode_registration(
        Subscription({} if pattern else topics or {"t": 1}, pattern),
        timestamp_ms=1,
        assignors=("sticky",),
        process="p",
    )


def topic_data(partitions: int) -> bytes:
    """A topic's data."""
    return json.dumps(
        {"version": 2, "partitions": {str(n): [0] for n in range(partitions)}}
    ).encode()


class Counting:
    """A port that counts its requests, and runs something just before the n-th read goes out."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.reads: list[Sequence[Read]] = []
        self.before: dict[int, Callable[[], object]] = {}
        self.sync, self.close, self.watch, self.unwatch, self.ignore = (
            port.sync,
            port.close,
            port.watch,
            port.unwatch,
            port.ignore,
        )

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        raise AssertionError("a mirror writes nothing")

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        self.reads.append(reads)
        self.before.pop(len(self.reads), lambda: None)()
        self.port.read(reads, done)


class World:
    """A mirror with its session, a hand that writes, and what the mirror has said so far, put
    together as the core does.
    """

    def __init__(self, fixture: RealFixture, layout: Layout = Layout.DRAFT) -> None:
        self.fixture = fixture
        self.lay = layout
        self.hand = Session(fixture)
        self.made: set[str] = set()
        self.events: list[Event] = []
        self.groups: dict[str, dict[str, dict]] = {}  # type: ignore[type-arg]
        self.topics: dict[str, Topic] = {}
        self.matches: dict[Pattern, frozenset[str]] = {}
        self.metadata: dict[str, GroupMetadata | None] = {}
        self.seen: list[PortEvent] = []
        self.eager = False
        self.port = Counting(fixture.open(self._event))
        self.fixture.drain(lambda: bool(self.seen), "the session")
        self.mirror = Mirror(self.port, layout, EPOCH, lambda: 0, self._emit, self._related)

    def _event(self, event: PortEvent) -> None:
        self.seen.append(event)
        if isinstance(event, Fired):
            self.mirror.fired(event)
            if self.eager:
                self.mirror.flush()

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, GroupUnread):
            self.mirror.read_group(event.group)
        elif isinstance(event, GroupGone):
            self.groups.pop(event.group, None)
        elif isinstance(event, GroupChanged):
            delta, found = (
                event.delta,
                self.groups.setdefault(
                    event.group, {"members": {}, "channels": {}, "commands": {}, "owners": {}}
                ),
            )
            if delta.full:
                self.metadata[event.group] = delta.metadata
                for part in found.values():
                    part.clear()
            for name, changes in (
                ("members", delta.members),
                ("channels", delta.channels),
                ("commands", delta.commands),
                ("owners", delta.owners),
            ):
                for key, value in changes.items():
                    if value is None or value is False:
                        found[name].pop(key, None)
                    else:
                        found[name][key] = value
            self.matches.update(event.matches)
        elif isinstance(event, TopicsChanged):
            self.matches.update(event.matches)
            for name, topic in event.topics.items():
                self.topics.pop(name, None)
                if isinstance(topic, Topic):
                    self.topics[name] = topic

    def _related(self, group: str, member: str, node: str) -> list[TopicPartition]:
        found = self.groups.get(group)
        if found is None:
            return []
        if node:
            command = found["commands"].get((member, node))
            return list(command.partitions) if isinstance(command, Command) else []
        session = (
            found["members"][member].session
            if isinstance(found["members"].get(member), Member)
            else 0
        )
        return [
            tp for tp, o in found["owners"].items() if isinstance(o, Owner) and o.session == session
        ]

    def begin(self) -> World:
        """Read the world."""
        self.mirror.begin()
        self.fixture.drain(
            lambda: any(isinstance(e, Ready) for e in self.events), "the whole world"
        )
        return self.settle()

    def settle(self) -> World:
        """Until all that happened so far is heard and read: the answer of a sync comes after the
        events of what was before it.
        """
        while True:
            done: list[ReadResult] = []
            self.port.sync(done.append)
            self.fixture.drain(lambda: bool(done), "a sync")
            self.mirror.flush()
            if not self.mirror.busy and not self.mirror.due:
                return self
            self.fixture.drain(lambda: not self.mirror.busy, "the end of a read")

    def cost(self, act: Callable[[], object]) -> int:
        """How many read requests it takes to take in what `act` does."""
        before = len(self.port.reads)
        act()
        self.settle()
        return len(self.port.reads) - before

    # the hand

    def make(self, *ops: Op) -> None:
        """Run operations, making missing parents first."""
        own = {op.path for op in ops if isinstance(op, Create)}
        above = sorted(
            {
                p
                for op in ops
                if isinstance(op, Create)
                for p in parents(op.path)
                if p not in self.made
            }
            - own,
            key=lambda p: p.count("/"),
        )
        missing = [p for p in above if len(above) > OPS_PER_SETUP or self.hand.missing(p)]
        self.made.update(above, own)
        every = [*(Create(p, b"") for p in missing), *ops]
        for at in range(0, len(every), OPS_PER_SETUP):
            self.hand.do(*every[at : at + OPS_PER_SETUP])

    def member(
        self,
        name: str,
        group: str = G,
        topics: dict[str, int] | None = None,
        pattern: Pattern | None = None,
    ) -> list[Op]:
        """A channel and a registration."""
        return [
            Create(self.lay.channel(group, name), b""),
            Create(
                self.lay.registration(group, name), registration(topics, pattern), ephemeral=True
            ),
        ]

    def owner(self, tp: TopicPartition, member: str, group: str = G) -> list[Op]:
        """An owner node of ours."""
        path, data = self.lay.owner(group, tp), codec.encode_owner(Thread(member, 0))
        return [Create(path, data, ephemeral=True), SetData(path, data, 0)]

    def command(
        self,
        member: str,
        start: Sequence[TopicPartition],
        epoch: int = EPOCH - 1,
        seq: int = 1,
        group: str = G,
    ) -> Op:
        """A start command (of an earlier epoch unless said)."""
        value = Command(
            member, 1, Option.START, epoch, seq, 1, {tp: Thread(member, 0) for tp in start}
        )
        return Create(
            self.lay.command_prefix(group, member, epoch, seq),
            codec.encode_command(value),
            sequential=True,
        )

    def truth(self, group: str = G) -> dict[str, set]:  # type: ignore[type-arg]
        """What the group's nodes are, as names."""

        def names(path: str) -> tuple[str, ...]:
            return () if self.hand.missing(path) else self.hand.names(path)

        channels = names(self.lay.channels(group))
        return {
            "members": set(names(self.lay.ids(group))),
            "channels": set(channels),
            "commands": {(m, n) for m in channels for n in names(self.lay.channel(group, m))},
            "owners": {
                TopicPartition(t, int(p))
                for t in names(self.lay.owners(group))
                for p in names(self.lay.owner_topic(group, t))
            },
        }

    def known(self, group: str = G) -> dict[str, set]:  # type: ignore[type-arg]
        """The same as the mirror told it."""
        return {name: set(part) for name, part in self.groups[group].items()}


def tps(count: int, topic: str = "t") -> list[TopicPartition]:
    """Partitions of a topic."""
    return [TopicPartition(topic, n) for n in range(count)]


@LAYOUTS
def test_the_world_is_read_as_values(fixture: RealFixture, layout: Layout) -> None:
    w = World(fixture, layout)
    w.make(
        Create(layout.topic("t"), topic_data(3)),
        *w.member("a"),
        *w.owner(TopicPartition("t", 1), "a"),
        w.command("a", tps(1)),
    )
    w.begin()
    assert w.topics["t"].partitions == (0, 1, 2) and w.known() == w.truth()
    member, owner = w.groups[G]["members"]["a"], w.groups[G]["owners"][TopicPartition("t", 1)]
    assert (
        isinstance(member, Member)
        and member.session == w.hand.session_id
        and member.incarnation == w.hand.node(layout.registration(G, "a")).stat.czxid
    )
    assert (
        isinstance(owner, Owner)
        and owner == Owner(w.hand.session_id, Thread("a", 0), 1, owner.created)
        and owner.created > 0
    )


@LAYOUTS
@pytest.mark.parametrize(
    "eager",
    [
        pytest.param(False, id="after the last event"),
        pytest.param(
            True,
            id="at the first event",
            marks=since_3_6(
                "an event is told when its watch is set again, so the last come after the first"
                " read's answer"
            ),
        ),
    ],
)
def test_an_ack_of_24_partitions_costs_one_read(
    fixture: RealFixture, layout: Layout, eager: bool
) -> None:
    """25 and more events, one multiRead: command and owner nodes that one ack changes together are
    read together, in one answer; also when the read goes out at the first of the events, because
    the others, which come before its answer, happened before it.
    """
    w = World(fixture, layout)
    w.eager = eager
    w.make(
        Create(layout.topic("t"), topic_data(24)),
        *w.member("a"),
        w.command("a", tps(24)),
        Create(layout.owner_topic(G, "t"), b""),
    )
    w.begin()
    ((_, node),) = w.known()["commands"]
    fired = len(w.seen)
    assert (
        w.cost(
            lambda: w.hand.do(
                Delete(layout.command(G, "a", node)),
                *(op for tp in tps(24) for op in w.owner(tp, "a")),
            )
        )
        == 1
    )
    assert (
        sum(isinstance(e, Fired) for e in w.seen[fired:]) >= 25
        and w.known() == w.truth()
        and len(w.known()["owners"]) == 24
    )
    kinds = {type(r) for r in w.port.reads[-1]}
    assert (
        kinds == {GetData}
        and GetData(layout.command(G, "a", node)) in w.port.reads[-1]
        and len(w.port.reads[-1]) == 25
    )


@LAYOUTS
def test_a_departure_costs_one_read(fixture: RealFixture, layout: Layout) -> None:
    """A session's end: its registration and its owner nodes go in one transaction, and are read in
    one answer.
    """
    w = World(fixture, layout)
    w.make(
        Create(layout.topic("t"), topic_data(24)),
        *w.member("a"),
        Create(layout.owner_topic(G, "t"), b""),
    )
    other = Session(fixture)
    other.do(
        Create(layout.channel(G, "b"), b""),
        Create(layout.registration(G, "b"), registration(), ephemeral=True),
        *(op for tp in tps(24) for op in w.owner(tp, "b")),
    )
    w.begin()
    assert len(w.known()["owners"]) == 24
    events = len(w.events)
    assert (
        w.cost(other.close) == 1 and w.known() == w.truth() and set(w.known()["members"]) == {"a"}
    )
    (told,) = [e for e in w.events[events:] if isinstance(e, GroupChanged)]
    assert told.delta.members == {"b": None} and len(told.delta.owners) == 24


def test_commands_of_this_term_are_not_read_back(fixture: RealFixture) -> None:
    """Their write's outcome says all of them; their deletion is news."""
    w = World(fixture)
    w.make(*w.member("a"))
    w.begin()
    assert w.cost(lambda: w.hand.do(w.command("a", tps(1), epoch=EPOCH))) == 0
    assert w.cost(lambda: w.hand.do(w.command("a", tps(1), epoch=EPOCH + 1))) == 1
    (node,) = [n for n in w.hand.names(w.lay.channel(G, "a")) if n.startswith(f"{EPOCH}-")]
    assert w.cost(lambda: w.hand.do(Delete(w.lay.command(G, "a", node)))) == 1


def test_commits_cost_nothing(fixture: RealFixture) -> None:
    """No event of an offset node ever arrives."""
    w = World(fixture)
    path = w.lay.offset(G, TopicPartition("t", 0))
    w.make(*w.member("a"), Create(path, b"0"))
    w.begin()
    before = len(w.seen)
    assert w.cost(lambda: [w.hand.do(SetData(path, str(n).encode(), -1)) for n in range(20)]) == 0
    assert len(w.seen) == before


@LAYOUTS
@pytest.mark.parametrize("moment", range(1, 10))
def test_what_happens_during_a_sweep_is_not_missed(
    fixture: RealFixture, layout: Layout, moment: int
) -> None:
    """Just before the n-th read of the world, whichever that is, a member leaves, another comes, a
    command is acked, another is sent, and a group is made: in the end the mirror knows what there
    is.
    """
    w = World(fixture, layout)
    late = Session(fixture)
    w.make(
        Create(layout.topic("t"), topic_data(4)),
        *w.member("a"),
        *w.owner(TopicPartition("t", 0), "a"),
        w.command("a", [TopicPartition("t", 1)]),
    )
    late.do(
        Create(layout.channel(G, "gone"), b""),
        Create(layout.registration(G, "gone"), registration(), ephemeral=True),
        *w.owner(TopicPartition("t", 3), "gone"),
    )
    (node,) = w.hand.names(layout.channel(G, "a"))

    def meanwhile() -> None:
        late.close()
        w.make(
            *w.member("new"),
            w.command("new", [TopicPartition("t", 2)]),
            Delete(layout.command(G, "a", node)),
            *w.owner(TopicPartition("t", 1), "a"),
            *w.member("x", "other"),
            Create(layout.topic("u"), topic_data(1)),
        )

    w.port.before[moment] = meanwhile
    w.begin()
    w.port.before.pop(moment, lambda: None)()  # the whole world was read in fewer
    w.settle()
    assert (
        w.known() == w.truth()
        and w.known("other") == w.truth("other")
        and sorted(w.topics) == ["t", "u"]
    )
    assert w.truth()["members"] == {"a", "new"} and w.truth()["owners"] == set(tps(2))


@LAYOUTS
def test_a_group_deleted_and_made_again_is_read_anew(fixture: RealFixture, layout: Layout) -> None:
    """It is told as gone, and then as what it is."""
    w = World(fixture, layout)
    w.make(*w.member("a"))
    w.begin()
    first = w.groups[G]["members"]["a"].incarnation
    paths = [layout.registration(G, "a"), layout.channel(G, "a"), layout.channels(G), layout.ids(G)]
    tops = dict.fromkeys(
        (layout.group(G), *((parents(layout.ids(G))[-1],) if layout is Layout.ISOLATED else ()))
    )
    w.hand.do(*(Delete(p) for p in paths), *(Delete(p) for p in tops))
    w.settle()
    assert G not in w.groups and any(isinstance(e, GroupGone) for e in w.events)
    w.made.clear()
    w.make(*w.member("a"), *w.member("b"))
    w.settle()
    assert (
        w.known() == w.truth()
        and set(w.known()["members"]) == {"a", "b"}
        and w.groups[G]["members"]["a"].incarnation > first
    )
    assert w.cost(lambda: w.hand.do(Delete(layout.registration(G, "b")))) >= 1 and set(
        w.known()["members"]
    ) == {"a"}


@since_3_6("a watch cannot be removed, it is gone when it has fired")
@LAYOUTS
def test_what_is_gone_is_not_watched_any_more(
    own_zk_server: ZooKeeperServer, layout: Layout
) -> None:
    """Groups and topics come and go under ever new names within one session: the server, which
    nobody else uses, holds as many watches afterwards as before.
    """
    with RealFixture(fresh_chroot(own_zk_server.address), session_timeout_ms=30_000) as fixture:
        nothing_stays_watched(World(fixture, layout))


def nothing_stays_watched(w: World) -> None:
    """Makes and deletes ten groups and topics."""
    fixture, layout = w.fixture, w.lay
    w.make(*w.member("a"), Create(layout.topic("t"), topic_data(1)))
    w.begin()

    def watches() -> int:
        return int(four_letter(fixture.server[1], "mntr").get("zk_watch_count", -1))

    before = watches()
    for n in range(10):
        group, topic = f"passing-{n}", layout.topic(f"passing-{n}")
        w.make(
            *w.member("a", group),
            *w.owner(TopicPartition("t", 0), "a", group),
            Create(topic, topic_data(1)),
        )
        w.settle()
        assert group in w.groups and f"passing-{n}" in w.topics
        paths = [
            layout.owner(group, TopicPartition("t", 0)),
            layout.owner_topic(group, "t"),
            layout.owners(group),
            layout.registration(group, "a"),
            layout.ids(group),
            layout.channel(group, "a"),
            layout.channels(group),
            *dict.fromkeys((layout.group(group), parents(layout.ids(group))[-1])),
            topic,
        ]
        w.hand.do(*map(Delete, paths))
        w.settle()
        assert group not in w.groups and f"passing-{n}" not in w.topics
    wait_until(lambda: watches() == before, 60, "as many watches as before")


def test_a_registration_made_again_under_its_name_is_another_member(fixture: RealFixture) -> None:
    """Version 0 both times: only the transaction tells them apart, and the mirror tells it."""
    w = World(fixture)
    w.make(*w.member("a"))
    w.begin()
    first, path = w.groups[G]["members"]["a"].incarnation, w.lay.registration(G, "a")
    w.hand.do(Delete(path), Create(path, registration({"t": 2}), ephemeral=True))
    w.settle()
    member = w.groups[G]["members"]["a"]
    assert member.incarnation > first and member.subscription.topics == {"t": 2}


@since_3_6("each node is read, and its watch is set, by a request of its own")
@LAYOUTS
def test_a_world_of_1000_groups_takes_few_requests(fixture: RealFixture, layout: Layout) -> None:
    """Level by level, a thousand reads each: three thousand members with channels and owner
    nodes.
    """
    w = World(fixture, layout)
    groups = [f"g{n:04d}" for n in range(1_000)]
    w.make(
        Create(layout.topic("t"), topic_data(3)),
        *(
            op
            for g in groups
            for n in range(3)
            for op in (*w.member(f"m{n}", g), *w.owner(TopicPartition("t", n), f"m{n}", g))
        ),
    )
    w.begin()
    assert len(w.groups) == 1_000 and all(
        len(w.groups[g]["members"]) == len(w.groups[g]["owners"]) == 3 for g in groups
    )
    ops = sum(len(reads) for reads in w.port.reads)
    assert len(w.port.reads) <= ops // 1_000 + 10 < 40, (
        f"{len(w.port.reads)} requests for {ops} reads"
    )
    assert w.cost(lambda: w.hand.do(*w.member("late", "g0500"))) == 1


def test_topics_come_grow_and_go(fixture: RealFixture) -> None:
    """A node without data is not a topic yet; a topic made again is another incarnation."""
    w = World(fixture)
    w.make(Create(w.lay.topic("t"), topic_data(2)))
    w.begin()
    first = w.topics["t"].incarnation
    w.make(Create(w.lay.topic("u"), b""))
    w.settle()
    assert set(w.topics) == {"t"}
    w.hand.do(
        SetData(w.lay.topic("u"), topic_data(1), 0), SetData(w.lay.topic("t"), topic_data(5), 0)
    )
    w.settle()
    assert w.topics["u"].partitions == (0,) and w.topics["t"].partitions == (0, 1, 2, 3, 4)
    w.hand.do(Delete(w.lay.topic("t")))
    w.settle()
    assert set(w.topics) == {"u"}
    w.hand.do(Create(w.lay.topic("t"), topic_data(2)))
    w.settle()
    assert w.topics["t"].incarnation != first


def test_wildcards_are_matched_when_topics_come(fixture: RealFixture) -> None:
    w = World(fixture)
    white, black = Pattern(PatternKind.WHITE_LIST, "or.*"), Pattern(PatternKind.BLACK_LIST, "or.*")
    w.make(Create(w.lay.topic("orders"), topic_data(1)), *w.member("a", pattern=white))
    w.begin()
    assert w.matches[white] == {"orders"}
    w.make(*w.member("b", pattern=black))
    w.make(
        Create(w.lay.topic("origins"), topic_data(1)), Create(w.lay.topic("users"), topic_data(1))
    )
    w.settle()
    assert w.matches[white] == {"orders", "origins"} and w.matches[black] == {"users"}


BAD = (
    b"",
    b"{",
    b"\xff\xfe",
    b"null",
    b"[]",
    b"0" * 70_000,
    b'{"version":1e999}',
    b'{"version":1,"subscription":{"t":-1},"pattern":"static"}',
)


@LAYOUTS
@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_malformed_nodes_are_told_and_stop_nothing(
    fixture: RealFixture, layout: Layout, data: bytes
) -> None:
    """Registration, command, owner, topic and group metadata with bytes that are not theirs, before
    the first read and later: each is named, and what is good beside it is known.
    """
    w = World(fixture, layout)
    prefix = layout.command_prefix(G, "good", EPOCH - 1, 3)

    def spoil(n: int) -> None:
        w.make(
            Create(layout.registration(G, f"bad{n}"), data, ephemeral=True),
            Create(f"{prefix}{n}", data),
            Create(layout.owner(G, TopicPartition("t", 10 + n)), data, ephemeral=True),
            Create(layout.topic(f"bad{n}"), data),
            Create(layout.owner(G, TopicPartition("t", 20 + n)), b"good-0"),
            Create(layout.channel(G, f"odd\u202ename {n}"), b""),
            Create(f"{layout.ids(G)}/odd\u202ename {n}", registration(), ephemeral=True),
            Create(f"{layout.owners(G)}/t/x{n}", b"good-0", ephemeral=True),
        )

    w.make(
        Create(layout.topic("t"), topic_data(2)),
        *w.member("good"),
        *w.owner(TopicPartition("t", 0), "good"),
    )
    w.hand.do(SetData(layout.group(G), data, -1))
    spoil(1)
    w.begin()
    spoil(2)
    w.settle()
    found = w.groups[G]
    for n in (1, 2):
        assert (
            isinstance(found["members"][f"bad{n}"], Malformed)
            and found["members"][f"bad{n}"].name == f"bad{n}"
        )
        assert isinstance(found["members"][f"odd\u202ename {n}"], Malformed)
        assert isinstance(found["commands"][("good", f"{EPOCH - 1}-3-{n}")], Malformed)
        assert isinstance(found["owners"][TopicPartition("t", 10 + n)], Malformed) and isinstance(
            found["owners"][TopicPartition("t", 20 + n)], Malformed
        )
    owner = found["owners"][TopicPartition("t", 0)]
    assert (
        isinstance(found["members"]["good"], Member)
        and isinstance(owner, Owner)
        and (owner.session, owner.thread) == (w.hand.session_id, Thread("good", 0))
    )
    assert set(w.topics) == {"t"} and w.metadata[G] is None
    bad_topics = {
        t.name
        for e in w.events
        if isinstance(e, TopicsChanged)
        for t in e.topics.values()
        if isinstance(t, Malformed)
    }
    assert bad_topics == (set() if not data else {"bad1", "bad2"})


def test_a_hostile_pattern_is_malformed_and_the_others_are_matched(fixture: RealFixture) -> None:
    """Nobody of ours writes one, so it is written by hand."""
    w = World(fixture)
    good = Pattern(PatternKind.WHITE_LIST, "t.*")
    hostile = registration(pattern=good).replace(b"t.*", b"(t")
    w.make(
        Create(w.lay.topic("t"), topic_data(1)),
        *w.member("good", pattern=good),
        Create(w.lay.channel(G, "bad"), b""),
        Create(w.lay.registration(G, "bad"), hostile, ephemeral=True),
    )
    w.begin()
    assert isinstance(w.groups[G]["members"]["bad"], Malformed) and w.matches == {
        good: frozenset({"t"})
    }


def test_a_pattern_of_a_few_characters_that_is_a_large_program_is_malformed(
    fixture: RealFixture,
) -> None:
    """95 characters: each topic's name would take it tens of milliseconds."""
    w = World(fixture)
    good = Pattern(PatternKind.WHITE_LIST, "t.*")
    bomb = "|".join(f"((.?){{31}}){{31}}{letter}" for letter in "abcdef")
    w.make(
        *(Create(w.lay.topic("t" * 200 + str(n)), topic_data(1)) for n in range(50)),
        *w.member("good", pattern=good),
        Create(w.lay.channel(G, "bad"), b""),
        Create(
            w.lay.registration(G, "bad"),
            registration(pattern=good).replace(b"t.*", bomb.encode()),
            ephemeral=True,
        ),
    )
    w.begin()
    bad = w.groups[G]["members"]["bad"]
    assert isinstance(bad, Malformed) and "a program of" in bad.reason
    assert len(w.matches[good]) == 50


def test_what_is_marked_of_others_is_read_beside_a_whole_read(fixture: RealFixture) -> None:
    """A group that is read level by level holds up nobody else."""
    w = World(fixture)
    w.make(*w.member("a"), *w.member("b", group="other"))
    w.begin()
    w.events.clear()
    w.mirror.read_group(G)
    w.mirror.flush()
    assert w.mirror.slices == 1
    w.mirror.fired(Fired(Change.DATA, w.lay.registration("other", "b")))
    w.mirror.fired(Fired(Change.DATA, w.lay.registration(G, "a")))
    w.mirror.flush()
    assert w.mirror.asking, "asked for at once, and of the other group alone"
    assert list(w.mirror.wants.groups) == [G]
    w.settle()
    changed = [(e.group, e.delta.full) for e in w.events if isinstance(e, GroupChanged)]
    assert sorted(changed) == [(G, False), (G, True), ("other", False)]
    assert changed.index((G, True)) < changed.index((G, False))


def test_of_a_registrations_name_that_is_too_long_little_is_kept(fixture: RealFixture) -> None:
    """Such names may be of a megabyte, and a group may have thousands. The same is kept of one
    whether it was found or seen to come, so that it is seen to go.
    """
    w = World(fixture)
    found, come = "x" * 50_000, "x" * 49_999 + "y"
    w.make(*w.member("a"), Create(w.lay.registration(G, found), b"", ephemeral=True))
    w.begin()
    w.make(Create(w.lay.registration(G, come), b"", ephemeral=True))
    w.settle()
    kept = set(w.groups[G]["members"]) - {"a"}
    assert len(kept) == 2 and max(map(len, kept)) < 300
    assert all(isinstance(w.groups[G]["members"][name], Malformed) for name in kept)
    assert max(len(w.groups[G]["members"][name].name) for name in kept) < 300
    for name in (found, come):
        w.hand.do(Delete(w.lay.registration(G, name)))
    w.settle()
    assert set(w.groups[G]["members"]) == {"a"}


def test_names_that_are_no_groups_are_ignored(fixture: RealFixture) -> None:
    w = World(fixture)
    w.make(
        *w.member("a"),
        Create(f"{w.lay.groups_root}/ids", b""),
        Create(f"{w.lay.groups_root}/bad\u202ename", b""),
        Create(f"{w.lay.groups_root}/ids/x", b""),
    )
    w.begin()
    w.make(
        Create(f"{w.lay.groups_root}/bad\u202ename/ids", b""),
        Create(f"{w.lay.groups_root}/worse\u202ename", b""),
    )
    w.settle()
    assert set(w.groups) == {G}


@LAYOUTS
def test_a_mirror_after_a_reconnect_tells_what_went_meanwhile(
    fixture: RealFixture, layout: Layout
) -> None:
    """A new mirror of the same term: a group, a member and a topic that are gone by now are told as
    gone, and its watches work.
    """
    w = World(fixture, layout)
    w.make(
        Create(layout.topic("t"), topic_data(1)),
        Create(layout.topic("u"), topic_data(1)),
        *w.member("a"),
        *w.member("b"),
        *w.member("x", "other"),
    )
    w.begin()
    w.mirror.lost()
    w.hand.do(
        Delete(layout.topic("u")),
        Delete(layout.registration(G, "b")),
        Delete(layout.channel(G, "b")),
        Delete(layout.registration("other", "x")),
        Delete(layout.channel("other", "x")),
        Delete(layout.channels("other")),
        Delete(layout.ids("other")),
        Delete(layout.group("other")),
    )
    before, w.events = w.mirror, []
    w.mirror = Mirror(w.port, layout, EPOCH, lambda: 0, w._emit, w._related, before)
    w.begin()
    assert (
        w.known() == w.truth()
        and set(w.known()["members"]) == {"a"}
        and set(w.topics) == {"t"}
        and "other" not in w.groups
    )
    w.hand.do(*w.member("c"))
    w.settle()
    assert set(w.known()["members"]) == {"a", "c"}


def test_nothing_is_watched_recursively_above_offsets(fixture: RealFixture) -> None:
    """In either layout: an offset below /consumers never raises an event."""
    for layout in (Layout.DRAFT, Layout.ISOLATED):
        watched: list[tuple[str, WatchMode]] = []
        w = World(fixture, layout)
        w.port.watch = lambda path, mode, done: (
            watched.append((path, mode)) or w.port.port.watch(path, mode, done)
        )  # type: ignore[func-returns-value]
        w.make(*([] if not w.hand.missing(layout.registration(G, "a")) else w.member("a")))
        w.begin()
        offsets = layout.offset(G, TopicPartition("t", 0))
        assert watched and not any(
            mode is WatchMode.RECURSIVE and offsets.startswith(f"{path}/") for path, mode in watched
        )
        assert not any(
            mode is WatchMode.RECURSIVE and path.startswith("/brokers") for path, mode in watched
        )


def test_what_may_not_be_read_is_malformed_and_not_absent(fixture: RealFixture) -> None:
    """ACLs that hide nodes from the coordinator: each is named. A hidden owner node that passed for
    none would make its partition look free.
    """
    w = World(fixture)
    hidden = (AclEntry(8, "world", "anyone"),)
    w.make(*w.member("a"), Create(w.lay.owner_topic(G, "t"), b""))
    w.hand.do(
        Create(w.lay.registration(G, "hidden"), registration(), acl=hidden),
        Create(w.lay.owner(G, TopicPartition("t", 0)), b"a-0", ephemeral=True, acl=hidden),
        Create(w.lay.command(G, "a", "x"), b"", acl=hidden),
    )
    w.begin()
    found = w.groups[G]
    assert (
        isinstance(found["members"]["a"], Member) and "NoAuth" in found["members"]["hidden"].reason
    )
    assert (
        isinstance(found["owners"][TopicPartition("t", 0)], Malformed)
        and found["commands"][("a", "x")].name == "a/x"
    )


def test_children_are_read_in_one_answer_with_what_they_name(fixture: RealFixture) -> None:
    """A new member costs two reads: its registration with its channel; nothing else of the group is
    read again.
    """
    w = World(fixture)
    w.make(
        Create(w.lay.topic("t"), topic_data(4)),
        *w.member("a"),
        *(op for tp in tps(4) for op in w.owner(tp, "a")),
    )
    w.begin()
    assert w.cost(lambda: w.hand.do(*w.member("b"))) == 1
    assert set(w.port.reads[-1]) == {
        GetData(w.lay.registration(G, "b")),
        GetChildren(w.lay.channel(G, "b")),
    }


def test_a_group_that_changes_all_the_time_delays_no_other(fixture: RealFixture) -> None:
    """Before every read something changes in one group, so there is always something of it to read:
    the whole read of another group, and what is marked in a third, come after one request.
    """
    w = World(fixture)
    w.make(
        *w.member("a"), *w.member("b"), *w.member("b", group="other"), *w.member("c", group="third")
    )
    w.begin()
    busy = [w.lay.registration(G, name) for name in ("a", "b")]
    first = len(w.port.reads)

    def change(path: str) -> None:
        seen = len(w.seen)
        w.hand.do(SetData(path, registration(), -1))
        w.fixture.drain(
            lambda: any(isinstance(e, Fired) and e.path == path for e in w.seen[seen:]), "its event"
        )

    # the one that is not being read
    w.port.before = {
        n: lambda n=n: change(busy[(n - first) % 2]) for n in range(first + 1, first + 40)
    }
    w.hand.do(SetData(busy[0], registration(), -1))
    w.hand.do(SetData(w.lay.registration("third", "c"), registration({"u": 1}), -1))
    w.mirror.read_group("other")
    heard = len(w.events)

    def told(group: str) -> bool:
        return any(isinstance(e, GroupChanged) and e.group == group for e in w.events[heard:])

    w.mirror.flush()
    w.fixture.drain(lambda: told("other") and told("third"), "both")
    assert len(w.port.reads) < first + 12, "within a few requests"
    w.port.before = {}


def test_a_directory_is_sized_before_it_is_listed(fixture: RealFixture) -> None:
    """What has no children is not listed, and what has too many is not, either."""
    w = World(fixture)
    w.make(
        *w.member("a"),
        *w.owner(TopicPartition("t", 1), "a"),
        *(op for n in range(5) for op in w.member(f"m{n}", group="large")),
    )
    w.mirror.limits = SizeLimits(registrations_max=4)
    w.begin()
    listed = [
        read.path for reads in w.port.reads for read in reads if isinstance(read, GetChildren)
    ]
    assert w.known() == w.truth() and [
        e.group for e in w.events if isinstance(e, GroupLeftAlone)
    ] == ["large"]
    lay = w.lay
    assert sorted(listed) == sorted(
        (
            lay.groups_root,
            lay.topics_root,
            lay.ids(G),
            lay.channels(G),
            lay.owners(G),
            lay.owner_topic(G, "t"),
        )
    )


@since_3_6("there every event is heard")
@LAYOUTS
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_nothing_is_told_of_a_group_that_is_left_alone(
    fixture: RealFixture, layout: Layout, late: bool
) -> None:
    """Too large at its first read, or grown too large: what changes in it is dropped where it
    arrives. Read again as a small group, it is followed again.
    """
    w = World(fixture, layout)
    w.mirror.limits = w.mirror.sizes.limits = SizeLimits(registrations_max=2)
    w.make(
        *w.member("a"),
        *(w.member("b") if late else [op for n in range(3) for op in w.member(f"b{n}")]),
        *w.member("a", "other"),
    )
    w.begin()
    if late:
        w.make(*w.member("c"))
        w.settle()
    alone = [e.group for e in w.events if isinstance(e, GroupLeftAlone)]
    seen, reads = len(w.seen), len(w.port.reads)
    w.make(
        *(op for n in range(5) for op in w.member(f"more{n}")), Delete(layout.registration(G, "a"))
    )
    w.settle()
    assert alone == [G] and len(w.port.reads) == reads and w.seen[seen:] == []
    w.make(*w.member("b", "other"))
    assert w.settle().known("other") == w.truth("other")
    w.mirror.limits = w.mirror.sizes.limits = SizeLimits()
    w.mirror.read_group(G)
    assert w.settle().known() == w.truth()
    w.make(*w.member("last"))
    assert w.settle().known() == w.truth() and "last" in w.known()["members"]


@pytest.mark.parametrize("before", range(1, 12))
def test_a_group_that_grows_while_it_is_read_is_found_too_large(
    fixture: RealFixture, before: int
) -> None:
    """Whichever request of the whole read the others come before: what was counted meanwhile is not
    forgotten for what was read.
    """
    w = World(fixture)
    w.mirror.limits = w.mirror.sizes.limits = SizeLimits(registrations_max=3)
    w.make(*w.member("a"))
    w.begin()
    more = [op for n in range(3) for op in w.member(f"more{n}")]
    w.port.before[len(w.port.reads) + before] = lambda: w.make(*more)
    w.mirror.read_group(G)
    w.settle()
    if w.port.before:  # the read had fewer requests
        w.port.before.popitem()[1]()
        w.settle()
    assert [e.group for e in w.events if isinstance(e, GroupLeftAlone)] == [G]


@since_3_6("there every event is heard")
def test_of_very_many_that_are_left_alone_some_are_heard_and_none_is_read(
    fixture: RealFixture,
) -> None:
    """The port is told once for all of them, and of so many only as can be compared with each
    event.
    """
    w = World(fixture)
    count = IGNORED_GROUPS_MAX + 2
    told: list[Sequence[str]] = []
    ignore = w.port.ignore
    w.port.ignore = lambda paths: (told.append(paths), ignore(paths)) and None  # type: ignore[method-assign,assignment]
    w.mirror.limits = w.mirror.sizes.limits = SizeLimits(registrations_max=1)
    w.make(*(op for n in range(count) for name in ("a", "b") for op in w.member(name, f"g{n:03}")))
    w.begin()
    assert (
        sum(isinstance(e, GroupLeftAlone) for e in w.events) == count
        and len(told) == 1
        and len(told[0]) == IGNORED_GROUPS_MAX
    )
    seen, reads = len(w.seen), len(w.port.reads)
    w.make(*(op for n in range(count) for op in w.member("c", f"g{n:03}")))
    w.settle()
    assert {e.path.split("/")[-3] for e in w.seen[seen:] if isinstance(e, Fired)} == {
        f"g{n:03}" for n in range(IGNORED_GROUPS_MAX, count)
    } and len(w.port.reads) == reads


def test_every_whole_read_begins_with_a_sync(fixture: RealFixture) -> None:
    """The world at the start, and a group after an outcome that is not known: a server that lags
    would answer with what was before.
    """
    w = World(fixture)
    w.make(*w.member("a"))
    calls: list[str] = []
    sync, read = w.port.sync, w.port.read
    w.port.sync = lambda done: (calls.append("sync"), sync(done)) and None  # type: ignore[method-assign,assignment]
    w.port.read = lambda reads, done: (calls.append("read"), read(reads, done)) and None  # type: ignore[method-assign,assignment]
    w.begin()
    assert calls[:4] == [
        "sync",
        "read",
        "sync",
        "read",
    ], "the lists of topics and groups, then the groups"
    calls.clear()
    w.mirror.read_group(G)
    w.mirror.flush()
    w.fixture.drain(lambda: not w.mirror.busy, "the end of the read")
    assert calls[:2] == ["sync", "read"]
