"""LeaveGroups of members of both kinds, in two and together again."""

from __future__ import annotations

import pytest

from consumer.gateway.changing.parted_leaves import PartedLeaves
from consumer.gateway.wire.requests import Answer, BeatAnswer, LeaveAnswer, LeaveRequest
from zkcoord.core.error_codes import WireCode

NAMED = (("a", None), ("b", None), ("", "i"), ("d", "j"))
NONE, UNKNOWN = WireCode.NONE, WireCode.UNKNOWN_MEMBER_ID
FENCED, AWAY = WireCode.FENCED_INSTANCE_ID, WireCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("others", "codes"),
    [
        (LeaveAnswer(NONE, (NONE, FENCED)), (UNKNOWN, NONE, NONE, FENCED)),
        (LeaveAnswer(AWAY, (AWAY, AWAY)), (UNKNOWN, AWAY, NONE, AWAY)),
        (LeaveAnswer(AWAY), (UNKNOWN, AWAY, NONE, AWAY)),
    ],
)
def test_each_part_has_its_members_and_each_member_its_code(
    others: LeaveAnswer, codes: tuple[WireCode, ...], first: int
) -> None:
    answers: list[tuple[int, Answer]] = []
    leaves = PartedLeaves(lambda ticket, answer: answers.append((ticket, answer)))
    request = LeaveRequest("g", NAMED, reasons=("why",))
    parts = list(leaves.part(7, request, [True, False, True, False]))
    assert [part for _, part in parts] == [
        LeaveRequest("g", (NAMED[0], NAMED[2]), reasons=("why", "")),
        LeaveRequest("g", (NAMED[1], NAMED[3]), reasons=("", "")),
    ]
    told = [(parts[0][0], LeaveAnswer(NONE, (UNKNOWN, NONE))), (parts[1][0], others)]
    leaves.answered(*told[first])
    assert answers == []
    leaves.answered(*told[1 - first])
    assert answers == [(7, LeaveAnswer(NONE, codes))]


def test_all_else_is_passed_on() -> None:
    answers: list[tuple[int, Answer]] = []
    leaves = PartedLeaves(lambda ticket, answer: answers.append((ticket, answer)))
    leaves.answered(1, BeatAnswer(NONE))
    assert answers == [(1, BeatAnswer(NONE))]
