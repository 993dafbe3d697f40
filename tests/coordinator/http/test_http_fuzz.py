"""The HTTP endpoint under junk: a small run in every build, 100,000 inputs in the nightly one; and
that the run can fail.
"""

from __future__ import annotations

from http import HTTPStatus

import pytest

from tests.coordinator.http import http_fuzz
from zkcoord.coordinator.http.server import HttpAnswer, sentence


@pytest.mark.parametrize(
    "inputs", [http_fuzz.INPUTS, pytest.param(100_000, marks=pytest.mark.nightly)]
)
def test_junk_raises_nothing_hangs_nothing_and_keeps_no_memory(inputs: int) -> None:
    outcome = http_fuzz.run(inputs, seed=20_261_121)
    assert outcome.wrong == []
    assert (
        sum(outcome.statuses.values()) == inputs
        and {200, 400, 404, 405, 408, 431} <= outcome.statuses.keys()
    ), outcome.statuses


def test_a_trace_and_a_defect_are_found() -> None:
    def leaking(path: str) -> HttpAnswer:
        if path == "/groups":
            raise ValueError("a defect")
        return sentence(HTTPStatus.OK, 'Traceback (most recent call last): File "x"')

    wrong = http_fuzz.run(200, 1, leaking).wrong
    assert any("a trace after" in sentence_ for sentence_ in wrong) and any(
        "a defect" in sentence_ for sentence_ in wrong
    )
