"""`zkcoord top` on a terminal of a given size, with rich. Whatever others have written goes through
`printable` and into texts that rich reads no markup in.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zkcoord.cli.groups_text import coordinator_name
from zkcoord.cli.journal import row as journal_row
from zkcoord.console.picture import GroupLine, Picture
from zkcoord.console.terminal.state import TopState
from zkcoord.console.views.group import PartitionRow
from zkcoord.console.views.texts import duration
from zkcoord.core.model import TopicPartition
from zkcoord.health.trouble.kinds import Trouble
from zkcoord.terminal import printable
from zkcoord.words import counted
from zkcoord.zk.clock import wall_ms

HEAD_LINES = 5
WIDE = 110
COLOURS = {"OK": "green", "WARN": "yellow", "UNKNOWN": "dim"}
BAD = "bold red"
BARS = " ▁▂▃▄▅▆▇█"
TROUBLES_SHOWN = 3
KEYS = (
    ("up, down, j, k", "mark a group"),
    ("page up, page down, home, end", "far"),
    ("enter", "the marked group: what to do, who blocks, partitions, what happened"),
    ("esc", "back; in the list: all groups"),
    ("s, r", "sort by the next column; the other way round"),
    ("/", "find a part of a group's or topic's name; enter ends it"),
    ("w", "only what is not well"),
    ("q", "end"),
)


def cell(value: object) -> Text:
    """A value as text."""
    return Text(printable(str(value)), overflow="ellipsis", no_wrap=True)


def verdict(word: str) -> Text:
    """In its colour."""
    return Text(word, style=COLOURS.get(word, BAD))


def sparkline(counts: Sequence[int]) -> str:
    """A bar for each count."""
    highest = max(counts, default=0)
    top = len(BARS) - 1
    return "".join(BARS[-(-count * top // highest) if highest else 0] for count in counts)


def head(picture: Picture, found: int, state: TopState) -> RenderableType:
    """Two lines about everything."""
    leads = picture.coordinator
    whose = f"coordinator {coordinator_name(leads)}" if leads and leads.leader else "NOBODY LEADS"
    age = duration((wall_ms() - picture.at_ms) / 1000) if picture.at_ms else "not yet"
    first = Text(f"zkcoord top  {printable(whose)}  seen {age} ago" if picture.at_ms else "looking")
    asked = state.wanted
    of = f"{found} of {len(picture.lines)} groups, by {asked.sort} {'down' if asked.down else 'up'}"
    find = (
        f"  find: {asked.find}{'_' if state.typing else ''}" if state.typing or asked.find else ""
    )
    second = Text(printable(of + find + (f"  {asked.verdict}" if asked.verdict else "")))
    lines: list[RenderableType] = [first, second]
    problem = picture.problem or picture.no_lag
    if problem:
        lines.append(Text(printable(problem), style=BAD, no_wrap=True, overflow="ellipsis"))
    return Group(*lines)


def groups_table(
    rows: Sequence[tuple[GroupLine, int]],
    rates: Sequence[Sequence[int]],
    marked: int,
    width: int,
) -> Table:
    """A row per group; the marked one is reversed. What is said of each needs a wide terminal."""
    is_wide = width >= WIDE
    found = Table(box=None, expand=True, pad_edge=False)
    found.add_column("GROUP", no_wrap=True, min_width=20, max_width=60)
    for name in ("VERDICT", "STATE"):
        found.add_column(name, no_wrap=True)
    for name in ("TROUBLE", "MEMBERS", "LAG", "SECONDS", "REBALANCES/H"):
        found.add_column(name, no_wrap=True, justify="right")
    if is_wide:
        found.add_column("LAST HOUR", no_wrap=True)
        found.add_column("WHY", no_wrap=True, ratio=2)
    for number, ((line, per_hour), counts) in enumerate(zip(rows, rates, strict=True)):
        seconds = line.health.seconds if line.health is not None else None
        said = Text(sparkline(counts)), cell("" if line.verdict.value == "OK" else line.why)
        found.add_row(
            cell(line.name),
            verdict(line.verdict.value),
            cell(line.listed.state.value + (", paused" if line.listed.paused else "")),
            Text(str(len(line.troubles)), style=BAD) if line.troubles else cell("-"),
            cell(line.listed.members),
            cell("-" if line.lag is None else line.lag),
            cell("-" if seconds is None else seconds),
            cell(per_hour),
            *(said if is_wide else ()),
            style="reverse" if number == marked else "",
        )
    return found


def group_text(
    name: str,
    blockers: Sequence[str],
    unowned: Sequence[TopicPartition],
    troubles: Sequence[Trouble],
    rows: Sequence[PartitionRow],
    events: Sequence[dict[str, object]],
    size: tuple[int, int],
) -> RenderableType:
    """The page of one group, as much of it as fits in so many columns and lines."""
    width, height = size
    lines: list[RenderableType] = [Text(printable(name), style="bold")]
    said = [
        *blockers,
        *([f"{counted(len(unowned), 'partition', 'has')} no member."] if unowned else []),
    ]
    lines += [Text(f"  {printable(one)}", style=BAD) for one in said[:5]]
    if not said:
        lines.append(Text("  nobody blocks", style="green"))
    lines += trouble_texts(troubles, width)
    half = max(3, (height - len(lines) - 8) // 2)
    table = Table(box=None, pad_edge=False)
    for column in ("PARTITION", "OWNER", "VERDICT", "COMMITTED", "LOG END", "LAG", "SECONDS"):
        table.add_column(column, no_wrap=True)
    for row in rows[:half]:
        numbers = ("-" if n is None else n for n in (row.offset, row.end, row.lag))
        owner = row.owner or "nobody"
        of = verdict(row.verdict or "-")
        table.add_row(cell(row.tp), cell(owner), of, *map(cell, numbers), cell(row.seconds or "-"))
    lines.append(table)
    if len(rows) > half:
        lines.append(Text(f"  {len(rows) - half} more, better off", style="dim"))
    happened = Table(box=None, pad_edge=False)
    for column, least in (("WHEN (UTC)", 19), ("WHAT", 14), ("WHY", 13), ("TRIGGER", 10)):
        happened.add_column(column, no_wrap=True, min_width=least)
    happened.add_column("TOOK", no_wrap=True, min_width=7, justify="right")
    happened.add_column("WAITED FOR", no_wrap=True)
    for record in events[:half]:
        when, _, what, why, trigger, took, _, _, waited = journal_row(record)
        happened.add_row(*map(cell, (when[:19], what, why, trigger, took, waited)))
    lines.append(happened)
    return Group(*lines)


def trouble_texts(troubles: Sequence[Trouble], width: int) -> Iterator[Text]:
    """What is wrong, the worst first, and what to do: a text for each line of so many columns."""
    for one in troubles[:TROUBLES_SHOWN]:
        about = f" of {one.subject}" if one.subject else ""
        said = printable(f"{one.kind.value}{about}: {one.evidence}.")
        remedy = printable(f"what to do: {one.remedy}.")
        for text, indent, style in ((said, "  ", BAD), (remedy, "    ", "")):
            for line in textwrap.wrap(
                text, max(20, width - 1), initial_indent=indent, subsequent_indent=indent + "  "
            ):
                yield Text(line, style=style)
    if len(troubles) > TROUBLES_SHOWN:
        yield Text(f"  and {len(troubles) - TROUBLES_SHOWN} more", style=BAD)


def keys_text() -> RenderableType:
    """What each key does."""
    found = Table(box=None, title="keys", title_justify="left")
    for key, what in KEYS:
        found.add_row(Text(key, style="bold"), Text(what))
    return found
