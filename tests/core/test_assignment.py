"""Assignors: complete, nothing foreign, balanced, few moves, a fixpoint, indifferent to the order
of mappings.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkcoord.core import assignment
from zkcoord.core.assignment import (
    ASSIGNORS,
    Assignment,
    AssignmentInput,
    assign_range,
    assign_roundrobin,
    assign_sticky,
)
from zkcoord.core.model import Thread, TopicPartition

EACH = pytest.mark.parametrize("name", sorted(ASSIGNORS))
Owners = Mapping[TopicPartition, Thread]


def alike(
    members: int,
    topics: Mapping[str, int],
    owners: Owners | None = None,
    streams: int = 1,
    first: int = 0,
) -> AssignmentInput:
    """Members m000... that all want all topics."""
    wanted = dict.fromkeys(topics, streams)
    return AssignmentInput(
        {f"m{n:03}": wanted for n in range(first, first + members)},
        {t: tuple(range(n)) for t, n in topics.items()},
        owners or {},
    )


def loads(given_: AssignmentInput, targets: Owners) -> Counter[str]:
    """Partitions of each member, those with none included."""
    found = Counter(thread.member for thread in targets.values())
    found.update(dict.fromkeys(given_.members, 0))
    return found


def moves(before: Owners, after: Owners) -> int:
    """Partitions owned before that are with another thread or nobody now."""
    return sum(after.get(tp) != thread for tp, thread in before.items())


@st.composite
def inputs(draw: st.DrawFn, streams_max: int = 3) -> AssignmentInput:
    """Any subscriptions, any (also stale) owners."""
    topics = draw(
        st.dictionaries(st.sampled_from(["a", "b", "c", "d-1", "e"]), st.integers(0, 8), max_size=5)
    )
    wanted = st.dictionaries(
        st.sampled_from(["a", "b", "c", "d-1", "e", "gone"]),
        st.integers(1, streams_max),
        max_size=5,
    )
    members = draw(
        st.dictionaries(st.sampled_from([f"m{n}" for n in range(12)]), wanted, max_size=8)
    )
    partitions = {t: tuple(range(n)) for t, n in topics.items()}
    every = [TopicPartition(t, p) for t in [*topics, "gone"] for p in (*partitions.get(t, ()), 77)]
    thread = st.builds(Thread, st.sampled_from([*members, "stranger"]), st.integers(0, streams_max))
    return AssignmentInput(
        members, partitions, draw(st.dictionaries(st.sampled_from(every), thread, max_size=20))
    )


def check(given_: AssignmentInput, result: Assignment) -> None:
    """Complete, and nothing foreign."""
    subscribed = {
        TopicPartition(t, p)
        for wanted in given_.members.values()
        for t in wanted
        for p in given_.partitions.get(t, ())
    }
    assert set(result.targets) | set(result.unassigned) == subscribed
    assert not set(result.targets) & set(result.unassigned)
    for tp, thread in result.targets.items():
        assert thread.number < given_.members[thread.member][tp.topic]
    used: Counter[str] = Counter()
    for tp, thread in result.targets.items():
        used[thread.member] += given_.path_bytes(tp)
    assert all(total <= given_.owner_path_bytes_max for total in used.values())


@EACH
@given(given_=inputs())
def test_complete_and_nothing_foreign(name: str, given_: AssignmentInput) -> None:
    result = ASSIGNORS[name](given_)
    check(given_, result)
    assert not result.unassigned


@EACH
@given(given_=inputs(), seed=st.integers(0, 1_000))
def test_the_order_of_mappings_changes_nothing(
    name: str, given_: AssignmentInput, seed: int
) -> None:
    rng = random.Random(seed)

    def shuffled(mapping: Mapping[object, object]) -> dict[object, object]:
        return dict(rng.sample(sorted(mapping.items()), len(mapping)))

    other = AssignmentInput(
        {m: shuffled(w) for m, w in shuffled(given_.members).items()},  # type: ignore[arg-type, misc]
        {t: tuple(rng.sample(p, len(p))) for t, p in given_.partitions.items()},
        shuffled(given_.owners),  # type: ignore[arg-type]
    )
    assert ASSIGNORS[name](other) == ASSIGNORS[name](given_)


@EACH
@given(given_=inputs(), cap=st.integers(0, 1_500))
def test_the_cap_holds_and_the_rest_is_reported(
    name: str, given_: AssignmentInput, cap: int
) -> None:
    capped = AssignmentInput(
        given_.members, given_.partitions, given_.owners, owner_path_bytes_max=cap
    )
    check(capped, ASSIGNORS[name](capped))


# range


def test_range_is_the_old_consumers() -> None:
    """Seven partitions, three threads: 3, 2, 2, in the order of the thread ids' text."""
    found = assign_range(
        AssignmentInput({"B": {"t": 2}, "A": {"t": 1}}, {"t": (6, 5, 4, 3, 2, 1, 0)})
    )
    assert [str(found.targets[TopicPartition("t", n)]) for n in range(7)] == [
        "A-0",
        "A-0",
        "A-0",
        "B-0",
        "B-0",
        "B-1",
        "B-1",
    ]


def test_range_sorts_threads_as_text() -> None:
    found = assign_range(AssignmentInput({"B": {"t": 12}}, {"t": tuple(range(12))}))
    assert [found.targets[TopicPartition("t", n)].number for n in range(12)] == [
        0,
        1,
        10,
        11,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ]


@given(given_=inputs(streams_max=12))
def test_range_formula(given_: AssignmentInput) -> None:
    """Thread i gets n*i + min(i, x) onward: the published formula, literally."""
    found = assign_range(given_).targets
    for topic, partitions in given_.partitions.items():
        threads = sorted(
            f"{m}-{n}" for m, wanted in given_.members.items() for n in range(wanted.get(topic, 0))
        )
        for i, thread in enumerate(threads):
            n, x = divmod(len(partitions), len(threads))
            start = n * i + min(i, x)
            for number in sorted(partitions)[start : start + n + (1 if i < x else 0)]:
                assert str(found[TopicPartition(topic, number)]) == thread


# roundrobin


def dealt(**members: str) -> AssignmentInput:
    """Topics t0 (1 partition), t1 (2), t2 (3); members written as C0="t0 t1", with one stream."""
    return AssignmentInput(
        {m: dict.fromkeys(topics.split(), 1) for m, topics in members.items()},
        {"t0": (0,), "t1": (0, 1), "t2": (0, 1, 2)},
    )


def hands(result: Assignment) -> dict[str, str]:
    """Member -> its partitions as text."""
    found: dict[str, list[str]] = {}
    for tp, thread in sorted(result.targets.items()):
        found.setdefault(thread.member, []).append(f"{tp.topic}p{tp.partition}")
    return {member: " ".join(own) for member, own in found.items()}


def test_roundrobin_of_equal_subscriptions_as_in_kafkas_documentation() -> None:
    given_ = AssignmentInput(
        {"C1": {"t0": 1, "t1": 1}, "C0": {"t0": 1, "t1": 1}}, {"t1": (2, 1, 0), "t0": (0, 1, 2)}
    )
    assert hands(assign_roundrobin(given_)) == {"C0": "t0p0 t0p2 t1p1", "C1": "t0p1 t1p0 t1p2"}


def test_roundrobin_of_different_subscriptions_as_in_kafkas_documentation() -> None:
    assert hands(assign_roundrobin(dealt(C0="t0", C1="t0 t1", C2="t0 t1 t2"))) == {
        "C0": "t0p0",
        "C1": "t1p0",
        "C2": "t1p1 t2p0 t2p1 t2p2",
    }


def test_roundrobin_goes_on_where_the_topic_before_ended() -> None:
    assert hands(
        assign_roundrobin(dealt(A="t0 t1 t2", B="t0 t1 t2", C="t0 t1 t2", D="t0 t1 t2"))
    ) == {"A": "t0p0 t2p1", "B": "t1p0 t2p2", "C": "t1p1", "D": "t2p0"}


def test_roundrobin_gives_each_stream_a_place() -> None:
    found = assign_roundrobin(
        AssignmentInput({"B": {"t": 2}, "A": {"t": 1}, "C": {"t": 1}}, {"t": tuple(range(6))})
    ).targets
    assert [str(found[TopicPartition("t", n)]) for n in range(6)] == [
        "A-0",
        "B-0",
        "B-1",
        "C-0",
        "A-0",
        "B-0",
    ]


@given(given_=inputs(streams_max=12))
def test_roundrobin_is_kafkas_loop(given_: AssignmentInput) -> None:
    """Its circular iterator, literally: advance past who does not take the topic, give, advance."""
    places = [
        Thread(m, n)
        for m in sorted(given_.members)
        for n in range(max(given_.members[m].values(), default=0))
    ]
    expected = {}
    turn = 0
    for topic in sorted(
        {t for wanted in given_.members.values() for t in wanted} & given_.partitions.keys()
    ):
        for number in sorted(given_.partitions[topic]):
            while places[turn].number >= given_.members[places[turn].member].get(topic, 0):
                turn = (turn + 1) % len(places)
            expected[TopicPartition(topic, number)] = places[turn]
            turn = (turn + 1) % len(places)
    assert assign_roundrobin(given_) == Assignment(expected)


@given(given_=inputs(), cap=st.integers(0, 1_500))
def test_roundrobin_passes_over_the_full(given_: AssignmentInput, cap: int) -> None:
    """What is unassigned has only takers without room for the longest path; everybody else was
    served in turn, as by the same loop.
    """
    capped = AssignmentInput(given_.members, given_.partitions, owner_path_bytes_max=cap)
    found = assign_roundrobin(capped)
    subscribed = sorted({*found.targets, *found.unassigned})
    longest = max(map(capped.path_bytes, subscribed), default=0)
    places = [
        Thread(m, n)
        for m in sorted(given_.members)
        for n in range(max(given_.members[m].values(), default=0))
    ]
    used = dict.fromkeys(given_.members, 0)
    turn = 0
    for tp in subscribed:
        order = [places[(turn + n) % len(places)] for n in range(len(places))]
        taker = next(
            (
                p
                for p in order
                if p.number < given_.members[p.member].get(tp.topic, 0)
                and used[p.member] + longest <= cap
            ),
            None,
        )
        assert found.targets.get(tp) == taker
        if taker is not None:
            used[taker.member] += capped.path_bytes(tp)
            turn = places.index(taker) + 1


def test_roundrobin_of_many_full_members_is_not_quadratic() -> None:
    """5,000 members with room for four paths each, 50,000 partitions of 1,000 topics: most steps
    are over the full.
    """
    wide = alike(5_000, {f"topic-{n}": 50 for n in range(1_000)})
    capped = AssignmentInput(
        wide.members,
        wide.partitions,
        owner_path_bytes_max=4 * wide.path_bytes(TopicPartition("topic-999", 49)),
    )
    before = time.process_time()
    found = assign_roundrobin(capped)
    assert time.process_time() - before < 20
    assert (len(found.targets), len(found.unassigned)) == (20_000, 30_000)


# sticky


@given(given_=inputs())
def test_sticky_is_a_fixpoint(given_: AssignmentInput) -> None:
    first = assign_sticky(given_)
    again = assign_sticky(AssignmentInput(given_.members, given_.partitions, first.targets))
    assert again == first


@given(given_=inputs(), cap=st.integers(0, 1_500))
def test_sticky_is_a_fixpoint_under_the_cap(given_: AssignmentInput, cap: int) -> None:
    capped = AssignmentInput(
        given_.members, given_.partitions, given_.owners, owner_path_bytes_max=cap
    )
    first = assign_sticky(capped)
    again = assign_sticky(
        AssignmentInput(given_.members, given_.partitions, first.targets, owner_path_bytes_max=cap)
    )
    assert again == first


@given(given_=inputs(streams_max=1))
def test_no_single_move_would_balance_better(given_: AssignmentInput) -> None:
    """Kafka's promise for any subscriptions. It makes members that want the same differ by at most
    one.
    """
    targets = assign_sticky(given_).targets
    load = loads(given_, targets)
    for tp, thread in targets.items():
        for member, wanted in given_.members.items():
            assert tp.topic not in wanted or load[member] >= load[thread.member] - 1, (
                tp,
                thread,
                member,
            )


@given(given_=inputs())
def test_members_that_want_the_same_differ_by_one(given_: AssignmentInput) -> None:
    load = loads(given_, assign_sticky(given_).targets)
    for a, wanted in given_.members.items():
        for b, other in given_.members.items():
            assert wanted != other or abs(load[a] - load[b]) <= 1


@given(given_=inputs())
def test_threads_of_a_member_are_balanced(given_: AssignmentInput) -> None:
    targets = assign_sticky(given_).targets
    load = Counter(targets.values())
    for tp, thread in targets.items():
        for number in range(given_.members[thread.member][tp.topic]):
            assert load[Thread(thread.member, number)] >= load[thread] - 1


def fewest_moves(given_: AssignmentInput, partitions: int) -> int:
    """The lower bound for members that all want the same: each keeps at most its share, and only
    `partitions` mod members of them one more.
    """
    each, more = divmod(partitions, len(given_.members))
    owned = Counter(
        thread.member for thread in given_.owners.values() if thread.member in given_.members
    )
    kept = sum(min(n, each) for n in owned.values()) + min(
        more, sum(n > each for n in owned.values())
    )
    return len(given_.owners) - kept


@given(
    topics=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 12), min_size=1),
    members=st.integers(1, 8),
    data=st.data(),
)
def test_fewest_moves_from_any_owners(
    topics: dict[str, int], members: int, data: st.DataObject
) -> None:
    every = [TopicPartition(t, p) for t, n in topics.items() for p in range(n)]
    owners = {
        tp: Thread(data.draw(st.sampled_from([f"m{n:03}" for n in range(10)])), 0)
        for tp in every
        if data.draw(st.booleans())
    }
    given_ = alike(members, topics, owners)
    assert moves(owners, assign_sticky(given_).targets) == fewest_moves(given_, len(every))


@settings(max_examples=50)
@given(
    topics=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 30), min_size=1),
    members=st.integers(1, 12),
    joining=st.integers(0, 4),
    leaving=st.integers(0, 4),
)
def test_fewest_moves_on_join_and_leave(
    topics: dict[str, int], members: int, joining: int, leaving: int
) -> None:
    before = assign_sticky(alike(members, topics)).targets
    given_ = alike(max(1, members + joining - leaving), topics, before, first=leaving)
    assert moves(before, assign_sticky(given_).targets) == fewest_moves(
        given_, sum(topics.values())
    )


def owned(**members: str) -> dict[TopicPartition, Thread]:
    """Owners written as member="x:0-3 y:5"."""
    owners = {}
    for member, text in members.items():
        for part in text.split():
            topic, _, run = part.partition(":")
            first, _, last = run.partition("-")
            owners |= {
                TopicPartition(topic, n): Thread(member, 0)
                for n in range(int(first), int(last or first) + 1)
            }
    return owners


def wanting(partitions: Mapping[str, int], owners: Owners, **members: str) -> AssignmentInput:
    """Members written as member="x y", with one stream."""
    return AssignmentInput(
        {m: dict.fromkeys(topics.split(), 1) for m, topics in members.items()},
        {t: tuple(range(n)) for t, n in partitions.items()},
        owners,
    )


def test_a_member_that_can_give_nothing_stops_nobody() -> None:
    given_ = wanting({"x": 10, "y": 6}, owned(A="x:0-9", B="y:0-5"), A="x", B="y", C="y")
    assert loads(given_, assign_sticky(given_).targets) == {"A": 10, "B": 3, "C": 3}


def test_what_becomes_possible_by_a_later_move_is_done() -> None:
    """A (5) can give to B (4) only after B gave to C."""
    given_ = wanting({"x": 5, "y": 4}, owned(A="x:0-4", B="y:0-3"), A="x", B="x y", C="y")
    assert loads(given_, assign_sticky(given_).targets) == {"A": 4, "B": 3, "C": 2}


def test_what_nobody_owned_moves_first() -> None:
    """A gets five free partitions of y beside the one it owns, then B has room for some: B gets
    those that A did not own.
    """
    owners = owned(A="y:5", B="z:0-5")
    after = assign_sticky(wanting({"y": 6, "z": 6}, owners, A="y", B="y z", C="z")).targets
    assert after[TopicPartition("y", 5)] == Thread("A", 0)
    assert any(thread.member == "B" for tp, thread in after.items() if tp.topic == "y")


def test_room_that_levelling_makes_is_used() -> None:
    """Only A takes x, and is full; it can give one of y to B, and then take x."""
    given_ = wanting({"x": 1, "y": 2}, owned(A="y:0-1"), A="x y", B="y")
    capped = AssignmentInput(
        given_.members,
        given_.partitions,
        given_.owners,
        owner_path_bytes_max=2 * given_.path_bytes(TopicPartition("x", 0)),
    )
    found = assign_sticky(capped)
    assert not found.unassigned and found.targets[TopicPartition("x", 0)] == Thread("A", 0)


def test_a_join_takes_a_share_of_each_topic() -> None:
    before = assign_sticky(alike(3, {"a": 24, "b": 24})).targets
    after = assign_sticky(alike(4, {"a": 24, "b": 24}, before)).targets
    assert Counter(tp.topic for tp, thread in after.items() if thread.member == "m003") == {
        "a": 6,
        "b": 6,
    }


def test_added_partitions_move_nothing() -> None:
    before = assign_sticky(alike(4, {"a": 24})).targets
    after = assign_sticky(alike(4, {"a": 30, "b": 3}, before)).targets
    assert moves(before, after) == 0 and len(after) == 33


def test_a_thread_that_is_gone_moves_within_its_member() -> None:
    before = assign_sticky(alike(2, {"a": 8}, streams=2)).targets
    after = assign_sticky(alike(2, {"a": 8}, before, streams=1)).targets
    assert {tp: thread.member for tp, thread in before.items()} == {
        tp: thread.member for tp, thread in after.items()
    }
    assert {thread.number for thread in after.values()} == {0}


def test_more_streams_take_a_larger_share() -> None:
    found = assign_sticky(
        AssignmentInput({"big": {"t": 3}, "small": {"t": 1}}, {"t": tuple(range(16))})
    )
    assert Counter(found.targets.values()) == {
        Thread("big", 0): 4,
        Thread("big", 1): 4,
        Thread("big", 2): 4,
        Thread("small", 0): 4,
    }


def test_the_excess_is_the_same_after_a_new_coordinator() -> None:
    """One member, room for ten owner paths: ten stay where they are, the others are reported; a
    second member takes what it has room for.
    """
    one = alike(1, {"t": 30})
    path = one.path_bytes(TopicPartition("t", 10))
    capped = AssignmentInput(one.members, one.partitions, owner_path_bytes_max=10 * path)
    first = assign_sticky(capped)
    assert len(first.targets) == 10 and len(first.unassigned) == 20
    again = assign_sticky(
        AssignmentInput(one.members, one.partitions, first.targets, owner_path_bytes_max=10 * path)
    )
    assert again == first
    two = alike(2, {"t": 30})
    more = assign_sticky(
        AssignmentInput(two.members, two.partitions, first.targets, owner_path_bytes_max=10 * path)
    )
    assert moves(first.targets, more.targets) == 0 and len(more.targets) == 20


@EACH
def test_nobody_and_nothing(name: str) -> None:
    assert ASSIGNORS[name](AssignmentInput({}, {"t": (0,)})) == Assignment({}, ())
    assert ASSIGNORS[name](AssignmentInput({"m": {}}, {"t": (0,)})) == Assignment({}, ())
    assert ASSIGNORS[name](AssignmentInput({"m": {"t": 1}}, {})) == Assignment({}, ())


@EACH
@pytest.mark.parametrize("topics", [1, 1_000])
def test_large_groups_are_not_quadratic(name: str, topics: int) -> None:
    """10,000 partitions, 5,000 members: some tenths of a second; a quadratic algorithm takes
    minutes.
    """
    before = time.process_time()
    found = ASSIGNORS[name](alike(5_000, {f"topic-{n}": 10_000 // topics for n in range(topics)}))
    assert time.process_time() - before < 20
    assert len(found.targets) == 10_000


@EACH
def test_streams_that_can_get_nothing_cost_nothing(name: str) -> None:
    """A registration may name 10,000 streams: of 1,000 such members all threads together would be
    ten million values, on the thread that serves every group.
    """
    before = time.process_time()
    found = ASSIGNORS[name](alike(1_000, {"t": 100, "u": 2_000}, streams=10_000))
    assert time.process_time() - before < 4
    assert len(found.targets) == 2_100


def test_threads_beyond_the_partitions_are_taken_in_their_order() -> None:
    wide = alike(1, {"t": 3}, streams=10_000)
    assert [thread.number for _, thread in sorted(assign_range(wide).targets.items())] == [0, 1, 10]
    assert [thread.number for _, thread in sorted(assign_roundrobin(wide).targets.items())] == [
        0,
        1,
        2,
    ]
    assert sorted(thread.number for thread in assign_sticky(wide).targets.values()) == [0, 1, 2]
    held = alike(
        1,
        {"t": 3},
        {
            TopicPartition("t", 0): Thread("m000", 9_999),
            TopicPartition("t", 1): Thread("m000", 9_999),
        },
        streams=10_000,
    )
    assert sorted(thread.number for thread in assign_sticky(held).targets.values()) == [0, 1, 9_999]


@settings(max_examples=150)
@given(
    st.integers(1, 5),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 7), min_size=1),
    st.randoms(use_true_random=False),
    st.integers(0, 2),
)
def test_what_is_fair_is_what_balancing_says(
    members: int, topics: dict[str, int], rng: random.Random, spoil: int
) -> None:
    """The short way answers only what the long way would."""
    free = alike(members, topics)
    owners = dict(assign_sticky(free).targets)
    for tp in rng.sample(sorted(owners), min(spoil, len(owners))):
        owners[tp] = Thread(f"m{rng.randrange(members):03}", 0)
    asked = alike(members, topics, owners)
    if assignment._is_fair(asked):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(assignment, "_is_fair", lambda given_: False)
            assert assign_sticky(asked).targets == owners
    else:
        assert spoil, "what balancing made is fair"
