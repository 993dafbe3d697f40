"""Terms, takeovers and problems of the coordinator's page."""

from __future__ import annotations

from typing import Any

from tests.console.pictures import line, picture
from zkcoord.console.views import coordinator as module
from zkcoord.console.views.coordinator import problems_of, terms_of, took
from zkcoord.core.model import GroupState
from zkcoord.health.rules import HealthVerdict


def term(at_ms: int, event: str, epoch: object = 7, **more: Any) -> dict[str, Any]:
    return {"t": at_ms, "kind": "term", "event": event, "epoch": epoch, **more}


def test_terms_and_how_long_nobody_decided() -> None:
    records = [
        term(100, "elected", 7),
        term(150, "ready", 7),
        {"t": 160, "kind": "broker", "epoch": 9},
        term(1_000, "resigned", 7, reason="stopped"),
        term(1_200, "elected", 9),
        term(1_300, "ready", 9),
    ]
    new, old = terms_of(records)
    assert (new.epoch, new.takeover_ms, new.nobody_ms, new.ended_ms) == (9, 100, 300, None)
    assert (old.takeover_ms, old.ended_ms, old.why, old.nobody_ms) == (50, 1_000, "stopped", None)


def test_journals_that_say_less_or_nonsense() -> None:
    assert terms_of([]) == []
    (only,) = terms_of(
        [term(5, "ready"), term(6, "what"), term(7, "elected", "x"), {"t": 1, "kind": "x"}]
    )
    assert (only.epoch, only.takeover_ms, only.nobody_ms) == (7, None, None)
    many = terms_of([term(n, "elected", n) for n in range(module.TERMS_MAX + 5)])
    assert len(many) == module.TERMS_MAX and many[0].epoch == module.TERMS_MAX + 4


def test_how_long_rebalances_took() -> None:
    assert took([]) is None
    found = took(range(1, 101))
    assert found is not None
    assert (found.count, found.median, found.p95, found.longest) == (100, 50, 95, 100)
    assert took([3]) == module.Took(1, 3, 3, 3)


def test_what_needs_somebody() -> None:
    lines = picture(
        [
            line("a"),
            line("b", HealthVerdict.STOP),
            line("c", state=GroupState.QUARANTINED),
        ]
    ).lines
    found = problems_of(lines.values())
    assert (found.not_well, found.in_trouble, found.quarantined, found.paused) == (1, 0, 1, 0)
