"""Subscriptions as values."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kafka.errors import IllegalStateError, KafkaError

from consumer.assignment.subscription import subscription_of, topics_of, wants
from consumer.errors import InvalidPatternError
from zkcoord.core.model import Pattern, PatternKind, Subscription
from zkcoord.errors import InvalidSubscriptionError


def test_topics_by_name() -> None:
    wanted = subscription_of(["a", "b"], None)
    assert wanted == Subscription({"a": 1, "b": 1}) and topics_of(wanted) == ("a", "b")


@pytest.mark.parametrize("pattern", ["a.*", re.compile("a.*")])
def test_a_pattern(pattern: Any) -> None:
    assert subscription_of((), pattern) == Subscription(
        pattern=Pattern(PatternKind.WHITE_LIST, "a.*")
    )


@pytest.mark.parametrize(
    ("topics", "pattern", "error"),
    [
        ((), None, ValueError),
        (["a"], "a", IllegalStateError),
        ("a", None, TypeError),
        (["a b"], None, ValueError),
        ([""], None, ValueError),
        ([5], None, TypeError),
        ((), "a(", InvalidPatternError),
        ((), r"(a)\1", InvalidPatternError),
        ((), 5, TypeError),
        ((), re.compile(b"a"), TypeError),
    ],
)
def test_refusals(topics: Any, pattern: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        subscription_of(topics, pattern)


def test_a_pattern_that_is_none_is_what_existing_code_expects() -> None:
    """Whoever catches what `re.compile` raises, or what kafka-python's consumers do."""
    for kind in (re.error, KafkaError, InvalidSubscriptionError):
        with pytest.raises(kind, match="RE2"):
            subscription_of((), "a(")


def test_what_a_subscription_wants() -> None:
    assert [wants(subscription_of(["a"], None))(t) for t in ("a", "ab")] == [True, False]
    assert [wants(subscription_of((), "a.?"))(t) for t in ("a", "ab", "abc")] == [True, True, False]
