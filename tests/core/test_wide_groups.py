"""Wide groups: filed in portions, assigned elsewhere, and the same comes of it."""

from __future__ import annotations

import random

import pytest

from tests.core.script import World
from zkcoord.core import events as ev
from zkcoord.core.assignment import ASSIGNORS
from zkcoord.core.filing.filed import Filed
from zkcoord.core.group.view import GroupView
from zkcoord.core.model import (
    Command,
    Malformed,
    Member,
    Option,
    Owner,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)

EPOCH = 7
PARTITIONS = 6
TOPICS = ("t", "u")
MEMBERS = ("a", "b", "c")
EVERYTHING = [TopicPartition(topic, n) for topic in TOPICS for n in range(PARTITIONS)]


class Pair:
    """Two views that are told the same: one files at once, one in portions of `at_once`."""

    def __init__(self, rng: random.Random, at_once: int) -> None:
        self.rng = rng
        self.topics: dict[str, Topic] = {}
        self.views = [
            GroupView(EPOCH, self.topics, 10**6),
            GroupView(EPOCH, self.topics, at_once),
        ]
        self.zxid = 10
        for topic in TOPICS:
            self.make(topic)

    def make(self, topic: str) -> None:
        """A topic, or another one of its name."""
        self.zxid += 1
        self.topics[topic] = Topic(topic, str(self.zxid), tuple(range(PARTITIONS)), self.zxid)
        for view in self.views:
            view.refile_topics({topic})

    def step(self) -> None:
        """Something happens."""
        rng = self.rng
        self.zxid += 1
        what = rng.randrange(6)
        if what == 0:
            self.make(rng.choice(TOPICS))
        elif what == 1:
            target = {tp: Thread(rng.choice(MEMBERS), 0) for tp in EVERYTHING if rng.random() < 0.8}
            for view in self.views:
                view.retarget(target)
        elif what == 2:
            everybody = rng.random() < 0.5
            for view in self.views:
                view.recall(everybody)
        else:
            delta = self.delta(what)
            for view in self.views:
                view.apply(delta)

    def delta(self, what: int) -> ev.GroupDelta:
        """What was read."""
        rng = self.rng
        some = rng.sample(EVERYTHING, 4)
        name = rng.choice(MEMBERS)
        number = MEMBERS.index(name) + 1
        member = Member(name, number, number, Subscription(dict.fromkeys(TOPICS, 1)))
        if what == 3:
            found = rng.choice((member, None, Malformed("registration", name, "bad")))
            return ev.GroupDelta(members={name: found}, channels={name: True})
        if what == 4:
            owner = rng.choice(
                (
                    Owner(number, Thread(name, 0), 1, self.zxid),
                    Owner(99, Thread(name, 0), 1, self.zxid),
                    Malformed("owner", "t-0", "bad"),
                    None,
                )
            )
            return ev.GroupDelta(owners=dict.fromkeys(some, owner))
        incarnations = {topic: known.incarnation for topic, known in self.topics.items()}
        start = Command(
            name,
            number,
            Option.START,
            EPOCH,
            self.zxid,
            1,
            dict.fromkeys(some, Thread(name, 0)),
            incarnations=incarnations,
            node=f"{EPOCH}-{number}",
        )
        known = self.views[0].commands.get(name, {}).get(start.node)
        return ev.GroupDelta(commands={(name, start.node): None if known else start})

    def filed(self) -> list[dict[str, object]]:
        """Where everything is in both, when all is filed."""
        while self.views[1].unfinished:
            self.views[1].file()
        return [
            {name: getattr(view.filed, name) for name in vars(Filed())}
            | {"outdated": view.outdated}
            for view in self.views
        ]


@pytest.mark.parametrize("seed", range(40))
def test_portions_file_everything_where_it_belongs(seed: int) -> None:
    """Whatever happens between the portions, also a topic that is made again."""
    rng = random.Random(seed)
    pair = Pair(rng, rng.choice((1, 2, 5)))
    for _ in range(60):
        pair.step()
        if rng.random() < 0.3 and pair.views[1].unfinished:
            pair.views[1].file()
        if rng.random() < 0.2:
            direct, portioned = pair.filed()
            assert portioned == direct
    direct, portioned = pair.filed()
    assert portioned == direct


def run(world: World, *lines: str) -> list[str]:
    return [answer for line in lines for answer in world.run(line)]


def test_nothing_is_decided_before_everything_is_filed() -> None:
    """A portion for each tick, each at once due, and then the commands."""
    world = World()
    run(world, "options filed_at_once_max=10 weight_per_step_max=1 debounce_ms=10")
    run(world, "elected 1", "topic t 40", "ready", "member g a@1 t:1")
    assert run(world, "tick 10") == []
    ticks = 0
    while (wake := world.core.next_wake_ms()) == world.now:
        ticks += 1
        answers = run(world, "tick 0")
        if answers:
            break
    assert 3 <= ticks <= 5 and wake is not None
    assert any("start-fetcher a" in answer and "t[0-39]" in answer for answer in answers)


def test_a_wide_target_is_computed_elsewhere() -> None:
    """Meanwhile other groups are decided; when the answer is there, it counts as any other."""
    world = World()
    run(world, "options assigned_here_max=3 debounce_ms=10", "elected 1", "topic t 4", "ready")
    run(world, "topic small 2", "member wide a@1 t:1", "member other b@2 small:1")
    asked = [action for action in world.core.step(ev.Tick(world.now + 10))]
    (question,) = [action for action in asked if isinstance(action, ev.Assign)]
    assert (question.group, question.assignor) == ("wide", "sticky")
    assert [action.group for action in asked if isinstance(action, ev.Write)] == ["other"]
    answer = ASSIGNORS[question.assignor](question.given)
    actions = world.core.step(ev.AssignorAnswered(world.now + 20, "wide", question.token, answer))
    (write,) = [action for action in actions if isinstance(action, ev.Write)]
    (send, *_) = write.ops
    assert isinstance(send, ev.Send) and len(send.command.start) == 4


def test_an_answer_to_an_older_question_is_no_answer() -> None:
    world = World()
    run(world, "options assigned_here_max=0 debounce_ms=10", "elected 1", "topic t 4", "ready")
    run(world, "member wide a@1 t:1")
    (question,) = world.core.step(ev.Tick(world.now + 10))
    assert isinstance(question, ev.Assign)
    answer = ASSIGNORS["sticky"](question.given)
    late = ev.AssignorAnswered(world.now + 20, "wide", question.token + 1, answer)
    assert world.core.step(late) == []


def test_a_member_that_comes_or_goes_refiles_only_what_concerns_it() -> None:
    """The rest of a wide group is not looked at."""
    topics = {"t": Topic("t", "1", tuple(range(1_000)), 1)}
    view = GroupView(EPOCH, topics, 10**6)
    wanted = Subscription({"t": 1})
    view.apply(ev.GroupDelta(members={n: Member(n, i, i, wanted) for i, n in enumerate("abcd", 1)}))
    view.retarget({TopicPartition("t", n): Thread("abcd"[n % 4], 0) for n in range(1_000)})
    view.apply(
        ev.GroupDelta(
            owners={
                TopicPartition("t", n): Owner(n % 4 + 1, Thread("abcd"[n % 4], 0), 1, 5)
                for n in range(1_000)
            }
        )
    )
    looked: list[TopicPartition] = []
    original = view._file
    view._file = lambda todo: (looked.extend(todo), original(todo))[1]  # type: ignore[func-returns-value,method-assign]
    view.apply(ev.GroupDelta(members={"a": None}))
    assert {tp.partition % 4 for tp in looked} == {0} and len(looked) == 250
    assert set(view.orphans) == set(looked)
    assert view.held_by("b") == tuple(TopicPartition("t", n) for n in range(1, 1_000, 4))
