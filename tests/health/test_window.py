"""What a window of commits remembers."""

from __future__ import annotations

from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from tests.health.windows import window
from zkcoord.health.window import SeenCommit, StoredSeen, begun


def test_looks_at_one_offset_are_one_commit_whose_time_stays() -> None:
    found = window([(0, 5, 9), (2, 5, 11), (4, 5, 14), (6, 8, 15), (8, 8, 20)])
    assert found.commits == (SeenCommit(5, 0, 9), SeenCommit(8, 6_000, 15))
    assert (found.watched_ms, found.width_ms, found.offset) == (8_000, 6_000, 8)
    assert [commit.lag for commit in found.commits] == [4, 7]


def test_an_end_that_was_not_known_is_filled_in_by_the_next_look_alone() -> None:
    assert window([(0, 5, None), (2, 5, 11), (4, 5, 14)]).commits == (SeenCommit(5, 0, 11),)
    assert window([(0, 5, None), (2, 6, None)]).commits[-1].lag is None


def test_the_same_offset_by_another_transaction_is_another_commit() -> None:
    assert [c.at_ms for c in window([(0, 5, 9, 1), (2, 5, 9, 1), (4, 5, 9, 2)]).commits] == [
        0,
        4_000,
    ]


def test_the_oldest_commit_leaves_a_full_window() -> None:
    found = window([(n, n, 100) for n in range(25)])
    assert [c.offset for c in found.commits] == list(range(15, 25)) and found.since_ms == 0


def test_the_nodes_time_is_the_commits_as_far_as_looks_allow() -> None:
    first = begun(StoredSeen(5, 10_000, 1, 3_000), 9)
    assert first.commits[0].at_ms == 3_000, "it was made before anybody looked"
    for wrote, at in (
        (11_500, 11_500),
        (9_000, 10_000),  # the look at 10 s has not seen it
        (-(2**40), 10_000),
        (13_000, 12_000),  # it was seen at 12 s
        (2**60, 12_000),
    ):
        found = first.looked(StoredSeen(6, 12_000, 2, wrote), 9)
        assert found.commits[-1].at_ms == at
    assert begun(StoredSeen(5, 10_000, 1, 99_000), 9).commits[0].at_ms == 10_000


def test_looks_beyond_the_logs_end_are_counted_in_a_row() -> None:
    assert window([(0, 5, 3)]).beyond == 1
    assert window([(0, 5, 3), (1, 5, 4)]).beyond == 2
    assert window([(0, 5, 3), (1, 5, 5), (2, 5, 4)]).beyond == 1
    assert window([(0, 5, 3), (1, 5, None)]).beyond == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 2**63), st.none() | st.integers(0, 2**63), st.integers(0, 3)),
        min_size=1,
        max_size=60,
    ),
    st.lists(st.integers(-(2**63), 2**63), min_size=60, max_size=60),
)
def test_whatever_is_seen_times_rise_and_the_window_stays_small(
    looks: list[tuple[int, int | None, int]], clocks: list[int]
) -> None:
    found = None
    for second, (offset, end, mark) in enumerate(looks):
        seen = StoredSeen(offset, second * 1_000, mark, clocks[second])
        found = begun(seen, end) if found is None else found.looked(seen, end)
        times = [commit.at_ms for commit in found.commits]
        assert times == sorted(times) and times[-1] <= found.seen_ms and len(times) <= 10
        assert found.offset == offset and all((c.lag or 0) >= 0 for c in found.commits)
        assert astuple(found)
