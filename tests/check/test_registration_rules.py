"""What kills old consumers and what does not: each line was observed on real ones of 0.11.0.2 and
1.1.1.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from zkcoord.check.registration_rules import Subscribed, judge
from zkcoord.check.rules import RULES, SCALA_JSON
from zkcoord.check.severity import ALL, Severity
from zkcoord.core.model import Pattern, PatternKind, Subscription
from zkcoord.znodes.codec import encode_registration
from zkcoord.znodes.stat import Stat

MINE = Stat(7, 7, 0, 0, 77, 0)
PERSISTENT = Stat(7, 7, 0, 0, 0, 0)
REWRITTEN = Stat(7, 9, 2, 0, 77, 0)
GOOD: dict[str, Any] = {
    "version": 1,
    "subscription": {"orders": 2},
    "pattern": "static",
    "timestamp": "1795227768363",
}


def registration(**changed: Any) -> bytes:
    """A good one, but for this; `None` leaves a field out."""
    return json.dumps(
        {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    ).encode()


def codes(data: bytes, stat: Stat = MINE, name: str = "g_host-1-aabbccdd") -> list[str]:
    return [code for code, _ in judge(name, data, stat).problems]


@pytest.mark.parametrize(
    ("data", "code", "versions"),
    [
        (b"orders", "registration-no-json", ALL),
        (b"", "registration-no-json", ALL),
        (b"[1]", "registration-no-json", ALL),
        (b"\xff\xfe", "registration-no-json", ALL),
        (b'{"a":NaN}', "registration-no-json", ALL),
        (b"[" * 100_000, "registration-no-json", ALL),
        (registration(pattern=None), "registration-no-pattern", ALL),
        (registration(pattern=1), "registration-no-pattern", ALL),
        (registration(subscription=None), "registration-no-subscription", ALL),
        (registration(subscription={"orders": 0}), "registration-no-streams", ALL),
        (registration(subscription={"orders": -1}), "registration-no-streams", ALL),
        (registration(subscription={"orders": "2"}), "registration-no-streams", ALL),
        (
            registration(subscription={"or(ders": 1}, pattern="white_list"),
            "registration-bad-regex",
            ALL,
        ),
        (registration(timestamp=1_795_227_768_363), "registration-large-number", SCALA_JSON),
        (registration(load=0.5), "registration-large-number", SCALA_JSON),
        (registration(nested={"a": [2**31]}), "registration-large-number", SCALA_JSON),
        (registration(a=10**5_000 // 10**4_900), "registration-large-number", SCALA_JSON),
    ],
)
def test_poison(data: bytes, code: str, versions: str) -> None:
    assert codes(data) == [code]
    assert RULES[code].severity is Severity.ERROR and RULES[code].versions == versions


@pytest.mark.parametrize(
    "data",
    [
        registration(),
        registration(zkcoord="1", note="umlaut ä"),
        registration(more={"a": 1, "b": {"c": 2**31 - 1}}, least=-(2**31)),
        registration(version=2),
        registration(version=None, timestamp=None),
        registration(subscription={}),
        registration(subscription={}, pattern="white_list"),
        b'{"subscription":{"orders\\..*":1},"pattern":"white_list"}',
        registration(subscription={"never-heard-of": 1}),
        registration(pattern="whatever"),
        registration(subscription={"orders.*,payments": 1}, pattern="white_list"),
        registration(subscription={"orders[.].*": 1}, pattern="black_list"),
        registration(subscription={"orders\\..*": 1}, pattern="white_list"),
        encode_registration(
            Subscription(topics={"orders": 1}), timestamp_ms=1, user_data="x", client="c", host="h"
        ),
        encode_registration(
            Subscription(pattern=Pattern(PatternKind.WHITE_LIST, "orders\\..*"), streams=2),
            timestamp_ms=1,
        ),
    ],
)
def test_what_they_read(data: bytes) -> None:
    assert codes(data) == []


def test_what_is_wrong_without_killing() -> None:
    assert codes(registration(), PERSISTENT) == ["registration-persistent"]
    assert codes(registration(), REWRITTEN) == ["registration-rewritten"]
    assert codes(registration(), name="g_höst") == []
    assert codes(registration(), name="g_h\u200bst") == ["registration-name"]
    assert codes(registration(subscription={"a": 1, "b": 1}, pattern="white_list")) == [
        "registration-several-patterns"
    ]
    assert codes(registration(subscription={"orders\\\\..*": 1}, pattern="white_list")) == [
        "registration-escaped-twice"
    ]
    assert codes(registration(subscription={"(?!x)orders": 1}, pattern="white_list")) == [
        "registration-not-re2"
    ]
    assert codes(registration(subscription={"(?!x).*|\\p{L}+": 1}, pattern="white_list")) == []


def test_what_is_subscribed() -> None:
    assert judge("m", registration(), MINE).subscribed == Subscribed(("orders",))
    assert judge("m", registration(zkcoord="1"), MINE).subscribed == Subscribed(
        ("orders",), ours=True
    )
    assert judge(
        "m", registration(subscription={" 'a,b' ": 1}, pattern="black_list"), MINE
    ).subscribed == Subscribed(regex="a|b", black=True)
    assert judge("m", b"orders", MINE).subscribed is None
