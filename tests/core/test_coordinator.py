"""The coordinator's core by itself: groups that are left alone, topics that cannot be read, how
many groups are written at once, answers to what nobody asks any more, what its status says.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkcoord.core.coordinator import WAKES_STALE_MAX, Coordinator
from zkcoord.core.events import (
    Action,
    Elected,
    Event,
    GroupChanged,
    GroupDelta,
    GroupGone,
    GroupLeftAlone,
    GroupUnread,
    Outcome,
    ReadGroup,
    Ready,
    Record,
    Resign,
    Send,
    Tick,
    TopicsChanged,
    Write,
    Written,
)
from zkcoord.core.filing.fair_queue import FairQueue
from zkcoord.core.model import (
    Malformed,
    Member,
    Owner,
    Registrants,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions

CROWDED = Malformed("group", "g", "there are 100001 nodes")
TOPIC = Topic("t", "1", (0, 1), 1)


def member(name: str) -> Member:
    """One that subscribes to t."""
    return Member(name, 10, 100, Subscription({"t": 1}))


def joined(now_ms: int, group: str, *names: str) -> GroupChanged:
    """The whole group, with these members."""
    members = {name: member(name) for name in names}
    channels = dict.fromkeys(names, True)
    return GroupChanged(now_ms, group, GroupDelta(full=True, members=members, channels=channels))


class Core:
    """A coordinator that leads, of one topic; the clock stands still but for `tick`."""

    def __init__(self, *groups: str, **options: int) -> None:
        self.core = Coordinator(CoordinatorOptions(debounce_ms=10, **options))
        self.now = 0
        self.step(Elected(0, 3))
        self.step(TopicsChanged(0, {"t": TOPIC}))
        for group in groups:
            self.step(joined(0, group, f"{group}-a"))
        self.last = self.step(Ready(0))

    def step(self, event: Event) -> list[Action]:
        """What follows from one event."""
        return self.core.step(event)

    def tick(self, ms: int) -> list[Action]:
        """Time goes on."""
        self.now += ms
        return self.step(Tick(self.now))

    def written(self, write: Write, outcome: Outcome = Outcome.OK) -> list[Action]:
        """How a write ended."""
        nodes = tuple(
            f"{op.command.epoch}-{op.command.seq}-0000000000"
            for op in write.ops
            if isinstance(op, Send)
        )
        return self.step(Written(self.now, write.group, write.token, outcome, nodes))


def writes(actions: list[Action]) -> list[Write]:
    """Those among them."""
    return [one for one in actions if isinstance(one, Write)]


def said(actions: list[Action], kind: str) -> list[Record]:
    """The journal's lines of this kind."""
    return [one for one in actions if isinstance(one, Record) and one.kind == kind]


def reads(actions: list[Action]) -> list[ReadGroup]:
    """Those among them."""
    return [one for one in actions if isinstance(one, ReadGroup)]


def test_a_group_that_is_left_alone_is_named_once_and_looked_at_again() -> None:
    core = Core("g", left_alone_retry_ms=5_000)
    core.written(*writes(core.last))
    assert core.core.status()["groups"] == 1
    first = core.step(GroupLeftAlone(0, "g", CROWDED))
    assert [one.group for one in said(first, "malformed")] == ["g"] and not reads(first)
    status = core.core.status()
    assert (status["groups"], status["malformed"]) == (0, 1), "nothing of it is known any more"
    assert core.core.next_wake_ms() == 5_000
    assert core.tick(4_999) == []
    (again,) = core.tick(1)
    assert isinstance(again, ReadGroup) and again.why == "it was left alone"
    # still crowded: nothing is said again, and it is looked at again
    assert core.step(GroupLeftAlone(core.now, "g", CROWDED)) == []
    assert core.core.next_wake_ms() == 10_000
    assert len(reads(core.tick(5_000))) == 1
    # it can be read again
    core.step(joined(core.now, "g", "g-a"))
    assert core.core.status()["malformed"] == 0
    assert core.core.status()["groups"] == 1
    assert said(core.step(GroupLeftAlone(core.now, "g", CROWDED)), "malformed")
    core.step(GroupGone(core.now, "g"))
    assert core.core.status()["malformed"] == 0 and core.core.next_wake_ms() is None


def test_a_group_that_is_left_alone_while_it_is_written_is_read_when_that_ended() -> None:
    core = Core("g", left_alone_retry_ms=5_000)
    (write,) = writes(core.last)
    core.step(GroupLeftAlone(core.now, "g", CROWDED))
    assert core.tick(5_000) == [], "its write is under way"
    assert [one.group for one in reads(core.written(write))] == ["g"]


def test_a_topic_that_cannot_be_read_is_named_once_and_the_one_before_counts() -> None:
    core = Core("g")
    bad, worse = Malformed("topic", "t", "not JSON"), Malformed("topic", "t", "empty")
    assert len(said(core.step(TopicsChanged(0, {"t": bad})), "malformed")) == 1
    assert said(core.step(TopicsChanged(0, {"t": bad})), "malformed") == []
    assert len(said(core.step(TopicsChanged(0, {"t": worse})), "malformed")) == 1
    status = core.core.status()
    assert (status["topics"], status["malformed"]) == (1, 1)
    core.step(TopicsChanged(0, {"t": TOPIC}))
    assert core.core.status()["malformed"] == 0
    assert len(said(core.step(TopicsChanged(0, {"t": bad})), "malformed")) == 1, "it is news again"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_so_many_groups_are_written_at_once(most: int) -> None:
    core = Core(*"abcde", groups_in_flight_max=most)
    under_way = writes(core.last)
    assert len(under_way) == most == core.core.status()["writing"]
    assert core.tick(1_000) == []
    done = {write.group for write in under_way}
    while under_way:
        under_way += writes(core.written(under_way.pop(0)))
        assert len(under_way) <= most
        done |= {write.group for write in under_way}
    assert done == set("abcde")


def test_the_answer_to_another_write_says_nothing() -> None:
    core = Core("g")
    (write,) = writes(core.last)
    assert core.step(Written(core.now, "g", write.token + 1, Outcome.FENCED)) == []
    assert core.step(Written(core.now, "h", write.token, Outcome.FENCED)) == []
    assert core.core.leading and core.core.status()["writing"] == 1
    (resign,) = core.written(write, Outcome.FENCED)
    assert isinstance(resign, Resign) and not core.core.leading
    assert core.tick(10_000) == [], "who does not lead does nothing"


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.UNKNOWN])
def test_a_write_that_did_not_happen_or_may_have_is_followed_by_a_read(outcome: Outcome) -> None:
    core = Core("g")
    (write,) = writes(core.last)
    assert [one.why for one in reads(core.written(write, outcome))] == [outcome.value]
    assert core.tick(1_000) == [], "nothing is decided before it was read"
    assert writes(core.step(joined(core.now, "g", "g-a")) + core.tick(1_000))


def test_a_group_is_read_once_whatever_is_heard_of_it_meanwhile() -> None:
    core = Core("g")
    (write,) = writes(core.last)
    core.written(write)
    assert len(reads(core.step(GroupUnread(core.now, "g")))) == 1
    assert core.step(GroupUnread(core.now, "g")) == [] == core.tick(100)
    assert len(reads(core.step(joined(core.now, "g", "g-a")))) == 1, "it changed again meanwhile"


def test_a_queue_that_is_empty_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not until the step's weight is spent on nothing."""
    core, asked = Core("g"), []
    take = FairQueue.take

    def counted(queue: FairQueue, now_ms: int, idle: bool) -> str | None:
        asked.append(now_ms)
        return take(queue, now_ms, idle)

    monkeypatch.setattr(FairQueue, "take", counted)
    core.tick(1)
    assert asked == [1]


def test_old_wake_times_do_not_pile_up() -> None:
    core = Core("g", left_alone_retry_ms=5_000)
    for at_ms in range(3 * WAKES_STALE_MAX):
        core.step(GroupLeftAlone(at_ms, "g", CROWDED))
        assert len(core.core.wakes) <= WAKES_STALE_MAX + 3
        assert core.core.next_wake_ms() == at_ms + 5_000


def test_what_changes_together_with_a_registration_or_a_command() -> None:
    core = Core("g")
    assert list(core.core.related("other", "g-a", "")) == []
    assert list(core.core.related("g", "g-a", "")) == []
    assert list(core.core.related("g", "g-a", "3-1-0000000000")) == []


def test_whether_anybody_is_in_a_group() -> None:
    core = Core("g")
    assert core.core.registered("g") is Registrants.MEMBERS
    assert core.core.registered("other") is Registrants.NOBODY
    core.step(joined(0, "g"))
    assert core.core.registered("g") is Registrants.NOBODY
    core.step(joined(0, "h", "h-a", "h-b"))
    assert core.core.registered("h") is Registrants.MEMBERS
    leaves = replace(member("h-a"), subscription=Subscription({}))
    core.step(GroupChanged(0, "h", GroupDelta(members={"h-a": leaves})))
    assert core.core.registered("h") is Registrants.MEMBERS, "one stays"
    core.step(GroupChanged(0, "h", GroupDelta(members={"h-b": None})))
    assert core.core.registered("h") is Registrants.LEAVING
    client = replace(member("h-c"), gateway="gw:9192")
    core.step(GroupChanged(0, "h", GroupDelta(members={"h-c": client})))
    assert core.core.registered("h") is Registrants.CLIENTS
    core.step(GroupChanged(0, "h", GroupDelta(members={"h-d": member("h-d")})))
    assert core.core.registered("h") is Registrants.MEMBERS
    spoilt = Malformed("owner", "t/0", "it is nothing")
    core.step(GroupChanged(0, "i", GroupDelta(owners={TopicPartition("t", 0): spoilt})))
    assert core.core.registered("i") is Registrants.NOBODY
    core.step(GroupGone(0, "h"))
    assert core.core.registered("h") is Registrants.NOBODY


@pytest.mark.parametrize(("session", "found"), [(7, "LEAVING"), (0, "NOBODY")])
def test_who_is_registered_no_more_and_still_owns_something(session: int, found: str) -> None:
    core = Core("g")
    owner = Owner(session, Thread("g-a", 0), 1)
    delta = GroupDelta(members={"g-a": None, "g-b": None}, owners={TopicPartition("t", 0): owner})
    core.step(GroupChanged(0, "g", delta))
    assert core.core.registered("g") is Registrants[found]


def test_its_status() -> None:
    core = Core("g", "h")
    status = core.core.status()
    assert (status["leading"], status["epoch"], status["groups"]) == (True, 3, 2)
    assert (status["topics"], status["writing"], status["malformed"]) == (1, 2, 0)
    assert sum(status["states"].values()) == 2  # type: ignore[attr-defined]
    core.step(GroupGone(0, "h"))
    assert core.core.status()["groups"] == 1
    # another term begins with nothing
    core.step(Elected(0, 4))
    assert (core.core.status()["groups"], core.core.status()["epoch"]) == (0, 4)
