"""What operators have done to a group: pauses that outlive coordinators, marks and failures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkcoord.core.events import GroupDelta
from zkcoord.core.model import (
    GroupMetadata,
    GroupMode,
    GroupState,
    Malformed,
    Member,
    Mode,
    Request,
    RequestKind,
    Subscription,
)

from .timed import Timed, when

PAUSED = Mode(GroupMode.COORDINATED, by="ann", paused=True)
RESUMED = Mode(GroupMode.COORDINATED, by="bob")
JUNK = Malformed("mode", "mode", "not JSON")
REPORT = GroupMetadata(7, GroupState.STABLE, "sticky", mode="coordinated", paused="ann")
START, STOP = "start-fetcher", "stop-fetcher"


def group(*lines: str, options: str = "") -> Timed:
    begun = Timed(f"options debounce_ms=10 {options}", "elected 3", "topic t 4", "ready", *lines)
    begun.pass_ms(1_000)
    return begun


def taken_over(mode: Mode | Malformed, owned: bool = False) -> Timed:
    """A coordinator finds a group that its predecessor reported to be paused."""
    begun = Timed("options debounce_ms=10", "elected 3", "topic t 4")
    begun.say("member g A@11 t:1")
    if owned:
        begun.say("own g A t-0,t-1")
    said = {"mode": mode}
    begun.given("g", GroupDelta(metadata=REPORT, mode=said))
    begun.say("ready")
    return begun


@pytest.mark.parametrize("said", [PAUSED, JUNK])
def test_another_coordinator_keeps_it_paused_and_says_nothing(said: Mode | Malformed) -> None:
    """Also where nobody can read the mode now: its report says what was in force."""
    found = taken_over(said).pass_ms(5_000)
    assert not when(found, "write g: st") and not when(found, START)
    assert not when(found, "record paused") and not when(found, "record rebalance")


def test_another_coordinator_ends_a_pause_that_had_begun() -> None:
    found = taken_over(PAUSED, owned=True).pass_ms(5_000)
    assert len(when(found, f"{STOP} A")) == 1 and not when(found, START)


def test_who_resumed_it_while_nobody_led_is_in_the_journal() -> None:
    after = taken_over(RESUMED)
    found = after.pass_ms(5_000)
    assert when(found, "record resumed g: by=bob") and when(found, f"{START} A")
    assert when(found, "record mode g"), "the first that this one reads"
    assert after.reports("g")[-1].paused == ""


def test_a_mark_that_cannot_be_read_any_more_changes_nothing() -> None:
    paused = group("member g A@11 t:1")
    paused.given("g", GroupDelta(mode={"mode": PAUSED}))
    paused.pass_ms(100)
    paused.given("g", GroupDelta(mode={"mode": JUNK}))
    paused.say("member g B@12 t:1")
    assert not when(paused.pass_ms(1_000), START)
    assert paused.reports("g")[-1].paused == "ann"


def test_evictions_while_it_is_paused_are_no_failures() -> None:
    """A quarantine would leave the others what they have."""
    paused = group(
        "member g A@11 t:1 timeout=300",
        "member g B@12 t:1 timeout=600",
        options="max_rebalance_retries=1",
    )
    paused.given("g", GroupDelta(mode={"mode": PAUSED}))
    found = paused.pass_ms(2_000, deaf="A")
    assert when(found, "record evicted g: member=A") and not when(found, "record quarantined")
    assert when(found, f"{STOP} B")


def test_a_quarantine_ends_with_a_pause() -> None:
    failing = group("member g A@11 t:1 assignors=racks", options="external_assignors=racks")
    for _ in range(failing.core.options.max_rebalance_retries):
        failing.say("failure g last it is tired")
        failing.pass_ms(2_000)
    assert failing.core.groups["g"].state is GroupState.QUARANTINED
    failing.given("g", GroupDelta(mode={"mode": PAUSED}))
    found = failing.pass_ms(1_000)
    assert when(found, "record released g: because=operator asked for it")
    assert failing.core.groups["g"].state is GroupState.STABLE


def test_a_pause_waits_for_no_assignor_and_takes_no_answer() -> None:
    asked = group("member g A@11 t:1 assignors=racks", options="external_assignors=racks")
    asked.given("g", GroupDelta(mode={"mode": PAUSED}))
    asked.pass_ms(100)
    assert asked.core.groups["g"].state is GroupState.STABLE
    asked.say("answer g last t-0=A t-1=A t-2=A t-3=A")
    assert not when(asked.pass_ms(1_000), START)


def test_a_pause_waits_for_nobody_who_comes_in_the_same_reading() -> None:
    """What others gave up was handed out until the quiet window was over (operators, seed 939)."""
    moving = group("member g A@11 t:1")
    moving.say("member g B@12 t:1")
    assert when(moving.pass_ms(300, deaf="A"), STOP)
    comes = Member("C", 13, 13, Subscription({"t": 1}))
    moving.given("g", GroupDelta(mode={"mode": PAUSED}, members={"C": comes}))
    found = moving.pass_ms(1_000)
    assert when(found, STOP) and not when(found, START)
    assert moving.core.groups["g"].view.owners == {}


def test_static_members_get_back_what_they_had() -> None:
    static = group("member g A@11 t:1 instance=a grace=60000")
    static.say("member g B@12 t:1 instance=b grace=60000")
    static.pass_ms(1_000)
    before = static.core.groups["g"].view.target.copy()
    static.given("g", GroupDelta(mode={"mode": PAUSED}))
    static.pass_ms(100)
    assert static.core.groups["g"].view.owners == {}
    static.say("gone g A", "member g C@13 t:1 instance=a grace=60000", "member g other@14 t:1")
    found = static.pass_ms(1_000)
    assert not when(found, START) and when(found, "record rebalance") == when(found, " moved=0 ")
    static.say("gone g other")
    static.pass_ms(1_000)
    static.given("g", GroupDelta(mode={"mode": RESUMED}))
    static.pass_ms(1_000)
    now = static.core.groups["g"].view.target
    assert {tp: t.member for tp, t in now.items()} == {
        tp: "C" if t.member == "A" else t.member for tp, t in before.items()
    }


def test_it_is_not_at_rest_while_somebody_who_is_gone_may_hold_a_lease() -> None:
    paused = group("member g A@11 t:1", "member g B@12 t:1")
    paused.say("expired g A")
    paused.given("g", GroupDelta(mode={"mode": PAUSED}))
    paused.pass_ms(100)
    assert paused.core.groups["g"].state is GroupState.PREPARING_REBALANCE
    paused.pass_ms(paused.core.options.orphan_wait_ms + 100)
    assert paused.core.groups["g"].state is GroupState.STABLE
    assert paused.core.groups["g"].view.owners == {}


def test_a_group_without_members_is_reported_to_be_paused_and_resumed() -> None:
    empty = group("member g A@11 t:1", "gone g A")
    for said, by in ((PAUSED, "ann"), (RESUMED, "")):
        empty.given("g", GroupDelta(mode={"mode": said}))
        empty.pass_ms(1_000)
        report = empty.reports("g")[-1]
        assert (report.paused, report.state) == (by, GroupState.EMPTY)


def test_an_eviction_of_nobody_does_not_wait_for_the_end_of_a_quarantine() -> None:
    failing = group(
        "member g A@11 t:1 assignors=racks",
        options="external_assignors=racks max_rebalance_retries=1 quarantine_backoff_ms=60000",
    )
    failing.say("failure g last it is tired", "member g B@12 t:1 assignors=racks")
    failing.pass_ms(1_000)
    assert failing.core.groups["g"].state is GroupState.QUARANTINED
    failing.say("evict g request-0 nobody 4")
    assert when(failing.pass_ms(1_000), "delete request request-0")


def test_a_mark_that_nobody_can_read_pauses_no_group_that_was_not_reported_to_be() -> None:
    begun = Timed("options debounce_ms=10", "elected 3", "topic t 4")
    begun.say("member g A@11 t:1")
    unpaused = GroupMetadata(7, GroupState.STABLE, "sticky", mode="coordinated")
    begun.given("g", GroupDelta(metadata=unpaused, mode={"mode": JUNK}))
    begun.say("ready")
    assert when(begun.pass_ms(5_000), f"{START} A")
    assert begun.reports("g")[-1].paused == ""


def test_who_did_not_say_its_name_is_somebody() -> None:
    asked = group("member g A@11 t:1", "member g B@12 t:1")
    asked.given("g", GroupDelta(mode={"mode": replace(PAUSED, by="")}))
    asked.pass_ms(1_000)
    assert asked.reports("g")[-1].paused == "somebody"
    evict = Request(RequestKind.EVICT, member="A", session=member_of(asked, "A").session)
    asked.given("g", GroupDelta(requests={"request-0": evict}))
    assert when(asked.pass_ms(1_000), "by=somebody")


def test_who_is_late_after_an_operators_eviction_is_nobodys_wish() -> None:
    asked = group("member g A@11 t:1", "member g B@12 t:1")
    session = member_of(asked, "A").session
    evict = Request(RequestKind.EVICT, by="ann", member="A", session=session)
    asked.given("g", GroupDelta(requests={"request-0": evict}))
    found = asked.pass_ms(1_000)
    assert when(found, "record evicted g: member=A reason=operator asked for it: ann")
    asked.say("member g C@13 t:1 timeout=600")
    found = asked.pass_ms(asked.core.options.orphan_wait_ms + 5_000, deaf="C")
    assert when(found, "record evicted g: member=C reason=did not answer")


def test_what_was_asked_for_afresh_is_answered_by_the_pause() -> None:
    """Else who resumes it would be given another assignment than the one it had."""
    asked = group("member g A@11 t:1")
    asked.given("g", GroupDelta(mode={"mode": PAUSED}))
    asked.pass_ms(1_000)
    asked.say("request g request-0 fresh")
    asked.pass_ms(1_000)
    assert asked.core.groups["g"].requests.fresh == frozenset()


def member_of(world: Timed, name: str) -> Member:
    return world.core.groups["g"].view.members[name]
