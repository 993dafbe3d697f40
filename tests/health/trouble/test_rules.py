"""Each rule: what it finds, and what is nearly that and is no trouble."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.health.trouble.told import NOW_MS, Journal, commit, facts, name
from zkcoord.core.model import TopicPartition
from zkcoord.health.trouble.changes import _middle_without
from zkcoord.health.trouble.evidence import (
    STEPS_MAX,
    Evidence,
    MemberFact,
    of_last_hour,
    steps_of,
)
from zkcoord.health.trouble.kinds import TroubleKind
from zkcoord.health.trouble.rules import RULES, TROUBLES_MAX, foremost, troubles_of

ROOT = Path(__file__).parents[3]


def flaps(count: int, seconds: float = 20, until_s: float = 5) -> tuple[Journal, str]:
    journal, last = Journal(), ""
    for number in range(count):
        from_s = until_s + (count - number) * seconds
        last = journal.lived(from_s, from_s - seconds * 0.9)
    return journal, last


def test_one_that_comes_and_goes_again_and_again_is_named() -> None:
    journal, last = flaps(4)
    assert journal.found() == [("flapping-member", last)]
    (found,) = troubles_of(journal.evidence())
    assert "app at h1" in found.evidence and "4 times" in found.evidence, found.evidence
    newest = journal.came(1)
    assert journal.found() == [("flapping-member", newest)], "it is there again"
    (again,) = troubles_of(journal.evidence())
    assert again.key == found.key, "it is the same trouble"


@pytest.mark.parametrize(
    "journal",
    [
        flaps(3)[0],
        flaps(4, until_s=700)[0],  # it is over
        flaps(5, seconds=400)[0],  # it lives long enough for a deployment
    ],
)
def test_what_is_nearly_flapping(journal: Journal) -> None:
    assert journal.found() == []


def deployed(journal: Journal, before: list[str], start_s: float, each_s: float) -> list[str]:
    """Each is replaced by another one, on the same host; who is there then."""
    after = []
    for number, member in enumerate(before):
        at_s = start_s - number * each_s
        journal.went(at_s, member)
        journal.rebalanced(at_s - 0.1, "member left", member, len(before))
        after.append(journal.came(at_s - 0.5))
        journal.rebalanced(at_s - 0.6, "member joined", after[-1], len(before))
    return after


@pytest.mark.parametrize("members", [1, 3, 20, 100])
def test_rolling_restarts_and_kills_are_neither_flapping_nor_a_storm(members: int) -> None:
    """Two within ten minutes, all on one host, and every one of them killed once after that."""
    journal = Journal()
    there = [journal.came(590 - n * 0.01) for n in range(members)]
    for start_s in (500, 300):
        there = deployed(journal, there, start_s, 150 / members)
    there = deployed(journal, there, 100, 90 / members)
    assert journal.found() == []


def test_many_that_come_and_go_are_a_storm_and_one_finding() -> None:
    journal = Journal()
    for client in ("a", "b", "c", "d"):
        for number in range(8):
            journal.lived(300 - number * 30, 280 - number * 30, client)
    assert journal.found() == [("rebalance-storm", "")]
    (found,) = troubles_of(journal.evidence())
    assert "64 rebalances" in found.evidence and "a at h1 (8 times)" in found.evidence


def test_two_that_flap_are_no_storm() -> None:
    journal = Journal()
    for client in ("a", "b"):
        for number in range(12):
            journal.lived(300 - number * 20, 290 - number * 20, client)
    assert {kind for kind, _ in journal.found()} == {"flapping-member"}


@pytest.mark.parametrize(("count", "kinds"), [(20, []), (21, ["rebalance-storm"])])
def test_topics_that_change_again_and_again(count: int, kinds: list[str]) -> None:
    journal = Journal()
    for number in range(count):
        journal.rebalanced(10 + number * 20, "partitions changed", "orders")
    assert [kind for kind, _ in journal.found()] == kinds
    for found in troubles_of(journal.evidence()):
        assert "partitions changed orders (21 times)" in found.evidence


@pytest.mark.parametrize(
    ("ended", "kind", "words"),
    [
        ("poll-interval 12000", "poll-interval", "max_poll_interval_ms"),
        ("session 9000", "session-expiry", "stood still"),
        ("session 20", "session-expiry", "cut off"),
        ("evicted 0", "slow-handler", "was evicted"),
    ],
)
def test_memberships_that_end_in_the_same_way_again_and_again(
    ended: str, kind: str, words: str
) -> None:
    journal = Journal()
    journal.lived(300, 260)
    for from_s in (259, 179):
        journal.lived(from_s, from_s - 60, ended=ended)
        least = 3 if not ended.startswith("evicted") else 2
        if from_s == 259 or least == 3:
            assert journal.found() == [], "once is an accident, twice its repair"
    last = journal.came(99, ended=ended)
    assert journal.found() == [(kind, last)]
    (found,) = troubles_of(journal.evidence())
    assert words in found.evidence and "app at h1" in found.evidence


def test_ten_that_were_cut_off_together_are_not_one_that_is_again_and_again() -> None:
    journal = Journal()
    for number in range(10):
        journal.came(60 + number * 0.01, ended="session 0")
    assert journal.found() == []


def test_names_that_nobody_here_made_are_known_by_their_host() -> None:
    journal = Journal()
    for number in range(4):
        member = f"strange-{number}"
        one = {"member": member, "host": "h9", "client": "odd"}
        journal.add(100 - number * 20, "members", joined=[one], left=[])
        journal.went(85 - number * 20, member)
    assert journal.found() == [("flapping-member", "strange-3")]


def test_what_a_member_says_of_its_end_may_be_anything() -> None:
    journal = Journal()
    for number in range(5):
        journal.lived(500 - number * 90, 420 - number * 90, ended="poll-interval " + "9" * 400)
    assert {kind for kind, _ in journal.found()} == {"flapping-member"}


def changes(slow_ms: int, count: int = 3, others_ms: int = 20, took_ms: int = 1_600) -> Journal:
    journal = Journal()
    for number in range(count):
        stops = {name(1): slow_ms, name(2): others_ms, name(3): others_ms}
        journal.rebalanced(600 - number * 100, stops=stops, took_ms=took_ms)
    return journal


def test_one_that_holds_up_every_change_is_named() -> None:
    journal = changes(1_500)
    assert journal.found() == [("slow-handler", name(1))]
    assert journal.found(facts({name(2): {}}, topics={})) == [], "it has gone since"
    journal.went(10, name(1))
    assert journal.found() == []


@pytest.mark.parametrize(
    "journal",
    [
        changes(1_500, count=2),
        changes(900),
        changes(1_500, others_ms=1_000),  # all are slow
        changes(1_500, took_ms=9_000),  # something else took the time
    ],
)
def test_what_is_nearly_a_slow_handler(journal: Journal) -> None:
    assert journal.found() == []


def test_one_that_was_slow_in_a_few_of_many_changes() -> None:
    journal = changes(1_500)
    for number in range(10):
        journal.rebalanced(200 - number, stops={name(1): 10})
    assert journal.found() == []


def test_partitions_without_members() -> None:
    given: dict[str, Any] = {"topics": {"orders": (0, 1, 2)}}
    group = facts({"m1": {"orders": [0]}}, **given)
    assert Journal().found(group) == [("unowned-partitions", "orders-1")]
    for quiet in (
        facts({"m1": {"orders": [0, 1, 2]}}, **given),
        facts({"m1": {"orders": [0]}}, **given, since_ms=NOW_MS - 29_000),
        facts({"m1": {"orders": [0]}}, **given, state="PreparingRebalance"),
        facts({}, **given, state="Empty"),
        facts({"m1": {"orders": [0]}}, **given, led=True),
        facts({"m1": {"orders": []}}, **given, paused=True),
    ):
        assert Journal().found(quiet) == [], quiet
    (found,) = troubles_of(
        Journal().evidence(facts({"m1": {"orders": [0]}}, **given, has_coordinator=False))
    )
    assert "no coordinator leads" in found.evidence and "Start a coordinator" in found.remedy
    (found,) = troubles_of(
        Journal().evidence(
            facts({"m1": {"orders": [0]}}, **given, state="Quarantined", failure="m2 is slow")
        )
    )
    assert "m2 is slow" in found.evidence


def test_members_without_partitions() -> None:
    given: dict[str, Any] = {"topics": {"orders": (0,)}}
    assert Journal().found(facts({"m1": {"orders": [0]}, "m2": {}}, **given)) == [
        ("idle-members", "m2")
    ]
    three = facts({"m1": {"orders": [0]}, "m2": {}, "m3": {}}, **given)
    assert Journal().found(three) == [("idle-members", "")]
    soon = facts({"m1": {"orders": [0]}, "m2": {}}, **given, since_ms=NOW_MS - 5_000)
    assert Journal().found(soon) == [], "a deployment has one more for a while"
    wants_nothing = facts({"m1": {"orders": [0]}, "m2": {}}, **given)
    members = {**wants_nothing.members, "m2": MemberFact("m2")}
    assert Journal().found(facts({}, **given, members=members, owners=wants_nothing.owners)) == []


def test_uneven_assignments() -> None:
    topics = {f"t{n}": (0,) for n in range(4)}
    group = facts({"m1": {t: [0] for t in topics}, "m2": {}, "m3": {}}, topics=topics)
    assert Journal().found(group) == [("uneven-assignment", "m1")]
    remainder = facts(
        {"m1": {"t0": [0], "t1": [0]}, "m2": {"t2": [0]}, "m3": {"t3": [0]}}, topics=topics
    )
    assert Journal().found(remainder) == [], "range leaves one more of each topic"
    members = {"m1": MemberFact("m1", streams=dict.fromkeys(topics, 1))}
    members["m2"] = MemberFact("m2", streams={"other": 1})
    other = facts({"m1": {t: [0] for t in topics}, "m2": {}}, topics=topics, members=members)
    assert Journal().found(other) == [], "they do not subscribe to the same"


def test_registrations_that_cannot_be_read() -> None:
    bad = [("registration", "x-1", "no JSON"), ("owner", "orders-0", "no thread")]
    group = facts({"m1": {"orders": [0]}}, topics={"orders": (0,)}, malformed=bad)
    assert Journal().found(group) == [("malformed-registration", "x-1")]
    journal = Journal()
    journal.add(90, "malformed", what="registration", name="x-1", reason="no JSON")
    (found,) = troubles_of(journal.evidence(group))
    assert found.since_ms == NOW_MS - 90_000 and "no JSON" in found.evidence


def test_an_owner_that_commits_nothing() -> None:
    group = facts({"m1": {"orders": [0]}}, topics={"orders": (0,)})
    stands = commit(stands="no commit for 60 s")
    assert Journal().found(group, [stands]) == [("commit-stands-still", "m1")]
    for quiet in (
        commit(),
        commit(stands="no commit for 60 s", ended=50),  # nothing came
        commit(1, stands="no commit for 60 s"),  # nobody has it
    ):
        assert Journal().found(group, [quiet]) == [], quiet
    assert Journal().found(None, [commit(stands="none")]) == [], "the owner is not known"
    assert Journal().found(None, [commit(stands="none", owner="m1")])


def deaths(count: int, numbers: str = "0-3", last_s: float = 10) -> Journal:
    """Members that own partitions of orders and go, one after another."""
    journal = Journal()
    for number in range(count):
        at_s = last_s + (count - number) * 8
        member = journal.came(at_s)
        journal.rebalanced(at_s - 0.1, owned={member: {"orders": numbers}})
        journal.went(at_s - 5, member)
    return journal


def test_a_record_of_which_members_die_is_named() -> None:
    others = [commit(n, ago_s=1, offset=50) for n in (0, 2, 3)]
    poison = commit(1, offset=7)
    assert deaths(3).found(None, [*others, poison]) == [("poison-record", "orders-1")]
    (found,) = troubles_of(deaths(3).evidence(None, [*others, poison]))
    assert "at 7 " in found.evidence and "3 members" in found.evidence and name(3) in found.evidence
    assert deaths(6).found(None, [*others, poison]) == [("poison-record", "orders-1")], (
        "nobody flaps for a reason of its own"
    )


@pytest.mark.parametrize(
    ("journal", "commits"),
    [
        (deaths(1), [commit(1)]),
        (deaths(3), [commit(1, ago_s=1)]),  # it was passed since
        (deaths(3), [commit(1, waiting_ms=0)]),  # nothing waited while they went
        (deaths(3), [commit(1, offset=50)]),  # there is nothing behind it
        (deaths(3), [commit(n) for n in range(4)]),  # they die of something else
        (deaths(3, "4-7"), [commit(1)]),  # they did not own it
    ],
)
def test_what_is_nearly_a_poison_record(journal: Journal, commits: list[Any]) -> None:
    assert journal.found(None, commits) == []


def test_who_gave_it_up_before_it_went_did_not_die_of_it() -> None:
    journal = Journal()
    for number in range(3):
        at_s = 50 - number * 10
        member = journal.came(at_s)
        journal.rebalanced(at_s - 1, owned={member: {"orders": "1"}})
        journal.rebalanced(at_s - 2, owned={member: {"orders": "0"}})
        journal.went(at_s - 3, member)
    assert journal.found(None, [commit(1)]) == []


def test_every_kind_has_its_section() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for kind in TroubleKind:
        assert f"\n#### Trouble: {kind.value}\n" in text, kind
        assert kind.anchor == f"trouble-{kind.value}"
    assert text.count("\n#### Trouble: ") == len(TroubleKind)


def test_whatever_a_record_holds_nothing_is_raised() -> None:
    """It may be of another version, or torn."""
    chance = random.Random(38)
    texts = ["", "x", name(1), "0-3", "9" * 400, "member left", "stop-fetcher", "a,b-", None]

    def anything(depth: int) -> Any:
        match chance.randrange(6 if depth else 3):
            case 0:
                return chance.choice(texts)
            case 1:
                return chance.choice([-1, 0, 2**70, 1.5, True])
            case 2:
                return None
            case 3:
                return [anything(depth - 1) for _ in range(3)]
            case _:
                keys = [str(chance.choice(texts)), "member", "option", "ms", "ended", "host"]
                return {key: anything(depth - 1) for key in keys}

    fields = ("joined", "left", "member", "cause", "trigger", "members", "steps", "duration_ms")
    kinds = ("members", "rebalance", "evicted", "malformed", "client-led rebalance")
    for _ in range(300):
        records = [
            {
                "t": NOW_MS - chance.randrange(600_000),
                "kind": chance.choice(kinds),
                **{key: anything(3) for key in (*fields, "owned", "name")},
            }
            for _ in range(10)
        ]
        evidence = Evidence("g", NOW_MS, of_last_hour(records, NOW_MS), None, [commit(0)])
        assert len(troubles_of(evidence)) <= TROUBLES_MAX


def test_who_makes_many_of_one_kind_hides_nothing_of_another() -> None:
    journal = Journal()
    for number in range(3):
        journal.rebalanced(600 - number, stops={"m": 2_000}, took_ms=2_100)
    for number in range(TROUBLES_MAX + 10):
        client, ended = f"app{number}", "poll-interval 9000"
        for again in range(3):
            from_s = 300 - again * 40 + number * 0.01
            journal.lived(from_s, from_s - 20, client, ended)
    names = [(bad, f"bad{number:02}", "?") for number in range(60) for bad in ("registration",)]
    found = troubles_of(
        journal.evidence(facts({"m": {"orders": [0]}}, topics={"orders": (0,)}, malformed=names))
    )
    assert len(found) == TROUBLES_MAX
    assert {one.kind for one in found} == {
        TroubleKind.MALFORMED_REGISTRATION,
        TroubleKind.POLL_INTERVAL,
        TroubleKind.SLOW_HANDLER,
    }
    shown = foremost(found, 3)
    assert len({one.kind for one in shown}) == 3, "also where few are shown"
    oldest = min(one.since_ms for one in found if one.kind is TroubleKind.POLL_INTERVAL)
    assert shown[1].since_ms == oldest, "what was there before stays"


def test_whom_an_operator_had_evicted_is_not_slow() -> None:
    journal, ended = Journal(), ""
    for number, from_s in enumerate((300, 200, 100)):
        member = journal.came(from_s, ended=ended)
        journal.add(from_s - 90, "evicted", member=member, reason="operator: ann", by="ann@h")
        journal.went(from_s - 90, member)
        ended = "evicted 0"
    journal.came(9, ended=ended)
    assert journal.found() == []


def test_also_where_nobody_has_seen_it_come() -> None:
    journal = Journal()
    journal.add(299, "evicted", member=name(0), reason="operator: ann", by="ann@h")
    one = journal.came(298, ended="evicted 0")
    journal.add(200, "evicted", member=one, reason="operator: ann", by="ann@h")
    other = journal.came(199, ended="evicted 0")
    journal.add(100, "evicted", member=other, reason="did not answer a command in time")
    third = journal.came(99, ended="evicted 0")
    assert journal.found() == [], "one alone is its own"
    journal.add(50, "evicted", member=third, reason="did not answer a command in time")
    last = journal.came(49, ended="evicted 0")
    assert journal.found() == [("slow-handler", last)]


def test_what_others_took_is_the_median_of_them() -> None:
    chance = random.Random(7)
    for _ in range(500):
        values = [chance.randrange(5) for _ in range(chance.randrange(2, 8))]
        for at, one in enumerate(values):
            others = values[:at] + values[at + 1 :]
            assert median(_middle_without(sorted(values), one)) == median(others)
    assert _middle_without([3], 3) == []


def test_steps_that_are_read_are_bounded() -> None:
    journal = Journal()
    for number in range(3):
        journal.rebalanced(60 - number, stops={f"m{n:06}": 1_000 for n in range(STEPS_MAX * 5)})
    assert [len(list(steps_of(one))) for one in journal.evidence().rebalances] == [STEPS_MAX] * 3


def test_every_rule_is_quiet_on_nothing() -> None:
    assert [list(rule(Evidence("g", NOW_MS))) for rule in RULES] == [[]] * len(RULES)


def test_partitions_are_said_in_full() -> None:
    (found,) = troubles_of(
        Journal().evidence(facts({"m1": {}}, topics={"orders": tuple(range(9))}))
    )
    assert found.partition == TopicPartition("orders", 0)
    assert "orders-0, orders-1, orders-2, orders-3 and 5 more" in found.evidence
