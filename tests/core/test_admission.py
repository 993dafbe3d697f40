"""Who is admitted to a group, what wins the votes, and which proposals of a custom assignor are no
good: the bounds, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from zkcoord.core.assignment import Assignment
from zkcoord.core.model import (
    Departed,
    GroupMetadata,
    Member,
    Pattern,
    PatternKind,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.target import (
    USER_DATA_CHARS_MAX,
    Prepared,
    TargetAssignment,
    TargetInput,
    count_moves,
    differing,
    fits,
    prepare,
    proposal_error,
)

WORLD = TargetInput({"t": Topic("t", "1", (0, 1, 2, 3)), "u": Topic("u", "2", (0,))}, {})
T = [TopicPartition("t", n) for n in range(4)]


def member(name: str, number: int, *assignors: str, **more: object) -> Member:
    """One of t."""
    return Member(name, number, number, Subscription({"t": 1}), assignors or ("sticky",), **more)  # type: ignore[arg-type]


def asked(
    *members: Member,
    away: Mapping[str, Member] | None = None,
    used: GroupMetadata | None = None,
    new_term: bool = False,
    **options: object,
) -> Prepared:
    """What comes of these members."""
    return prepare(
        "g",
        WORLD,
        {m.name: m for m in members},
        away or {},
        {},
        {},
        CoordinatorOptions(**options),  # type: ignore[arg-type]
        used,
        new_term,
    )


def codes(prepared: Prepared) -> dict[str, str]:
    """Who is sent away, and why."""
    return {name: rejection.code for name, rejection in prepared.rejected.items()}


@pytest.mark.parametrize("alike", [True, False])
def test_so_many_members_are_admitted_the_oldest_first(alike: bool) -> None:
    more = ("sticky",) if alike else ("sticky", "range")
    members = [member("c", 1), member("a", 3), member("b", 2, *more)]
    assert codes(asked(*members, members_per_group_max=3)) == {}
    assert codes(asked(*members, members_per_group_max=2)) == {"a": "GROUP_MAX_SIZE_REACHED"}


def test_of_one_age_the_names_decide() -> None:
    """One transaction may make several registrations."""
    found = asked(member("b", 1, "range"), member("a", 1), member("c", 2))
    assert codes(found) == {"b": "INCONSISTENT_GROUP_PROTOCOL"}
    assert "the group uses sticky" in found.rejected["b"].message


@pytest.mark.parametrize("count", [1, 2])
def test_who_names_nothing_that_is_known_is_sent_away(count: int) -> None:
    """Though all name the same."""
    names = "ab"[:count]
    unknown = asked(*(member(name, n, "mine") for n, name in enumerate(names)))
    assert codes(unknown) == dict.fromkeys(names, "INCONSISTENT_GROUP_PROTOCOL")
    assert "this member names mine, the group uses range, roundrobin, sticky;" in (
        unknown.rejected["a"].message
    )
    lost = asked(*(member(name, n, protocols=("fast",)) for n, name in enumerate(names)))
    assert codes(lost) == dict.fromkeys(names, "INCONSISTENT_GROUP_PROTOCOL")
    assert "names fast, the group uses cooperative, eager;" in lost.rejected["a"].message
    assert asked(member("a", 1, "mine"), external_assignors=("mine",)).assignor == "mine"


def test_an_instance_is_there_once() -> None:
    found = asked(member("a", 1, instance="one"), member("b", 2, instance="one"))
    assert codes(found) == {"b": "FENCED_INSTANCE_ID"}
    assert found.rejected["b"].message == "the instance one is in the group already, as a"
    assert list(found.given.members) == ["!/one"]


def test_who_shares_no_protocol_with_those_before_is_sent_away() -> None:
    found = asked(
        member("a", 1, protocols=("cooperative",)),
        member("b", 2, protocols=("eager",)),
        member("c", 3, protocols=("eager", "cooperative")),
    )
    assert codes(found) == {"b": "INCONSISTENT_GROUP_PROTOCOL"} and found.protocol == "cooperative"


@pytest.mark.parametrize(
    ("ballots", "winner"),
    [
        ([("range",), ("range", "sticky"), ("sticky", "range")], "range"),
        ([("sticky", "range"), ("sticky", "range"), ("range", "sticky")], "sticky"),
        ([("sticky", "range"), ("range", "sticky")], "range"),
        ([("sticky", "range"), ("sticky", "range")], "sticky"),
        ([("roundrobin", "sticky"), ("range", "sticky"), ("range", "sticky")], "sticky"),
        ([()], "sticky"),
    ],
)
def test_most_votes_win_among_what_all_support(ballots: list[tuple[str, ...]], winner: str) -> None:
    """And of equal votes the name that sorts first; who names nothing has the default."""
    members = [
        Member(f"m{n}", n, n, Subscription({"t": 1}), ballot) for n, ballot in enumerate(ballots)
    ]
    assert asked(*members).assignor == winner and not asked(*members).rejected


def test_while_somebody_is_away_what_the_group_uses_stays_if_all_support_it() -> None:
    away = {"!/one": member("!/one", 0, instance="one")}
    used = GroupMetadata(1, assignor="sticky", protocol="eager")
    both = {"protocols": ("cooperative", "eager")}
    there = [member(name, n, "range", "sticky", **both) for n, name in enumerate("ab", 1)]
    kept = asked(*there, away=away, used=used)
    assert (kept.assignor, kept.protocol) == ("sticky", "eager")
    free = asked(*there, used=used)
    assert (free.assignor, free.protocol) == ("range", "cooperative")
    other = asked(member("c", 3, "range"), away=away, used=used)
    assert (other.assignor, other.protocol) == ("range", "cooperative")
    some = asked(
        member("a", 1, "range", "sticky"),
        member("b", 2, "sticky"),
        away=away,
        used=GroupMetadata(1, assignor="range"),
    )
    assert some.assignor == "sticky", "what only one supports does not stay"
    # nobody is there: nobody votes; and what is known no more is used no more
    assert asked(away=away, used=used).assignor == asked(away=away).assignor == "sticky"
    gone = GroupMetadata(1, assignor="racks", protocol="cooperative")
    assert asked(away=away, used=gone).assignor == "sticky"
    assert asked(away=away, used=gone, external_assignors=("racks",)).assignor == "racks"


def test_a_new_term_keeps_what_a_group_with_promises_uses_if_all_support_it() -> None:
    promised = (Departed("one", (T[0],), 0, 5_000),)
    used = GroupMetadata(1, assignor="sticky", protocol="eager", departed=promised)
    both = {"protocols": ("cooperative", "eager")}
    there = [member(name, n, "range", "sticky", **both) for n, name in enumerate("ab", 1)]
    kept = asked(*there, used=used, new_term=True)
    assert (kept.assignor, kept.protocol) == ("sticky", "eager")
    assert asked(*there, used=used).assignor == "range", "later it is by votes"
    assert asked(member("c", 3, "range"), used=used, new_term=True).assignor == "range"
    # where nobody has an instance nothing but a change leaves votes that are not counted
    without = GroupMetadata(1, assignor="sticky", protocol="eager")
    assert asked(*there, used=without, new_term=True).assignor == "range"


def test_who_comes_back_fits_what_its_group_has_come_to_use() -> None:
    """The assignor and the form, both."""
    options = CoordinatorOptions()
    used = TargetAssignment({}, "range", {}, (), (), "eager")
    both = ("cooperative", "eager")
    assert fits(member("a", 1, "sticky", "range", protocols=both), used, options)
    assert not fits(member("a", 1, "sticky", protocols=both), used, options)
    assert not fits(member("a", 1, "range", protocols=("cooperative",)), used, options)
    assert fits(member("a", 1), TargetAssignment({}, "", {}, (), ()), options), "nothing yet"


def test_an_assignor_sees_what_members_have_to_say_to_it() -> None:
    found = asked(member("a", 1, user_data="east"), member("b", 2))
    assert found.given.user_data == {"a": "east"}


def test_topics_and_streams_of_a_wildcard_are_those_that_it_matches_and_that_exist() -> None:
    wild = Pattern(PatternKind.WHITE_LIST, ".*")
    world = TargetInput(dict(WORLD.topics), {wild: frozenset({"u", "gone"})})
    one = Member("a", 1, 1, Subscription({}, wild, 3), ("sticky",))
    two = Member("b", 2, 2, Subscription({}, wild, 2), ("sticky",))
    assert world.topics_of(one) == {"u": 3}
    assert [world.streams(one, topic) for topic in ("u", "t")] == [3, 0]
    assert world.streams(member("c", 3), "u") == 0
    found = prepare("g", world, {"a": one, "b": two}, {}, {}, {}, CoordinatorOptions())
    assert found.given.members == {"a": {"u": 3}, "b": {"u": 2}}


# proposals


def proposal(
    targets: Mapping[TopicPartition, Thread], data: Mapping[str, str] | None = None, cap: int = 900
) -> str:
    """What is wrong with it."""
    question = asked(
        member("a", 1, "mine"),
        member("b", 2, "mine"),
        external_assignors=("mine",),
        owner_path_bytes_max=cap,
    )
    return proposal_error(question, Assignment(targets, (), data or {}))


def test_a_proposal_may_fill_a_sessions_paths_to_the_byte() -> None:
    two = {T[0]: Thread("a", 0), T[1]: Thread("a", 0), T[2]: Thread("b", 0)}
    path_bytes = 64 + len("g") + len("t") + len("0")
    assert proposal(two, cap=2 * path_bytes) == ""
    assert proposal(two, cap=2 * path_bytes - 1).startswith("it gave a more partitions than")


@pytest.mark.parametrize("thread", [Thread("a", 1), Thread("a", -1), Thread("c", 0)])
def test_a_proposal_names_threads_that_there_are(thread: Thread) -> None:
    assert proposal({T[0]: thread}) == (
        f"it gave t-0 to {thread}, which is not a thread of a subscriber"
    )


def test_a_proposal_names_partitions_that_are_subscribed() -> None:
    for tp in (TopicPartition("t", 4), TopicPartition("u", 0)):
        assert proposal({tp: Thread("a", 0)}).startswith(f"it assigned {tp}, which nobody")


@pytest.mark.parametrize(
    ("data", "good"),
    [
        ("x" * USER_DATA_CHARS_MAX, True),
        ("x" * (USER_DATA_CHARS_MAX + 1), False),
        ("é" * (USER_DATA_CHARS_MAX // 2), False),
        ("\0" * 8_191 + "x" * 4, True),
        ("\0" * 8_191 + "x" * 5, False),
        ("\0" * 8_192, False),
        ('"' * 10, True),
    ],
)
def test_user_data_is_as_long_as_is_allowed(data: str, good: bool) -> None:
    """In bytes, and with what JSON escapes."""
    assert (proposal({}, {"a": data}) == "") is good
    assert "is for nobody" in proposal({}, {"c": "x"})


# what moves


def test_how_much_a_target_changes() -> None:
    a, b = Thread("a", 0), Thread("b", 0)
    assert differing({T[0]: a}, {T[0]: a}) == 0
    assert differing({T[0]: a, T[1]: b}, {T[0]: b, T[2]: a}) == 3
    assert differing({T[0]: Thread("a", 1)}, {T[0]: a}) == 1


def test_how_often_something_moved_counts_from_one_living_member_to_another() -> None:
    a, b, c = (Thread(name, 0) for name in "abc")
    moved: dict[TopicPartition, int] = {}
    count_moves({}, {T[0]: a, T[1]: a}, {"a", "b"}, moved)
    assert moved == {}
    for _ in range(2):
        count_moves({T[0]: a, T[1]: a, T[2]: a}, {T[0]: b, T[1]: a, T[2]: c}, {"a", "b"}, moved)
    assert moved == {T[0]: 2, T[2]: 2}
    count_moves({T[0]: b, T[1]: a}, {T[0]: Thread("b", 1), T[1]: b}, {"a", "b"}, moved)
    assert moved == {T[0]: 2, T[1]: 1, T[2]: 2}, "between its threads nothing moves"
    # a leaves: what it had counts as not moved, wherever it goes
    count_moves({T[1]: a, T[2]: c}, {T[1]: b, T[2]: b}, {"b", "c"}, moved)
    assert moved == {T[0]: 2, T[2]: 3}
    count_moves({}, {T[2]: a}, {"a"}, moved)
    assert moved == {T[0]: 2}, "nor what nobody had"
