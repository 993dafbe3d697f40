"""Failures of a group, and what is malformed in it: when it is quarantined, when that is forgotten,
how much of a flood is named.
"""

from __future__ import annotations

from zkcoord.core.events import GroupDelta
from zkcoord.core.group.malformed_log import RECORDS_PER_WINDOW_MAX, WINDOW_MS, MalformedLog
from zkcoord.core.group.quarantine import Quarantine
from zkcoord.core.model import Malformed, Member, Subscription
from zkcoord.core.options import CoordinatorOptions

from .timed import Timed, when

SOON = "debounce_again_ms=10 debounce_storm_ms=10 start_gather_ms=0"
QUARANTINED = "record quarantined g"


def deaf(g: Timed, name: str, number: int, timeout_ms: int) -> None:
    """A member without a channel, which takes nothing."""
    found = Member(name, number, number, Subscription({"none": 1}), rebalance_timeout_ms=timeout_ms)
    g.members.setdefault("g", {})[name] = found
    g.given("g", GroupDelta(members={name: found}))


def group(*lines: str, retries: int = 2, began_ms: int = 0) -> Timed:
    """A group that has everything settled."""
    found = Timed(f"options {SOON} max_rebalance_retries={retries}", "elected 3", "topic t 4")
    found.say("ready", f"tick {began_ms}", *lines)
    found.pass_ms(1_500)
    return found


def test_a_failure_after_a_long_rest_is_the_first_and_the_next_is_the_second() -> None:
    """Though nothing happened in between: a member that cannot be told anything is evicted."""
    g = group("member g a@1 t:1")
    deaf(g, "b", 2, 1_000)
    assert when(g.pass_ms(2_000), "record evicted g: member=b")
    g.say("expired g b")
    g.pass_ms(100)
    deaf(g, "c", 3, 40_000)
    found = g.pass_ms(41_000)
    assert when(found, "record evicted g: member=c") and not when(found, QUARANTINED)
    g.say("expired g c")
    deaf(g, "d", 4, 1_000)
    assert when(g.pass_ms(2_000), QUARANTINED)


def test_two_failures_soon_after_one_another_count_however_old_the_coordinator_is() -> None:
    g = group("member g a@1 t:1", began_ms=100_000)
    for number, name in enumerate("bc", 2):
        deaf(g, name, number, 1_000)
        found = g.pass_ms(2_000)
        g.say(f"expired g {name}")
    assert when(found, QUARANTINED)


def test_a_failure_in_quarantine_does_not_prolong_it() -> None:
    g = group("member g a@1 t:1", retries=1)
    deaf(g, "b", 2, 1_000)
    deaf(g, "c", 3, 1_500)
    found = g.pass_ms(1_100)
    (since_ms,) = when(found, QUARANTINED)
    g.say("expired g b")
    found = g.pass_ms(5_000)
    assert when(found, "record evicted g: member=c") and not when(found, QUARANTINED)
    assert when(found, "record released g") == [since_ms + 1_000]


def test_an_inherited_quarantine_leaves_one_trial() -> None:
    g = Timed(f"options {SOON}", "elected 3", "topic t 4", "member g a@1 t:1", "member g b@2 t:1")
    g.say("report g 4 Quarantined 2 t", "ready")
    g.pass_ms(100)
    # who leaves is reported at once, though the target waits
    g.say("gone g b")
    g.pass_ms(100)
    assert (g.reports("g")[-1].members, g.reports("g")[-1].state.value) == (1, "Quarantined")
    assert when(g.pass_ms(2_000), "record released g: because=membership changed")
    deaf(g, "c", 3, 1_000)
    assert when(g.pass_ms(2_000), QUARANTINED), "one failure is enough"


def test_whoever_was_told_of_a_quarantine_is_told_once_that_it_is_over() -> None:
    g = Timed(f"options {SOON}", "elected 3", "topic t 4", "member g a@1 t:1")
    g.say("own g a t-0,t-1,t-2,t-3", "report g 4 Quarantined 1 t", "member g b@2 u:1", "ready")
    found = g.pass_ms(200_000)
    assert len(when(found, "notify NONE b")) == 1 and len(when(found, "notify NONE a")) == 1
    assert g.core.groups["g"].planner.told == {}
    g.say("member g c@3 t:1")
    assert not when(g.pass_ms(10_000), "notify")


def test_the_backoff_doubles_sixteen_times_at_most() -> None:
    """Where its maximum is further away than that."""
    options = CoordinatorOptions(quarantine_backoff_ms=1, quarantine_backoff_max_ms=10**9)
    found = []
    quarantine = Quarantine(options)
    for _ in range(20):
        quarantine.quarantine(0)
        found.append(quarantine.not_before_ms)
    assert found == [2**n for n in range(17)] + [2**16] * 3


def test_of_a_flood_of_malformed_nodes_so_many_are_named_each_minute() -> None:
    log = MalformedLog("g")
    most = RECORDS_PER_WINDOW_MAX

    def reported(now_ms: int, count: int) -> list[str]:
        found = [Malformed("owner", f"t-{n}", "no thread") for n in range(count)]
        return [
            str(r.detail["name"] if r.detail["what"] != "more" else r.detail["reason"])
            for r in log.report(now_ms, found)
        ]

    many = "many nodes are malformed: for a minute the others are only counted"
    assert reported(0, most - 1) == [f"t-{n}" for n in range(most - 1)]
    assert reported(10, 3) == ["t-0", many] and reported(20, 5) == []
    assert reported(WINDOW_MS - 1, 1) == [] == reported(WINDOW_MS, 0)
    assert reported(WINDOW_MS, most) == ["8 more nodes were malformed"] + [
        f"t-{n}" for n in range(most)
    ]
    assert reported(2 * WINDOW_MS - 1, 0) == []
    # a minute in which nothing was left out
    assert reported(2 * WINDOW_MS, 1) == ["t-0"]
    assert reported(3 * WINDOW_MS - 1, most) == [f"t-{n}" for n in range(most - 1)] + [many]
    assert reported(4 * WINDOW_MS, 1) == ["1 more nodes were malformed", "t-0"]
