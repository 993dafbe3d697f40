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
PATTERN = Subscription(pattern=Pattern(PatternKind.WHITE_LIST, r"orders\..*"))

Decode = Callable[..., object]
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
    "request": (
        lambda data, name="request-0": codec.decode_request(name, data),
        [codec.encode_request(Request(RequestKind.REBALANCE, True, "me@here"))],
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
