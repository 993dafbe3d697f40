"""What is known of a group is what was read of it last, however it was read: change by change, as a
whole, or again after something was missed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from zkcoord.core.events import GroupDelta
from zkcoord.core.filing.filed import PartitionPlace
from zkcoord.core.group.view import GroupView
from zkcoord.core.model import (
    Command,
    Malformed,
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

EPOCH = 7
MADE = 50
TOPICS = {name: Topic(name, str(MADE), tuple(range(4)), MADE) for name in ("t", "u")}
PARTITIONS = [TopicPartition(topic, n) for topic in TOPICS for n in range(4)]
MEMBERS = ("a", "b", "c")
KNOWN = (
    "members channels commands owners owned_by requests malformed live stale by_session legacy"
    " outdated target place to_revoke assignable orphans not_ours coming start_pending"
)


def view(at_once: int = 10**6) -> GroupView:
    """Of a group of which nothing was read."""
    return GroupView(EPOCH, TOPICS, at_once)


def known(of: GroupView) -> dict[str, object]:
    """All that decisions are made from; what is of a topic before counts when there is a target."""
    return {name: getattr(of, name) for name in KNOWN.split() if of.aimed or name != "outdated"}


class Group:
    """A group in ZooKeeper that changes at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.members: dict[str, Member | Malformed] = {}
        self.channels: set[str] = set()
        self.commands: dict[tuple[str, str], Command | Malformed] = {}
        self.owners: dict[TopicPartition, Owner | Malformed] = {}
        self.requests: dict[str, Request | Malformed] = {}

    def member(self, name: str) -> Member | Malformed:
        """A registration of this name, of one of two incarnations."""
        rng = self.rng
        if rng.random() < 0.2:
            return Malformed("registration", name, rng.choice(["not JSON", "empty"]))
        number = 10 * (1 + MEMBERS.index(name)) + rng.randrange(2)
        return Member(name, number, number, Subscription({"t": 1}), legacy=rng.random() < 0.2)

    def command(self, member: str, node: str) -> Command | Malformed:
        """What stands in a channel: of this coordinator or one before, for this member or one of
        the same name before.
        """
        rng = self.rng
        if rng.random() < 0.2:
            return Malformed("command", f"{member}/{node}", "not JSON")
        number = MEMBERS.index(member)
        mine = PARTITIONS[2 * number + (node == "n2") :: 6]
        option = rng.choice([Option.START, Option.STOP, Option.NOTIFY])
        return Command(
            member,
            10 * (1 + number) + rng.randrange(2),
            option,
            EPOCH - rng.randrange(2),
            1,
            1,
            {tp: Thread(member, 0) for tp in mine} if option is Option.START else {},
            tuple(mine) if option is Option.STOP else (),
            node=node,
        )

    def owner(self, tp: TopicPartition) -> Owner | Malformed:
        """A live member's, or nobody's, of this topic or one before; or unreadable."""
        rng = self.rng
        if rng.random() < 0.15:
            return Malformed("owner", str(tp), "no thread")
        name = rng.choice(MEMBERS)
        session = 10 * (1 + MEMBERS.index(name)) + rng.randrange(2)
        made = rng.choice([0, MADE - 1, MADE, MADE + 1])
        return Owner(session, Thread(name, rng.randrange(2)), rng.randrange(2), made)

    def change(self) -> GroupDelta:
        """Something changes; what was read of that."""
        rng = self.rng
        there = rng.random() < 0.65
        before = (dict(self.members), set(self.channels), dict(self.commands))
        owned, asked = dict(self.owners), dict(self.requests)
        for _ in range(rng.randrange(1, 4)):
            name, node = rng.choice(MEMBERS), rng.choice(["n1", "n2"])
            match rng.randrange(5):
                case 0:
                    self.members.pop(name, None)
                    if there:
                        self.members[name] = self.member(name)
                case 1:
                    (self.channels.add if there else self.channels.discard)(name)
                case 2:
                    self.commands.pop((name, node), None)
                    if there:
                        self.commands[(name, node)] = self.command(name, node)
                case 3:
                    for tp in rng.sample(PARTITIONS, 3):
                        self.owners.pop(tp, None)
                        if there:
                            self.owners[tp] = self.owner(tp)
                case 4:
                    self.requests.pop(node, None)
                    if there:
                        self.requests[node] = rng.choice(
                            [
                                Request(RequestKind.REBALANCE),
                                Malformed("request", node, "not JSON"),
                            ]
                        )
        members, channels, commands = before
        return GroupDelta(
            members={
                n: self.members.get(n)
                for n in {*members, *self.members}
                if moved(members, self.members, n)
            },
            channels={n: n in self.channels for n in channels ^ self.channels},
            commands={
                k: self.commands.get(k)
                for k in {*commands, *self.commands}
                if moved(commands, self.commands, k)
            },
            owners={
                tp: self.owners.get(tp)
                for tp in {*owned, *self.owners}
                if moved(owned, self.owners, tp)
            },
            requests={
                n: self.requests.get(n)
                for n in {*asked, *self.requests}
                if moved(asked, self.requests, n)
            },
        )

    def whole(self) -> GroupDelta:
        """All that is there."""
        return GroupDelta(
            True,
            dict(self.members),
            dict.fromkeys(self.channels, True),
            dict(self.commands),
            dict(self.owners),
            dict(self.requests),
        )


def moved(before: Mapping[Any, Any], after: Mapping[Any, Any], key: object) -> bool:
    """Whether this is another one than before."""
    return before.get(key) != after.get(key)


def alive(members: dict[str, Member | Malformed]) -> dict[str, Member]:
    """Those that can be read."""
    return {name: m for name, m in members.items() if isinstance(m, Member)}


def unreadable(group: Group) -> dict[tuple[str, str], Malformed]:
    """What is there and cannot be used."""
    everything = [*group.members.values(), *group.commands.values()]
    everything += [*group.owners.values(), *group.requests.values()]
    return {(bad.what, bad.name): bad for bad in everything if isinstance(bad, Malformed)}


@pytest.mark.parametrize("seed", range(25))
def test_a_group_is_what_was_read_last_however_it_was_read(seed: int) -> None:
    group, one = Group(seed), view()
    rng = group.rng
    aimed = recalled = False
    target: dict[TopicPartition, Thread] = {}
    for step in range(40):
        registered, bad = alive(group.members), unreadable(group)
        delta = group.change()
        names = one.apply(group.whole() if rng.random() < 0.3 else delta)
        now = alive(group.members)
        news = [n for n in {*registered, *now} if registered.get(n) != now.get(n)]
        assert names == tuple(sorted(news)), "who came, went or changed"
        found = [(m.what, m.name) for m in one.take_malformed()]
        assert found == sorted(unreadable(group).keys() - bad.keys()), "each is named once"
        if step > 15 and rng.random() < 0.2:
            aimed = True
            target = {
                tp: owner.thread
                if isinstance(owner := group.owners.get(tp), Owner) and rng.random() < 0.7
                else Thread(rng.choice(MEMBERS), rng.randrange(2))
                for tp in PARTITIONS
                if rng.random() < 0.8
            }
            one.retarget(target)
        if aimed and rng.random() < 0.1:
            recalled = not recalled
            one.recall(recalled)
        fresh = view()
        fresh.apply(group.whole())
        if aimed:
            fresh.retarget(target)
            fresh.recall(recalled)
        assert known(one) == known(fresh), step
        judge(group, one, recalled)


def judge(group: Group, one: GroupView, recalled: bool) -> None:
    """What the words say of commands and owner nodes."""
    members = alive(group.members)
    sessions = {m.session: name for name, m in members.items()}
    commands = {key: c for key, c in group.commands.items() if isinstance(c, Command)}
    owners = {tp: o for tp, o in group.owners.items() if isinstance(o, Owner)}
    assert one.stale == {
        (name, node)
        for (name, node), c in commands.items()
        if c.epoch < EPOCH or name not in members or members[name].incarnation != c.incarnation
    }, "of the gone, of other incarnations, of older epochs"
    assert {(name, node) for name, nodes in one.live.items() for node in nodes} == (
        commands.keys() - one.stale
    )
    assert one.orphans == {
        tp: owner.session
        for tp, owner in owners.items()
        if owner.session not in sessions
        and owner.version == 1
        and not isinstance(group.members.get(owner.thread.member), Malformed)
    }, "ours, and nobody is registered"
    assert not {PartitionPlace.SETTLED, PartitionPlace.UNWANTED} & {
        place for place, _, _ in one.place.values()
    }, "most are, and they are not kept"
    assert one.coordinated_members() == {
        name: m for name, m in members.items() if not m.legacy and name in group.channels
    }
    for name in MEMBERS:
        assert set(one.held_by(name)) == {
            tp for tp, owner in owners.items() if sessions.get(owner.session) == name
        }
    if one.aimed:
        assert {tp for partitions in one.to_revoke.values() for tp in partitions} == {
            tp
            for tp, owner in owners.items()
            if owner.session in sessions
            and (
                recalled
                or one.target.get(tp) != (sessions[owner.session], owner.thread.number)
                or 0 < owner.created < MADE
            )
        }, "everybody is recalled, another is to have it, or it is of the topic before"


def test_what_a_name_owned_is_judged_again_when_its_registration_can_be_read_beside_others() -> (
    None
):
    """Its owner node is of a session that nobody has: whose it is was not known until then."""
    one, tp = view(), PARTITIONS[0]
    unread, a, b = Malformed("registration", "a", "not JSON"), member("a", 10), member("b", 20)
    one.apply(GroupDelta(members={"a": unread, "b": b}, owners={tp: Owner(99, Thread("a", 0), 1)}))
    assert one.orphans == {}
    one.apply(GroupDelta(members={"a": a, "b": member("b", 21)}))
    assert one.orphans == {tp: 99}


def member(name: str, session: int) -> Member:
    """One that subscribes to `t`."""
    return Member(name, session, session, Subscription({"t": 1}))


ALONE = {
    "members": {"a": Member("a", 1, 1, Subscription({"t": 1}))},
    "channels": {"a": True},
    "commands": {("a", "n1"): Command("a", 1, Option.STOP, EPOCH, 1, 1)},
    "owners": {PARTITIONS[0]: Owner(1, Thread("a", 0), 1)},
    "requests": {"n1": Request(RequestKind.REBALANCE)},
    "malformed": {"a": Malformed("registration", "a", "not JSON")},
}


@pytest.mark.parametrize("what", ALONE)
def test_what_a_whole_reading_does_not_have_is_gone(what: str) -> None:
    """Whatever the only thing was that was known."""
    one = view()
    one.apply(GroupDelta(**{"members" if what == "malformed" else what: ALONE[what]}))  # type: ignore[arg-type]
    assert getattr(one, what)
    one.apply(GroupDelta(full=True))
    assert known(one) == known(view())


def test_two_registrations_of_one_session_are_one_each() -> None:
    """A consumer registers again in its session, and the end of its first registration is seen
    later: what the session owns is its second one's.
    """
    one = view()
    first, second = (Member(name, n, 9, Subscription({"t": 1})) for n, name in enumerate("ab"))
    one.apply(GroupDelta(members={"a": first}, owners={PARTITIONS[0]: Owner(9, Thread("b", 0), 1)}))
    one.apply(GroupDelta(members={"b": second}))
    one.apply(GroupDelta(members={"a": Member("a", 0, 8, Subscription({"t": 2}))}))
    assert one.by_session == {9: "b", 8: "a"} and one.current_owners()
    one.apply(GroupDelta(members={"a": None}))
    assert one.by_session == {9: "b"} and not one.orphans


def test_a_topic_may_lack_partitions_in_the_middle() -> None:
    one = GroupView(EPOCH, {"t": Topic("t", "1", (0, 2, 3), 1)}, 100)
    assert [n for n in range(5) if one.exists(TopicPartition("t", n))] == [0, 2, 3]


def start(*partitions: TopicPartition, incarnation: str) -> Command:
    """Of a."""
    threads = {tp: Thread("a", 0) for tp in partitions}
    made = {tp.topic: incarnation for tp in partitions}
    return Command("a", 1, Option.START, EPOCH, 1, 1, threads, incarnations=made, node="n1")


class Made:
    """A member, a, which is to have two partitions of a topic that was made again."""

    def __init__(self, at_once: int = 100) -> None:
        self.view = view(at_once)
        self.here = PARTITIONS[:2]
        self.view.apply(GroupDelta(members=ALONE["members"], channels={"a": True}))

    def aim(self) -> None:
        """A target."""
        self.view.retarget(dict.fromkeys(self.here, Thread("a", 0)))

    def acked(self, *partitions: TopicPartition) -> None:
        """The start is carried out, of these."""
        owner = Owner(1, Thread("a", 0), 1, MADE + 5)
        self.view.apply(
            GroupDelta(commands={("a", "n1"): None}, owners=dict.fromkeys(partitions, owner))
        )

    def sent(self, incarnation: str) -> None:
        """A start of both is there."""
        self.view.apply(
            GroupDelta(commands={("a", "n1"): start(*self.here, incarnation=incarnation)})
        )


@pytest.mark.parametrize("aimed", [False, True])
def test_what_a_start_of_the_topic_before_has_taken_is_given_up(aimed: bool) -> None:
    """Also where a new coordinator saw the start and its end before it had a target."""
    made = Made()
    if aimed:
        made.aim()
    made.sent("1")
    assert not made.view.assignable
    made.acked(made.here[0])
    made.aim()
    assert made.view.to_revoke == {"a": {made.here[0]}}
    assert made.view.not_ours == {made.here[1]}, "while one is held of the one before"
    # it is given up: both may be started
    made.view.apply(GroupDelta(owners={made.here[0]: None}))
    assert made.view.assignable == {"a": set(made.here)} and not made.view.not_ours
    # and whoever takes it now, by a start or as old consumers do, has this one
    made.view.apply(GroupDelta(owners={made.here[0]: Owner(1, Thread("a", 0), 0, MADE + 9)}))
    assert not made.view.to_revoke and made.view.assignable == {"a": {made.here[1]}}


def test_what_a_start_of_the_topic_before_has_taken_is_found_in_portions_too() -> None:
    """Its end was read before its beginning was filed."""
    made = Made(at_once=1)
    made.sent("1")
    made.acked(*made.here)
    made.aim()
    while made.view.unfinished:
        made.view.file()
    assert made.view.to_revoke == {"a": set(made.here)}


def test_a_start_of_the_topic_before_that_was_withdrawn_does_not_count() -> None:
    made = Made()
    made.aim()
    made.sent("1")
    made.view.apply(GroupDelta(commands={("a", "n1"): None}))
    made.sent(str(MADE))
    made.acked(*made.here)
    assert not made.view.place and not made.view.outdated, "all is where it belongs"


def test_nobody_is_started_while_a_start_of_the_topic_before_is_out() -> None:
    made = Made()
    made.aim()
    taken = start(made.here[0], incarnation="1")
    made.view.apply(GroupDelta(commands={("a", "n1"): taken}))
    assert made.view.start_pending == {made.here[0]: "a"}
    assert made.view.not_ours == {made.here[1]} and not made.view.assignable


@pytest.mark.parametrize("order", [1, -1])
def test_one_that_goes_beside_one_that_comes_turns_no_topic(order: int) -> None:
    """In whichever order they are read: what is filed again, and when, must not hang on a set's."""
    one = view(at_once=3)
    one.apply(GroupDelta(members=ALONE["members"], channels={"a": True}))
    one.retarget(dict.fromkeys(PARTITIONS[:4], Thread("a", 0)))
    one.refile_topics({"t"})
    goes, comes = PARTITIONS[:2]
    before = Owner(1, Thread("a", 0), 0, MADE - 1)
    one.apply(GroupDelta(owners={goes: before}))
    while one.unfinished:
        one.file()
    assert one.outdated == {"t": {goes}}
    read: list[tuple[TopicPartition, Owner | None]] = [(goes, None), (comes, before)]
    one.apply(GroupDelta(owners=dict(read[::order])))
    assert one.outdated == {"t": {comes}}
    assert not one.unfinished, "the topic is owned as the one before, as it was: nothing turned"


def test_a_start_of_a_topic_that_is_gone_is_nobodys_fault() -> None:
    one = GroupView(EPOCH, {}, 100)
    one.apply(GroupDelta(members=ALONE["members"], channels={"a": True}))
    one.retarget({PARTITIONS[0]: Thread("a", 0)})
    one.apply(GroupDelta(commands={("a", "n1"): start(PARTITIONS[0], incarnation="1")}))
    assert one.start_pending == {PARTITIONS[0]: "a"} and not one.outdated
