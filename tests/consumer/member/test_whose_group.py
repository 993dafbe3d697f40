"""Whose a registration may be, seen without reading it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.member.joining.whose_group import may_be_of
from zkcoord.core.model import Subscription
from zkcoord.znodes import codec


def registration(instance: str) -> bytes:
    """As a member writes it."""
    return codec.encode_registration(
        Subscription({"t": 1}),
        timestamp_ms=1,
        assignors=("sticky",),
        process="p",
        instance=instance,
    )


@given(st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,100}", fullmatch=True))
def test_nobodys_rival_is_passed_over(instance: str) -> None:
    """Whoever wrote the JSON."""
    data = registration(instance)
    assert may_be_of(instance, data)
    assert may_be_of(instance, json.dumps(json.loads(data)).encode())


@pytest.mark.parametrize("instance", ["web-1", "a.b", "x_"])
def test_others_are(instance: str) -> None:
    assert not may_be_of(instance, registration("another"))
