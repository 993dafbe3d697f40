"""One member that holds up every change of its group. By the journal alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from statistics import median

from zkcoord.core.model import Option
from zkcoord.health.trouble.evidence import Evidence, steps_of, whole
from zkcoord.health.trouble.kinds import Trouble, TroubleKind
from zkcoord.health.trouble.words import many, span

SLOW_MS = 1_000
"""A member that polls gives partitions up in milliseconds; so long its application is in no poll,
or in its callback.
"""

SLOWER_THAN_OTHERS = 4
"""Where all take long it is not one handler: the machine is busy, or that is how long they need."""

CHANGES_MIN = 3
PART_OF_ALL = 0.5
"""It held the change up where half of the time went by with waiting for it; and it does so usually
where that was in half of the changes in which it gave something up.
"""


def _middle_without(ordered: list[int], one: int) -> list[int]:
    """The middle of these, one of them left out: what their median is made of."""
    at, left = bisect_left(ordered, one), len(ordered) - 1
    middle = {(left - 1) // 2, left // 2}
    return [ordered[n if n < at else n + 1] for n in sorted(middle) if 0 <= n < left]


def slow_handler(e: Evidence) -> Iterator[Trouble]:
    """Members whose stops are acknowledged late, again and again."""
    told: dict[str, int] = {}
    slow: dict[str, list[tuple[int, int, int]]] = {}
    for record in e.rebalances:
        stops = {m: ms for m, option, ms in steps_of(record) if option == Option.STOP.value}
        took_ms, ordered = whole(record, "duration_ms"), sorted(stops.values())
        for member, ms in stops.items():
            told[member] = told.get(member, 0) + 1
            if ms < SLOW_MS or ms < PART_OF_ALL * took_ms:
                continue
            others = _middle_without(ordered, ms)
            if len(ordered) == 1 or ms >= SLOWER_THAN_OTHERS * median(others):
                slow.setdefault(member, []).append((record["t"], ms, took_ms))
    gone = {life.member for life in e.lives if life.over_ms is not None}
    for member, found in slow.items():
        is_there = member not in gone and (e.facts is None or member in e.facts.members)
        if not is_there or len(found) < max(CHANGES_MIN, PART_OF_ALL * told[member]):
            continue
        longest, took_ms = max(ms for _, ms, _ in found), max(took for _, _, took in found)
        yield Trouble(
            TroubleKind.SLOW_HANDLER,
            e.group,
            f"{member} took up to {span(longest)} to give partitions up, in"
            f" {many(len(found), 'rebalance')} of the {told[member]} in which it was told to, and"
            f" the others waited: the longest took {span(took_ms)}",
            "Have it poll more often (fewer records at a time, max_poll_records), or be done sooner"
            " in on_partitions_revoked",
            found[0][0],
            member,
        )
