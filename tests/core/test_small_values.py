"""The small things that everybody counts on: which topic is meant, what stands for a set of
members, how long a name or a text is, and an old consumer's hash.
"""

from __future__ import annotations

import json
from itertools import combinations

import pytest

from zkcoord.core.assignment import AssignmentInput
from zkcoord.core.legacy_assignment import (
    UNFOLLOWED_MAX,
    EqualHashes,
    assign_legacy_roundrobin_10,
    followed_in_part,
    java_hash,
    target_beside,
)
from zkcoord.core.model import (
    GroupMode,
    Malformed,
    Member,
    Mode,
    Pattern,
    PatternKind,
    Subscription,
    TopicPartition,
    same_incarnation,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.shared import mark_of
from zkcoord.core.sizes import json_bytes


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("5", "5", True),
        ("5", "6", False),
        ("5.x", "5.y", False),
        ("5.x", "6.x", True),
        ("5", "5.x", True),
        ("5.x", "5", True),
        ("5", "6.x", False),
        ("5.x", "6", False),
    ],
)
def test_two_incarnations_are_of_one_topic(a: str, b: str, same: bool) -> None:
    """Equal ids, or, where one has none, equal transactions."""
    assert same_incarnation(a, b) is same_incarnation(b, a) is same


def test_a_name_is_shown_up_to_a_length() -> None:
    assert Malformed("owner", "n" * 300, "").shown()["name"] == "n" * 300
    assert Malformed("owner", "n" * 301, "").shown()["name"] == "n" * 300 + "..."


def test_a_backoff_doubles_sixteen_times_at_most() -> None:
    options = CoordinatorOptions(retry_backoff_ms=1, retry_backoff_max_ms=10**9)
    assert [options.backoff_ms(n) for n in (0, 1, 15, 16, 17, 18)] == [1, 2, 2**15, *[2**16] * 3]


def test_different_sets_of_registrations_have_different_marks() -> None:
    members = [Member("m", n, n, Subscription()) for n in range(1, 2**40, 2**37)]
    sets = [some for count in range(4) for some in combinations(members, count)]
    marks = {mark_of(some) for some in sets}
    assert len(marks) == len(sets) and all(len(mark) == 18 for mark in marks)
    assert mark_of(members) == mark_of(reversed(members))


@pytest.mark.parametrize("text", ['a"b', "a\\b", "\uffff", "\U00010000", "\n", "", "plain"])
def test_a_text_is_counted_as_it_is_written(text: str) -> None:
    assert json_bytes(text) == len(json.dumps(text))


def test_the_first_character_of_two_units_is_hashed_as_two() -> None:
    """As Java does: U+10000 is D800 DC00."""
    assert java_hash("\U00010000") == 0xD800 * 31 + 0xDC00
    assert java_hash("\uffff") == 0xFFFF


def test_of_several_equal_hashes_the_lowest_is_named() -> None:
    given = AssignmentInput(
        {"m": dict.fromkeys(("Aa", "BB", "Ba", "CB"), 1)},
        dict.fromkeys(("Aa", "BB", "Ba", "CB"), (0,)),
    )
    found = assign_legacy_roundrobin_10(given)
    assert isinstance(found, EqualHashes)
    assert found.hash == min(java_hash("Aa-0"), java_hash("Ba-0"))


# beside members that are not understood


def old(name: str, number: int, unfollowed: str = "java") -> Member:
    """An old consumer."""
    return Member(name, number, number, Subscription(), legacy=True, unfollowed=unfollowed)


def test_as_many_that_are_not_understood_are_followed_in_part() -> None:
    mode = Mode(GroupMode.MIXED)
    some = {str(n): old(str(n), n) for n in range(UNFOLLOWED_MAX)}
    assert followed_in_part(some, mode)
    assert not followed_in_part({**some, "more": old("more", 9)}, mode)


T = [TopicPartition("t", n) for n in range(4)]
U = [TopicPartition("u", n) for n in range(4)]


def beside(
    known: dict[str, dict[str, int]],
    owned: dict[TopicPartition, str],
    at_rest: bool,
    *names: str,
    topics: tuple[str, ...] = ("t",),
) -> tuple[dict[str, str], str]:
    """Who gets what beside these members that are not understood; and what is undecided."""
    members = {name: Member(name, n, n, Subscription()) for n, name in enumerate(known, 1)}
    members |= {name: old(name, n) for n, name in enumerate(names, 9)}
    given = AssignmentInput(
        {**known, **{name: {} for name in names}}, dict.fromkeys(topics, (0, 1, 2, 3))
    )
    target, undecided = target_beside(given, members, owned, at_rest)
    by_member: dict[str, str] = {}
    for tp, thread in sorted(target.items()):
        by_member[thread.member] = f"{by_member.get(thread.member, '')} {tp}".strip()
    return by_member, " ".join(map(str, undecided))


def test_before_it_has_tried_what_may_be_its_is_nobodys() -> None:
    assert beside({"zk": {"t": 1}}, {}, False, "old") == ({"zk": "t-2 t-3"}, "t-0 t-1")


def test_one_that_owns_nothing_when_all_have_tried_takes_nothing() -> None:
    assert beside({"zk": {"t": 1}}, {}, True, "old") == ({"zk": "t-0 t-1 t-2 t-3"}, "")


def test_what_it_owns_is_its_share_and_the_rest_is_ours() -> None:
    owned = {T[0]: "old", T[1]: "old"}
    assert beside({"zk": {"t": 1}}, owned, True, "old") == ({"old": "t-0 t-1", "zk": "t-2 t-3"}, "")


def test_one_that_owns_what_it_takes_elsewhere_takes_nothing_here() -> None:
    owned = {U[0]: "old", U[1]: "old"}
    found = beside({"zk": {"t": 1, "u": 1}}, owned, True, "old", topics=("t", "u"))
    assert found == ({"old": "u-0 u-1", "zk": "t-0 t-1 t-2 t-3 u-2 u-3"}, "")


def test_of_two_each_is_judged_by_what_it_owns() -> None:
    """The one owns its share of three, the other has given up: its share is ours."""
    owned = {T[0]: "o1", T[1]: "o1"}
    both, undecided = beside({"zk": {"t": 1}}, owned, True, "o1", "o2")
    assert "t-0" in both["o1"] and "t-3" in both["zk"]
    assert not {"t-0", "t-1"} & set(both["zk"].split()), (both, undecided)
    # as long as the other may still come
    early, open_ = beside({"zk": {"t": 1}}, owned, False, "o1", "o2")
    assert early["zk"] == "t-3" and "t-2" in open_


def test_a_topic_that_none_of_ours_wants_is_never_ours() -> None:
    """An old consumer that is understood wants it, and one that is not may."""
    members = {
        "zk": Member("zk", 1, 1, Subscription()),
        "old": Member("old", 2, 2, Subscription(), legacy=True),
        "other": old("other", 3),
    }
    given = AssignmentInput(
        {"zk": {"t": 1}, "old": {"u": 1}, "other": {}}, {"t": (0, 1), "u": (0, 1)}
    )
    for at_rest in (False, True):
        target, _ = target_beside(given, members, {}, at_rest)
        assert {tp.topic for tp, thread in target.items() if thread.member == "zk"} <= {"t"}


def shared(
    known: dict[str, bool], owned: dict[str, str], at_rest: bool, unfollowed: str = "o"
) -> tuple[dict[str, str], str]:
    """Of six partitions: `known` members of t (True: old), one that is not understood, who owns
    what (numbers); who is to have what, and what is undecided.
    """
    members = {
        name: Member(name, n, n, Subscription(), legacy=is_old)
        for n, (name, is_old) in enumerate(known.items(), 1)
    }
    members |= {name: old(name, n) for n, name in enumerate(unfollowed, 9)}
    given = AssignmentInput(
        {name: {"t": 1} if name in known else {} for name in members}, {"t": tuple(range(6))}
    )
    held = {TopicPartition("t", int(n)): name for name, some in owned.items() for n in some}
    target, undecided = target_beside(given, members, held, at_rest)
    found: dict[str, str] = {}
    for tp, thread in sorted(target.items()):
        found[thread.member] = found.get(thread.member, "") + str(tp.partition)
    return found, "".join(str(tp.partition) for tp in undecided)


def test_the_share_of_one_that_has_given_up_is_ours() -> None:
    """What the other one owns says that it was counted with."""
    assert shared({"zk": False}, {"o": "01"}, True, "op") == ({"o": "01", "zk": "2345"}, "")


def test_what_is_owned_by_several_is_judged_together() -> None:
    """One that is understood and one that is not, before all have tried."""
    found = shared({"a": True, "zk": False}, {"a": "01", "o": "23"}, False)
    assert found == ({"a": "01", "o": "23", "zk": "45"}, "")


def test_only_an_assignment_by_which_all_own_what_they_do_is_the_true_one() -> None:
    found = shared({"a": True, "p": True, "zk": False}, {"a": "01", "p": "23"}, True)
    assert found == ({"a": "01", "p": "23", "zk": "45"}, "")


def test_what_only_old_consumers_want_is_theirs_though_one_has_given_up() -> None:
    members = {
        "a": Member("a", 1, 1, Subscription(), legacy=True),
        "o": old("o", 2),
        "zk": Member("zk", 3, 3, Subscription()),
    }
    given = AssignmentInput(
        {"a": {"u": 1}, "o": {}, "zk": {"t": 1}}, {"t": (0, 1), "u": (0, 1, 2, 3)}
    )
    owned = {U[0]: "a", U[1]: "a"}
    target, _ = target_beside(given, members, owned, True)
    assert {tp for tp, thread in target.items() if thread.member == "zk"} == {T[0], T[1]}
    assert target[U[0]].member == target[U[1]].member == "a"


@pytest.mark.parametrize(
    ("instance", "grace_ms", "topics", "pattern", "is_leaving"),
    [
        ("one", 0, {}, None, True),
        (None, 0, {}, None, False),
        ("one", 1, {}, None, False),
        ("one", 0, {"t": 1}, None, False),
        ("one", 0, {}, Pattern(PatternKind.WHITE_LIST, "t"), False),
    ],
)
def test_who_wants_nothing_and_no_grace_is_leaving(
    instance: str | None,
    grace_ms: int,
    topics: dict[str, int],
    pattern: Pattern | None,
    is_leaving: bool,
) -> None:
    wants = Subscription(topics, pattern)
    assert Member("a", 1, 1, wants, instance=instance, grace_ms=grace_ms).is_leaving == is_leaving


@pytest.mark.parametrize(
    ("topics", "pattern", "legacy", "wants_nothing"),
    [
        ({}, None, False, True),
        ({"t": 1}, None, False, False),
        ({}, Pattern(PatternKind.WHITE_LIST, "t"), False, False),
        ({}, None, True, False),
    ],
)
def test_who_subscribes_to_nothing_gives_up(
    topics: dict[str, int], pattern: Pattern | None, legacy: bool, wants_nothing: bool
) -> None:
    """Not an old consumer that names no topics: it stays as it is."""
    member = Member("a", 1, 1, Subscription(topics, pattern), legacy=legacy)
    assert member.wants_nothing == wants_nothing
