"""What the kills of real members are judged by."""

from __future__ import annotations

from tests.bench.figures import Section, missed_of
from tests.bench.guardian_members import CONSUMER, LATE_MS, Kill, rows_of


def missed(kills: list[Kill]) -> list[str]:
    """Sentences on the bars that are not reached."""
    return missed_of([Section("members", "t", rows_of(kills, CONSUMER))])


def test_a_registration_that_is_gone_at_once_is_within_all_bars() -> None:
    assert missed([Kill(CONSUMER, "hold", 1, 5.0) for _ in range(100)]) == []


def test_a_registration_ended_by_the_timeout_counts_against_its_share_and_not_among_the_times() -> (
    None
):
    found = [Kill(CONSUMER, "hold", 1, 5.0) for _ in range(98)] + [
        Kill(CONSUMER, "join", 1, LATE_MS + 1),
        Kill(CONSUMER, "join", 1, LATE_MS + 1),
    ]
    assert missed(found) == []
    assert rows_of(found, CONSUMER)[0].values == [5.0] * 98
    assert len(missed([*found, Kill(CONSUMER, "join", 1, LATE_MS + 1)])) == 1


def test_a_session_that_is_not_new_has_no_excuse() -> None:
    assert (
        len(
            missed(
                [Kill(CONSUMER, "hold", 1, 5.0) for _ in range(999)]
                + [Kill(CONSUMER, "hold", 1, LATE_MS + 1)]
            )
        )
        == 1
    )


def test_slow_ends_miss_the_p99() -> None:
    assert (
        len(
            missed(
                [Kill(CONSUMER, "hold", 1, 5.0) for _ in range(97)]
                + [Kill(CONSUMER, "hold", 1, 200.0) for _ in range(3)]
            )
        )
        == 1
    )


def test_who_had_no_registration_is_not_counted_as_fast() -> None:
    times, *_rest = rows_of(
        [Kill(CONSUMER, "connect", 0, 0.0), Kill(CONSUMER, "join", 0, 3.0)], CONSUMER
    )
    assert times.values == [3.0]
    assert "1 of them without a registration" in times.note


def test_without_a_guardian_the_share_is_missed() -> None:
    assert len(missed([Kill(CONSUMER, "join", 1, 2 * LATE_MS)])) == 1
