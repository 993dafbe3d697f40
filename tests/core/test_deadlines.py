"""What runs out in a group: members that do not answer or cannot be told anything, owner nodes and
channels of nobody. And that nothing of it is done twice, too early, or remembered for ever.
"""

from __future__ import annotations

import pytest

from zkcoord.core.events import GroupDelta
from zkcoord.core.group.deadlines import Deadlines
from zkcoord.core.model import (
    Command,
    Malformed,
    Member,
    Option,
    Owner,
    Subscription,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.replay.text import op_text

from .timed import Timed, when

SOON = "debounce_again_ms=10 debounce_storm_ms=10 start_gather_ms=0"
HOUR_MS = 3_600_000


def group(*lines: str, options: str = "") -> Timed:
    """A group that has everything settled."""
    found = Timed(f"options {SOON} {options}", "elected 3", "topic t 4", "ready", *lines)
    found.pass_ms(1_500)
    return found


def member(
    name: str, number: int, timeout_ms: int, legacy: bool = False, topic: str = "t"
) -> Member:
    """One of a topic."""
    wanted = Subscription({topic: 1})
    return Member(name, number, number, wanted, rebalance_timeout_ms=timeout_ms, legacy=legacy)


def without_channel(g: Timed, *members: Member) -> None:
    """They are registered, and have no channel."""
    g.members.setdefault("g", {}).update({m.name: m for m in members})
    g.given("g", GroupDelta(members={m.name: m for m in members}))


def test_who_can_be_told_nothing_is_evicted_when_its_time_is_over() -> None:
    g = group("member g a@1 t:1", options="rebalance_timeout_max_ms=7000")
    without_channel(g, member("slow", 2, 60_000), member("late", 3, 5_000), member("d", 4, 5_000))
    began_ms = g.now
    g.say("mode g coordinated")
    found = g.pass_ms(HOUR_MS)
    evicted = {
        name: when(found, f"write g: delete registration {name}") for name in ("d", "late", "slow")
    }
    assert evicted == {
        "d": [began_ms + 5_000],
        "late": [began_ms + 5_000],
        "slow": [began_ms + 7_000],
    }, "as long as it asked for, and no longer than is allowed"
    texts = [text for _, text in found if "delete registration" in text or "record evicted" in text]
    assert [text.split()[-1] if "delete" in text else "said" for text in texts[:3]] == [
        "d",
        "said",
        "late",
    ], "one after the other, each is said"
    assert not when(found, "fetcher d"), "nothing was given to it"


def test_who_makes_its_channel_in_time_or_goes_is_not_evicted() -> None:
    g = group("member g a@1 t:1")
    without_channel(g, member("b", 2, 5_000))
    g.pass_ms(4_000)
    g.given("g", GroupDelta(channels={"b": True}))
    assert not when(g.pass_ms(HOUR_MS), "delete registration")
    without_channel(g, member("idle", 9, 5_000, topic="none"))
    g.pass_ms(4_000)
    g.given("g", GroupDelta(channels={"idle": True}))
    assert not when(g.pass_ms(HOUR_MS), "delete registration"), "with nothing to do for it, too"
    # gone, as a reading of the whole group says
    without_channel(g, member("c", 3, 5_000))
    g.pass_ms(4_000)
    g.members["g"].pop("c")
    g.say("read g")
    assert not when(g.pass_ms(HOUR_MS), "delete registration") and not g.wakes(HOUR_MS)


def test_an_old_consumer_needs_no_channel() -> None:
    g = group("member g a@1 t:1")
    without_channel(g, member("old", 2, 5_000, legacy=True))
    assert not when(g.pass_ms(HOUR_MS), "delete registration")


@pytest.mark.parametrize("deaf", [True, False], ids=["without channel", "no answer"])
@pytest.mark.parametrize("unknown", [True, False])
def test_an_eviction_of_which_nothing_is_known_may_have_happened(deaf: bool, unknown: bool) -> None:
    """It is said to be one when the reading after it has the member no more; a member that goes
    after an eviction that was refused went by itself.
    """
    g = group("member g a@1 t:1")
    if deaf:
        without_channel(g, member("b", 2, 5_000))
        since_ms = g.now
    else:
        g.say("member g b@2 t:1 timeout=5000")
        (since_ms,) = when(g.pass_ms(1_000, deaf="b"), "start-fetcher b")
    g.pass_ms(since_ms + 4_999 - g.now, deaf="b")
    assert not g.writes
    g.say("tick 1")
    assert "delete registration b" in texts(g)
    g.say("unknown" if unknown else "refused why")
    g.given("g", GroupDelta(channels={"a": True}))  # something else is read first
    g.members["g"].pop("b")
    g.commands.pop("g", None)
    said = g.say("read g")
    assert any(text.startswith("record evicted g: member=b") for text in said) is unknown
    # whoever goes later went by itself
    g.say("settle", "gone g a")
    assert not when(g.pass_ms(5_000), "record evicted g: member=a")


def test_who_goes_by_itself_was_not_evicted_though_one_of_its_name_was() -> None:
    """An eviction that happened is over: what becomes of a later write says nothing of it."""
    g = group("member g a@1 t:1")
    without_channel(g, member("b", 2, 5_000))
    assert when(g.pass_ms(6_000), "record evicted g: member=b")
    g.members["g"].pop("b", None)
    g.say("member g b@9 t:1")
    g.pass_ms(1_000)
    g.say("topic t 8", "tick 100")
    assert "fetcher" in " ".join(texts(g))
    g.say("unknown")
    g.members["g"].pop("b")
    assert not [text for text in g.say("read g") if text.startswith("record evicted")]


def texts(g: Timed) -> list[str]:
    """What is to be written now."""
    return [op_text(op) for write in g.writes for op in write.ops]


def test_two_that_do_not_answer_are_evicted_one_after_the_other() -> None:
    g = group("member g a@1 t:1 timeout=5000", "member g b@2 t:1 timeout=5000")
    g.say("topic t 8")
    found = g.pass_ms(10_000, deaf="a,b")
    evicted = [text for _, text in found if "delete registration" in text]
    assert [text.split()[-1] for text in evicted] == ["a", "b"]


def test_an_eviction_takes_as_many_commands_along_as_one_write_may() -> None:
    g = group("member g a@1 t:1 timeout=5000", options="ops_per_write_max=5")
    stops = {
        ("a", f"3-{n}-000000000{n}"): Command(
            "a", 1, Option.STOP, 3, n, 1, {}, (TopicPartition("t", 0),), node=f"3-{n}-000000000{n}"
        )
        for n in range(1, 8)
    }
    g.commands.setdefault("g", {}).update(stops)
    g.given("g", GroupDelta(commands=dict(stops)))
    found = g.pass_ms(6_000, deaf="a")
    (evicted,) = [text for _, text in found if "delete registration" in text]
    assert evicted.count("delete") == 5


def test_nodes_of_nobody_wait_for_the_longest_lease_and_again_when_all_is_read_again() -> None:
    g = group("member g a@1 t:1", options="lease_max_ms=3000")
    wait_ms = 3_000 + 300 + 1_000
    g.say("member g b@2 t:1")
    g.pass_ms(1_500)
    g.say("expired g b")
    gone_ms = g.now
    assert g.core.next_wake_ms() is not None
    g.pass_ms(4_000)
    # a reading of the whole group: while nobody was served a lease may have been prolonged
    g.say("read g")
    read_ms = g.now
    found = g.pass_ms(HOUR_MS)
    assert read_ms > gone_ms
    assert when(found, "delete owner") == [read_ms + wait_ms]
    assert g.wakes(HOUR_MS) == [], "and then nothing is waited for"
    assert not g.core.groups["g"].deadlines.gone_since


def test_nodes_of_nobody_that_go_by_themselves_are_waited_for_no_more() -> None:
    g = group("member g a@1 t:1", options="lease_max_ms=3000")
    g.say("foreign g other-0 session=77")
    g.pass_ms(1_000)
    g.say("free g other-0")
    g.pass_ms(100)
    assert g.wakes(HOUR_MS) == []


def test_the_channel_of_a_registration_that_cannot_be_read_stays() -> None:
    g = group("member g a@1 t:1")
    bad = Malformed("registration", "b", "not JSON")
    g.given("g", GroupDelta(members={"b": bad}, channels={"b": True}))
    assert not when(g.pass_ms(HOUR_MS), "delete channel b")
    g.given("g", GroupDelta(members={"b": None}))
    assert when(g.pass_ms(HOUR_MS), "delete channel b")


def test_a_channel_that_could_not_be_deleted_is_tried_again_a_minute_later() -> None:
    g = group("member g a@1 t:1", "member g b@2 t:1")
    g.say("gone g b")
    g.pass_ms(900)
    g.say("tick 200")
    assert "delete channel b" in texts(g)
    g.say("refused it has a command")
    there = {"a": True, "b": True}
    g.given("g", GroupDelta(True, dict(g.members["g"]), there, owners=dict(g.owners["g"])))
    found = g.pass_ms(200_000)
    first_ms, again_ms = when(found, "delete channel b")
    assert again_ms == first_ms + 60_000
    assert g.wakes(HOUR_MS) == []


def test_a_channel_that_somebody_else_deleted_is_not_deleted() -> None:
    g = group("member g a@1 t:1", "member g b@2 t:1")
    g.say("gone g b")
    g.pass_ms(900)
    g.say("read g")
    assert not when(g.pass_ms(HOUR_MS), "delete channel")


def test_nobody_is_remembered_who_is_gone() -> None:
    """Members come and go for as long as a term lasts: with their channels, before them, without
    ever having had one.
    """
    g = group("member g a@1 t:1", "member g b@2 t:1")
    without_channel(g, member("old", 3, 5_000, legacy=True))
    g.say("gone g old", "gone g b")
    g.pass_ms(5_000)
    g.say("member g c@4 t:1")
    g.pass_ms(5_000)
    g.members["g"].pop("c")
    g.given(
        "g",
        GroupDelta(
            members={"c": None},
            channels={"c": False},
            owners=dict.fromkeys(
                tp for tp, o in g.owners["g"].items() if isinstance(o, Owner) and o.session == 4
            ),
        ),
    )
    g.say("member g d@5 t:1", "settle", "expired g d")
    g.pass_ms(100)
    g.given("g", GroupDelta(channels={"d": False}))
    g.pass_ms(60_000)
    # one whose command and channel go in one breath, and a channel that was nobody's
    g.say("member g e@6 none:1", "command g e epoch=3 seq=90 stop u-0")
    g.pass_ms(200, deaf="e")
    (key,) = g.commands["g"]
    g.say("expired g e")
    del g.commands["g"][key]
    g.given("g", GroupDelta(commands={key: None}, channels={"e": False}))
    g.pass_ms(100)
    assert g.core.groups["g"].removals.departed == set()
    g.given("g", GroupDelta(channels={"x": True}))
    g.pass_ms(100)
    g.given("g", GroupDelta(channels={"x": False}))
    assert not when(g.pass_ms(HOUR_MS), "delete channel")
    known = g.core.groups["g"]
    assert known.removals.departed == set() == set(known.deadlines.empty_channels)
    assert known.planner.told == {} == known.planner.told_data == known.log.sent_ms
    assert not known.deadlines.overdue_ms and not known.deadlines.deaf


def test_a_storm_is_over_when_nothing_has_changed_for_its_window() -> None:
    """After exactly so long; a moment before, it goes on."""
    for quiet_ms, window_ms in ((999, 300), (1_000, 10)):
        g = Timed(
            "options debounce_ms=10 debounce_again_ms=10 debounce_storm_ms=300",
            "elected 3",
            "topic t 40",
            "ready",
        )
        for n in range(1, 6):
            changed_ms = g.now
            g.say(f"member g m{n}@{n} t:1")
            g.pass_ms(20)
        g.pass_ms(changed_ms + quiet_ms - g.now)
        g.say("member g late@9 t:1")
        joined_ms = g.now
        found = g.pass_ms(2_000)
        assert when(found, "stop-fetcher")[0] == joined_ms + window_ms, quiet_ms


def test_who_comes_to_a_group_that_everybody_left_waits_for_nothing_that_was_before() -> None:
    """A quiet window is for those who would be moved again: a lone consumer that is begun again,
    a second or two after it began, has its partitions at once.
    """
    g = Timed("elected 3", "topic t 4", "ready")
    for n in range(1, 6):
        joined_ms = g.now
        g.say(f"member g m{n}@{n} t:1")
        found = g.pass_ms(200)
        assert when(found, "start-fetcher")[0] == joined_ms + g.core.options.debounce_ms, n
        g.say(f"gone g m{n}")
        g.pass_ms(350)


def test_while_an_assignor_is_asked_nothing_else_is_waited_for() -> None:
    g = Timed(
        "options external_assignors=racks",
        "elected 3",
        "topic t 2",
        "ready",
        "member g a@1 t:1 assignors=racks",
        "tick 10",
        "member g b@2 t:1 assignors=racks",
    )
    assert g.wakes(HOUR_MS) == []
    g.say("answer g last t-0=a t-1=a")
    assert when(g.pass_ms(1_000), "ask racks"), "what changed meanwhile"


def test_a_storm_is_over_when_everybody_has_left() -> None:
    """Who comes next waits no longer than in a group that is new; with anybody there it lasts."""
    options = CoordinatorOptions()
    found = Deadlines(options)
    found.assigned(0, True)
    assert not found.storm
    for now_ms in range(options.assignments_per_storm_window):
        found.changed(now_ms)
        found.assigned(now_ms, True)
    found.changed(now_ms)
    found.assigned(now_ms, True)
    assert found.storm and found.window_ms() == options.debounce_storm_ms
    found.assigned(now_ms, False)
    assert not found.storm and found.window_ms() == options.debounce_ms
