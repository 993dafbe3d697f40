"""What a gateway says of client-led groups: figures, groups, and commits of what others have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.gateway.client_led.group import LedGroup
from consumer.gateway.client_led.member import WaitingOffsets
from consumer.gateway.operation.led import owners, seen
from consumer.gateway.operation.led.owners import CommitsOfOthers, Found
from consumer.gateway.operation.led.seen import led_groups_seen, led_served
from consumer.gateway.wire.requests import CommitRequest, HeartbeatRequest
from tests.consumer.gateway.client_led.led_side import TP
from tests.consumer.gateway.client_led.test_members import MOMENT_MS, Scene
from tests.core.classic.scenario import OPTIONS
from tests.zk.classic.served_side import GROUP, PATHS
from tests.znodes.classic.test_report import assignment
from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.classic.documents import blob_digest
from zkcoord.znodes.classic.presence import ServedBy, decode_presence

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_what_there_is_and_what_waits() -> None:
    scene = Scene()
    scene.form(1, 2)
    led = scene.one.led
    seen = led_served(led)
    assert seen.members == 2 and seen.of_others == 0
    assert {name for name, count in seen.states.items() if count} == {"Stable"}
    assert not any(seen.waits.values())
    (shown,), count = led_groups_seen(led)
    assert count == 1 and (shown.group, shown.state, shown.protocol_type) == (
        GROUP,
        "Stable",
        "connect",
    )
    assert (shown.members, shown.members_here, shown.waiting) == (2, 2, 0)
    scene.one.ask(HeartbeatRequest(GROUP, scene.ids[2], scene.generation), 2, parks=True)
    assert led_served(led).waits["heartbeat"] == 1
    scene.joins(3)
    scene.wait(MOMENT_MS)
    assert led_served(led).waits["join"] == 1 and led_served(led).waits["heartbeat"] == 0
    group = led.groups[GROUP]
    group.waiting = 1
    assert led_served(led).waits["group"] == 1
    group.waiting = 0
    served = next(iter(led.groups[GROUP].members.values()))
    asked = CommitRequest(GROUP, served.member_id, scene.generation, {TP: (1, "")})
    served.commits.append(WaitingOffsets(9, 0, asked, {}))
    assert led_served(led).waits["commit"] == 1
    served.commits.clear()
    assert led_served(led).states["PreparingRebalance"] == 1
    (shown,), _ = led_groups_seen(led)
    assert shown.waiting == 1 and shown.state == "PreparingRebalance"


def test_a_leader_that_is_waited_for() -> None:
    scene = Scene()
    scene.form(1, 2)
    tickets = [scene.joins(1), scene.joins(2)]
    scene.wait(3 * OPTIONS.initial_delay_ms)
    assert all(scene.one.answers[ticket] for ticket in tickets)
    scene.generation += 1
    scene.syncs(2)
    assert led_served(scene.one.led).waits["sync"] == 1


def test_groups_that_are_shown_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "GROUPS_SHOWN_MAX", 1)
    scene = Scene()
    scene.form(1)
    scene.one.led.groups["a"] = LedGroup("a", members=dict(scene.one.led.groups[GROUP].members))
    scene.one.led.groups["b"] = LedGroup("b")
    shown, count = led_groups_seen(scene.one.led)
    assert ([one.group for one in shown], count) == (["a"], 2)


def test_a_gateway_says_of_its_clients_who_they_are() -> None:
    scene = Scene()
    scene.form(1)
    data = scene.served.data(PATHS.presence(GROUP, scene.ids[1]))
    assert data is not None
    said = decode_presence("m", data)
    assert said == ServedBy("", "g0:9192")


class Group:
    """What its members have, and where the bytes are."""

    def __init__(self, **has: bytes) -> None:
        self.blobs = {blob_digest(data): data for data in has.values()}
        self.state = ClassicState(
            ClassicPhase.STABLE,
            1,
            "consumer",
            "own",
            "",
            tuple(
                ClassicMember(name, None, "", "", 1, 1, (), BlobRef(blob_digest(data), len(data)))
                for name, data in has.items()
            ),
        )
        self.reads: list[Found] = []
        self.judge = CommitsOfOthers(lambda group, refs, then: self.reads.append(then))

    def commits(self, member: str, *partitions: TopicPartition, version: int = 1) -> None:
        self.judge.committed("g", self.state, version, member, partitions)

    def read(self) -> None:
        reads, self.reads = self.reads, []
        for then in reads:
            then(self.blobs)


@pytest.fixture
def group() -> Group:
    return Group(x=assignment(("a", (0,))), y=assignment(("a", (1,))), z=b"its own")


def test_a_commit_of_what_another_has_is_counted_and_named_once(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    group.commits("x", A0, A1)
    assert len(group.reads) == 1 and group.judge.count == 0
    group.commits("y", A1, B0)
    group.read()
    assert group.judge.count == 1
    assert group.judge.named == {"g": "'x' commits a-1, which 'y' has"}
    group.commits("y", A0)
    assert group.judge.count == 2 and not group.reads
    assert len(caplog.records) == 1 and "handed out twice" in caplog.text


def test_what_a_client_has_to_give_up_and_nobody_has_is_its_own(group: Group) -> None:
    group.commits("x", B0, A0)
    group.read()
    assert group.judge.count == 0 and group.judge.named == {}


def test_each_state_is_read_once(group: Group) -> None:
    group.commits("x", A0)
    group.read()
    group.commits("x", A1, version=2)
    assert len(group.reads) == 1
    group.read()
    assert group.judge.count == 1
    group.judge.forget("g")
    group.commits("x", A0, version=2)
    assert len(group.reads) == 1


def test_groups_that_are_not_looked_at(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    stable = group.state
    for other in (
        replace(stable, protocol_type="connect"),
        replace(stable, phase=ClassicPhase.COMPLETING),
    ):
        group.state = other
        group.commits("x", A1)
        assert not group.reads
    group.state = stable
    for name in ("BYTES_MAX", "MEMBERS_MAX"):
        with monkeypatch.context() as patch:
            patch.setattr(owners, name, 2)
            group.judge.forget("g")
            group.commits("x", A1)
            assert not group.reads and group.judge.count == 0


def test_what_cannot_be_read_is_nobodys(group: Group) -> None:
    group.commits("x", A1)
    reads, group.reads = group.reads, []
    reads[0](None)
    assert group.judge.count == 0


def test_what_waits_and_what_is_named_is_bounded(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "COMMITS_WAITING_MAX", 1)
    monkeypatch.setattr(owners, "NAMED_MAX", 0)
    group.commits("x", A1)
    group.commits("x", A1)
    group.read()
    assert group.judge.count == 1 and group.judge.named == {}
