"""What an application subscribes to, as the value that the registration carries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka.errors import IllegalStateError
from kafka.util import ensure_valid_topic_name

from consumer.errors import InvalidPatternError
from zkcoord.core.model import Malformed, Pattern, PatternKind, Subscription
from zkcoord.znodes.patterns import check_regex, match_patterns


def pattern_of(kind: PatternKind, regex: Any, exclude_internal: bool) -> Pattern:
    """The pattern. Raises `InvalidPatternError`."""
    checked = (
        check_regex(regex)
        if isinstance(regex, str)
        else Malformed("pattern", repr(regex), "it is not text")
    )
    if isinstance(checked, Malformed):
        raise InvalidPatternError(
            f"the pattern {regex!r} cannot be used ({checked.reason}): write a regular expression"
            " in RE2's syntax that matches whole topic names"
        )
    return Pattern(kind, regex, not exclude_internal)


def subscription_of(
    topics: Iterable[str], pattern: Any, exclude_internal: bool = True
) -> Subscription:
    """The subscription. Raises `ValueError` (neither, or a bad topic name), `IllegalStateError`
    (both), `TypeError` (not a list of text, a pattern that is none), `InvalidPatternError` (not an
    RE2 pattern).
    """
    if not topics and not pattern:
        raise ValueError("Must provide topics or pattern")
    if topics and pattern:
        raise IllegalStateError(
            "You must choose only one way to configure your consumer: topics by name, or a pattern"
        )
    if pattern:
        regex = getattr(pattern, "pattern", pattern)
        if not isinstance(regex, str):
            raise TypeError(f"a pattern is text, or a compiled pattern of text, not {pattern!r}")
        return Subscription(pattern=pattern_of(PatternKind.WHITE_LIST, regex, exclude_internal))
    if isinstance(topics, str) or not isinstance(topics, (Sequence, set, frozenset)):
        raise TypeError("Topics must be a list (or non-str sequence)")
    for topic in topics:
        ensure_valid_topic_name(topic)
    return Subscription(dict.fromkeys(topics, 1))


def python_regex(subscription: Subscription) -> str | None:
    """A pattern in kafka-python's form, for a consumer without a group; None where there is none.
    Raises `InvalidPatternError` for one that only RE2 knows.
    """
    if subscription.pattern is None:
        return None
    regex = f"(?:{subscription.pattern.regex})\\Z"
    try:
        re.compile(regex)
    except re.error as e:
        raise InvalidPatternError(
            f"the pattern {subscription.pattern.regex!r} cannot be used without a group ({e}):"
            " write it in the syntax of Python's re"
        ) from e
    return regex


def wants(subscription: Subscription) -> Callable[[str], bool]:
    """Whether a subscription covers a topic."""
    if subscription.pattern is None:
        return subscription.topics.__contains__
    pattern = subscription.pattern
    return lambda topic: topic in match_patterns([pattern], [topic])[pattern]


def topics_of(subscription: Subscription) -> tuple[str, ...]:
    """The topics named; none for a pattern."""
    return tuple(subscription.topics)
