"""A replayed plan: what a Spark query reads of a batch that a former process had planned, with the
fence of now. The node is ephemeral; fenced sinks read it before they take the plan in Spark's log.

Its bytes are the text of a plan in Spark's log: keys in their order, `json.dumps`'s separators.
"""

from __future__ import annotations

import json
from typing import Any

from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.znodes import names
from zkcoord.znodes.strict_json import (
    INT64_MAX,
    JsonObject,
    UnfitField,
    integer,
    mapping,
    reading,
    string,
)

REPLAYED_PLAN_VERSION = 1
REPLAYED_PLAN_BYTES_MAX = 1024 * 1024
SERVERS_CHARS_MAX = 64 * 1024
LAYOUT_CHARS_MAX = 255


@value
class FencedRange:
    """Offsets of one partition, and what fences them."""

    partition: TopicPartition
    # The first offset, and the next after the last.
    start: int
    end: int
    # The version of the offset node, and the czxid of the owner node.
    version: int
    owner: int


@value
class ReplayedPlan:
    """A plan with the fence of the member that reads it again."""

    # The number of the plan in Spark's log.
    number: int
    group: str
    # Where ZooKeeper is, as the query's options say it.
    zookeeper: str
    layout: str
    member: str
    # The czxid of the member's registration.
    incarnation: int
    # Those of the member's latest command.
    generation: int
    epoch: int
    # Sorted by partition.
    ranges: tuple[FencedRange, ...]


def decode_replayed_plan(node: str, data: bytes) -> ReplayedPlan | Malformed:
    """The plan in the node `node`. Never raises."""
    return reading("replayed plan", node, data, _replayed_plan, REPLAYED_PLAN_BYTES_MAX)


def encode_replayed_plan(plan: ReplayedPlan) -> bytes:
    """A replayed plan's data."""
    document = {
        "v": REPLAYED_PLAN_VERSION,
        "n": plan.number,
        "group": plan.group,
        "zookeeper": plan.zookeeper,
        "layout": plan.layout,
        "member": plan.member,
        "incarnation": plan.incarnation,
        "generation": plan.generation,
        "epoch": plan.epoch,
        "ranges": {
            str(r.partition): [r.start, r.end, r.version, r.owner]
            for r in sorted(plan.ranges, key=lambda r: r.partition)
        },
    }
    return json.dumps(document).encode("ascii")


def _replayed_plan(document: JsonObject) -> ReplayedPlan:
    integer(document, "v", REPLAYED_PLAN_VERSION, REPLAYED_PLAN_VERSION)
    group = string(document, "group", names.NAME_CHARS_MAX)
    if not names.is_group(group):
        raise UnfitField("group is no group's name")
    member = string(document, "member", names.MEMBER_CHARS_MAX)
    if not names.is_member(member):
        raise UnfitField("member is no member's name")
    ranges = [_range(name, numbers) for name, numbers in mapping(document, "ranges").items()]
    return ReplayedPlan(
        integer(document, "n"),
        group,
        string(document, "zookeeper", SERVERS_CHARS_MAX),
        string(document, "layout", LAYOUT_CHARS_MAX),
        member,
        integer(document, "incarnation"),
        integer(document, "generation"),
        integer(document, "epoch"),
        tuple(sorted(ranges, key=lambda r: r.partition)),
    )


def _range(name: str, numbers: Any) -> FencedRange:
    partition = names.parse_partition(name)
    if partition is None:
        raise UnfitField(f"{names.shown(name)} is no partition")
    if (
        type(numbers) is not list
        or len(numbers) != 4
        or any(type(number) is not int or not 0 <= number <= INT64_MAX for number in numbers)
        or numbers[0] > numbers[1]
    ):
        raise UnfitField(
            f"{name} is not [first offset, next offset, version of the offset, czxid of the owner]"
        )
    return FencedRange(partition, *numbers)
