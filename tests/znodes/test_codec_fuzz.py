"""No bytes raise out of the codec: random ones, valid documents with bytes changed, values of any type in any field."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkcoord.core.model import Cause, Command, Departed, GroupMetadata, Malformed, Option, Pattern, PatternKind, Subscription, Thread, TopicPartition
from zkcoord.znodes import codec
from zkcoord.zk.port import Stat

STAT = Stat(czxid=77, mzxid=77, version=1, cversion=0, ephemeral_owner=99, num_children=0)
START = Command("m", 5, Option.START, 7, 11, 31, start={TopicPartition("a-b", n): Thread("m", 0) for n in range(3)})
STOP = Command("m", 5, Option.STOP, 7, 11, 31, stop=(TopicPartition("orders", 5), TopicPartition("orders", 6)))
REJECT = Command("m", 5, Option.REJECT, 7, 11, 31, code="X", fatal=True, message="no")
METADATA = GroupMetadata(topics=("a",), configuration={"x": 1}, departed=(Departed("i", (TopicPartition("t", 1), TopicPartition("t", 2)), 5),), cause=Cause("join", "m"))
PATTERN = Subscription(pattern=Pattern(PatternKind.WHITE_LIST, r"orders\..*"))

Decode = Callable[[bytes], object]
DECODERS: dict[str, tuple[Decode, list[bytes]]] = {
    "registration": (
        lambda data: codec.decode_registration("m", data, STAT),
        [codec.encode_registration(Subscription({"a": 1, "b": 2}), timestamp_ms=1, assignors=("range", "sticky"), instance="i"), codec.encode_registration(PATTERN, timestamp_ms=1)],
    ),
    "command": (lambda data: codec.decode_command("m", "n", data), [codec.encode_command(c) for c in (START, STOP, REJECT)]),
    "owner": (lambda data: codec.decode_owner("t-0", data, STAT), [b"g_h-1700000000000-00c0ffee-0"]),
    "offset": (lambda data: codec.decode_offset("t-0", data), [b"9223372036854775807"]),
    "incarnation": (lambda data: codec.decode_incarnation("t", data), [b"Bl8Xn2lZQv2NBzqXW7TvTw"]),
    "epoch": (codec.decode_epoch, [codec.encode_epoch(codec.EpochData(7, 1, 12_000))]),
    "leader": (codec.decode_leader, [codec.encode_leader(codec.LeaderData("1", "h", 80, 7, 1))]),
    "metadata": (lambda data: codec.decode_metadata("g", data), [codec.encode_metadata(METADATA)]),
    "topic": (lambda data: codec.decode_topic("t", data, STAT), [b'{"partitions":{"1":[0],"0":[0]},"topic_id":"Bl8","adding_replicas":{},"version":3}']),
    "broker": (lambda data: codec.decode_broker("0", data), [b'{"listener_security_protocol_map":{"P":"PLAINTEXT"},"endpoints":["P://h:9"],"host":"h","port":9,"version":5}']),
}
EACH = pytest.mark.parametrize("kind", DECODERS)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["0", "a-0", "m-0", "static", "1", "/", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.sampled_from(["a-0", "t", "instance", "partitions"]), inner, max_size=3),
    max_leaves=6,
)


def check(kind: str, data: bytes) -> None:
    """Decode, and look at a refusal: it can be printed."""
    found = DECODERS[kind][0](data)
    if isinstance(found, Malformed):
        assert found.reason and found.reason.isprintable() and len(found.reason) < 1_000


@EACH
@given(data=st.binary(max_size=200))
def test_random_bytes(kind: str, data: bytes) -> None:
    check(kind, data)


@EACH
def test_valid_documents_with_bytes_changed(kind: str) -> None:
    rng = random.Random(kind)
    for seed in DECODERS[kind][1]:
        assert not isinstance(DECODERS[kind][0](seed), Malformed)
        for at in range(len(seed)):
            for byte in {rng.randrange(256), seed[at] ^ 1, seed[at] ^ 128, 0, 34, 57, 92, 125}:
                check(kind, seed[:at] + bytes([byte]) + seed[at + 1 :])
            check(kind, seed[:at])
            check(kind, seed[:at] + seed[at + 1 :])
            check(kind, seed[:at] + seed[at:] + seed[at:])


@EACH
@settings(max_examples=150)
@given(data=st.data())
def test_any_value_in_any_field(kind: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(DECODERS[kind][1]))
    if not seed.startswith(b"{"):
        return
    document = json.loads(seed)
    document[data.draw(st.sampled_from(sorted(document)))] = data.draw(junk)
    check(kind, json.dumps(document).encode("utf-8", "surrogatepass"))


@EACH
@pytest.mark.parametrize("data", [b"[" * 65_536, b'{"a":' * 13_000, b'"' + b'\\"' * 32_000, b"9" * 65_536, b"{" + b'"a":1,' * 10_000 + b'"b":1}', b"x" * 2_000_000], ids=["lists", "objects", "quotes", "digits", "keys", "long"])
def test_bombs(kind: str, data: bytes) -> None:
    assert isinstance(DECODERS[kind][0](data), Malformed)


@EACH
def test_what_is_decoded_says_the_same_again(kind: str) -> None:
    for seed in DECODERS[kind][1]:
        assert DECODERS[kind][0](seed) == DECODERS[kind][0](seed)
