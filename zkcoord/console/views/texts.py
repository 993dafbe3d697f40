"""How values are written on pages: times, durations, numbers, and others' texts."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from markupsafe import Markup, escape

from zkcoord.terminal import lines, printable

NARROW_SPACE = Markup("&#8239;")
TEXT_CHARS_MAX = 300
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def plain(value: Any) -> Any:
    """What a template writes of a value: texts without characters that change how others look."""
    if value is None or isinstance(value, (Markup, int, float)):
        return value
    return printable(str(value))


def short(value: Any, chars_max: int = TEXT_CHARS_MAX) -> str:
    """The same, of bounded length: others write as much as they like."""
    text = str(value)
    return printable(text if len(text) <= chars_max else text[: chars_max - 1] + "…")


def printed(value: Any) -> Markup:
    """What a command has printed, line by line."""
    return escape(lines(str(value).strip("\n")))


def utc(at_ms: int) -> str:
    """`2026-01-31 10:00:00 UTC`; "" for a time that no calendar has."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def iso(at_ms: int) -> str:
    """The same for machines, to the millisecond."""
    try:
        found = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(seconds: float) -> str:
    """`850 ms`, `12 s`, `3 min`, `2 h 5 min`, `4 d 3 h`."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = int(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def number(value: int | None) -> Markup | str:
    """With narrow spaces between thousands; `-` where it is not known."""
    return "-" if value is None else NARROW_SPACE.join(f"{value:,}".split(","))
