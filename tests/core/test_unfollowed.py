"""Beside old consumers that nobody here understands: whatever they take in truth, ours get nothing
that is an old consumer's, and in the end everything else.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zkcoord.core.assignment import AssignmentInput
from zkcoord.core.legacy_assignment import assign_legacy_range, followed_in_part, target_beside
from zkcoord.core.model import GroupMode, Member, Mode, Subscription, Thread, TopicPartition

TOPICS = ("t", "u")


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Member], AssignmentInput, AssignmentInput]:
    """Members, what is known of the group, and the truth: an unfollowed member takes some
    topics.
    """
    names = draw(st.permutations(["a", "b", "c", "d", "e"]))
    kinds = draw(
        st.lists(st.sampled_from(["ours", "old", "unfollowed"]), min_size=2, max_size=5).filter(
            lambda kinds: "ours" in kinds and 0 < kinds.count("unfollowed") <= 3
        )
    )
    members: dict[str, Member] = {}
    known: dict[str, dict[str, int]] = {}
    truth: dict[str, dict[str, int]] = {}
    for n, (name, kind) in enumerate(zip(names, kinds, strict=False)):
        taken = draw(st.sets(st.sampled_from(TOPICS), min_size=int(kind != "unfollowed")))
        streams = draw(st.integers(1, 3))
        truth[name] = dict.fromkeys(taken, streams)
        known[name] = {} if kind == "unfollowed" else truth[name]
        members[name] = Member(
            name,
            n,
            n,
            Subscription(streams=streams),
            legacy=kind != "ours",
            unfollowed="why" if kind == "unfollowed" else "",
        )
    partitions = {topic: tuple(range(draw(st.integers(1, 9)))) for topic in TOPICS}
    wanted = {
        t: numbers for t, numbers in partitions.items() if any(t in k for k in known.values())
    }
    return members, AssignmentInput(known, wanted), AssignmentInput(truth, partitions)


def mine(target: dict[TopicPartition, Thread], members: dict[str, Member]) -> set[TopicPartition]:
    """What ours get."""
    return {tp for tp, thread in target.items() if not members[thread.member].legacy}


@given(groups())
def test_ours_get_nothing_that_may_be_an_old_consumers(
    group: tuple[dict[str, Member], AssignmentInput, AssignmentInput],
) -> None:
    members, known, truth = group
    true = assign_legacy_range(truth).targets
    target, undecided = target_beside(known, members, {}, at_rest=False)
    assert not any(members[true[tp].member].legacy for tp in mine(target, members))
    assert not target.keys() & set(undecided)


@given(groups())
def test_in_the_end_ours_have_all_that_no_old_consumer_took(
    group: tuple[dict[str, Member], AssignmentInput, AssignmentInput],
) -> None:
    """All old consumers own what they want to; then the same, but those who are not understood have
    given up.
    """
    members, known, truth = group
    true = assign_legacy_range(truth).targets
    owned = {tp: t.member for tp, t in true.items() if members[t.member].legacy}
    for held in (owned, {tp: name for tp, name in owned.items() if not members[name].unfollowed}):
        target, _ = target_beside(known, members, held, at_rest=True)
        wanted = {
            TopicPartition(topic, n)
            for topic, numbers in known.partitions.items()
            for n in numbers
            if any(topic in known.members[name] for name, m in members.items() if not m.legacy)
        }
        assert not mine(target, members) & owned.keys() - set(owned.keys() - held.keys())
        if held == owned:
            assert mine(target, members) == wanted - owned.keys()


def test_what_is_not_followed_even_in_part() -> None:
    one = Member("u", 1, 1, Subscription(streams=1), legacy=True, unfollowed="why")
    unknown = Member("v", 2, 2, Subscription(streams=0), legacy=True, unfollowed="why")
    mixed = Mode(GroupMode.MIXED)
    assert followed_in_part({"u": one}, mixed)
    assert not followed_in_part({"u": one, "v": unknown}, mixed)
    assert not followed_in_part({str(n): one for n in range(4)}, mixed)
    assert not followed_in_part({"u": one}, Mode(GroupMode.MIXED, "legacy-roundrobin-1.0"))
