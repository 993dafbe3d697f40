"""What a fresh read says of a partition that a member thought it held."""

from __future__ import annotations

import pytest

from consumer.core.events import Holding, Whose
from consumer.core.holdings import Held, Judgement, judge
from zkcoord.core.model import Malformed, Thread

BAD = Malformed("offset", "t-0", "not a number")
MINE = Whose.MINE


def held(sent: int | None = None) -> Held:
    """A partition with 100 stored at version 4, and perhaps a write under way."""
    return Held(Thread("m", 0), 100, 4, sent)


@pytest.mark.parametrize(
    ("sent", "read", "verdict", "after"),
    [
        (None, Holding(MINE, 100, 4), Judgement.KEPT, (100, 4)),
        (110, Holding(MINE, 100, 4), Judgement.KEPT, (100, 4)),
        (110, Holding(MINE, 110, 5), Judgement.KEPT, (110, 5)),
        (100, Holding(MINE, 100, 5), Judgement.KEPT, (100, 5)),
        (110, Holding(MINE, 100, 5), Judgement.RESET, (100, 5)),
        (110, Holding(MINE, 100, 6), Judgement.RESET, (100, 6)),
        (110, Holding(MINE, 110, 6), Judgement.RESET, (110, 6)),
        (110, Holding(MINE, 110, 4), Judgement.RESET, (110, 4)),
        (110, Holding(MINE, 7, 5), Judgement.RESET, (7, 5)),
        (None, Holding(MINE, 100, 5), Judgement.RESET, (100, 5)),
        (None, Holding(MINE, 7, 5), Judgement.RESET, (7, 5)),
        (None, Holding(MINE, 7, 4), Judgement.RESET, (7, 4)),
        (None, Holding(MINE, 0, 0), Judgement.RESET, (0, 0)),
        (None, Holding(MINE, BAD, 5), Judgement.KEPT, (100, 5)),
        (None, Holding(MINE, None, None), Judgement.OFFSET_GONE, (100, 4)),
        (None, Holding(Whose.FOREIGN, 100, 4), Judgement.LOST, (100, 4)),
        (110, Holding(Whose.NOBODY, 110, 5), Judgement.LOST, (100, 4)),
    ],
    ids=str,
)
def test_judge(sent: int | None, read: Holding, verdict: Judgement, after: tuple[int, int]) -> None:
    """What was held, or the value sent at the next version, is this member's doing; any other pair
    is an operator's, also when a value looks familiar. One that cannot be read is overwritten by
    the next commit.
    """
    before = held(sent)
    assert judge(before, read) is verdict
    assert (before.committed, before.version) == after and before.reset is (
        verdict is Judgement.RESET
    )
    if verdict in (Judgement.KEPT, Judgement.RESET):
        assert before.sent is None


@pytest.mark.parametrize(
    ("read", "verdict"),
    [
        (Holding(MINE, 120, 5), Judgement.KEPT),
        (Holding(MINE, 110, 5), Judgement.KEPT),
        (Holding(MINE, 100, 4), Judgement.KEPT),
        (Holding(MINE, 120, 6), Judgement.RESET),
        (Holding(MINE, 119, 5), Judgement.RESET),
        (Holding(Whose.NOBODY, 120, 5), Judgement.LOST),
    ],
    ids=str,
)
def test_judge_what_was_foreseen(read: Holding, verdict: Judgement) -> None:
    """A sink stores what it said it would, at the next version; only that. What is stored is
    foreseen no more.
    """
    before = held(110)
    before.foreseen = 120
    assert judge(before, read) is verdict
    if read.version == 5:
        assert before.foreseen is None or verdict is Judgement.LOST
    elif verdict is Judgement.KEPT:
        assert before.foreseen == 120
