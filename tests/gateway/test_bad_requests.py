"""Requests that are refused: which code a client reads, beside what a broker says to the same.

Each case is sent in every version that it can be said in, to a broker's own group and to a
coordinated one in the same state: one member, or one static member, that has joined and has its
assignment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.bad_requests import CASES, CLOSED, INSTANCE, BadRequest, State
from tests.gateway.clients import GatewayProcess
from tests.gateway.raw_client import RawClient
from tests.harness.kafka import create_topic, unique
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic of one partition."""
    return create_topic(kafka_broker.address, unique("bad"), 1)


class Side:
    """A gateway or a broker. The members keep a connection; what is bad comes by another."""

    def __init__(self, address: str, members: RawClient, topic: str) -> None:
        self.address = address
        group, static = unique("g"), unique("s")
        self.state = State(
            group,
            *members.join(group, topic),
            static,
            *members.join(static, topic, INSTANCE),
            topic,
        )

    def says(self, case: BadRequest, version: int) -> tuple[Any, ...]:
        """To a request."""
        with RawClient(self.address) as client:
            try:
                answer = client.ask(case.ask(self.state), version, case.response)
            except ConnectionError:
                return CLOSED
        return case.codes(answer)


@pytest.fixture
def sides(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, topic: str
) -> Iterator[tuple[Side, Side]]:
    """The gateway and the broker, with groups of their own."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as gateway,
        RawClient(gateway.address) as here,
        RawClient(kafka_broker.address) as there,
    ):
        yield Side(gateway.address, here, topic), Side(kafka_broker.address, there, topic)


def test_bad_requests_are_refused_as_by_a_broker(sides: tuple[Side, Side]) -> None:
    different = []
    asked = 0
    for case in CASES:
        for version in case.versions:
            here, there = (side.says(case, version) for side in sides)
            asked += 1
            if here != there:
                different.append(f"{case.name}, version {version}: {here}, a broker: {there}")
    assert not different, "\n" + "\n".join(different)
    assert len(CASES) >= 40 and asked >= 200
