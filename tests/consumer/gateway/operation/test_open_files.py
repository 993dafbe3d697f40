"""How many connections there may be goes by how many files may be open."""

from __future__ import annotations

import resource

import pytest

from consumer.gateway.operation.open_files import OWN, PER_CONNECTION, connections_for

ENOUGH = OWN + PER_CONNECTION * 1_000
UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "fits"),
    [
        (ENOUGH, ENOUGH, None, 1_000),
        (UNLIMITED, UNLIMITED, None, 1_000),
        (256, UNLIMITED, ENOUGH, 1_000),
        (256, 10 * ENOUGH, ENOUGH, 1_000),
        (ENOUGH - 1, ENOUGH - 1, ENOUGH - 1, 999),
        (256, OWN + 30, OWN + 30, 10),
        (64, 256, 256, 1),
    ],
)
def test_the_limit_is_raised_as_far_as_it_can_be(
    soft: int, hard: int, raised: int | None, fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [soft]
    monkeypatch.setattr(resource, "getrlimit", lambda what: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda what, to: limits.append(to[0]))
    found, sentence = connections_for(1_000)
    assert found == fits
    assert limits[1:] == ([] if raised is None else [raised])
    assert bool(sentence) == (fits < 1_000)
    if sentence:
        assert f"{raised} files" in sentence and f"to {ENOUGH} for 1000" in sentence


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(what: int, to: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda what: (OWN + 300, UNLIMITED))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert connections_for(1_000)[0] == 100
