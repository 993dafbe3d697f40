"""One rebalance in words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.pictures import rebalance
from zkcoord.console.views.group import of_record
from zkcoord.console.views.rebalance import (
    MOVES_SHOWN,
    WAITED_SHOWN,
    RebalanceTold,
    rebalance_story,
)


def told(*records: dict[str, Any]) -> RebalanceTold:
    """Of the last of these."""
    found = rebalance_story(records, of_record(records[-1]))
    assert found is not None
    return found


def moves(story: RebalanceTold) -> list[tuple[str, str, str]] | None:
    if story.moves is None:
        return None
    return [(str(move.tp), move.before, move.after) for move in story.moves]


def test_what_moved_and_who_was_waited_for() -> None:
    story = told(
        rebalance(1_000, {"m1": {"a": "0-1"}}),
        rebalance(2_000, {"m1": {"a": "0"}, "m2": {"a": "2"}}),
    )
    assert moves(story) == [("a-1", "m1", ""), ("a-2", "", "m2")]
    assert story.cause == "a member joined: m1" and story.waited == [("m1", 90)]
    assert story.sentences == [
        "It began because a member joined: m1.",
        "It took 100 ms until everything was where it was to be.",
        "m1 took longest to answer: 90 ms.",
        "2 partitions moved, to 2 members, by the assignor sticky.",
    ]


def test_what_the_journal_does_not_say() -> None:
    assert moves(told(rebalance(1_000, {}))) is None, "nothing is known of before"
    assert moves(told(rebalance(1_000, {}), rebalance(2_000))) is None
    assert moves(told(rebalance(1_000), rebalance(2_000, {}))) is None
    story = told({"t": 5, "kind": "client-led rebalance"})
    assert story.sentences == ["It began because of something the journal does not name."]


def test_other_causes_are_told_as_they_are() -> None:
    story = told(rebalance(1, cause="{trigger} {0}", trigger="{x}", unassigned=4))
    assert story.sentences[0] == "It began because of {trigger} {0}: {x}."
    assert story.sentences[-1] == "4 partitions were left without a member."


def test_an_address_that_is_not_there() -> None:
    assert rebalance_story([rebalance(1)], "2-3") is None
    assert rebalance_story([], "") is None
    assert rebalance_story([{"t": 1, "kind": "evicted", "generation": 3}], "1-3") is None


ODD: list[Any] = [None, True, -1, 10**18, "x" * 9_000, 1.5, [], {}, [[]], [None, 5, {"ms": "1"}]]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:12])
@pytest.mark.parametrize(
    "field",
    [
        "cause", "trigger", "duration_ms", "moved", "members", "assignor", "unassigned",
        "waited_for", "owned", "generation",
    ],
)  # fmt: skip
def test_fields_of_wrong_types(field: str, odd: Any) -> None:
    story = told(rebalance(1_000, {"m1": {"a": "0-1"}}), rebalance(2_000, {}) | {field: odd})
    assert all(len(sentence) < 1_000 for sentence in story.sentences)
    assert len(of_record(story.record)) < 50


def test_lists_have_limits() -> None:
    waited = [{"member": f"m{n}", "ms": n} for n in range(500)]
    story = told(
        rebalance(1, {"m": {"a": "0-999"}}), rebalance(2, {"n": {"a": "0-999"}}, waited_for=waited)
    )
    assert story.moves is not None and len(story.moves) == MOVES_SHOWN
    assert story.left_out == 1_000 - MOVES_SHOWN and len(story.waited) == WAITED_SHOWN
