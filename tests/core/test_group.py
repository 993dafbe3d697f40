"""One group through its days, in its own time: failures and rests, operators' requests, what a
report says, what is remembered of a storm, portions, members that share a name.
"""

from __future__ import annotations

import pytest

from zkcoord.core.events import GroupDelta, Record, Send, Write
from zkcoord.core.model import (
    Cause,
    Command,
    Member,
    Option,
    Subscription,
)

from .timed import WINDOW_MS, Timed, when

SOON = "debounce_again_ms=10 debounce_storm_ms=10 start_gather_ms=0"
HOUR_MS = 3_600_000
QUARANTINED = "record quarantined g"


def group(*lines: str, options: str = SOON, partitions: int = 4) -> Timed:
    """A group that has everything settled, a little later."""
    found = Timed(f"options {options}", "elected 3", f"topic t {partitions}", "ready", *lines)
    found.pass_ms(1_500)
    return found


def sends(g: Timed) -> list[Command]:
    """All commands so far."""
    return [
        op.command
        for _, action in g.answers
        if isinstance(action, Write)
        for op in action.ops
        if isinstance(op, Send)
    ]


def fail(g: Timed, number: int) -> None:
    """A member comes, does not answer, and is evicted."""
    g.say(f"member g bad@{number} t:1 timeout=1000")
    assert when(g.pass_ms(1_100, deaf="bad"), "record evicted g: member=bad")
    g.say("gone g bad")


# what counts as a rest: after 30 s of it failures are forgotten


@pytest.mark.parametrize("left_alone", [False, True])
@pytest.mark.parametrize("what", ["command", "start", "stop"])
def test_a_group_with_something_to_do_does_not_rest(what: str, left_alone: bool) -> None:
    """Its failures count until it has come to rest for long enough, or belongs to nobody."""
    g = group("member g a@1 t:1", options=f"{SOON} max_rebalance_retries=2")
    fail(g, 2)
    g.say("member g slow@3 t:1 timeout=40000")
    if what == "command":
        g.pass_ms(100, deaf="slow")
    elif what == "start":
        g.say("tick 10")
        g.given("g", GroupDelta(channels={"slow": False}))
    else:
        g.pass_ms(100)
        g.given("g", GroupDelta(channels={"slow": False}))
        g.say("member g b@4 t:1")
    before = len(sends(g))
    if left_alone:
        g.say("member g old@9 t:1 legacy")
    found = g.pass_ms(41_000, deaf="slow")
    assert when(found, "record evicted g: member=slow")
    assert what == "command" or not [c for c in sends(g)[before:] if c.member == "slow"]
    if left_alone:
        return
    assert when(found, QUARANTINED), "the second failure in a row"


def test_a_group_that_is_left_alone_rests() -> None:
    """Whatever would be to do in it."""
    g = group("member g a@1 t:1", options=f"{SOON} max_rebalance_retries=2")
    fail(g, 2)
    g.pass_ms(100)
    g.say("member g old@9 t:1 legacy", "free g t-0")
    assert not when(g.pass_ms(31_000), "start-fetcher")
    g.say("gone g old")
    g.pass_ms(100)
    g.say("member g bad@10 t:1 timeout=1000")
    found = g.pass_ms(3_000, deaf="bad")
    assert when(found, "record evicted g: member=bad") and not when(found, QUARANTINED)


def test_an_assignor_that_is_asked_is_no_rest() -> None:
    g = Timed(
        f"options {SOON} external_assignors=racks max_rebalance_retries=2",
        "elected 3",
        "topic t 4",
        "ready",
        "member g a@1 t:1 assignors=racks",
    )
    g.pass_ms(100)
    g.say("failure g last it is ill")
    g.pass_ms(40_000)
    assert any(text.startswith(QUARANTINED) for text in g.say("failure g last it is ill"))


def test_a_quarantine_is_no_rest() -> None:
    """The next one has twice the backoff, though the first lasted for a minute."""
    g = Timed(
        f"options {SOON} external_assignors=racks max_rebalance_retries=1",
        "elected 3",
        "topic t 4",
        "ready",
        "member g a@1 t:1 assignors=racks",
    )
    g.pass_ms(100)
    for backoff_ms in (1_000, 2_000, 4_000):
        said = g.say("failure g last it is ill")
        assert any(text.endswith(f"failures=1 backoff_ms={backoff_ms}") for text in said), said
        g.pass_ms(61_000)
    g.say("answer g last t-0=a t-1=a t-2=a t-3=a")
    g.pass_ms(10)
    assert g.reports("g")[-1].cause == Cause("quarantine is over", "")
    last = [a.detail for _, a in g.answers if isinstance(a, Record) and a.kind == "rebalance"][-1]
    assert (last["cause"], last["moved"], last["state"]) == ("quarantine is over", 4, "Stable")
    assert g.core.groups["g"].planner.told == {}, "nobody is still told of it"


def test_an_assignor_that_fails_is_asked_again_after_twice_as_long() -> None:
    """Not before the quiet window is over."""
    for window_ms, pauses in ((10, [40, 80, 160, 320]), (100, [100, 100, 160, 320])):
        g = Timed(
            f"options external_assignors=racks max_rebalance_retries=9 debounce_ms={window_ms}"
            f" debounce_again_ms={window_ms} debounce_storm_ms={window_ms}",
            "elected 3",
            "topic t 4",
            "ready",
            "member g a@1 t:1 assignors=racks",
        )
        g.pass_ms(100)
        for pause_ms in pauses:
            g.say("failure g last it is ill")
            failed_ms = g.now
            assert when(g.pass_ms(pause_ms), "ask racks")[-1:] == [failed_ms + pause_ms]


@pytest.mark.parametrize("what", ["quarantined", "left alone", "eager"])
def test_what_a_start_waits_for_is_forgotten_when_nothing_may_be_started(what: str) -> None:
    """So nobody is woken for it, again and again."""
    g = group(
        "member g a@1 t:1 protocols=cooperative,eager",
        "member g b@2 t:1 protocols=cooperative,eager",
        options="debounce_again_ms=10 start_gather_ms=5000 max_rebalance_retries=1",
        partitions=12,
    )
    bad = Member("bad", 9, 9, Subscription({"none": 1}), rebalance_timeout_ms=1_000)
    g.say("member g c@3 t:1 protocols=cooperative,eager")
    g.pass_ms(500, deaf="b,c")
    assert g.core.groups["g"].planner.gathering, "c waits for what b gives up"
    if what == "quarantined":
        g.members["g"]["bad"] = bad
        g.given("g", GroupDelta(members={"bad": bad}))
        assert when(g.pass_ms(1_200, deaf="b,c"), QUARANTINED)
        g.say("expired g bad")
    elif what == "left alone":
        g.say("member g old@8 t:1 legacy")
    else:
        g.say("member g e@8 t:1 protocols=eager")
        g.pass_ms(500, deaf="a,b,c,e")
    assert not g.core.groups["g"].planner.gathering
    g.pass_ms(20_000, deaf="b,c")


def test_a_group_whose_quarantine_is_inherited_wakes_once() -> None:
    g = Timed(f"options {SOON}", "elected 3", "topic t 4", "member g a@1 t:1")
    g.say("report g 4 Quarantined 1 t", "ready", "settle", "topic t 6")
    assert g.wakes(59_000) == []
    g.pass_ms(59_000)
    found = g.pass_ms(2_000)
    assert when(found, "released g: because=time") and when(found, "start-fetcher a")


def test_after_refusals_it_waits_and_after_a_success_it_does_not() -> None:
    g = group("member g a@1 t:1")
    for _ in range(2):
        g.say("topic t 8", "tick 10", "tick 10")
        assert len(g.writes) == 1
        g.say("refused why", "read g")
        assert len(g.writes) == 1, "it is tried again at once"
        g.say("refused why", "read g")
        assert not g.writes and g.core.next_wake_ms() == g.now + 80
        g.say("tick 80")
        g.say("settle")
        assert g.wakes(HOUR_MS) == [] and not g.writes
        g.say("topic t 4")
        g.pass_ms(2_000)


# members


def test_the_report_of_a_coordinator_before_is_read_once() -> None:
    """Its own reports come back as readings, later than what happened since."""
    g = group("member g a@1 t:1")
    g.say("member g b@2 t:1")
    g.pass_ms(1_000)
    assert g.reports("g")[-1].generation == 2
    g.say("report g 1 Stable 1 t one=5000:t-0")
    g.say("member g c@3 t:1")
    g.pass_ms(1_000)
    assert g.reports("g")[-1].generation == 3 and g.reports("g")[-1].departed == ()


@pytest.mark.parametrize("changed", [[], ["member g b@2 t:1,u:1 timeout=1000"]])
def test_an_eviction_that_may_have_happened_and_has_not_is_none(changed: list[str]) -> None:
    """The member is still there, subscribes to something else, and goes by itself later."""
    g = group("member g a@1 t:1", "topic u 1")
    g.say("member g b@2 t:1 timeout=1000")
    g.pass_ms(1_000, deaf="b")
    while not g.writes:
        g.say("tick 1")
    g.say("unknown", *changed, "read g")
    g.say("gone g b")
    assert not when(g.pass_ms(5_000), "record evicted")


def test_who_is_told_of_a_quarantine_is_a_registration_not_a_name() -> None:
    """While it is told the member is replaced by another of its name, which knows nothing."""
    g = Timed(f"options {SOON}", "elected 3", "topic t 4", "member g a@1 t:1")
    g.say("report g 4 Quarantined 1 t", "ready", "settle")
    g.say("member g b@2 t:1")
    assert len([c for c in sends(g) if c.option is Option.NOTIFY]) == 1
    g.say("member g b@3 t:1")
    g.say("settle")
    told = [(c.member, c.incarnation) for c in sends(g) if c.option is Option.NOTIFY]
    assert told == [("b", 2), ("b", 3)]


def test_who_registers_anew_hears_everything_again() -> None:
    """What an assignor has for it, and that the group is in quarantine."""
    g = Timed(
        f"options {SOON} external_assignors=racks max_rebalance_retries=1",
        "elected 3",
        "topic t 2",
        "ready",
        "member g a@1 t:1 assignors=racks",
    )
    g.pass_ms(100)
    g.say("answer g last t-0=a t-1=a data.a=hello")
    g.pass_ms(100)
    g.say("member g a@1 t:1 assignors=racks data=new")
    g.pass_ms(100)
    g.say("answer g last t-0=a t-1=a data.a=hello")
    assert when(g.pass_ms(100), "data=hello")
    g.say("topic t 4")
    g.pass_ms(100)
    g.say("failure g last it is ill")
    assert when(g.pass_ms(100), "notify REBALANCE_FAILED a")
    g.say("member g a@1 t:1 assignors=racks data=newer")
    assert when(g.pass_ms(100), "notify REBALANCE_FAILED a")


def test_who_was_waited_for_is_in_the_record_of_a_rebalance() -> None:
    """The longest of each, also of one that left without an answer."""
    g = group("member g a@1 t:1", "member g b@2 t:1")
    g.say("member g c@3 t:1", "tick 10", "settle a,b,c")
    g.pass_ms(300, deaf="a,b,c")
    g.pass_ms(500, deaf="b,c")
    g.pass_ms(700, deaf="c")
    g.say("expired g c")
    g.pass_ms(5_000)
    records = [
        action.detail
        for _, action in g.answers
        if isinstance(action, Record) and action.kind == "rebalance"
    ]
    waited = {found["member"]: found["ms"] for found in records[-1]["waited_for"]}  # type: ignore[attr-defined]
    assert waited == {"c": 1_200, "a": 300}
    order = [found["ms"] for found in records[-1]["waited_for"]]  # type: ignore[attr-defined]
    assert order == sorted(order, reverse=True)
    # the next one is its own story
    g.say("member g d@4 t:1")
    g.pass_ms(5_000)
    last = [a.detail for _, a in g.answers if isinstance(a, Record) and a.kind == "rebalance"][-1]
    assert {found["ms"] for found in last["waited_for"]} == {0}  # type: ignore[attr-defined]


def test_of_those_that_took_as_long_the_names_are_in_order() -> None:
    g = Timed(f"options {SOON}", "elected 3", "topic t 3", "ready")
    g.say(*(f"member g {name}@{n} t:1" for n, name in enumerate("abc", 1)), "tick 10", "ok")
    g.say("tick 50", "ack g c", "ack g b", "ack g a")
    (found,) = [a.detail for _, a in g.answers if isinstance(a, Record) and a.kind == "rebalance"]
    assert found["waited_for"] == [{"member": name, "ms": 50} for name in "abc"]


# requests and changes


def test_as_if_nobody_owned_anything_is_asked_once() -> None:
    """What is owned counts again in the next target."""
    g = group("member g a@1 t:1")
    g.say("request g request-0 fresh")
    g.pass_ms(1_000)
    g.say("member g b@2 t:1")
    g.pass_ms(1_000)
    assert g.say("state")[0].endswith("a=t[0-1] b=t[2-3]"), "a keeps what it can"
    g.say("request g request-1 fresh")
    g.pass_ms(1_000)
    assert g.say("state")[0].endswith("a=t[0,2] b=t[1,3]")


def test_old_consumers_maths_is_always_as_if_nobody_owned_anything() -> None:
    """So the request is done, and does not count when the group is coordinated again."""
    g = group("mode g mixed", "member g a@1 t:1", "member g b@2 t:1")
    g.say("request g request-0 fresh")
    g.pass_ms(1_000)
    g.say("mode g coordinated")
    g.pass_ms(1_000)
    assert g.say("state")[0].endswith("a=t[0-1] b=t[2-3]")


def test_an_old_request_can_come_again_under_its_name() -> None:
    """When it was deleted, and nothing was there for a while."""
    g = group("member g a@1 t:1")
    g.say("request g request-0")
    assert when(g.pass_ms(100), "delete request request-0")
    g.say("member g b@2 t:1")
    g.pass_ms(1_000)
    g.say("request g request-0 fresh")
    found = g.pass_ms(100)
    assert when(found, "stop-fetcher") and when(found, "delete request request-0")


def test_a_request_that_is_gone_when_all_is_read_again_is_not_answered() -> None:
    g = group("member g a@1 t:1")
    g.say("topic t 8", "tick 10", "tick 10")
    assert g.writes
    g.say("request g request-0", "read g")
    assert not when(g.pass_ms(1_000), "delete request")


@pytest.mark.parametrize("calm", [False, True])
def test_in_a_storm_gives_what_has_moved_least(calm: bool) -> None:
    """What moved is forgotten when it was calm; what somebody leaves behind has not moved."""
    g = group("member g a@1 t:1", partitions=6)
    g.say("member g b@2 t:1")
    g.pass_ms(100)
    g.say("gone g a")
    g.pass_ms(100)
    if calm:
        g.pass_ms(1_500)
    g.say("member g c@3 t:1")
    (text,) = [text for _, text in g.pass_ms(100) if "stop-fetcher b" in text]
    assert ("t[3-5]" if calm else "t[0-2]") in text


def test_without_an_initial_delay_the_first_members_have_a_quiet_window() -> None:
    g = Timed("options debounce_ms=10", "elected 3", "topic t 4", "ready")
    for n in range(1, 5):
        g.say(f"member g m{n}@{n} t:1", "tick 8")
    found = g.pass_ms(100)
    assert when(found, "start-fetcher m1")[0] == 24 + 10


def test_the_first_member_waits_for_the_others_whenever_they_come() -> None:
    """A later one does not end that, nor prolong it."""
    g = Timed(f"options {SOON} initial_delay_ms=3000", "elected 3", "topic t 4", "ready")
    g.say("member g a@1 t:1")
    for name, number, ms in (("b", 2, 100), ("c", 3, 2_400), ("d", 4, 495)):
        g.pass_ms(ms)
        g.say(f"member g {name}@{number} t:1")
    found = g.pass_ms(1_000)
    assert when(found, "start-fetcher")[0] == 3_000
    assert not when(found, "stop-fetcher")


def test_the_initial_delay_is_for_the_first_members_and_for_no_others() -> None:
    """Not where everybody is away for a moment and keeps what it has."""
    g = Timed(f"options {SOON} initial_delay_ms=3000", "elected 3", "topic t 4", "ready")
    g.say("member g a@1 t:1 instance=one grace=60000")
    assert when(g.pass_ms(5_000), "start-fetcher a")[0] == 3_000
    g.say("gone g a")
    g.pass_ms(1_000)
    assert g.reports("g")[-1].state.value == "Empty"
    g.say("member g b@2 t:1")
    joined_ms = g.now
    assert when(g.pass_ms(5_000), "start-fetcher b")[0] == joined_ms + WINDOW_MS
    # nor where there was only nothing to be had
    g.say("member h x@3 none:1")
    g.pass_ms(5_000)
    g.say("member h y@4 t:1")
    joined_ms = g.now
    assert when(g.pass_ms(5_000), "start-fetcher y")[0] == joined_ms + WINDOW_MS


@pytest.mark.parametrize("how", ["taken over", "asked for", "mode"])
def test_an_initial_delay_ends_with_the_first_assignment_however_that_came(how: str) -> None:
    """A coordinator that takes over, and an operator, have the first members assigned at once: what
    changes afterwards waits no longer than elsewhere.
    """
    g = Timed(f"options {SOON} initial_delay_ms=3000", "elected 3", "topic t 4")
    if how == "taken over":
        g.say("member g a@1 t:1", "own g a t-0,t-1,t-2,t-3", "ready")
    else:
        g.say("ready", "member g a@1 t:1", "tick 50")
        g.say("request g r1" if how == "asked for" else "mode g coordinated")
        assert when(g.pass_ms(20), "start-fetcher a") == [50]
    g.pass_ms(100)
    g.say("member g b@2 t:1")
    joined_ms = g.now
    assert when(g.pass_ms(5_000), "start-fetcher b")[0] <= joined_ms + 100


def test_a_change_while_a_coordinator_takes_over_begins_no_initial_delay() -> None:
    """Of many groups some are decided later, when more has happened."""
    g = Timed(f"options {SOON} initial_delay_ms=3000 weight_per_step_max=1", "elected 3")
    g.say("topic t 4", "member g a@1 t:1", "own g a t-0", "member h b@2 t:1", "tick 10")
    g.say("ready", "topic t 8")
    found = g.pass_ms(5_000)
    assert when(found, "start-fetcher a")[0] <= 200 and when(found, "start-fetcher b")[0] <= 200


# reports


def test_a_report_says_why_and_who_has_what() -> None:
    g = group("member g a@1 t:1", "member g b@2 t:1", "malformed g owner t-9 junk")
    last = g.reports("g")[-1]
    assert last.cause == Cause("member joined", "a") and last.ownership == "a=t[0,2] b=t[1,3]"
    g.say("member g c@3 t:1", "member g d@4 t:1")
    g.pass_ms(1_000)
    assert g.reports("g")[-1].cause == Cause("member joined", "c")
    by_state: dict[str, set[bool]] = {}
    for report in g.reports("g"):
        by_state.setdefault(report.state.value, set()).add(bool(report.ownership))
    assert by_state["CompletingRebalance"] == {False} and by_state["Stable"] == {True}


@pytest.mark.parametrize(("partitions", "said"), [(500, "a=t[0-499]"), (501, "")])
def test_who_has_what_is_reported_while_that_is_small(partitions: int, said: str) -> None:
    g = group("member g a@1 t:1", partitions=partitions)
    assert g.reports("g")[-1].ownership == said


def test_the_weight_of_a_group_is_its_members_and_partitions() -> None:
    """Of those that are to be assigned and those that are owned the more."""
    g = Timed(f"options {SOON}", "elected 3", "topic t 4", "member g a@1 t:1", "member g b@2 t:1")
    g.say("own g a t-0,t-1,t-2")
    assert g.core.groups["g"].weight == 1 + 2 + 3
    g.say("ready")
    g.pass_ms(1_000)
    g.say("gone g a", "gone g b")
    g.pass_ms(1_000)
    assert g.core.groups["g"].weight == 1
    g.say("member g c@3 t:1", "tick 10")
    assert g.core.groups["g"].weight == 1 + 1 + 4


def test_nodes_of_nobody_in_a_wide_group_are_deleted_in_time() -> None:
    """Filed in portions, also what is found in the last of them."""
    g = Timed(
        f"options {SOON} filed_at_once_max=3 lease_max_ms=3000",
        "elected 3",
        "topic t 40",
        "member g a@1 t:1",
    )
    g.say("foreign g " + ",".join(f"t-{n}" for n in range(40)) + " session=77")
    g.say("ready")
    found = g.pass_ms(6_000)
    assert when(found, "delete owner")[0] == 4_300
    assert len(g.owners["g"]) == 40 and when(found, "start-fetcher a")


def test_commands_carry_the_mark_of_the_registrations_in_a_shared_group_only() -> None:
    g = group("member g a@1 t:1")
    assert {c.seen for c in sends(g)} == {""}
    before = len(sends(g))
    g.say("mode g mixed", "member g old@2 t:1 legacy")
    g.pass_ms(1_000)
    assert len(sends(g)) > before and all(c.seen.startswith("2-") for c in sends(g)[before:])


# static members


def test_a_group_that_is_shared_keeps_nothing_for_anybody() -> None:
    """Also where its mode was known before its report was read."""
    g = group("member g a@1 t:1 instance=one grace=60000", "member g b@2 t:1")
    g.say("gone g a")
    g.pass_ms(100)
    assert [d.instance for d in g.reports("g")[-1].departed] == ["one"]
    g.say("mode g mixed")
    found = g.pass_ms(2_000)
    assert when(found, "start-fetcher b") and g.reports("g")[-1].departed == ()
    other = Timed(f"options {SOON}", "elected 3", "topic t 4", "ready", "mode g mixed")
    other.say("member g a@1 t:1 instance=one grace=60000", "member g b@2 t:1")
    other.say("report g 3 Stable 2 t one=60000:t-0,t-1")
    other.pass_ms(2_000)
    other.say("gone g a")
    assert when(other.pass_ms(2_000), "start-fetcher b")


def test_a_group_that_is_coordinated_keeps_its_promises() -> None:
    g = group("member g a@1 t:1 instance=one grace=60000", "member g b@2 t:1")
    g.say("gone g a")
    g.pass_ms(100)
    g.say("mode g coordinated")
    assert not when(g.pass_ms(5_000), "start-fetcher b")
    assert [d.instance for d in g.reports("g")[-1].departed] == ["one"]
