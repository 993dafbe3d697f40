"""Groups with old consumers: when those that gave up are revived, what is said of them and when,
and what an operator's word that cannot be used does.
"""

from __future__ import annotations

import pytest

from zkcoord.core.events import GroupDelta
from zkcoord.core.model import (
    GroupMode,
    Malformed,
    Member,
    Mode,
    Owner,
    Pattern,
    PatternKind,
    Subscription,
    Thread,
    TopicPartition,
)

from .timed import WINDOW_MS, Timed, when

SOON = "debounce_again_ms=10 debounce_storm_ms=10"
OPTIONS = f"options legacy_attempts_ms=1000 legacy_odd_ms=1000 legacy_rescue_max_ms=6000 {SOON}"
GIVES_UP = "tries no more"
RESCUE = "rescue"
JUNK = Malformed("mode", "mode", "not JSON")


def shared(*lines: str, options: str = OPTIONS, mode: str = "mixed") -> Timed:
    """A group of one old consumer and one of ours, four partitions, each is to have two."""
    return Timed(
        options,
        "elected 3",
        "topic t 4",
        "ready",
        f"mode g {mode}",
        *lines or ("member g old@1 t:1 legacy", "member g zk@2 t:1"),
    )


@pytest.mark.parametrize(
    ("attempts_ms", "most_ms", "pauses"),
    [
        (1_000, 6_000, [2_000, 4_000, 6_000, 6_000, 6_000]),
        (1, 100_000, [2, 4, 8, 16, 32, 64, 128, 256, 256]),
    ],
)
def test_who_gave_up_is_revived_and_again_after_twice_as_long(
    attempts_ms: int, most_ms: int, pauses: list[int]
) -> None:
    group = shared(
        options=f"options legacy_attempts_ms={attempts_ms} legacy_rescue_max_ms={most_ms} {SOON}"
    )
    found = group.pass_ms(sum(pauses) + attempts_ms + 30)
    rescues = when(found, f"write g: {RESCUE}")
    assert [b - a for a, b in zip(rescues, rescues[1:], strict=False)][: len(pauses)] == pauses
    assert when(found, GIVES_UP) == rescues[:1] and rescues[0] <= attempts_ms + 20
    # it comes back, and gives up another time: that is a new story
    group.say("foreign g t-0,t-1 session=1 version=0")
    assert when(group.pass_ms(100), "event=solved")
    group.say("free g t-0,t-1")
    free_ms = group.now
    again = group.pass_ms(attempts_ms + 10)
    assert when(again, GIVES_UP) == [free_ms + attempts_ms]
    assert when(again, f"write g: {RESCUE}")[0] == free_ms + attempts_ms


def test_who_is_not_done_trying_is_left_in_peace() -> None:
    """The time counts from the last change, which has all of them begin anew."""
    group = shared()
    group.pass_ms(900)
    group.say("topic t 8")
    changed_ms = group.now
    found = group.pass_ms(3_000)
    (assigned_ms,) = when(found, "start-fetcher zk")
    assert changed_ms < assigned_ms
    assert when(found, GIVES_UP) == when(found, f"g: {RESCUE}") == [assigned_ms + 1_000]


def test_what_somebody_else_holds_is_not_for_a_rescue_before_it_is_free() -> None:
    group = shared()
    group.say("foreign g t-0,t-1 session=77 version=0")
    found = group.pass_ms(5_000)
    said = [text for _, text in found if GIVES_UP in text]
    assert len(said) == 1
    assert said[0].endswith(
        "old owns nothing of its 2 partitions and tries no more (2 of them are owned by others)"
    )
    assert not when(found, RESCUE)
    group.say("free g t-0,t-1")
    free_ms = group.now
    assert when(group.pass_ms(10), f"g: {RESCUE}") == [free_ms]


def test_one_that_is_to_have_nothing_has_not_given_up() -> None:
    group = shared("topic one 1", "member g old@1 one:1 legacy", "member g more@2 one:1 legacy")
    group.say("foreign g one-0 session=2 version=0")
    assert not when(group.pass_ms(5_000), GIVES_UP)


def test_one_that_owns_other_partitions_is_named_and_not_revived() -> None:
    """It tries no more either, but what it lacks is another's by its own maths."""
    group = shared()
    group.pass_ms(20)
    group.say("foreign g t-1,t-2 session=1 version=0")
    odd_ms = group.now
    found = group.pass_ms(5_000)
    assert when(found, "old owns other partitions than legacy-range gives it") == [odd_ms + 1_000]
    assert not when(found, GIVES_UP) and not when(found, RESCUE)


def test_a_rescue_has_all_begin_anew() -> None:
    """Also one of which something else was to be said soon."""
    group = shared("topic u 1", "member g dead@1 t:1 legacy", "member g odd@2 t:1 legacy")
    group.pass_ms(300)
    group.say("foreign g t-2,t-3,u-0 session=2 version=0")
    found = group.pass_ms(3_000)
    (rescued_ms, *_) = when(found, f"g: {RESCUE}")
    assert when(found, "event=found problem=odd owns other partitions")[:1] == [rescued_ms + 1_000]


def test_a_group_of_old_consumers_alone_is_watched_and_nobody_is_revived() -> None:
    """Mode legacy."""
    group = shared(mode="legacy")
    found = group.pass_ms(5_000)
    assert when(found, "reject GROUP_MODE_LEGACY zk") and not when(found, "reject GROUP_MODE old")
    assert when(found, "old owns nothing of its 4 partitions and tries no more")
    assert not when(found, RESCUE)
    assert group.reports("g")[-1].members == 2
    # whoever is not understood there changes nothing: nobody of ours is to get what is left
    group.say("member g other@5 1 legacy unfollowed=java")
    found = group.pass_ms(5_000)
    assert when(found, "other is an old consumer whose registration only old consumers can read")
    assert not when(found, "are owned by nobody, because")


def test_what_was_known_of_a_group_that_was_shared_is_forgotten() -> None:
    """Shared again, its old consumers have their time again."""
    group = shared()
    assert when(group.pass_ms(1_100), GIVES_UP)
    group.say("mode g none")
    assert when(group.pass_ms(5_000), "event=solved problem=old owns nothing")
    group.say("mode g mixed")
    shared_ms = group.now
    assert when(group.pass_ms(3_000), GIVES_UP) == [shared_ms + 1_000]


@pytest.mark.parametrize(("owned", "said"), [("", GIVES_UP), ("t-1,t-2", "owns other partitions")])
def test_beside_one_that_is_not_understood_nobody_is_judged(owned: str, said: str) -> None:
    """When it goes the others have their time again."""
    group = shared()
    group.pass_ms(200)
    if owned:
        group.say(f"foreign g {owned} session=1 version=0")
    group.pass_ms(800)
    group.say("member g other@5 1 legacy unfollowed=java")
    assert not when(group.pass_ms(5_000), f"found problem=old {said}")
    group.say("gone g other")
    gone_ms = group.now
    found = when(group.pass_ms(3_000), said)
    assert found and found[0] >= gone_ms + 1_000


def test_what_is_given_to_nobody_is_said_when_old_consumers_have_tried() -> None:
    """One that is not understood owns less than it would have, whatever it takes."""
    group = shared("member g other@5 1 legacy unfollowed=java", "member g zk@7 t:1")
    group.say("foreign g t-0 session=5 version=0")
    joined_ms = group.now
    found = group.pass_ms(5_000)
    said = "1 partitions are owned by nobody, because they may be those of an old consumer"
    assert when(found, said) == [joined_ms + 1_000]
    assert when(found, "(t-1 is one)") and not when(found, GIVES_UP)


def test_a_wake_is_for_something() -> None:
    """At the time at which old consumers have tried, and not a moment later."""
    for joins in ([], ["member g other@5 1 legacy unfollowed=java"]):
        group = shared()
        group.say(*joins)
        group.pass_ms(500)
        wakes = group.wakes(10_000)
        assert all(b > a + 1 for a, b in zip(wakes, wakes[1:], strict=False)), wakes


def test_what_cannot_be_assigned_at_all_is_left_alone() -> None:
    """A registration of which nothing is known: what else is odd there is nobody's to say, a
    request changes nothing, and it costs no work.
    """
    group = shared()
    group.say("member g other@5 0 legacy unfollowed=java")
    group.say("foreign g t-0 session=77 version=0")
    found = group.pass_ms(5_000)
    assert not when(found, "belongs to no registration") and not when(found, "fetcher")
    assert group.wakes(60_000) == []


def test_a_coordinated_group_goes_on_whatever_an_old_consumer_wants() -> None:
    group = shared(mode="coordinated")
    group.say("member g other@5 0 legacy unfollowed=java", "gone g old")
    group.say("foreign g t-3 session=5 version=0")
    found = group.pass_ms(5_000)
    assert when(found, "keep out there=True") and when(found, "start-fetcher zk")
    assert group.wakes(60_000) == [] and group.core.groups["g"].generation == 1
    # what changes there has its quiet window, as anywhere
    group.say("member g zk3@9 t:1")
    joined_ms = group.now
    assert when(group.pass_ms(5_000), "stop-fetcher zk") == [joined_ms + WINDOW_MS]


def test_strategies_other_than_range_are_shared_as_long_as_all_are_understood() -> None:
    group = shared(mode="mixed legacy-roundrobin-1.0")
    assert when(group.pass_ms(100), "start-fetcher zk")
    group.say("member g other@5 1 legacy unfollowed=java")
    assert not when(group.pass_ms(100), "fetcher")


def test_a_mode_that_cannot_be_used_is_named_and_the_one_before_counts() -> None:
    group = shared("member g zk@2 t:1")
    group.pass_ms(100)
    first = group.given("g", GroupDelta(mode={"mode": JUNK}))
    named = "record malformed g: what=mode name=mode reason=not JSON"
    problem = "the group's mode cannot be used, so it counts for nothing: not JSON"
    assert named in first and f"record legacy g: event=found problem={problem}" in first
    group.pass_ms(100)
    assert group.reports("g")[-1].mode == "mixed" and group.reports("g")[-1].problems == (problem,)
    # the same again is no news, and other readings say nothing of it
    assert named not in group.given("g", GroupDelta(mode={"mode": JUNK}))
    group.say("member g zk2@3 t:1")
    group.pass_ms(2_000)
    assert group.reports("g")[-1].problems == (problem,)
    other = Malformed("mode", "mode", "empty")
    assert group.given("g", GroupDelta(mode={"mode": other}))[0].endswith("reason=empty")
    # it can be used again, and says what it said before: nothing is assigned anew
    group.pass_ms(100)
    group.given("g", GroupDelta(mode={"mode": Mode(GroupMode.MIXED, by="an operator")}))
    good = group.pass_ms(100)
    assert when(good, f"event=solved problem={problem.replace('not JSON', 'empty')}")
    assert not when(good, "record mode")


def test_a_mode_that_never_could_be_used_is_reported_of_a_group_of_ours_too() -> None:
    group = Timed(OPTIONS, "elected 3", "topic t 4", "ready", "member g zk@2 t:1")
    group.pass_ms(100)
    group.given("g", GroupDelta(mode={"mode": JUNK}))
    group.pass_ms(100)
    assert len(group.reports("g")[-1].problems) == 1
    # a reading of the whole group finds no mode at all: solved
    group.say("read g")
    group.pass_ms(100)
    assert group.reports("g")[-1].problems == ()


def test_registrations_that_kill_old_consumers_are_named() -> None:
    """Not what is unreadable elsewhere, nor what no old consumer reads."""
    group = shared("member g zk@2 t:1")
    bad = Malformed("registration", "junk", "not JSON")
    group.given(
        "g",
        GroupDelta(
            members={"junk": bad, "a/b": Malformed("registration", "a/b", "a bad name")},
            requests={"r": Malformed("request", "r", "not JSON")},
            owners={TopicPartition("t", 3): Malformed("owner", "t-3", "no thread")},
        ),
    )
    dangerous = "cannot be used (not JSON): old consumers that read it may give up until it is gone"
    assert not when(group.pass_ms(100), dangerous)
    group.say("member g old@1 t:1 legacy")
    found = group.pass_ms(2_000)
    assert [text for _, text in found if "old consumers that read it" in text] == [
        f"record legacy g: event=found problem=the registration junk {dangerous}"
    ]
    # and whose owner node that is nobody can read is said too
    assert when(found, "the owner node of t-3 belongs to no registration that can be read")


def test_a_wildcard_that_was_escaped_twice_is_named() -> None:
    group = shared("match t[.]\\\\w t", "match t.* t")
    patterns = {
        "twice": Pattern(PatternKind.WHITE_LIST, "t\\\\.w"),
        "plain": Pattern(PatternKind.WHITE_LIST, "t.*"),
    }
    members: dict[str, Member | Malformed | None] = {
        name: Member(name, n, n, Subscription({}, p), legacy=True)
        for n, (name, p) in enumerate(patterns.items(), 1)
    }
    ours = Member("ours", 9, 9, Subscription({}, patterns["twice"]))
    group.given("g", GroupDelta(members={**members, "ours": ours}, channels={"ours": True}))
    group.core.world.matches[patterns["twice"]] = frozenset()
    found = group.pass_ms(100)
    said = [text for _, text in found if "escaped twice" in text]
    assert len(said) == 1 and "problem=twice subscribes the wildcard t\\\\.w, " in said[0]


def test_ours_get_no_more_than_a_sessions_paths_may_hold_and_old_ones_all() -> None:
    """The bound is exact: a path counts with the group's name."""
    name = "a-group-with-a-long-name"
    path_bytes = 64 + len(name) + len("t") + len("0")
    lines = [f"member {name} old@1 t:1 legacy", f"member {name} zk@2 t:1"]
    group = Timed(
        f"options owner_path_bytes_max={2 * path_bytes}",
        "elected 3",
        "topic t 8",
        "ready",
        f"mode {name} mixed",
        *lines,
    )
    group.pass_ms(200)
    target = group.core.groups[name].result
    assert {tp.partition for tp, thread in target.target.items() if thread.member == "old"} == {
        *range(4)
    }
    assert [tp.partition for tp, thread in target.target.items() if thread.member == "zk"] == [4, 5]
    assert target.unassigned == (TopicPartition("t", 6), TopicPartition("t", 7))


def test_a_quarantined_group_is_said_to_be_shared() -> None:
    """It is watched before there is a target by the old consumers' maths."""
    group = Timed(OPTIONS, "elected 3", "topic t 4", "member g old@1 t:1 legacy")
    group.say("member g zk@2 t:1", "report g 4 Quarantined 2 t", "ready")
    group.pass_ms(20)
    group.say("mode g mixed")
    group.pass_ms(20)
    assert group.reports("g")[-1].state.value == "Quarantined"
    assert group.reports("g")[-1].mode == "mixed"


def test_an_owner_of_an_unknown_kind_says_nothing_of_who_takes_what() -> None:
    """Beside one that is not understood; what an old consumer owns there is learned from."""
    group = shared("member g other@5 1 legacy unfollowed=java", "member g zk@2 t:1")
    group.given(
        "g",
        GroupDelta(
            owners={
                TopicPartition("t", 0): Malformed("owner", "t-0", "no thread"),
                TopicPartition("t", 1): Owner(5, Thread("other", 0), 0),
            }
        ),
    )
    group.pass_ms(5_000)
    target = group.core.groups["g"].view.target
    assert target[TopicPartition("t", 1)] == Thread("other", 0)
