"""Subscriptions as values."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kafka.errors import IllegalStateError

from consumer.assignment.subscription import subscription_of, topics_of
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
        ((), "a(", InvalidSubscriptionError),
        ((), r"(a)\1", InvalidSubscriptionError),
        ((), 5, InvalidSubscriptionError),
    ],
)
def test_refusals(topics: Any, pattern: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        subscription_of(topics, pattern)
