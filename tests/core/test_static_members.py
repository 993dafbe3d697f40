"""Static members: what is promised to whom, for how long, and when somebody who is back is not who
left.
"""

from __future__ import annotations

import pytest

from zkcoord.core.events import GroupDelta
from zkcoord.core.model import (
    Departed,
    GroupMetadata,
    GroupState,
    Member,
    Subscription,
    Thread,
    TopicPartition,
)

from .timed import Timed, when

SOON = "debounce_again_ms=10 debounce_storm_ms=10 start_gather_ms=0"
T = [TopicPartition("t", n) for n in range(8)]


def group(*lines: str, options: str = "", partitions: int = 4) -> Timed:
    """A group that has everything settled."""
    found = Timed(
        f"options {SOON} {options}", "elected 3", f"topic t {partitions}", "ready", *lines
    )
    found.pass_ms(1_500)
    return found


def taken_over(*departed: Departed, partitions: int = 4, members: tuple[str, ...] = ()) -> Timed:
    """A new coordinator finds these promises, and these members."""
    found = Timed(f"options {SOON}", "elected 4", f"topic t {partitions}", *members)
    found.say("tick 5")
    report = GroupMetadata(
        7, GroupState.STABLE, "sticky", topics=("t",), members=len(members), departed=departed
    )
    found.given("g", GroupDelta(metadata=report))
    found.say("ready")
    return found


def test_without_a_grace_nobody_is_expected_back() -> None:
    g = group("member g a@1 t:1 instance=one", "member g b@2 t:1")
    g.say("gone g a")
    found = g.pass_ms(1_000)
    assert when(found, "start-fetcher b") and not when(found, "record static")


def test_who_says_that_nothing_is_to_wait_for_it_is_not_expected_back() -> None:
    """Also where it goes before a target was made with what it said."""
    g = group("member g a@1 t:1 instance=one grace=60000", "member g b@2 t:1")
    g.say("member g a@1 t:1 instance=one grace=0", "gone g a")
    found = g.pass_ms(1_000)
    assert when(found, "start-fetcher b") and not when(found, "record static")


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("instance=one grace=0", "member left"),
        ("instance=one grace=60000", "subscription changed"),
        ("", "subscription changed"),
    ],
)
def test_who_says_goodbye_is_the_cause_as_one_that_left(words: str, cause: str) -> None:
    """As clients of a gateway do: first they want nothing, then they are gone."""
    g = group("member g a@1 t:1 instance=one grace=60000", "member g b@2 t:1")
    g.say(f"member g a@1 - {words}")
    (found,) = [text for _, text in g.pass_ms(1_000) if text.startswith("record rebalance")]
    assert f"cause={cause}" in found and "moved=2" in found


def test_the_grace_is_that_of_the_last_registration_and_not_more_than_is_allowed() -> None:
    g = group("member g a@1 t:1 instance=one grace=60000", options="grace_max_ms=5000")
    for number, grace_ms, kept_ms in ((2, 1_000, 1_000), (3, 90_000, 5_000)):
        g.say(f"gone g {g.core.groups['g'].view.by_session[number - 1]}")
        g.say(f"member g a{number}@{number} t:1 instance=one grace={grace_ms}")
        g.pass_ms(1_000)
        assert when([(0, text) for text in g.say("state")], f"a{number}=t[0-3]")
        if number == 3:
            g.say("gone g a3")
            gone_ms = g.now
            assert when(g.pass_ms(10_000), "event=expired") == [gone_ms + kept_ms]
        else:
            left = group("member g a@1 t:1 instance=one grace=60000")
            left.say("gone g a", "member g b@2 t:1 instance=one grace=1000")
            left.pass_ms(1_000)
            left.say("gone g b")
            gone_ms = left.now
            assert when(left.pass_ms(10_000), "event=expired") == [gone_ms + kept_ms]


def test_each_grace_ends_in_its_time() -> None:
    g = group(
        "member g a@1 t:1 instance=one grace=9000", "member g b@2 t:1 instance=two grace=3000"
    )
    g.say("gone g a", "gone g b")
    gone_ms = g.now
    found = g.pass_ms(20_000)
    assert when(found, "event=expired instance=two") == [gone_ms + 3_000]
    assert when(found, "event=expired instance=one") == [gone_ms + 9_000]


def test_who_is_away_counts_with_all_its_streams() -> None:
    """Also for a coordinator that never saw it."""
    g = group("member g a@1 t:2 instance=one grace=60000", partitions=6)
    (departed,) = g.reports("g")[-1].departed
    assert set(departed.partitions) == set(T[:6])
    assert set(departed.numbers.values()) == {1} and len(departed.numbers) == 3
    other = taken_over(departed, partitions=6)
    other.say("member g b@2 t:1")
    assert when(other.pass_ms(1_000), "start-fetcher b")
    target = other.core.groups["g"].view.target
    assert sum(thread.member == "b" for thread in target.values()) == 2
    kept = {tp: thread.number for tp, thread in target.items() if thread.member != "b"}
    assert kept == {tp: departed.numbers.get(tp, 0) for tp in kept}


def test_who_comes_back_to_a_new_coordinator_has_its_part_again() -> None:
    """Nobody there knows what its last registration said: it is assigned as a new one is."""
    g = taken_over(
        Departed("one", (T[2], T[3]), 5, 60_000, {}, {"t": 1}), members=("member g b@2 t:1",)
    )
    g.pass_ms(1_000)
    g.say("member g a@3 t:1 instance=one grace=60000")
    g.pass_ms(1_000)
    assert g.say("state")[0].endswith("a=t[2-3] b=t[0-1]")


def test_those_that_are_there_keep_what_was_promised_though_they_own_nothing() -> None:
    """Two that were restarted together with the coordinator; nobody of them is away."""
    promises = (
        Departed("one", (T[2], T[3]), 0, 60_000, {}, {"t": 1}),
        Departed("two", (T[0], T[1]), 0, 60_000, {}, {"t": 1}),
    )
    g = taken_over(
        *promises,
        members=(
            "member g a@1 t:1 instance=one grace=60000",
            "member g b@2 t:1 instance=two grace=60000",
        ),
    )
    assert all(p.left_ms is None for p in g.core.groups["g"].static_members.promises.values())
    g.pass_ms(1_000)
    assert g.say("state")[0].endswith("a=t[2-3] b=t[0-1]")
    assert not any(d.since_ms for d in g.reports("g")[-1].departed)


def test_a_new_coordinator_does_not_count_votes_that_the_one_before_had_not_counted() -> None:
    """While one was away the group kept what it used; nothing was assigned when it came back."""
    promises = (
        Departed("one", (T[2], T[3]), 0, 60_000, {}, {"t": 1}),
        Departed("two", (T[0], T[1]), 0, 60_000, {}, {"t": 1}),
    )
    lines = [
        f"member g {name}@{n} t:1 instance={instance} grace=60000 assignors=range,sticky"
        for n, (name, instance) in enumerate((("a", "one"), ("b", "two")), 1)
    ]
    g = taken_over(*promises, members=(*lines, "own g a t-2,t-3", "own g b t-0,t-1"))
    found = g.pass_ms(1_000)
    assert not when(found, "stop-fetcher") and g.reports("g")[-1].assignor == "sticky"
    g.say("member g c@3 t:1 assignors=range")
    g.pass_ms(1_000)
    assert g.reports("g")[-1].assignor == "range", "the next change is another matter"


def test_who_is_there_does_not_run_out_in_a_quarantine_that_is_inherited() -> None:
    """There is no target that would say again what it has."""
    g = Timed(f"options {SOON}", "elected 4", "topic t 4")
    g.say("member g a@1 t:1 instance=one grace=3000")
    g.say("report g 4 Quarantined 2 t one=3000:t-0,t-1 two=3000:t-2,t-3", "ready")
    found = g.pass_ms(10_000)
    assert [text for _, text in found if "record static" in text] == [
        "record static g: event=expired instance=two"
    ]


def test_one_of_two_is_away_when_a_coordinator_begins() -> None:
    promises = (
        Departed("one", (T[0], T[1]), 0, 3_000, {}, {"t": 1}),
        Departed("two", (T[2], T[3]), 0, 3_000, {}, {"t": 1}),
    )
    g = taken_over(*promises, members=("member g a@1 t:1 instance=one grace=3000",))
    found = g.pass_ms(10_000)
    assert [text for _, text in found if "record static" in text] == [
        "record static g: event=expired instance=two"
    ]
    assert when(found, "event=expired") == [3_005]


def test_topics_that_a_wildcard_matches_meanwhile_are_for_whoever_is_back() -> None:
    from zkcoord.core.model import Pattern, PatternKind

    wild = Subscription({}, Pattern(PatternKind.WHITE_LIST, "t.*"))

    def member(name: str, number: int) -> GroupDelta:
        found = Member(
            name, number, number, wild, ("sticky",), ("cooperative",), "one", grace_ms=60_000
        )
        g.members.setdefault("g", {})[name] = found
        return GroupDelta(members={name: found}, channels={name: True})

    g = Timed(f"options {SOON}", "elected 3", "topic t 2", "match t.* t", "ready")
    g.given("g", member("a", 1))
    g.pass_ms(1_000)
    g.say("gone g a")
    g.pass_ms(100)
    g.say("topic t2 2", "match t.* t,t2")
    g.pass_ms(1_000)
    g.given("g", member("b", 2))
    g.pass_ms(1_000)
    assert g.say("state")[0].endswith("b=t[0-1],t2[0-1]")


@pytest.mark.parametrize(("data", "asked"), [("west", False), ("east", True)])
def test_who_comes_back_with_other_wishes_is_assigned_anew(data: str, asked: bool) -> None:
    """What it tells its assignor is one of them."""
    g = Timed(
        f"options {SOON} external_assignors=racks",
        "elected 3",
        "topic t 2",
        "ready",
        "member g a@1 t:1 assignors=racks data=west instance=one grace=60000",
    )
    g.pass_ms(100)
    g.say("answer g last t-0=!/one t-1=!/one")
    g.pass_ms(1_000)
    g.say("gone g a")
    g.pass_ms(100)
    g.say(f"member g b@2 t:1 assignors=racks data={data} instance=one grace=60000")
    found = g.pass_ms(1_000)
    assert bool(when(found, "ask racks")) is asked
    assert bool(when(found, "event=returned")) is not asked


def test_that_an_instance_is_away_is_written_though_nothing_else_changes() -> None:
    """As many members, the same target: somebody who takes nothing comes as it leaves."""
    g = group("member g a@1 t:1 instance=one grace=60000", "member g b@2 t:1")
    before = len(g.reports("g"))
    g.say("member g x@3 none:1 instead=a", "free g t-0,t-2")
    g.pass_ms(1_000)
    assert len(g.reports("g")) == before + 1
    last = g.reports("g")[-1]
    assert last.members == 2 and [d.since_ms > 0 for d in last.departed] == [True]
    assert g.core.groups["g"].view.target[T[0]] == Thread("a", 0)


def test_nothing_is_promised_in_a_group_shared_with_old_consumers() -> None:
    """Their maths say who has what; a promise would be kept once the group is assigned again."""
    g = group("mode g mixed", "member g a@1 t:1 instance=one grace=60000", "member g b@2 t:1")
    assert g.core.groups["g"].view.target and not g.core.groups["g"].static_members.promises
