"""When failsafe mode calls something a proof: two looks in a row, counted from the beginning of the
first, and nothing after the end. Real servers: tests/acceptance/test_failsafe.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from consumer.member import quorum_probe
from consumer.member.quorum_probe import QuorumProbe
from tests.harness.wait import wait_until
from zkcoord.zk.quorum_probe import ServerAnswer

WAIT_S = 30.0
GONE, THERE = (
    [ServerAnswer.SERVES_NOT] * 3,
    [ServerAnswer.SERVES_NOT, ServerAnswer.SERVES_NOT, ServerAnswer.SERVES],
)


def proofs(monkeypatch: pytest.MonkeyPatch, looks: Sequence[list[ServerAnswer]]) -> list[int]:
    """What is proved by these looks, which begin at 1, 2, 3...; after them somebody serves."""
    answers, clock, proved, asked = iter(looks), itertools.count(1), list[int](), list[int]()

    def ask_all(*_: object) -> list[ServerAnswer]:
        asked.append(1)
        return next(answers, THERE)

    monkeypatch.setattr(quorum_probe, "ask_all", ask_all)
    outage = QuorumProbe(
        [("zk", 2181)] * 3, None, 1_000, lambda thunk: thunk(), lambda: next(clock)
    )
    outage.begin(proved.append)
    wait_until(lambda: len(asked) > len(looks), WAIT_S, "all looks")
    outage.end()
    return proved


@pytest.mark.parametrize(
    ("looks", "proved"),
    [
        ([GONE], []),
        ([GONE, GONE], [1]),
        ([GONE, THERE, GONE], []),
        ([GONE, THERE, GONE, GONE, GONE], [3, 4]),
    ],
    ids=["one", "two", "with one between", "three in a row"],
)
def test_two_looks_in_a_row_are_a_proof_from_the_beginning_of_the_first(
    monkeypatch: pytest.MonkeyPatch, looks: list[list[ServerAnswer]], proved: list[int]
) -> None:
    assert proofs(monkeypatch, looks) == proved


def test_what_comes_after_the_end_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_probe, "ask_all", lambda *_: GONE)
    posted, proved = list(), list[int]()
    outage = QuorumProbe([("zk", 2181)], None, 1_000, posted.append, lambda: 0)
    outage.begin(proved.append)
    wait_until(lambda: posted, WAIT_S, "a proof on its way")
    outage.end()
    posted[0]()
    assert not proved
