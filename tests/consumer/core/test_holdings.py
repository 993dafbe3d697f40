"""What a fresh read says of a partition that a member thought it held."""

from __future__ import annotations

import pytest

from consumer.core.events import Holding, Whose
from consumer.core.holdings import Held, Judgement, judge
from zkcoord.core.model import Malformed, Thread

BAD = Malformed("offset", "t-0", "not a number")
MINE = Whose.MINE


def held(sent: tuple[int, ...] = ()) -> Held:
    """A partition with 100 stored at version 4, and perhaps writes under way."""
    return Held(Thread("m", 0), 100, 4, set(sent))


@pytest.mark.parametrize(("sent", "read", "verdict", "after"), [
    ((), Holding(MINE, 100, 4), Judgement.KEPT, (100, 4)),
    ((110,), Holding(MINE, 100, 4), Judgement.KEPT, (100, 4)),
    ((110,), Holding(MINE, 110, 5), Judgement.KEPT, (110, 5)),
    ((110, 120), Holding(MINE, 110, 5), Judgement.KEPT, (110, 5)),
    ((110,), Holding(MINE, 100, 5), Judgement.KEPT, (100, 5)),
    ((110,), Holding(MINE, 7, 5), Judgement.RESET, (7, 5)),
    ((), Holding(MINE, 7, 5), Judgement.RESET, (7, 5)),
    ((), Holding(MINE, 0, 0), Judgement.RESET, (0, 0)),
    ((), Holding(MINE, BAD, 5), Judgement.KEPT, (100, 5)),
    ((), Holding(MINE, None, None), Judgement.OFFSET_GONE, (100, 4)),
    ((), Holding(Whose.FOREIGN, 100, 4), Judgement.LOST, (100, 4)),
    ((110,), Holding(Whose.NOBODY, 110, 5), Judgement.LOST, (100, 4)),
], ids=str)
def test_judge(sent: tuple[int, ...], read: Holding, verdict: Judgement, after: tuple[int, int]) -> None:
    """A version that moved is explained by a value that this member sent; any other is an operator's. A value that cannot be read is overwritten by the next commit."""
    before = held(sent)
    assert judge(before, read) is verdict
    assert (before.committed, before.version) == after and before.reset is (verdict is Judgement.RESET)
    if verdict in (Judgement.KEPT, Judgement.RESET):
        assert before.sent == set()
