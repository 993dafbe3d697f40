"""What brokers write, from 0.8 to 3.9."""

from __future__ import annotations

import json

import pytest

from zkcoord.core.model import Malformed, Topic
from zkcoord.znodes.codec import (
    BrokerData,
    PartitionState,
    decode_broker,
    decode_partition_state,
    decode_topic,
)
from zkcoord.znodes.kafka import ENDPOINTS_MAX
from zkcoord.znodes.stat import Stat

STAT = Stat(czxid=4711, mzxid=4800, version=1, cversion=1, ephemeral_owner=0, num_children=1)
V3 = (
    b'{"removing_replicas":{},"partitions":{"10":[0],"2":[0],"0":[0]},'
    b'"topic_id":"Bl8Xn2lZQv2NBzqXW7TvTw","adding_replicas":{},"version":3}'
)
V5 = (
    b'{"features":{},"listener_security_protocol_map":{"INSIDE":"SASL_SSL",'
    b'"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:19192",'
    b'"INSIDE://[::1]:9093"],"jmx_port":-1,"host":"127.0.0.1",'
    b'"timestamp":"1795227722665","port":19192,"version":5}'
)


def test_topics_of_all_formats() -> None:
    assert decode_topic("t", V3, STAT) == Topic(
        "t", "4711.Bl8Xn2lZQv2NBzqXW7TvTw", (0, 2, 10), 4711
    )
    assert decode_topic("t", b'{"version":1,"partitions":{"1":[1,2],"0":[2,1]}}', STAT) == Topic(
        "t", "4711", (0, 1), 4711
    )
    assert decode_topic("t", b'{"version":3,"partitions":{},"topic_id":null}', STAT) == Topic(
        "t", "4711", (), 4711
    )


@pytest.mark.parametrize(
    ("more", "created"),
    [
        ('"found":true', 0),
        ('"found":true,"created":17', 17),
        ('"found":true,"created":4711', 4711),
        ('"found":true,"created":4712', 0),  # of the ensemble that this one was copied from
        ('"found":false,"created":17', 4711),
    ],
)
def test_how_old_a_topic_is_whose_node_is_ours(more: str, created: int) -> None:
    data = f'{{"version":3,"partitions":{{"0":[]}},"topic_id":"a",{more}}}'.encode()
    assert decode_topic("t", data, STAT) == Topic("t", "4711.a", (0,), created)


def test_ten_thousand_partitions_fit() -> None:
    data = json.dumps(
        {"version": 3, "partitions": {str(n): [1, 2, 3] for n in range(10_000)}}
    ).encode()
    assert decode_topic("t", data, STAT) == Topic("t", "4711", tuple(range(10_000)), 4711)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b'{"version":0,"partitions":{}}',
        b'{"version":4,"partitions":{}}',
        b'{"version":1,"partitions":[0]}',
        b'{"version":1,"partitions":{"x":[0]}}',
        b'{"version":1,"partitions":{"00":[0]}}',
        b'{"version":1,"partitions":{"-1":[0]}}',
        b'{"version":1,"partitions":{"1":[0],"1":[0]}}',
        b'{"version":3,"partitions":{},"topic_id":7}',
        b'{"version":3,"partitions":{},"topic_id":"a b"}',
    ],
)
def test_malformed_topics(data: bytes) -> None:
    assert isinstance(decode_topic("t", data, STAT), Malformed)


def test_a_topic_with_an_impossible_name() -> None:
    assert isinstance(decode_topic("a b", V3, STAT), Malformed)


def test_brokers_of_all_formats() -> None:
    assert decode_broker("0", V5) == BrokerData(
        "127.0.0.1",
        19192,
        {"PLAINTEXT": ("127.0.0.1", 19192), "INSIDE": ("::1", 9093)},
        {"PLAINTEXT": "PLAINTEXT", "INSIDE": "SASL_SSL"},
        5,
    )
    assert decode_broker(
        "0", b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'
    ) == BrokerData("h", 9092, version=1)
    assert decode_broker(
        "0", b'{"version":4,"host":null,"port":-1,"endpoints":["SSL://h:9093"]}'
    ) == BrokerData("", -1, {"SSL": ("h", 9093)}, {"SSL": "SSL"}, 4)


def test_a_broker_with_listeners_only_or_without_a_version() -> None:
    assert decode_broker("0", b'{"endpoints":["SSL://h:65535"]}') == BrokerData(
        "", -1, {"SSL": ("h", 65_535)}, {"SSL": "SSL"}, 0
    )
    assert decode_broker("0", b'{"host":"h","port":0}') == BrokerData("h", 0, version=0)


def test_as_many_listeners_as_may_be() -> None:
    for count, taken in ((ENDPOINTS_MAX, True), (ENDPOINTS_MAX + 1, False)):
        data = json.dumps({"endpoints": [f"L{n}://h:{n}" for n in range(count)]}).encode()
        assert isinstance(decode_broker("0", data), BrokerData) is taken


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"host":"h"}',
        b'{"port":9092}',
        b'{"port":-2,"endpoints":["SSL://h:1"]}',
        b'{"host":"h","port":70000}',
        b'{"host":7,"port":1}',
        b'{"host":null,"port":-1,"endpoints":[]}',
        b'{"endpoints":"SSL://h:1"}',
        b'{"endpoints":["h:1"]}',
        b'{"endpoints":["SSL://h:99999"]}',
        b'{"endpoints":["SSL://h:1","SSL://i:1"]}',
        b'{"endpoints":["SSL://h:1"],"listener_security_protocol_map":{"SSL":1}}',
        b'{"endpoints":["SSL://a/b:1"]}',
    ],
)
def test_malformed_brokers(data: bytes) -> None:
    assert isinstance(decode_broker("0", data), Malformed)


def test_states_of_partitions() -> None:
    led = b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":9,"isr":[2,1]}'
    assert decode_partition_state("t-0", led) == PartitionState(2)
    assert decode_partition_state("t-0", b'{"leader":-1,"isr":[]}') == PartitionState(-1)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"leader":"1"}', b'{"leader":-2}', b"[2]"])
def test_malformed_states_of_partitions(data: bytes) -> None:
    assert isinstance(decode_partition_state("t-0", data), Malformed)
