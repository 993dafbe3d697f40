"""The coordinator's terms: how one begins, what it is told of groups and wildcards, when it wants
to be woken, and what it forgets.
"""

from __future__ import annotations

import pytest

from zkcoord.core import events as ev
from zkcoord.core.coordinator import WAKES_STALE_MAX, Coordinator
from zkcoord.core.events import GroupDelta
from zkcoord.core.group.machine import Group
from zkcoord.core.model import Malformed, Member, Pattern, PatternKind, Subscription, TopicPartition
from zkcoord.core.options import CoordinatorOptions

from .timed import WINDOW_MS, Timed, when

SOON = "debounce_again_ms=10 debounce_storm_ms=10 start_gather_ms=0"
CROWDED = Malformed("group", "g", "there are 100001 nodes")
WILD = Pattern(PatternKind.WHITE_LIST, "t.*")


def led(*lines: str, options: str = SOON) -> Timed:
    """A coordinator that leads."""
    return Timed(f"options {options}", "elected 3", "topic t 4", "ready", *lines)


def test_before_its_first_term_it_leads_nothing() -> None:
    core = Coordinator(CoordinatorOptions())
    status = core.status()
    assert (status["leading"], status["epoch"], status["groups"]) == (False, 0, 0)
    assert core.step(ev.Tick(1)) == [] and core.next_wake_ms() is None


@pytest.mark.parametrize(("older_ms", "said"), [(12_000, False), (12_001, True)])
def test_a_lease_that_was_longer_before_is_said(older_ms: int, said: bool) -> None:
    """And one that was as long is not."""
    core = Coordinator(CoordinatorOptions(lease_max_ms=12_000, older_lease_ms=older_ms))
    (record,) = core.step(ev.Elected(0, 3))
    assert isinstance(record, ev.Record) and ("older_lease_ms" in record.detail) is said


def test_what_changes_with_a_command_and_with_a_registration() -> None:
    g = led("member g a@1 t:1", "own g a t-0")
    g.pass_ms(WINDOW_MS - 1, deaf="a")
    g.say("tick 1", "ok")
    (node,) = g.core.groups["g"].view.commands["a"]
    assert set(g.core.related("g", "a", node)) == {TopicPartition("t", n) for n in (1, 2, 3)}
    assert set(g.core.related("g", "a", "")) == {TopicPartition("t", 0)}


def test_after_a_reconnect_in_the_same_term_nothing_begins_anew() -> None:
    """The first member of a group still waits for others."""
    g = led(options="initial_delay_ms=3000")
    g.say("member g a@1 t:1", "tick 1000", "paused", "tick 500")
    assert g.core.next_wake_ms() in (None, 3_000)
    g.say("ready")
    found = g.pass_ms(5_000)
    assert when(found, "start-fetcher a") == [3_000]
    assert g.reports("g")[-1].cause.reason == "member joined"


def test_a_group_that_is_gone_while_it_waits_is_not_decided() -> None:
    g = led("member g a@1 t:1", "paused", "member h b@2 t:1")
    g.core.step(ev.GroupGone(g.now, "h"))
    g.say("ready")
    assert when(g.pass_ms(100), "write g") and "h" not in g.core.groups


def test_a_group_that_is_gone_while_it_is_read_is_read_again_if_it_was_heard_of() -> None:
    g = led()
    heard = ev.GroupUnread(g.now, "g")
    assert [type(a) for a in g.core.step(heard)] == [ev.ReadGroup]
    assert g.core.step(heard) == [], "it is being read"
    assert [type(a) for a in g.core.step(ev.GroupGone(g.now, "g"))] == [ev.ReadGroup]
    assert g.core.step(ev.GroupGone(g.now, "g")) == []


# topics and wildcards


def wild(name: str, number: int) -> Member:
    """Of all topics that begin with t."""
    return Member(name, number, number, Subscription({}, WILD))


def told(g: Timed, group: str, name: str, number: int, *matched: str) -> None:
    """A member with a wildcard is read, together with what that matches."""
    g.members.setdefault(group, {})[name] = wild(name, number)
    delta = GroupDelta(members={name: wild(name, number)}, channels={name: True})
    g._take(
        actions := g.core.step(
            ev.GroupChanged(g.now, group, delta, {WILD: frozenset(matched)} if matched else {})
        )
    )
    g._remember(actions)


def test_what_a_wildcard_matches_may_come_with_a_group() -> None:
    """And concerns all groups that have it."""
    g = led("topic t2 2")
    told(g, "g", "a", 1, "t")
    assert when(g.pass_ms(1_000), "start-fetcher a #1 g1 a-0=t[0-3];")
    told(g, "h", "b", 2, "t", "t2")
    found = g.pass_ms(1_000)
    assert {text.split(";")[0].split(" #")[0] for _, text in found if "start-fetcher" in text} == {
        "write h: start-fetcher b",
        "write g: start-fetcher a",
    }
    assert when(found, "b-0=t[0-3],t2[0-1]") and when(found, "a-0=t2[0-1]")


def test_whom_a_topic_concerns_follows_a_reading_of_the_whole_group() -> None:
    g = led("member g a@1 t:1", "member g b@2 u:1")
    assert g.core.groups_of_topic("u") == {"g"}
    g.members["g"].pop("b")
    g.say("read g")
    assert g.core.groups_of_topic("u") == set() and g.core.groups_of_topic("t") == {"g"}
    g.members["g"].clear()
    g.say("read g")
    assert g.core.consumer_groups_per_topic == {} and len(g.core.index) == 0


def test_a_wildcard_that_nobody_has_any_more_is_forgotten_once() -> None:
    g = led("member g a@1 t:1")
    told(g, "g", "b", 2, "t")
    g.say("gone g b", "member g c@3 u:1", "gone g a")
    assert g.core.groups_with_wildcard_topics == {} and g.core.consumer_groups_per_topic == {
        "u": {"g"}
    }
    assert g.core.index._of["g"].topics == {"u": 1} and not g.core.index._of["g"].patterns


def test_topics_of_those_that_are_expected_back_concern_the_group() -> None:
    """As long as they are, and no longer."""
    g = led("topic u 2", "member g a@1 t:1,u:1 instance=one grace=5000")
    g.pass_ms(100)
    g.say("gone g a")
    g.pass_ms(100)
    assert g.core.groups_of_topic("u") == {"g"}
    g.say("member g b@2 t:1")
    g.pass_ms(100)
    assert g.core.groups_of_topic("u") == g.core.groups_of_topic("t") == {"g"}
    g.say("topic u 4")
    g.pass_ms(1_000)
    assert TopicPartition("u", 3) in g.core.groups["g"].view.target
    g.pass_ms(5_000)
    g.say("topic u 6", "member g c@3 t:1")
    assert g.core.groups_of_topic("u") == set() and g.core.groups_of_topic("t") == {"g"}
    g.say("gone g b", "gone g c")
    assert g.core.consumer_groups_per_topic == {} and len(g.core.index) == 0


# when it is woken


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that were decided, in order."""
    found: list[str] = []
    original = Group.decide

    def decide(self: Group, now_ms: int) -> tuple[ev.WriteOp, ...]:
        found.append(self.name)
        return original(self, now_ms)

    monkeypatch.setattr(Group, "decide", decide)
    return found


def test_a_step_decides_what_it_may_exactly_and_is_woken_for_the_rest(decided: list[str]) -> None:
    """Though nothing else is due for long; not while it is paused."""
    g = Timed(f"options {SOON} weight_per_step_max=12", "elected 3", "topic t 4")
    for number in range(5):
        g.say(f"member g{number} a@{number + 1} t:1", f"own g{number} a t-0,t-1,t-2,t-3")
        g.say(f"foreign g{number} u-0 session=77")
    assert {group.weight for group in g.core.groups.values()} == {7}
    g.core.step(ev.GroupLeftAlone(g.now, "crowded", CROWDED))
    decided.clear()
    g.say("ready")
    assert len(decided) == 2 and g.core.next_wake_ms() == g.now
    g.say("paused")
    assert g.core.next_wake_ms() != g.now
    g.say("ready")
    assert len(decided) == 4 and g.core.next_wake_ms() == g.now


@pytest.mark.parametrize(("most", "count"), [(14, 2), (15, 3)])
def test_a_step_ends_with_the_group_that_makes_it_full(
    decided: list[str], most: int, count: int
) -> None:
    g = Timed(f"options {SOON} weight_per_step_max={most}", "elected 3", "topic t 5")
    for number in range(5):
        g.say(f"member g{number} a@{number + 1} t:1", f"own g{number} a t-0,t-1,t-2,t-3,t-4")
    assert {group.weight for group in g.core.groups.values()} == {7}
    decided.clear()
    g.say("ready")
    assert len(decided) == count


def test_while_a_write_is_under_way_nothing_is_waited_for() -> None:
    """Its end is told: of one group's, and of as many as are written at once."""
    g = led(options=f"{SOON} groups_in_flight_max=1")
    g.say("member g a@1 t:1 timeout=1000")
    g.pass_ms(100, deaf="a")
    g.say("tick 910")
    assert [write.group for write in g.writes] == ["g"] and g.core.next_wake_ms() is None
    g.say("member i c@3 t:1", "tick 500")
    assert g.core.next_wake_ms() is None
    assert when(g.pass_ms(1_000), "start-fetcher c")


def test_a_group_that_is_heavy_waits_from_when_it_changed(decided: list[str]) -> None:
    """However late in a term: others that are due with it come first."""
    g = led(options="debounce_ms=100")
    g.say("tick 100000", "member a-heavy a@1 t:1", "member light b@2 t:1")
    g.core.step(ev.Spent(g.now, {"a-heavy": 40_000}))
    decided.clear()
    g.say("tick 100")
    assert decided == ["light", "a-heavy"]


def test_old_wake_times_do_not_pile_up_behind_an_early_one() -> None:
    """And none is lost when they are thrown away."""
    core = Coordinator(CoordinatorOptions(left_alone_retry_ms=5_000_000))
    core.step(ev.Elected(0, 1))
    core.step(ev.Ready(0))
    core.step(ev.GroupLeftAlone(0, "g", CROWDED))
    core.step(ev.GroupLeftAlone(0, "h", CROWDED))
    most = 0
    for at_ms in range(1, 3 * WAKES_STALE_MAX):
        core.step(ev.GroupLeftAlone(at_ms, "g", CROWDED))
        assert core.next_wake_ms() == 5_000_000
        most = max(most, len(core.wakes))
    assert most == WAKES_STALE_MAX + 2 * len(core.wake_of)
    assert [a.group for a in core.step(ev.Tick(5_000_000)) if isinstance(a, ev.ReadGroup)] == ["h"]


def test_no_wake_time_is_lost_when_old_ones_are_thrown_away() -> None:
    """Of three groups: one waits for long, one for a little, one again and again anew."""
    g = led("member slow a@1 t:1 instance=one grace=900000", options="left_alone_retry_ms=5000")
    g.pass_ms(100)
    g.say("gone slow a")
    g.pass_ms(2_000)
    began_ms = g.now
    g.core.step(ev.GroupLeftAlone(began_ms, "soon", CROWDED))
    for n in range(2 * WAKES_STALE_MAX):
        g.core.step(ev.GroupLeftAlone(began_ms + 1 + n, "often", CROWDED))
        assert g.core.next_wake_ms() == began_ms + 5_000


def test_topics_of_one_that_does_not_come_back_concern_nobody() -> None:
    g = led("topic u 2", "member g a@1 t:1,u:1 instance=one grace=5000")
    g.pass_ms(100)
    g.say("gone g a")
    g.pass_ms(10_000)
    g.say("member g b@2 t:1")
    assert g.core.groups_of_topic("u") == set() and g.core.groups_of_topic("t") == {"g"}


def test_what_is_malformed_in_groups_is_in_its_status() -> None:
    g = led("member g a@1 t:1", "malformed g registration junk no JSON", "malformed g owner t-9 x")
    assert g.core.status()["malformed"] == 2
    g.core.step(ev.GroupLeftAlone(g.now, "h", CROWDED))
    g.core.step(ev.TopicsChanged(g.now, {"x": Malformed("topic", "x", "no JSON")}))
    assert g.core.status()["malformed"] == 4
