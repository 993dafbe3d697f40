"""A decoder for each kind of node (of the data, and the name where it has one), with valid
documents of that kind: what hostile ones are made from.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.core.model import (
    Cause,
    Command,
    Departed,
    GroupMetadata,
    GroupMode,
    Mode,
    Option,
    Pattern,
    PatternKind,
    Request,
    RequestKind,
    Subscription,
    Thread,
    TopicPartition,
)
from zkcoord.znodes import codec
from zkcoord.znodes.stat import Stat

STAT = Stat(czxid=77, mzxid=77, version=1, cversion=0, ephemeral_owner=99, num_children=0)
START = Command(
    "m",
    5,
    Option.START,
    7,
    11,
    31,
    start={TopicPartition("a-b", n): Thread("m", 0) for n in range(3)},
)
STOP = Command(
    "m", 5, Option.STOP, 7, 11, 31, stop=(TopicPartition("orders", 5), TopicPartition("orders", 6))
)
REJECT = Command("m", 5, Option.REJECT, 7, 11, 31, code="X", fatal=True, message="no")
METADATA = GroupMetadata(
    topics=("a",),
    configuration={"x": 1},
    departed=(Departed("i", (TopicPartition("t", 1), TopicPartition("t", 2)), 5),),
    cause=Cause("join", "m"),
)
REPLAYED = codec.ReplayedPlan(
    17,
    "billing",
    "zk1:2181,zk2:2181/kafka",
    "draft",
    "billing_host-1790000000000-0a1b2c3d",
    8589934601,
    31,
    7,
    (
        codec.FencedRange(TopicPartition("a-b", 3), 700, 1200, 4, 8589934641),
        codec.FencedRange(TopicPartition("orders", 0), 1000, 1000, 6, 8589934640),
    ),
)
PUBLISHED = codec.Publication(
    "hdfs://h/out", "_zkcoord/billing/staging/8589934601/17-0a/_manifest.json", "ab" * 32
)
PATTERN = Subscription(pattern=Pattern(PatternKind.WHITE_LIST, r"orders\..*"))

Decode = Callable[..., object]
# These take what a strict parser refuses: a key twice, as old consumers do.
LAX = frozenset({"legacy document"})
DECODERS: dict[str, tuple[Decode, list[bytes]]] = {
    "registration": (
        lambda data, name="m": codec.decode_registration(name, data, STAT),
        [
            codec.encode_registration(
                Subscription({"a": 1, "b": 2}),
                timestamp_ms=1,
                assignors=("range", "sticky"),
                instance="i",
            ),
            codec.encode_registration(PATTERN, timestamp_ms=1),
        ],
    ),
    "command": (
        lambda data, name="m": codec.decode_command(name, "n", data),
        [codec.encode_command(c) for c in (START, STOP, REJECT)],
    ),
    "owner": (
        lambda data, name="t-0": codec.decode_owner(name, data, STAT),
        [b"g_h-1700000000000-00c0ffee-0"],
    ),
    "offset": (lambda data, name="t-0": codec.decode_offset(name, data), [b"9223372036854775807"]),
    "commit metadata": (
        lambda data, name="t-0": codec.decode_commit_metadata(name, data),
        [codec.encode_commit_metadata(codec.CommitMetadata(7, "why"))],
    ),
    "request": (
        lambda data, name="request-0": codec.decode_request(name, data),
        [
            codec.encode_request(Request(RequestKind.REBALANCE, True, "me@here")),
            codec.encode_request(Request(RequestKind.EVICT, False, "me@here", "g_h-1-a", -7)),
        ],
    ),
    "mode": (
        lambda data, name="mode": codec.decode_mode(data),
        [
            codec.encode_mode(Mode(GroupMode.MIXED, "legacy-range", "me@here")),
            codec.encode_mode(Mode(GroupMode.COORDINATED, by="me@here", paused=True)),
        ],
    ),
    "publication": (
        lambda data, name="1-1": codec.decode_publication(name, data),
        [codec.encode_publication(PUBLISHED)],
    ),
    "replayed plan": (
        lambda data, name="1-1": codec.decode_replayed_plan(name, data),
        [codec.encode_replayed_plan(REPLAYED)],
    ),
    "legacy document": (
        lambda data, name="m": codec.decode_legacy_document(name, data),
        [b'{"version":1,"subscription":{"t":1.5},"pattern":"static","timestamp":"1"}'],
    ),
    "partition state": (
        lambda data, name="t-0": codec.decode_partition_state(name, data),
        [b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'],
    ),
    "incarnation": (
        lambda data, name="t": codec.decode_incarnation(name, data),
        [b"4294967300.Bl8Xn2lZQv2NBzqXW7TvTw", b"17+"],
    ),
    "epoch": (
        lambda data, name="": codec.decode_epoch(data),
        [codec.encode_epoch(codec.EpochData(7, 1, 12_000))],
    ),
    "leader": (
        lambda data, name="": codec.decode_leader(data),
        [codec.encode_leader(codec.LeaderData("1", "h", 80, 7, 1))],
    ),
    "metadata": (
        lambda data, name="g": codec.decode_metadata(name, data),
        [codec.encode_metadata(METADATA)],
    ),
    "group state": (
        lambda data, name="g": codec.decode_group_state(name, data),
        [codec.encode_metadata(METADATA)],
    ),
    "topic": (
        lambda data, name="t": codec.decode_topic(name, data, STAT),
        [b'{"partitions":{"1":[0],"0":[0]},"topic_id":"Bl8","adding_replicas":{},"version":3}'],
    ),
    "broker": (
        lambda data, name="0": codec.decode_broker(name, data),
        [
            b'{"listener_security_protocol_map":{"P":"PLAINTEXT"},"endpoints":["P://h:9"],"host":"h","port":9,"version":5}'
        ],
    ),
}
