"""Wildcard subscriptions, matched at the edge: the core only ever sees sets of topics.

Patterns are consumers' input, so the engine is RE2: linear time whatever the pattern, bounded
memory. Linear is not little: what a few characters say can be a program of tens of thousands of
steps, so those are limited, too, and `matching` counts the time. A pattern must match a topic's
whole name. A black list is the complement. Kafka's internal
topics are part of a match only where the pattern says so (a static subscription may always name
them). Old consumers' expressions are Java's: what of them can be said in RE2 is decided in
`java_patterns`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import re2

from zkcoord.core.model import Malformed, Pattern, PatternKind
from zkcoord.znodes.java_patterns import Refusal, follow
from zkcoord.znodes.names import shown

REGEX_CHARS_MAX = 4_096
REGEX_MEMORY_BYTES_MAX = 1024 * 1024
REGEX_PROGRAM_MAX = 16_384
REGEXES_CACHED_MAX = 1_024
REASON_CHARS_MAX = 200
EMPTY = "(?:)"
LOOK_AROUND = re.compile(r"\(\?<?[!=]")
NO_LOOK_AROUND = (
    "it has no look-ahead or look-behind: write what is to match, for example (_?[^_].*|_) for all"
    " that does not begin with __"
)
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

_JAVA_TRIMS = "".join(map(chr, range(ord(" ") + 1)))
_TOO_LONG = Refusal(f"it has more than {REGEX_CHARS_MAX} characters")


def check_regex(regex: str) -> str | Malformed:
    """The expression itself, or what is wrong with it."""
    found = compiled(regex)
    return found if isinstance(found, Malformed) else regex


def check_old_regex(regex: str) -> str | Refusal:
    """An old consumer's expression, as it stands in its registration, in RE2; or why there is no
    such.
    """
    followed = follow(as_old_consumers_read(regex)) if len(regex) <= REGEX_CHARS_MAX else _TOO_LONG
    if isinstance(followed, Refusal):
        return followed
    checked = check_regex(followed or EMPTY)
    return Refusal(checked.reason) if isinstance(checked, Malformed) else checked


def match_patterns(
    patterns: Iterable[Pattern], topics: Iterable[str]
) -> dict[Pattern, frozenset[str]]:
    """All `topics` that each pattern covers. A pattern that does not compile covers nothing:
    `decode_registration` has reported its member before it can get here.
    """
    every = list(topics)
    usual = [t for t in every if t not in INTERNAL_TOPICS]
    return {
        pattern: _matches(pattern, every if pattern.internal else usual) for pattern in patterns
    }


def as_old_consumers_read(regex: str) -> str:
    """An old consumer's expression as its own readers understand it: a comma means or, spaces and
    outer quotes go.
    """
    return regex.strip(_JAVA_TRIMS).replace(",", "|").replace(" ", "").strip("\"'")


def _matches(pattern: Pattern, topics: list[str]) -> frozenset[str]:
    engine = compiled(pattern.regex)
    if isinstance(engine, Malformed):
        return frozenset()
    matched = frozenset(t for t in topics if engine.fullmatch(t) is not None)
    return frozenset(topics) - matched if pattern.kind is PatternKind.BLACK_LIST else matched


def refusal(regex: str, reason: str) -> str:
    """What is wrong with what RE2 refuses for this reason, and what to write instead where that is
    known.
    """
    return NO_LOOK_AROUND if LOOK_AROUND.search(regex) else reason[:REASON_CHARS_MAX]


@functools.lru_cache(maxsize=REGEXES_CACHED_MAX)
def compiled(regex: str) -> re2._Regexp | Malformed:
    """The engine for an expression, or what is wrong with it. The latest are kept."""
    if not 0 < len(regex) <= REGEX_CHARS_MAX:
        return Malformed(
            "pattern", shown(regex), f"a pattern has 1 to {REGEX_CHARS_MAX} characters"
        )
    options = re2.Options()
    options.max_mem = REGEX_MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        found = re2.compile(regex, options)
    except UnicodeError:
        return Malformed("pattern", shown(regex), "not Unicode text")
    except re2.error as error:
        reason = error.args[0] if error.args else "not a regular expression"
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        return Malformed("pattern", shown(regex), f"RE2 refuses it: {refusal(regex, text)}")
    if found.programsize > REGEX_PROGRAM_MAX:
        return Malformed(
            "pattern",
            shown(regex),
            f"it makes a program of {found.programsize} steps, more than the {REGEX_PROGRAM_MAX}"
            " that a pattern may have: name fewer repetitions",
        )
    return found
