"""What was found at one size, as sections of a report: per event and system a row, and after these
how zkcoord stands to the best of the others. All values are ms but for requests.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from tests.bench.figures import Bar, Row, Section, rounded
from tests.bench.side.events import Found, beat_ms
from tests.bench.side.systems import COORDINATOR, CRASH, JOIN, LEAVE, OURS, SLOW

TIE = 1.1
CLOCKS = {
    JOIN: "from the constructor",
    LEAVE: "from close()",
    CRASH: "from kill -9",
    SLOW: "from the constructor",
    COORDINATOR: "from kill -9",
}
TITLES = {
    JOIN: "Join: until all that moves is handed out by its new owner",
    LEAVE: "Clean leave: until all that moves is handed out by its new owner",
    CRASH: "kill -9 of a member: until all that it had is handed out by another",
    SLOW: "Join beside a slow member: until the one that joins is handed its first record",
    COORDINATOR: (
        "kill -9 of the coordinator (Kafka: of the broker that coordinates the group) and a join at"
        " that moment: until all that moves is handed out by its new owner"
    ),
}
KEPT, MOVED, REQUESTS = "kept", "moved", "requests"
SILENCE = "hand-out to hand-out"


def named(size: int, text: str) -> str:
    """How a row begins; `tests.bench.side.plot` reads it again."""
    return f"{size} members: {text}"


def is_ours(found: Found) -> bool:
    """The default, which is compared; its variants are shown."""
    return found.system.name == OURS


def best_of_others(founds: Iterable[Found], event: str, figure: str) -> tuple[float, Found] | None:
    """The smallest median of what is not zkcoord."""
    medians = [
        (statistics.median(values), found)
        for found in founds
        if found.system.kind != "zkcoord" and (values := found.values.get(event, {}).get(figure))
    ]
    return min(medians, key=lambda pair: pair[0], default=None)


def compared(
    here: Sequence[Found], size: int, event: str, figure: str, what: str = ""
) -> list[Row]:
    """One event's figure: a row for each system, and how zkcoord stands. Of times the quotient of
    the medians counts; of silences, which cannot be told apart more finely than records come, the
    difference.
    """
    rows = [
        Row(
            named(size, f"{what}{found.system.label}"),
            CLOCKS[event] if figure == "took" else SILENCE,
            values,
            note=f"busy {found.busy.get(event, 0):.0f} %",
        )
        for found in here
        if (values := found.values.get(event, {}).get(figure))
    ]
    mine = next(
        (
            values
            for found in here
            if is_ours(found) and (values := found.values.get(event, {}).get(figure))
        ),
        None,
    )
    best = best_of_others(here, event, figure)
    if mine is None or best is None:
        return rows
    median, (least, other) = statistics.median(mine), best
    note = f"the best of the others is {other.system.label}: {rounded(least):g} ms"
    if figure == "took":
        return [
            *rows,
            Row(
                named(size, f"{what}zkcoord by the best of the others"),
                "medians",
                [median / least],
                (Bar("max", TIE),),
                "x",
                note=note,
            ),
        ]
    tie = max(least * (TIE - 1), float(beat_ms(size)))
    return [
        *rows,
        Row(
            named(size, f"{what}zkcoord less the best of the others"),
            "medians",
            [median - least],
            (Bar("max", rounded(tie)),),
            note=note,
        ),
    ]


def kept_rows(founds: Sequence[Found], size: int) -> list[Row]:
    """Partitions that stay, event by event; what the same partitions showed without an event is
    said beside zkcoord's.
    """
    rows: list[Row] = []
    for event in (JOIN, LEAVE, CRASH, SLOW, COORDINATOR):
        rows += compared(founds, size, event, KEPT, f"{event}, ")
        quiet = next(
            (
                values
                for found in founds
                if is_ours(found) and (values := found.values.get(event, {}).get("quiet"))
            ),
            None,
        )
        if quiet:
            rows.append(
                Row(named(size, f"{event}, zkcoord just before, without an event"), SILENCE, quiet)
            )
    return rows


def plain_rows(
    founds: Sequence[Found], size: int, figure: str, clock: str, unit: str = "ms"
) -> list[Row]:
    """A figure of all events, without a bar."""
    return [
        Row(named(size, f"{event}, {found.system.label}"), clock, values, unit=unit)
        for event in CLOCKS
        for found in founds
        if (values := found.values.get(event, {}).get(figure))
    ]


def sections(founds: Sequence[Found], size: int) -> list[Section]:
    """All that was found at one size. Each title has the size in it: sizes may be measured in runs
    of their own.
    """
    of = f", {size} members"
    made = [
        Section(event, f"{title}{of}", compared(founds, size, event, "took"))
        for event, title in TITLES.items()
    ]
    made.append(
        Section(
            KEPT,
            f"The longest silence of a partition that stays where it is{of}",
            kept_rows(founds, size),
        )
    )
    made.append(
        Section(
            MOVED,
            f"The longest silence of a partition that moves{of}",
            plain_rows(founds, size, MOVED, SILENCE),
        )
    )
    made.append(
        Section(
            REQUESTS,
            f"Requests to ZooKeeper{of}",
            plain_rows(founds, size, REQUESTS, "counted by the server", "requests"),
        )
    )
    made = [section for section in made if section.rows] or [
        Section("bench", f"Nothing was measured{of}")
    ]
    made[0].notes += [note for found in founds for note in found.notes]
    made[0].failure = "; ".join(found.failure for found in founds if found.failure)
    for section in made:
        shares = [found.busy[section.name] for found in founds if section.name in found.busy]
        section.busy_percent = (
            statistics.mean(shares)
            if shares
            else statistics.mean(
                [share for found in founds for share in found.busy.values()] or [0.0]
            )
        )
    return made
