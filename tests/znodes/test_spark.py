"""What Spark's source and its fenced sinks write: publications and replayed plans."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from consumer.spark.plan import Plan, PlannedRange, parse_plan, plan_of
from tests.znodes.seeds import PUBLISHED, REPLAYED
from zkcoord.core.model import Malformed
from zkcoord.znodes import codec
from zkcoord.znodes.publication import incarnation_of, is_czxid

INTENT: dict[str, Any] = json.loads(codec.encode_publication(PUBLISHED))
PLAN: dict[str, Any] = json.loads(codec.encode_replayed_plan(REPLAYED))
LOGGED = Plan(3, "g", "zk:2181/k", "draft", "g_h-1-a", 5, 1, 2, (PlannedRange("b", 1, 5, 6, 0, 4),))


def test_a_publication_is_the_bytes_that_it_was_in_all_versions() -> None:
    assert codec.encode_publication(codec.Publication("/out", "a/_manifest.json", "ab")) == (
        b'{"version":1,"directory":"/out","manifest":"a/_manifest.json","digest":"ab"}'
    )
    assert codec.decode_publication("1-1", codec.encode_publication(PUBLISHED)) == PUBLISHED


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 2},
        {"directory": ""},
        {"directory": 7},
        {"directory": "x" * 4_097},
        {"manifest": "/etc/passwd"},
        {"manifest": "../x"},
        {"manifest": "a//b"},
        {"manifest": "a\0b"},
        {"manifest": None},
        {"digest": "a" * 65},
        {"digest": 1},
    ],
)
def test_malformed_publications(changed: dict[str, Any]) -> None:
    data = json.dumps({**INTENT, **changed}).encode()
    assert isinstance(codec.decode_publication("1-1", data), Malformed)


def test_the_name_of_a_publication_says_whose_it_is() -> None:
    assert incarnation_of("8589934601-17") == 8589934601
    for other in ("", "1", "-1", "01-1", "1-01", "x-1", "0a1b2c3d-4e5f-1", "1" * 20 + "-1"):
        assert incarnation_of(other) is None
    assert is_czxid("0") and not is_czxid("\u0661") and not is_czxid("")


def test_a_replayed_plan_is_the_text_of_a_plan_in_sparks_log() -> None:
    data = codec.encode_replayed_plan(LOGGED.to_replayed())
    assert data == LOGGED.to_json().encode("utf-8")
    found = codec.decode_replayed_plan("5-3", data)
    assert isinstance(found, codec.ReplayedPlan)
    assert plan_of(found) == LOGGED == parse_plan(data.decode())


def test_a_plan_as_large_as_it_can_be_fits() -> None:
    ranges = tuple(
        PlannedRange("t" * 249, n, 2**62, 2**63 - 1, 2**31, 2**63 - 1) for n in range(400)
    )
    large = replace(LOGGED, ranges=ranges)
    found = codec.decode_replayed_plan("5-3", codec.encode_replayed_plan(large.to_replayed()))
    assert isinstance(found, codec.ReplayedPlan) and plan_of(found) == large


@pytest.mark.parametrize(
    "changed",
    [
        {"v": 2},
        {"n": "3"},
        {"n": -1},
        {"group": "a/b"},
        {"member": ""},
        {"layout": 7},
        {"incarnation": True},
        {"ranges": []},
        {"ranges": {"t": [1, 2, 0, 0]}},
        {"ranges": {"t-0": 7}},
        {"ranges": {"t-0": "1234"}},
        {"ranges": {"t-0": [1, 2]}},
        {"ranges": {"t-0": [2, 1, 0, 0]}},
        {"ranges": {"t-0": [1, 2, -1, 0]}},
        {"ranges": {"t-0": [1, 2, 0, 2**63]}},
        {"ranges": {"t-0": [True, 2, 0, 0]}},
        {"ranges": {"t-00": [1, 2, 0, 0]}},
    ],
)
def test_malformed_replayed_plans(changed: dict[str, Any]) -> None:
    data = json.dumps({**PLAN, **changed}).encode()
    assert isinstance(codec.decode_replayed_plan("1-1", data), Malformed)


def test_a_range_may_be_empty() -> None:
    data = json.dumps({**PLAN, "ranges": {"t-0": [2, 2, 0, 0]}}).encode()
    assert isinstance(codec.decode_replayed_plan("1-1", data), codec.ReplayedPlan)


@pytest.mark.parametrize("key", list(PLAN))
def test_each_field_of_a_replayed_plan_is_needed(key: str) -> None:
    data = json.dumps({name: value for name, value in PLAN.items() if name != key}).encode()
    assert isinstance(codec.decode_replayed_plan("1-1", data), Malformed)
