"""What a fresh read says of a partition that a member thought it held."""

from __future__ import annotations

import pytest

from consumer.core.events import PartitionReading, Whose
from consumer.core.owned_partitions import OwnedPartition, OwnershipReading, judge
from zkcoord.core.model import Malformed, Thread

BAD = Malformed("offset", "t-0", "not a number")
MINE = Whose.MINE


def held(sent: int | None = None) -> OwnedPartition:
    """A partition with 100 stored at version 4, and perhaps a write under way."""
    return OwnedPartition(Thread("m", 0), 100, 4, sent)


@pytest.mark.parametrize(
    ("sent", "read", "verdict", "after"),
    [
        (None, PartitionReading(MINE, 100, 4), OwnershipReading.KEPT, (100, 4)),
        (110, PartitionReading(MINE, 100, 4), OwnershipReading.KEPT, (100, 4)),
        (110, PartitionReading(MINE, 110, 5), OwnershipReading.KEPT, (110, 5)),
        (100, PartitionReading(MINE, 100, 5), OwnershipReading.KEPT, (100, 5)),
        (110, PartitionReading(MINE, 100, 5), OwnershipReading.RESET, (100, 5)),
        (110, PartitionReading(MINE, 100, 6), OwnershipReading.RESET, (100, 6)),
        (110, PartitionReading(MINE, 110, 6), OwnershipReading.RESET, (110, 6)),
        (110, PartitionReading(MINE, 110, 4), OwnershipReading.RESET, (110, 4)),
        (110, PartitionReading(MINE, 7, 5), OwnershipReading.RESET, (7, 5)),
        (None, PartitionReading(MINE, 100, 5), OwnershipReading.RESET, (100, 5)),
        (None, PartitionReading(MINE, 7, 5), OwnershipReading.RESET, (7, 5)),
        (None, PartitionReading(MINE, 7, 4), OwnershipReading.RESET, (7, 4)),
        (None, PartitionReading(MINE, 0, 0), OwnershipReading.RESET, (0, 0)),
        (None, PartitionReading(MINE, BAD, 5), OwnershipReading.KEPT, (100, 5)),
        (None, PartitionReading(MINE, None, None), OwnershipReading.OFFSET_GONE, (100, 4)),
        (None, PartitionReading(Whose.FOREIGN, 100, 4), OwnershipReading.LOST, (100, 4)),
        (110, PartitionReading(Whose.NOBODY, 110, 5), OwnershipReading.LOST, (100, 4)),
    ],
    ids=str,
)
def test_judge(
    sent: int | None, read: PartitionReading, verdict: OwnershipReading, after: tuple[int, int]
) -> None:
    """What was held, or the value sent at the next version, is this member's doing; any other pair
    is an operator's, also when a value looks familiar. One that cannot be read is overwritten by
    the next commit.
    """
    before = held(sent)
    assert judge(before, read) is verdict
    assert (before.committed, before.version) == after and before.reset is (
        verdict is OwnershipReading.RESET
    )
    if verdict in (OwnershipReading.KEPT, OwnershipReading.RESET):
        assert before.sent is None


@pytest.mark.parametrize(
    ("read", "verdict"),
    [
        (PartitionReading(MINE, 120, 5), OwnershipReading.KEPT),
        (PartitionReading(MINE, 110, 5), OwnershipReading.KEPT),
        (PartitionReading(MINE, 100, 4), OwnershipReading.KEPT),
        (PartitionReading(MINE, 120, 6), OwnershipReading.RESET),
        (PartitionReading(MINE, 119, 5), OwnershipReading.RESET),
        (PartitionReading(Whose.NOBODY, 120, 5), OwnershipReading.LOST),
    ],
    ids=str,
)
def test_judge_what_was_foreseen(read: PartitionReading, verdict: OwnershipReading) -> None:
    """A sink stores what it said it would, at the next version; only that. What is stored is
    foreseen no more.
    """
    before = held(110)
    before.foreseen = 120
    assert judge(before, read) is verdict
    if read.version == 5:
        assert before.foreseen is None or verdict is OwnershipReading.LOST
    elif verdict is OwnershipReading.KEPT:
        assert before.foreseen == 120


@pytest.mark.parametrize(
    ("sent", "read", "verdict", "after"),
    [
        (None, PartitionReading(MINE, None, None), OwnershipReading.KEPT, (None, None)),
        (7, PartitionReading(MINE, None, None), OwnershipReading.KEPT, (None, None)),
        (7, PartitionReading(MINE, 7, 0), OwnershipReading.KEPT, (7, 0)),
        (7, PartitionReading(MINE, 7, 1), OwnershipReading.RESET, (7, 1)),
        (7, PartitionReading(MINE, 8, 0), OwnershipReading.RESET, (8, 0)),
        (None, PartitionReading(MINE, 7, 0), OwnershipReading.RESET, (7, 0)),
        (None, PartitionReading(Whose.NOBODY, None, None), OwnershipReading.LOST, (None, None)),
    ],
    ids=str,
)
def test_judge_what_was_never_stored(
    sent: int | None,
    read: PartitionReading,
    verdict: OwnershipReading,
    after: tuple[int | None, int | None],
) -> None:
    """A partition that is owned without an offset: its first write makes the node. One that is
    there without that is an operator's word, or a former owner's.
    """
    before = OwnedPartition(Thread("m", 0), None, None, sent)
    assert judge(before, read) is verdict
    assert (before.committed, before.version) == after
    assert verdict is OwnershipReading.LOST or before.sent is None


@pytest.mark.parametrize("version", [None, 4])
def test_what_may_not_be_read_is_given_back(version: int | None) -> None:
    one = OwnedPartition(Thread("m", 0), None if version is None else 100, version, 110)
    hidden = PartitionReading(MINE, Malformed("offset", "/t/0", "hidden"), None)
    assert judge(one, hidden) is OwnershipReading.OFFSET_HIDDEN
    assert judge(one, PartitionReading(Whose.FOREIGN, hidden.offset, None)) is OwnershipReading.LOST


def test_what_stands_beside_an_offset_is_taken_over_as_it_is_read() -> None:
    before = held(110)
    judge(before, PartitionReading(MINE, 110, 5, metadata="why", noted=True))
    assert (before.committed, before.metadata, before.noted) == (110, "why", True)
    judge(before, PartitionReading(MINE, 7, 6, noted=True))
    assert (before.metadata, before.noted) == ("", True), "it stands beside another"
