"""What is counted, under which labels, and that the documentation has all of it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from consumer.core import messages as msg
from consumer.gateway import frames, member_frames
from consumer.gateway.frames import Head
from consumer.gateway.operation import members_seen as members_seen_module
from consumer.gateway.operation.codes import codes_of_answer, codes_of_frame
from consumer.gateway.operation.exposition import GatewaySeen, metrics_text
from consumer.gateway.operation.figures import API_NAMES, BUCKETS_S, OTHER, RelayFigures
from consumer.gateway.operation.members_seen import ServedGroup, groups_seen, members_seen
from consumer.gateway.wire import requests as wire
from consumer.gateway.wire.requests import HeartbeatRequest, SyncRequest
from tests.consumer.gateway.members.test_groups import TP, World
from tests.consumer.gateway.recordings import requests
from tests.consumer.gateway.relay.test_connection import (
    FETCH,
    HEARTBEAT,
    Broker,
    Relay,
    answer,
    frame_of,
    play,
    request,
)
from tests.consumer.gateway.test_frames import decoded
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition

DOCS = Path(__file__).parents[4] / "docs" / "gateway.md"
SEEN = GatewaySeen(True, True, 3, 1, 0, 0)
NONE, REFUSED = int(WireCode.NONE), int(WireCode.GROUP_AUTHORIZATION_FAILED)


def text_of(figures: RelayFigures, world: World | None = None) -> str:
    """/metrics."""
    groups = (world or World()).groups
    return metrics_text(figures, members_seen(groups), SEEN).decode()


def samples(figures: RelayFigures, world: World | None = None) -> dict[str, float]:
    """name{labels} -> value, as /metrics shows them."""
    lines = [line for line in text_of(figures, world).splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_every_api_that_is_answered_here_has_a_name() -> None:
    assert set(API_NAMES) == set(frames.MAX_VERSIONS)


def test_answers_are_counted_by_api_code_and_time() -> None:
    figures = RelayFigures()
    figures.answered(frames.JOIN_GROUP, (int(WireCode.MEMBER_ID_REQUIRED),), 0.02)
    figures.answered(frames.JOIN_GROUP, (NONE,), 99.0)
    figures.answered(frames.HEARTBEAT, (NONE, 12345), 1.0)
    found = samples(figures)
    assert found['zkcoord_gateway_requests_total{api="JoinGroup"}'] == 2
    assert found['zkcoord_gateway_requests_total{api="Heartbeat"}'] == 1
    codes = {code: found[f'zkcoord_gateway_answers_total{{code="{code}"}}'] for code in CODES}
    assert codes == {**dict.fromkeys(CODES, 0), "NONE": 2, "MEMBER_ID_REQUIRED": 1, "OTHER": 1}
    seconds = 'zkcoord_gateway_answer_seconds_bucket{api="JoinGroup",le="%s"}'
    assert [found[seconds % bound] for bound in ("0.01", "0.025", "30.0", "+Inf")] == [0, 1, 1, 2]
    assert found['zkcoord_gateway_answer_seconds_sum{api="JoinGroup"}'] == pytest.approx(99.02)
    assert found['zkcoord_gateway_answer_seconds_count{api="SyncGroup"}'] == 0
    assert tuple(sorted(BUCKETS_S)) == BUCKETS_S


CODES = [*(code.name for code in WireCode), "OTHER"]


def test_strangers_make_no_series() -> None:
    figures, world = RelayFigures(), World()
    before = set(samples(figures, world))
    for n in range(50):
        figures.answered(n, (n,), n)
        figures.answered(-n, (-n - 2,), n)
        world.member(group=f"group-{n}")
    after = samples(figures, world)
    assert set(after) == before
    assert after["zkcoord_gateway_groups"] == after["zkcoord_gateway_members"] == 50


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        (wire.JoinAnswer(WireCode.FENCED_INSTANCE_ID), {82}),
        (wire.BeatAnswer(WireCode.NONE), {0}),
        (wire.SyncAnswer(WireCode.REBALANCE_IN_PROGRESS), {27}),
        (wire.LeaveAnswer(WireCode.NONE, (WireCode.NONE, WireCode.UNKNOWN_MEMBER_ID)), {25}),
        (wire.LeaveAnswer(WireCode.NOT_COORDINATOR), {16}),
        (wire.CommitAnswer(WireCode.NONE), {0}),
        (wire.CommitAnswer(WireCode.NONE, {TP: WireCode.ILLEGAL_GENERATION}), {22}),
    ],
)
def test_codes_of_a_members_answer(given: wire.Answer, codes: set[int]) -> None:
    assert codes_of_answer(given) == codes


@pytest.mark.parametrize(("key", "version", "request_"), list(requests()))
def test_codes_of_a_frame_are_read_at_every_version(key: int, version: int, request_: Any) -> None:
    head, body = decoded(version, request_)
    frame = _refused(head, body)
    assert codes_of_frame(head, frame) == {REFUSED}
    assert codes_of_frame(head, b"\0\0\0\1x") == {OTHER}


def _refused(head: Head, body: Any) -> bytes:
    from consumer.gateway.tooling import answers

    if head.key in frames.MEMBERS_APIS:
        code = WireCode.GROUP_AUTHORIZATION_FAILED
        if head.key == frames.OFFSET_COMMIT:
            topic = body.topics[0]
            tp = TopicPartition(topic.name, topic.partitions[0].partition_index)
            refusal = wire.CommitAnswer(WireCode.NONE, {tp: code})
            return member_frames.encode_answer(head, body, refusal)
        return member_frames.refused(head, body, code)
    match head.key:
        case frames.FIND_COORDINATOR:
            from consumer.gateway.address import Address

            return frames.found_coordinator(head, ("g",), (), 0, Address("h", 1))
        case frames.LIST_GROUPS:
            return frames.encode(head, throttle_time_ms=0, error_code=REFUSED, groups=[])
        case frames.ADD_OFFSETS_TO_TXN | frames.TXN_OFFSET_COMMIT:
            return frames.refused_transaction(head, body)
        case _:
            return answers.refused(head, body)


def test_what_passes_and_what_is_answered_is_counted_on_the_connection() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = True
        sent = request(FETCH, 1, b"x" * 300_000) + request(HEARTBEAT, 2)
        writer.write(sent)
        assert await frame_of(reader) == (1, b"x" * 300_000)
        while not relay.parked:
            await asyncio.sleep(0.01)
        relay.connection.answer_later(relay.parked[0], answer(2, b"ours"), (27,))
        assert await frame_of(reader) == (2, b"ours")
        figures = relay.connection.figures
        assert figures.from_clients == len(sent)
        assert figures.to_brokers == len(sent) - len(request(HEARTBEAT, 2))
        passed = len(answer(1, b"x" * 300_000))
        assert figures.from_brokers == passed
        assert figures.to_clients == passed + len(answer(2, b"ours"))
        assert (figures.accepted, figures.turned_away, figures.broker_connections) == (1, 0, 1)
        assert figures.requests[HEARTBEAT] == figures.codes[27] == 1
        assert sum(figures.requests.values()) == 1

    play(scene)


def test_who_is_turned_away_and_a_broker_that_is_not_there_are_counted() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        broker.port = 1
        writer.write(request(FETCH, 1))
        assert await reader.read() == b""
        first = relay.connection.figures
        assert (first.broker_failures, first.broker_connections) == (1, 0)
        relay.full = True
        another, other = await asyncio.open_connection("127.0.0.1", relay.port)
        assert await another.read() == b""
        other.close()
        assert (relay.connection.figures.accepted, relay.connection.figures.turned_away) == (1, 1)

    play(scene)


def test_what_is_parked_and_who_is_here() -> None:
    world = World()
    first, second = world.member(), world.member(group="h")
    world.tell(0, msg.Assigned({TP: 5}, 1))
    world.wait(1_000)
    seen = members_seen(world.groups)
    assert (seen.groups, seen.members, seen.remembered, seen.taken_over) == (2, 2, 0, 0)
    assert seen.parked == {"heartbeat": 0, "sync": 1, "commit": 0, "recall": 0}
    world.ask(HeartbeatRequest("g", first, 1))
    world.ask(wire.CommitRequest("g", first, 1, {TP: (7, "")}), connection=2)
    parked = members_seen(world.groups).parked
    assert parked == {"heartbeat": 1, "sync": 1, "commit": 1, "recall": 0}
    assert groups_seen(world.groups, {}) == ([ServedGroup("g", 1, 1), ServedGroup("h", 1, 0)], 2)
    world.ask(SyncRequest("h", second, 99))
    world.ask(wire.LeaveRequest("g", ((first, None),)))
    seen = members_seen(world.groups)
    assert (seen.groups, seen.members) == (1, 1)


def test_groups_that_are_shown_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members_seen_module, "GROUPS_SHOWN_MAX", 2)
    world = World()
    for name in "cab":
        world.member(group=name)
    shown, count = groups_seen(world.groups, {})
    assert ([one.group for one in shown], count) == (["a", "b"], 3)


def test_the_documentation_names_what_is_exported_and_nothing_else() -> None:
    exported = {
        line.split()[2] for line in text_of(RelayFigures()).splitlines() if "# HELP" in line
    }
    table = DOCS.read_text(encoding="utf-8").partition("<!-- metrics: begin -->")[2]
    table = table.partition("<!-- metrics: end -->")[0]
    named = set(re.findall(r"`(zkcoord_gateway_\w+)(?:\{\w+\})?`", table))
    assert named == exported
