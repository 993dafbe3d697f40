"""What the readers of old consumers make of a registration. Pure.

They read "pattern" and "subscription" and nothing else, but the whole document must be JSON for
their parser, which is another one since 1.0 (`zkcoord.znodes.legacy_json`). A static subscription
needs at least one stream per topic, a pattern's one expression that Java compiles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zkcoord.core.model import Malformed
from zkcoord.core.shared import KEEPER
from zkcoord.znodes import names
from zkcoord.znodes.codec import decode_legacy_document
from zkcoord.znodes.java_patterns import Refusal
from zkcoord.znodes.legacy_json import INT_MAX, PATTERNS, LegacyDocument
from zkcoord.znodes.patterns import check_old_regex, check_regex
from zkcoord.znodes.stat import Stat

SHOWN_MAX = 5


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
    if name == KEEPER:
        return Judged((), None)
    parsed = decode_legacy_document(name, data)
    if isinstance(parsed, Malformed):
        return Judged((*problems, ("registration-no-json", parsed.reason)), None)
    document = parsed.fields
    problems += _parsers(parsed)
    pattern, found = document.get("pattern", 0), document.get("subscription")
    if type(pattern) is not str and not (pattern is None and not parsed.before_10):
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
    if not (pattern is None or type(pattern) is str) or type(found) is not dict:
        return Judged(tuple(problems), None)
    if stat.version > 0:
        problems.append(
            ("registration-rewritten", f"it was set {stat.version} times since it was created")
        )
    problems += _streams(found)
    ours = "zkcoord" in document
    if pattern not in PATTERNS or not found:
        if "" in found:
            problems.append(("registration-empty-topic", "it names a topic without a name"))
        return Judged(tuple(problems), Subscribed(tuple(sorted(found)), ours=ours))
    regex_problems, followed = _regex(found, ours)
    return Judged(
        (*problems, *regex_problems),
        Subscribed(regex=followed, black=pattern == "black_list", ours=ours),
    )


def _parsers(parsed: LegacyDocument) -> Iterator[tuple[str, str]]:
    """What only some releases' parsers refuse."""
    if parsed.before_10:
        yield "registration-json-before-1.0", parsed.before_10
    elif parsed.large:
        yield "registration-large-number", f"it holds {', '.join(parsed.large[:SHOWN_MAX])}"
    if parsed.since_10:
        yield "registration-json-since-1.0", parsed.since_10
    elif parsed.fields.get("pattern", 0) is None and not parsed.before_10:
        yield "registration-json-since-1.0", '"pattern" is null'


def _streams(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    bad = [
        f"{names.shown(topic)} has {names.shown(json.dumps(count))} streams"
        for topic, count in found.items()
        if type(count) is not int or not 1 <= count <= INT_MAX
    ]
    if bad:
        yield (
            "registration-no-streams",
            ", ".join(bad[:SHOWN_MAX])
            + (f" and {len(bad) - SHOWN_MAX} more" if len(bad) > SHOWN_MAX else ""),
        )


def _regex(found: dict[str, Any], ours: bool) -> tuple[list[tuple[str, str]], str | None]:
    """The problems of a pattern, and its expression as zkcoord matches it (None: it cannot)."""
    problems: list[tuple[str, str]] = []
    if len(found) > 1:
        problems.append(("registration-several-patterns", f"it has {len(found)} expressions"))
    raw = next(iter(found))
    if "\\\\" in raw:  # no topic's name holds a backslash, so nobody means one
        problems.append(
            (
                "registration-escaped-twice",
                f"the expression {names.shown(raw)} has its backslashes doubled",
            )
        )
    checked = check_regex(raw) if ours else check_old_regex(raw)
    if isinstance(checked, str):
        return problems, checked
    by_java = isinstance(checked, Refusal) and checked.by_java
    problems.append(
        (
            "registration-bad-regex" if by_java else "registration-not-re2",
            f"the expression {names.shown(raw)}: {checked.reason}",
        )
    )
    return problems, None
