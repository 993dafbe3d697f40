"""What the readers of old consumers make of a registration. Pure.

They read "pattern" and "subscription" and nothing else, but the whole document must be JSON for
them. Up to 0.11 every number in it is converted to an int by their parser, wherever it stands. A
static subscription needs at least one stream per topic, a pattern's exactly one expression that
Java compiles. Java's dialect is judged by two others: what neither RE2 nor Python compiles, Java
does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zkcoord.core.model import Malformed
from zkcoord.znodes import names
from zkcoord.znodes.codec import decode_legacy_document
from zkcoord.znodes.patterns import as_old_consumers_read, check_regex
from zkcoord.znodes.stat import Stat

INT_MAX = 2**31 - 1
SHOWN_MAX = 5
PATTERNS = ("white_list", "black_list")

_JAVA_ONLY = re.compile(r"\\[pP]\{|[*+?}]\+|&&\[")


@dataclass(frozen=True)
class Subscribed:
    """What a registration subscribes to, as far as that can be read: topics, or an expression.
    `ours`: zkcoord wrote it.
    """

    topics: tuple[str, ...] = ()
    regex: str | None = None
    black: bool = False
    ours: bool = False


@dataclass(frozen=True)
class Judged:
    """`problems` are (code, what). `subscribed` None: it cannot be told what it subscribes to."""

    problems: tuple[tuple[str, str], ...]
    subscribed: Subscribed | None


def judge(name: str, data: bytes, stat: Stat) -> Judged:
    """One registration. Never raises, whatever the bytes."""
    problems: list[tuple[str, str]] = []
    if stat.ephemeral_owner == 0:
        problems.append(("registration-persistent", "it is not ephemeral"))
    if not names.is_member(name):
        problems.append(
            ("registration-name", f"the name {names.shown(name)} is not printable, or too long")
        )
    parsed = decode_legacy_document(name, data)
    if isinstance(parsed, Malformed):
        return Judged((*problems, ("registration-no-json", parsed.reason)), None)
    document = parsed.fields
    if parsed.large:
        problems.append(
            ("registration-large-number", f"it holds {', '.join(parsed.large[:SHOWN_MAX])}")
        )
    pattern, found = document.get("pattern"), document.get("subscription")
    if type(pattern) is not str:
        problems.append(
            (
                "registration-no-pattern",
                (
                    '"pattern" is missing'
                    if "pattern" not in document
                    else '"pattern" is not a string'
                ),
            )
        )
    if type(found) is not dict:
        problems.append(
            (
                "registration-no-subscription",
                (
                    '"subscription" is missing'
                    if "subscription" not in document
                    else '"subscription" is not an object'
                ),
            )
        )
    if type(pattern) is not str or type(found) is not dict:
        return Judged(tuple(problems), None)
    if stat.version > 0:
        problems.append(
            ("registration-rewritten", f"it was set {stat.version} times since it was created")
        )
    problems += _streams(found)
    ours = "zkcoord" in document
    if pattern not in PATTERNS:
        return Judged(tuple(problems), Subscribed(tuple(sorted(found)), ours=ours))
    problems += _regex(found, ours)
    expression = next(iter(found), "")
    return Judged(
        tuple(problems),
        Subscribed(
            regex=expression if ours else as_old_consumers_read(expression),
            black=pattern == "black_list",
            ours=ours,
        ),
    )


def _streams(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    bad = [
        f"{names.shown(topic)} has {names.shown(json.dumps(count))} streams"
        for topic, count in found.items()
        if type(count) is not int or count < 1
    ]
    if bad:
        yield (
            "registration-no-streams",
            ", ".join(bad[:SHOWN_MAX])
            + (f" and {len(bad) - SHOWN_MAX} more" if len(bad) > SHOWN_MAX else ""),
        )


def _regex(found: dict[str, Any], ours: bool) -> Iterator[tuple[str, str]]:
    if not found:
        yield "registration-no-subscription", '"subscription" of a pattern is empty'
        return
    if len(found) > 1:
        yield "registration-several-patterns", f"it has {len(found)} expressions"
    raw = next(iter(found))
    expression = raw if ours else as_old_consumers_read(raw)
    if "\\\\" in raw:  # no topic's name holds a backslash, so nobody means one
        yield (
            "registration-escaped-twice",
            f"the expression {names.shown(raw)} has its backslashes doubled",
        )
    checked = check_regex(expression)
    if isinstance(checked, Malformed):
        yield (
            ("registration-not-re2" if _java_may(expression) else "registration-bad-regex"),
            f"the expression {names.shown(expression)}: {checked.reason}",
        )


def _java_may(expression: str) -> bool:
    """Whether Java may take what RE2 does not: another backtracking engine does, or it has a form
    that only Java has. (It is compiled only, never matched.)
    """
    try:
        re.compile(expression)
    except (re.error, RecursionError, OverflowError):
        return _JAVA_ONLY.search(expression) is not None
    return True
