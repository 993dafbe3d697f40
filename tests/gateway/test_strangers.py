"""What a healthy member notices of strangers who name what is not theirs: nothing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse

from tests.consumer.gateway.recordings import framed
from tests.gateway.clients import GatewayProcess
from tests.gateway.raw_client import RawClient
from tests.harness.kafka import create_topic, unique
from tests.kafka.groups import coordinator
from zkcoord.core.error_codes import WireCode
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

BEAT_V = 3


def test_a_group_whose_name_is_too_long_is_refused_without_a_traceback(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    beat = HeartbeatRequest(
        group_id="g" * 40_000, generation_id=1, member_id="m", group_instance_id=None
    )
    with (
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), 60) as stranger,
    ):
        stranger.sendall(framed(4, beat))
        assert stranger.recv(100)
        assert "Traceback" not in gateway.log()


@pytest.mark.parametrize("instance", [None, "static"])
def test_who_names_a_member_of_another_gateway_wrongly_moves_nobody(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, instance: str | None
) -> None:
    """By its instance, without its member id; by its member id, with another generation. Its parked
    heartbeat goes on: its partitions would be lost to it.
    """
    group, topic = unique("g"), create_topic(kafka_broker.address, unique("wire"), 1)
    servers = kafka_zk_hosts, kafka_broker.address
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "first", *servers) as first,
        GatewayProcess(tmp_path / "second", *servers) as second,
        RawClient(first.address) as client,
        RawClient(second.address) as stranger,
    ):
        member, generation = client.join(group, topic, instance)

        def beat(member_id: str, named: int) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=group,
                generation_id=named,
                member_id=member_id,
                group_instance_id=instance,
            )

        client.send(beat(member, generation), BEAT_V)
        wrong = beat("bogus", 0) if instance else beat(member, 0)
        code = WireCode.FENCED_INSTANCE_ID if instance else WireCode.ILLEGAL_GENERATION
        for _ in range(5):
            assert stranger.ask(wrong, BEAT_V, HeartbeatResponse).error_code == code
        assert client.receive(HeartbeatResponse, BEAT_V).error_code == WireCode.NONE
