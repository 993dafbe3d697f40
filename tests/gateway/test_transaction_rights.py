"""Offsets that Kafka keeps are stored through the gateway by whom the broker lets, and by nobody
else: each request is answered as by the broker itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ACLOperation
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import TxnOffsetCommitRequest, TxnOffsetCommitResponse

from tests.gateway.clients import PATIENCE_S, GatewayProcess
from tests.gateway.raw_client import RawClient
from tests.gateway.test_permissions import MINE, THEIRS, Guarded, await_denied, guarded, log_in
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.ports import HOST

__all__ = ["guarded"]
pytestmark = pytest.mark.kafka

COMMIT_V, FIND_V, TXN_V, NOBODYS_TXN_V = 8, 2, 3, 2
GROUP_DENIED, TOPIC_DENIED, TRANSACTION_DENIED, NOBODY = 30, 29, 53, 25


@pytest.fixture
def gateway(guarded: Guarded, tmp_path: Path) -> Iterator[GatewayProcess]:
    """Before the listener that wants a password; all groups have their offsets in Kafka."""
    config = tmp_path / "kafka.toml"
    config.write_text(
        'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"\n'
        'sasl_plain_username = "app"\nsasl_plain_password = "secret"\n'
    )
    options = ("--kafka-config", str(config), "--offsets-in-kafka", ".*")
    address = f"{HOST}:{guarded.outside}"
    with (
        coordinator(guarded.zookeeper),
        GatewayProcess(tmp_path / "gateway", guarded.zookeeper, address, *options) as process,
    ):
        yield process


def in_transaction(client: RawClient, topic: str, group: str, version: int, **member: Any) -> int:
    """TxnOffsetCommit: the code."""
    of = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    part = of.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
    )
    asked = TxnOffsetCommitRequest(
        transactional_id="nobodys",
        group_id=group,
        producer_id=1,
        producer_epoch=0,
        topics=[of(name=topic, partitions=[part])],
        **{"generation_id": -1, "member_id": "", "group_instance_id": None, **member},
    )
    answer = client.ask(asked, version, TxnOffsetCommitResponse)
    return int(answer.topics[0].partitions[0].error_code)


def plain(client: RawClient, topic: str, group: str) -> int:
    """OffsetCommit of nobody: the code."""
    of = OffsetCommitRequest.OffsetCommitRequestTopic
    part = of.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
    )
    asked = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[of(name=topic, partitions=[part])],
    )
    answer = client.ask(asked, COMMIT_V, OffsetCommitResponse)
    return int(answer.topics[0].partitions[0].error_code)


def test_nothing_passes_that_the_broker_refuses(guarded: Guarded, gateway: GatewayProcess) -> None:
    secret = guarded.kept_from("app", ACLOperation.READ, ACLOperation.DESCRIBE)
    direct = f"{HOST}:{guarded.outside}"
    with RawClient(direct) as client:
        log_in(client, "app")
        await_denied(client, secret)
        find = FindCoordinatorRequest(key=MINE, key_type=0)

        def is_found() -> bool:
            answer = client.ask(find, FIND_V, FindCoordinatorResponse)
            return answer.error_code == 0 and plain(client, guarded.topic, MINE) == 0

        wait_until(is_found, PATIENCE_S, "Kafka's own coordinator of the group")

    def codes(address: str) -> list[int]:
        with RawClient(address) as client:
            log_in(client, "app")
            return [
                *(in_transaction(client, guarded.topic, MINE, v) for v in (NOBODYS_TXN_V, TXN_V)),
                in_transaction(client, guarded.topic, THEIRS, TXN_V),
                plain(client, guarded.topic, THEIRS),
                plain(client, secret, MINE),
                plain(client, guarded.topic, MINE),
            ]

    expected = codes(direct)
    assert expected == [
        TRANSACTION_DENIED,
        TRANSACTION_DENIED,
        TRANSACTION_DENIED,
        GROUP_DENIED,
        TOPIC_DENIED,
        0,
    ]
    found = codes(f"127.0.0.1:{gateway.broker_port}")
    # who may not use the group hears that first: whether it has members is not for it to know
    assert found == [*expected[:2], GROUP_DENIED, *expected[3:]]
    with RawClient(f"127.0.0.1:{gateway.broker_port}") as client:
        log_in(client, "app")
        strange = {"member_id": "m", "generation_id": 1}
        assert in_transaction(client, guarded.topic, MINE, TXN_V, **strange) == NOBODY
