"""Points in time as an operator writes them: ISO 8601 date-times and durations, as
kafka-consumer-groups.sh takes them. Pure.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from zkcoord.errors import ConfigurationError
from zkcoord.znodes.names import shown

_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T"
    r" ](\d{2}:\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s?(Z|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII | re.IGNORECASE,
)
_DURATION = re.compile(
    r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{1,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def parse_datetime(text: str, flag: str = "--to-datetime", instead: str = "") -> tuple[int, bool]:
    """Milliseconds since 1970, and whether a zone was given (without one it is UTC, as in Kafka's
    tool). `flag` is what it was said with, `instead` what may be said as well. Raises
    `ConfigurationError`.
    """
    match = _DATETIME.fullmatch(text.strip())
    wrong = ConfigurationError(
        f"{flag} is {shown(text)}: write YYYY-MM-DDThh:mm:ss.sss, with a zone (Z, +02:00) or"
        " without one for UTC, for example 2026-01-31T10:00:00.000Z"
    )
    if match is None:
        raise wrong
    day, minute, second, fraction, zone = match.groups()
    digits = (zone or "Z")[1:].replace(":", "").ljust(4, "0")
    offset = (
        "+00:00" if (zone or "Z").upper() == "Z" else f"{(zone or '')[0]}{digits[:2]}:{digits[2:]}"
    )
    try:
        at = datetime.fromisoformat(
            f"{day}T{minute or '00:00'}:{second or '00'}"
            f".{(fraction or '0')[:6].ljust(6, '0')}{offset}"
        )
        ms = (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:  # there is no such day, hour or zone
        raise wrong from error
    if ms < 0:
        raise ConfigurationError(
            f"{flag} is {shown(text)}, which is before 1970: write a later time{instead}"
        )
    return ms, zone is not None


def parse_duration(text: str) -> int:
    """Milliseconds of PnDTnHnMnS. Raises `ConfigurationError`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()) or text.strip()[-1] in "Tt":
        raise ConfigurationError(
            f"--by-duration is {shown(text)}: write PnDTnHnMnS, for example PT2H30M for two and a"
            " half hours or P1D for a day"
        )
    days, hours, minutes, seconds, fraction = match.groups()
    return (
        ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    ) * 1_000 + int((fraction or "0")[:3].ljust(3, "0"))


def shown_time(ms: int) -> str:
    """A time for a sentence, in UTC; that there is none where no calendar has it (of a file that is
    damaged).
    """
    try:
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)
    except OverflowError:
        return "no time of a calendar"
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1_000:03d}Z"
