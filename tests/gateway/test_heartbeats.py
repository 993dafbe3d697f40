"""What real clients do with a heartbeat that is answered REQUEST_TIMED_OUT because a commit stands
behind it: they send the next one long before their interval is over, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.bench.gateway_clients import RANGE, Client, command_of, options_of, running, shares, when
from tests.gateway.clients import PATIENCE_S, V3, V4, Librdkafka, shared
from tests.gateway.test_operation import Watched
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS, EACH = 2, 50
TIMED_OUT = 'zkcoord_gateway_answers_total{code="REQUEST_TIMED_OUT"}'
BEATS = 'zkcoord_gateway_requests_total{api="Heartbeat"}'
PARKED = 'zkcoord_gateway_parked{kind="heartbeat"}'
CLIENTS_TRIED = 3
"""The first heartbeat waits 3 s: where the machine stands still its commit may come later."""
SOON_S = 15.0


@pytest.fixture
def gateway(kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path) -> Iterator[Watched]:
    """One beside a coordinator."""
    watched = Watched(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address)
    with coordinator(kafka_zk_hosts), watched.process:
        yield watched


def rose(gateway: Watched, name: str, above: float, by: int = 1) -> bool:
    """Whether a counter is so much higher."""
    return gateway.sample(name) >= above + by


def is_overtaken(gateway: Watched, before: float) -> bool:
    """Wait until a heartbeat that is parked is answered; whether a commit did that."""
    wait_until(
        lambda: rose(gateway, TIMED_OUT, before) or not gateway.sample(PARKED),
        PATIENCE_S,
        "the answer to the first heartbeat",
    )
    return rose(gateway, TIMED_OUT, before)


def test_librdkafka(gateway: Watched, kafka_broker: KafkaBroker) -> None:
    """Its first heartbeat comes at once; its interval is longer than is waited for the next."""
    topic = create_topic(kafka_broker.address, unique("wire"), PARTITIONS)
    slow = {"session.timeout.ms": 280_000, "heartbeat.interval.ms": 2 * 1_000 * int(PATIENCE_S)}
    for _ in range(CLIENTS_TRIED):
        timed_out, beats = gateway.sample(TIMED_OUT), gateway.sample(BEATS)
        client = Librdkafka(gateway.process.address, unique("g"), topic, **slow)
        shared([client], PARTITIONS)
        wait_until(partial(rose, gateway, BEATS, beats), PATIENCE_S, "its first heartbeat")
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        if is_overtaken(gateway, timed_out):
            break
        client.close()
    wait_until(partial(rose, gateway, BEATS, beats, 2), PATIENCE_S, "the next one")
    assert [kind for kind, _ in client.calls] == ["assigned"] and not client.errors
    client.close()


@pytest.mark.nightly
@pytest.mark.parametrize("version", [V3, V4])
def test_java(
    gateway: Watched, kafka_broker: KafkaBroker, java: Java, tmp_path: Path, version: str
) -> None:
    """Its first heartbeat comes after its interval, and it commits each second."""
    topic = create_topic(kafka_broker.address, unique("wire"), PARTITIONS)
    kind, group = f"java {version}", unique("g")
    options = options_of(kind, RANGE, gateway.process.address, group) | {
        "session.timeout.ms": "120000",
        "heartbeat.interval.ms": str(2_000 * int(SOON_S)),
        "auto.commit.interval.ms": "1000",
    }
    with running() as clients:
        clients.append(Client("java", command_of(kind, java, topic, options), tmp_path))
        (client,) = clients
        wait_until(client.is_ready, PATIENCE_S, "the client")
        since = client.say("join")
        when(shares(clients, PARTITIONS), since, "it has all")
        wait_until(partial(rose, gateway, TIMED_OUT, 0), PATIENCE_S, "a commit behind it")
        wait_until(partial(rose, gateway, BEATS, 1), SOON_S, "the next one")
        assert [event.kind for event in client.events if event.kind in ("revoked", "lost")] == []
