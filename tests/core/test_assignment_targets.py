"""From an assignor's answer to a target."""

from __future__ import annotations

from zkcoord.core.assignment import Assignment
from zkcoord.core.model import Member, Subscription, Thread, Topic, TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.target import TargetInput, accept_proposal, assign, prepare, proposal_error


def test_what_an_answer_says_nothing_of_is_unassigned() -> None:
    """Whatever it claims to be: the journal's count is the truth, and the order is that of the
    partitions.
    """
    world = TargetInput({"t": Topic("t", "1", (0, 1, 2)), "u": Topic("u", "2", (0,))}, {})
    member = Member("m", 1, 1, Subscription({"t": 1, "u": 1}), assignors=("mine",))
    prepared = prepare(
        "g", world, {"m": member}, {}, {}, {}, CoordinatorOptions(external_assignors=("mine",))
    )
    answer = Assignment({TopicPartition("t", 1): Thread("m", 0)}, (TopicPartition("nowhere", 3),))
    assert proposal_error(prepared, answer) == ""
    assert accept_proposal(prepared, answer).unassigned == (
        TopicPartition("t", 0),
        TopicPartition("t", 2),
        TopicPartition("u", 0),
    )


def test_under_the_cap_it_is_what_a_built_in_assignor_says() -> None:
    world = TargetInput({"t": Topic("t", "1", tuple(range(20)))}, {})
    member = Member("m", 1, 1, Subscription({"t": 1}))
    for name in ("range", "roundrobin", "sticky"):
        prepared = prepare(
            "g",
            world,
            {"m": member},
            {},
            {},
            {},
            CoordinatorOptions(default_assignor=name, owner_path_bytes_max=500),
        )
        answer = assign(prepared)
        assert answer.unassigned and accept_proposal(prepared, answer).unassigned == tuple(
            sorted(answer.unassigned)
        )
