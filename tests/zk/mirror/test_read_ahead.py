"""What a coordinator that stands by has read is not read again when it leads, and nothing that
changed meanwhile is missed: on a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.zk.mirror.test_mirror import EPOCH, World, topic_data
from tests.zk.real import RealFixture
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.events import GroupLeftAlone
from zkcoord.core.model import TopicPartition
from zkcoord.zk.acl.table import ALL, bits
from zkcoord.zk.mirror.mirror import Mirror
from zkcoord.zk.mirror.pending_reads import SizeLimits
from zkcoord.zk.mirror.read_ahead import LOOK_AGAIN_MS, READ_AGAIN_MS, SLICE_PAUSE_MS, ReadAhead
from zkcoord.zk.port import AclEntry, Create, Delete, Fired, PortEvent, ReadResult
from zkcoord.znodes.classic.documents import encode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout

CLIENT = ClassicMember("m", None, "c", "h", 30_000, 30_000, (("own", b""),))
LED = encode_state(ClassicState(ClassicPhase.STABLE, 7, "connect", "own", "m", (CLIENT,)))
HIDDEN = (AclEntry(bits(ALL), "digest", "somebody:else"),)


@pytest.fixture
def fixture(zk_hosts: str) -> Iterator[RealFixture]:
    with RealFixture(zk_hosts, session_timeout_ms=30_000) as real:
        yield real


class Standby(World):
    """One that reads ahead, and leads with `leads`. `now_ms` is its clock; `leads_at` happens just
    before the n-th read of its term.
    """

    def __init__(self, fixture: RealFixture, layout: Layout, slices_of: int = 500) -> None:
        super().__init__(fixture, layout)
        self.now_ms = 0
        self.led = False
        self.leads_at: dict[int, Callable[[], None]] = {}
        self.may_be_led = False
        self.ahead = ReadAhead(self.port, layout, lambda: self.now_ms, SizeLimits(), slices_of)

    def _event(self, event: PortEvent) -> None:
        if isinstance(event, Fired) and not self.led:
            self.ahead.fired(event)
        else:
            super()._event(event)

    def hears(self) -> None:
        """Until all that happened so far is heard: see `settle`."""
        done: list[ReadResult] = []
        self.port.sync(done.append)
        self.fixture.drain(lambda: bool(done), "a sync")

    def reads_on(self, passes_ms: int = 0) -> list[str]:
        """Time passes, and what is due then is read; which groups are read after all."""
        self.now_ms += passes_ms
        while self.ahead.next_wake_ms() is not None and self.ahead.next_wake_ms() <= self.now_ms:  # type: ignore[operator]
            self.ahead.tick()
            self.fixture.drain(lambda: self.ahead._reading is None, "a slice")
            self.now_ms += SLICE_PAUSE_MS
        return sorted(self.ahead._drafts)

    def stands_by(self) -> list[str]:
        """The beginning."""
        self.ahead.begin()
        self.hears()
        return self.reads_on()

    def leads(self) -> list[str]:
        """It leads at once; the nodes below groups that it reads until it is ready."""
        self.ahead.stop()
        self.led = True
        self.port.reads.clear()
        self.port.before = dict(self.leads_at)
        self.mirror = Mirror(
            self.port, self.lay, EPOCH, lambda: 0, self._emit, self._related, ahead=self.ahead
        )
        self.mirror.may_be_led = lambda group: self.may_be_led
        self.begin()
        return [read.path for reads in self.port.reads for read in reads]

    def group(self, name: str) -> None:
        """One with a member that owns a partition."""
        self.make(
            *self.member("m", name),
            *self.owner(TopicPartition("t", 0), "m", name),
        )

    def deletes(self, name: str) -> None:
        """All of it."""
        lay = self.lay
        below = (lay.owner(name, TopicPartition("t", 0)), lay.registration(name, "m"))
        parts = (path for path in lay.parts(name) if not self.hand.missing(path))
        above = sorted({*parts, lay.channel(name, "m"), lay.owner_topic(name, "t")})
        self.hand.do(*map(Delete, (*below, *reversed(above))))
        self.made.difference_update((*below, *above))

    def is_true(self, *groups: str) -> bool:
        """Whether it knows of these groups what is there, and of no other."""
        known = {
            name: {part: set(nodes) for part, nodes in found.items()}
            for name, found in self.groups.items()
        }
        return known == {name: self.truth(name) for name in groups}


@pytest.fixture(params=[Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def side(fixture: RealFixture, request: pytest.FixtureRequest) -> Standby:
    """One that stands by beside two groups."""
    found = Standby(fixture, request.param)
    found.make(Create(found.lay.topic("t"), topic_data(2)))
    found.group("a")
    found.group("b")
    return found


def test_what_was_read_ahead_is_not_read_again(side: Standby) -> None:
    assert side.stands_by() == ["a", "b"]
    read = side.leads()
    assert side.is_true("a", "b")
    own = {
        *(side.lay.other_profile().ids(group) for group in "ab"),
        *(ClassicPaths(side.lay).state(group) for group in "ab"),
        side.lay.groups_root,
        side.lay.topics_root,
        side.lay.topic("t"),
    }
    assert set(read) == own


def gains_a_member(side: Standby) -> None:
    side.make(*side.member("n", "a"))


def loses_a_member(side: Standby) -> None:
    side.hand.do(Delete(side.lay.registration("a", "m")))


def is_commanded(side: Standby) -> None:
    side.make(side.command("m", [TopicPartition("t", 1)], group="a"))


def has_another_owner(side: Standby) -> None:
    side.hand.do(Delete(side.lay.owner("a", TopicPartition("t", 0))))
    side.make(*side.owner(TopicPartition("t", 1), "n", "a"))


def is_made_anew(side: Standby) -> None:
    """Deleted with all that is below it, and there again."""
    side.deletes("a")
    side.group("a")
    side.make(*side.member("n", "a"))


CHANGES = [gains_a_member, loses_a_member, is_commanded, has_another_owner, is_made_anew]


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("heard", [True, False], ids=["heard", "not heard yet"])
def test_what_changed_since_is_read(
    side: Standby, changes: Callable[[Standby], None], heard: bool
) -> None:
    """Heard of before it leads, or with the answer to its first sync only. And so is what changes
    afterwards: its watches are set.
    """
    side.stands_by()
    changes(side)
    if heard:
        side.hears()
    read = side.leads()
    assert side.is_true("a", "b")
    assert side.lay.ids("a") in read and side.lay.ids("b") not in read
    side.make(*side.member("later", "a"), *side.member("later", "b"))
    side.settle()
    assert side.is_true("a", "b") and "later" in side.groups["a"]["members"]


def test_groups_that_came_and_went_are_known(side: Standby) -> None:
    side.stands_by()
    side.group("c")
    side.hears()
    assert side.reads_on(READ_AGAIN_MS) == ["a", "b", "c"]
    side.deletes("c")
    side.group("d")
    side.leads()
    assert side.is_true("a", "b", "d")


def test_a_group_that_hides_something_is_read_in_any_case(side: Standby) -> None:
    """Nothing is heard when it is shown."""
    side.make(Create(side.lay.mode("a"), b"{}", acl=HIDDEN))
    assert side.stands_by() == ["b"]
    assert side.lay.ids("a") in side.leads()


def test_members_in_the_other_layout_are_seen(side: Standby) -> None:
    """Of those nothing is heard."""
    side.stands_by()
    other = side.lay.other_profile()
    data = b"{}"
    side.make(Create(other.registration("a", "m"), data, ephemeral=True))
    side.leads()
    (left,) = [event for event in side.events if isinstance(event, GroupLeftAlone)]
    assert left.group == "a" and "registrations in the layout" in left.why.reason


def test_clients_that_lead_by_now_are_seen(side: Standby) -> None:
    side.stands_by()
    side.make(Create(ClassicPaths(side.lay).state("a"), LED))
    side.may_be_led = True
    side.leads()
    (left,) = [event for event in side.events if isinstance(event, GroupLeftAlone)]
    assert left.group == "a" and "one of its 1 clients leads it" in left.why.reason


def test_a_group_is_read_again_when_nothing_was_heard_of_it_for_a_while(side: Standby) -> None:
    side.stands_by()
    gains_a_member(side)
    side.hears()
    assert side.reads_on(READ_AGAIN_MS - SLICE_PAUSE_MS) == ["b"]
    is_commanded(side)
    side.hears()
    assert side.reads_on(SLICE_PAUSE_MS) == ["b"]
    assert side.reads_on(READ_AGAIN_MS) == ["a", "b"]
    read = side.leads()
    assert side.is_true("a", "b") and side.lay.ids("a") not in read


def test_what_changes_while_it_is_read_does_not_count(side: Standby) -> None:
    """Some of it may have been read before, some after."""
    side.ahead.begin()
    side.hears()
    side.port.before = {len(side.port.reads) + n: lambda: None for n in range(1, 9)}
    side.port.before[len(side.port.reads) + 4] = lambda: gains_a_member(side)
    assert side.reads_on() == ["b"]
    assert side.reads_on(READ_AGAIN_MS) == ["a", "b"]


def test_one_slice_after_the_other(fixture: RealFixture) -> None:
    """With pauses: a coordinator that starts is no load for those that serve."""
    side = Standby(fixture, Layout.DRAFT, slices_of=2)
    side.make(Create(side.lay.topic("t"), topic_data(2)))
    for number in range(5):
        side.group(f"g{number}")
    side.ahead.begin()
    side.hears()
    for read in (2, 4, 5):
        side.ahead.tick()
        side.ahead.tick()
        side.fixture.drain(lambda: side.ahead._reading is None, "a slice")
        assert len(side.ahead._drafts) == read
        due_ms = side.now_ms + SLICE_PAUSE_MS if read < 5 else LOOK_AGAIN_MS
        assert side.ahead.next_wake_ms() == due_ms
        side.now_ms += SLICE_PAUSE_MS


@pytest.mark.parametrize("lost", [True, False])
def test_one_that_is_over_reads_no_more(side: Standby, lost: bool) -> None:
    """Once the connection is lost what was read does not count, either."""
    side.stands_by()
    gains_a_member(side)
    side.hears()
    side.now_ms += READ_AGAIN_MS
    side.ahead.tick()
    (side.ahead.lost if lost else side.ahead.stop)()
    side.hears()
    count = len(side.port.reads)
    assert side.ahead.next_wake_ms() is None
    side.ahead.tick()
    side.hears()
    assert len(side.port.reads) == count
    assert sorted(side.ahead.take(["a", "b"])) == ([] if lost else ["b"])


@pytest.mark.parametrize("at", [3, 4])
def test_one_that_is_made_anew_while_it_is_taken_over_is_followed(side: Standby, at: int) -> None:
    """Its watches are the mirror's from the moment when it relies on them."""
    side.stands_by()
    side.leads_at = {at: lambda: is_made_anew(side)}
    side.leads()
    side.settle()
    side.make(*side.member("later", "a"))
    side.settle()
    assert side.is_true("a", "b") and "later" in side.groups["a"]["members"]


def test_watches_of_groups_go_with_them(fixture: RealFixture) -> None:
    """Names of groups come and go for as long as it stands by."""
    side = Standby(fixture, Layout.ISOLATED)
    gone: list[str] = []
    side.port.unwatch = lambda path, done: gone.append(path)  # type: ignore[method-assign]
    side.make(Create(side.lay.topic("t"), topic_data(2)))
    side.group("a")
    side.stands_by()
    side.deletes("a")
    side.hears()
    assert sorted(gone) == [side.lay.ids("a"), side.lay.owners("a")]
    assert side.reads_on(READ_AGAIN_MS) == []


@pytest.mark.parametrize("what", ["registration", "owner", "topic", "mode"])
def test_what_is_made_so_that_nobody_may_read_it_is_seen_in_a_while(
    side: Standby, what: str
) -> None:
    """A server tells nobody of what they may not read."""
    assert side.stands_by() == ["a", "b"]
    lay = side.lay
    path = {
        "registration": lay.registration("a", "hidden"),
        "owner": lay.owner("a", TopicPartition("t", 1)),
        "topic": lay.owner_topic("a", "u"),
        "mode": lay.mode("a"),
    }[what]
    side.make(Create(path, b"{}", acl=HIDDEN))
    side.hears()
    assert side.reads_on(LOOK_AGAIN_MS) == ["b"]
    assert any("/a/" in path for path in side.leads()), "read when it leads"
