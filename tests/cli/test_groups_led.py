"""`zkcoord groups list` and `describe` of groups whose leader is a client, on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.admin.world import World, world
from tests.znodes.classic.test_report import ENDED, WAITS, assignment
from zkcoord.admin.common import members_now
from zkcoord.cli.main import main
from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.errors import RefusedError
from zkcoord.health.stored_offsets import StoredOffsets
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync import led_groups
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.documents import (
    ClassicRound,
    blob_digest,
    encode_round,
    encode_state,
)
from zkcoord.znodes.classic.paths import ClassicPaths, member_digest
from zkcoord.znodes.classic.presence import ServedBy, encode_presence
from zkcoord.znodes.classic.report import ClassicReport, encode_report, named
from zkcoord.znodes.paths import Layout

Run = Callable[..., tuple[int, str, str]]
SAID = BlobRef("a" * 64, 3)


class Led:
    """Nodes as a coordinator and a gateway leave them."""

    def __init__(self, found: World) -> None:
        self.world = found
        self.paths = ClassicPaths(found.layout)

    def group(
        self,
        name: str,
        state: ClassicState,
        since: ClassicRound | None = None,
        report: ClassicReport | None = None,
    ) -> None:
        self.world.put(self.paths.group(name), b"" if report is None else encode_report(report))
        self.world.put(self.paths.blobs(name))
        self.world.put(self.paths.presences(name))
        self.world.put(self.paths.round(name), encode_round(since or ClassicRound()))
        self.world.put(self.paths.state(name), encode_state(state))

    def blob(self, group: str, data: bytes) -> BlobRef:
        digest = blob_digest(data)
        self.world.put(self.paths.blob(group, digest), data)
        return BlobRef(digest, len(data))

    def served(self, group: str, member: str, by: ServedBy) -> None:
        path = self.paths.presence(group, member)
        self.world.put(path, encode_presence(by), ephemeral=True)


def member(name: str, protocol: str = "range", instance: str | None = None) -> ClassicMember:
    protocols = ((protocol, SAID),)
    return ClassicMember(name, instance, f"app-{name}", "10.0.0.7", 45_000, 300_000, protocols)


def state(
    *members: ClassicMember, phase: ClassicPhase = ClassicPhase.STABLE, kind: str = "consumer"
) -> ClassicState:
    protocol = members[0].protocols[0][0] if members else ""
    leader = members[0].member_id if members else ""
    return ClassicState(phase, 5, kind, protocol, leader, members)


@pytest.fixture(params=["draft", "isolated"])
def led(zk_hosts: str, request: pytest.FixtureRequest) -> Iterator[Led]:
    layout = Layout.DRAFT if request.param == "draft" else Layout.ISOLATED
    with world(zk_hosts, layout) as found:
        found.leader()
        yield Led(found)


@pytest.fixture
def run(zk_hosts: str, led: Led, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        layout = () if arguments[0] == "check" else ("--layout", led.world.layout.name)
        status = main([*arguments, "--zookeeper", zk_hosts, *layout])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.fixture
def connect(led: Led) -> Led:
    """Two Connect workers of two gateways, and one that no gateway serves."""
    workers = (
        member("w1", "sessioned"),
        member("w2", "sessioned", "two"),
        member("w3", "sessioned"),
    )
    led.group("connect", state(*workers, kind="connect"))
    led.served("connect", "w1", ServedBy("apache-kafka-java 3.9.2", "gw1:9192"))
    led.served("connect", "w2", ServedBy("", "gw2:9192"))
    return led


def streams(led: Led) -> None:
    """A group of Kafka Streams, with offsets."""
    led.world.topic("orders", 2)
    given = assignment(("orders", (0,)))
    led.group("streams", ClassicState(ClassicPhase.EMPTY, 1))
    has = replace(member("s1", "stream"), assignment=led.blob("streams", given))
    data = encode_state(state(has, replace(member("s2", "stream"))))
    led.world.client.set(led.paths.state("streams"), data)
    led.world.offset("streams", "orders", 0, 42)


def test_they_are_listed_with_the_others(connect: Led, run: Run) -> None:
    connect.world.broker(1)
    connect.world.topic("orders", 1)
    connect.world.group("billing", members=1)
    connect.world.member("billing", "billing_a", {"orders": 1})
    connect.group("was-led", state(phase=ClassicPhase.EMPTY, kind=""))
    connect.group("waits", state(member("m"), phase=ClassicPhase.COMPLETING))
    connect.group("begins", state(member("m")), ClassicRound(5))
    status, out, err = run("groups", "list", "--state")
    assert (status, err) == (0, "")
    assert rows(out)[1:] == [
        ["begins", "PreparingRebalance"],
        ["billing", "Stable"],
        ["connect", "Stable"],
        ["waits", "CompletingRebalance"],
        ["was-led", "Empty"],
    ]
    _, out, _ = run("groups", "list", "--state", "completingrebalance")
    assert rows(out)[1:] == [["waits", "CompletingRebalance"]]
    _, out, _ = run("groups", "list", "--json")
    found = {group["group"]: group for group in json.loads(out)["groups"]}
    assert found["connect"]["client_led"] and found["connect"]["protocol_type"] == "connect"
    assert (found["connect"]["members"], found["connect"]["generation"]) == (3, 5)
    assert not found["billing"]["client_led"] and found["billing"]["protocol_type"] == "consumer"


def test_members_are_shown_with_what_their_gateway_says(connect: Led, run: Run) -> None:
    status, out, err = run("groups", "describe", "connect", "--members")
    assert (status, err) == (0, "")
    assert rows(out) == [
        ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"],
        ["connect", "w1", "-", "10.0.0.7", "app-w1", "-"],
        ["connect", "w2", "two", "10.0.0.7", "app-w2", "-"],
        ["connect", "w3", "-", "10.0.0.7", "app-w3", "-"],
    ]
    _, out, _ = run("groups", "describe", "connect", "--members", "--verbose")
    assert "apache-kafka-java 3.9.2" in out and "gw2:9192" in out and "45000 ms" in out
    _, leads, follows, alone = rows(out)
    assert leads[-2:] == ["leads", "-"] and follows[-2:] == ["member", "-"]
    assert "no gateway serves it" in " ".join(alone)


def test_state_is_shown(connect: Led, run: Run) -> None:
    _, out, _ = run("groups", "describe", "connect", "--state")
    assert rows(out)[1] == ["connect", "coord.example:9405", "(3)", "sessioned", "Stable", "3"]
    _, out, _ = run("groups", "describe", "connect", "--state", "--verbose")
    head, cells = rows(out)
    assert head[-6:] == ["EPOCH", "TYPE", "LEADER", "CAUSE", "TRIGGER", "WAITS-FOR"]
    assert cells[-8:] == ["3", "5", "7", "connect", "w1", "-", "-", "-"]


def test_offsets_have_owners_where_the_assignment_can_be_read(led: Led, run: Run) -> None:
    streams(led)
    _, out, _ = run("groups", "describe", "streams")
    assert rows(out)[1:] == [
        ["streams", "orders", "0", "42", "-", "-", "s1", "10.0.0.7", "app-s1"],
        ["streams", "-", "-", "-", "-", "-", "s2", "10.0.0.7", "app-s2"],
    ]
    _, out, _ = run("groups", "describe", "streams", "--members", "--verbose")
    assert rows(out)[1][-1] == "orders(0)"
    _, out, _ = run("groups", "describe", "streams", "--json")
    found = json.loads(out)
    assert found["ownership"] == {"s1": {"orders": "0"}, "s2": {}}
    one, two = found["members"]
    assert (one["partitions"], one["assignment_bytes"] > 0) == ([["orders", 0]], True)
    assert two["partitions"] is None and two["assignment_bytes"] == 0


def waiting(**more: Any) -> ClassicReport:
    now = wall_ms()
    waits = replace(WAITS, since_ms=now - 12_000, until_ms=now + 48_000, is_initial=False, **more)
    return ClassicReport(ClassicPhase.PREPARING, 5, now - 12_000, waits, ENDED, ("beware",))


def test_who_blocks_and_why(led: Led, run: Run) -> None:
    members = state(member("a"), member("b"), member("c"))
    report = waiting(unjoined=named(("a",)), pending=named(("p",)), unsynced=named(()), leader="")
    gone = {member_digest("c"): WireCode.UNKNOWN_MEMBER_ID}
    led.group("g", members, ClassicRound(5, gone), report)
    _, out, err = run("groups", "describe", "g", "--state", "--verbose")
    assert "rebalances for 12." in err and "(member joined: 'c')" in err and "beware" in err
    assert "JoinGroup of 'a'; clients that have been given an id to come with: 'p', 4" in err
    assert "PreparingRebalance" in out and "JoinGroup of 'a';" in out
    _, out, _ = run("groups", "describe", "g", "--members", "--verbose")
    assert [" ".join(row).rsplit(" ms ")[-1] for row in rows(out)[1:]] == [
        "has not joined again -",
        "joined -",
        "gone -",
    ]
    _, out, _ = run("groups", "describe", "g", "--json")
    found = json.loads(out)["client_led"]
    assert found["waits"]["not_joined"] == {"count": 1, "first": ["a"]}
    assert found["waits"]["pending_ids"] == {"count": 1, "first": ["p"]}
    assert found["last_rebalance"]["duration_ms"] == ENDED.duration_ms
    assert found["last_rebalance"]["out"] == {"count": 1, "first": ["z"]}


def test_a_leader_that_has_not_assigned_blocks(led: Led, run: Run) -> None:
    members = state(member("a"), member("b"), phase=ClassicPhase.COMPLETING)
    report = waiting(unjoined=named(()), pending=named(()), unsynced=named(("a", "b")), leader="a")
    led.group("g", members, None, replace(report, phase=ClassicPhase.COMPLETING))
    _, out, err = run("groups", "describe", "g", "--members", "--verbose")
    assert "SyncGroup of the leader 'a'," in err
    assert "leads, has not assigned" in out and "no SyncGroup yet" in out


def test_what_was_said_of_another_generation_counts_no_more(led: Led, run: Run) -> None:
    report = replace(waiting(), generation=4)
    led.group("g", state(member("a")), ClassicRound(5), report)
    _, out, err = run("groups", "describe", "g", "--state", "--verbose")
    assert "whom it waits for the coordinator has not said yet" in err
    assert rows(out)[1][-1] == "-" and "PreparingRebalance" in out


BROKEN = ("state", "round", "group", "presence")


@pytest.mark.parametrize("where", BROKEN)
def test_a_broken_node_is_said_and_neighbours_are_shown(connect: Led, run: Run, where: str) -> None:
    led = connect
    led.group("other", state(member("a")))
    path = {
        "state": led.paths.state("connect"),
        "round": led.paths.round("connect"),
        "group": led.paths.group("connect"),
        "presence": led.paths.presence("connect", "w1"),
    }[where]
    led.world.client.set(path, b"\xff{")
    status, out, _ = run("groups", "list", "--json")
    found = {group["group"]: group for group in json.loads(out)["groups"]}
    assert status == 0 and found["other"]["state"] == "Stable"
    assert bool(found["connect"]["malformed"]) == (where in ("state", "round"))
    status, out, _ = run("groups", "describe", "connect", "--json")
    said = json.loads(out)
    assert status == 0 and len(said["malformed"]) == 1
    assert said["members"] is None if where == "state" else len(said["members"]) == 3
    assert (said["state"] == "unknown") is (where == "state")
    _, _, err = run("groups", "describe", "connect")
    assert ("counts for nothing (state of a group)" in err) is (where == "state")
    _, out, _ = run("check", "--json", "--only", "connect")
    found = {one["code"]: one["node"] for one in json.loads(out)["findings"]}
    assert found.get("client-led-unreadable") == (None if where == "presence" else path)
    with SyncClient(ZkOptions(led.world.hosts)) as reader:
        looked = StoredOffsets(reader, led.world.layout).look(["connect"])["connect"]
    assert bool(looked.doubts) is (where in ("state", "round"))
    status, out, _ = run("groups", "describe", "other")
    assert status == 0 and "app-a" in out


def test_members_of_both_kinds_are_said(connect: Led, run: Run) -> None:
    connect.world.topic("orders", 1)
    connect.world.group("connect", members=1)
    connect.world.member("connect", "shim", {"orders": 1})
    _, out, _ = run("groups", "list", "--json")
    (found,) = json.loads(out)["groups"]
    assert led_groups.MEMBERS_OF_BOTH_KINDS in found["malformed"][0]["reason"]
    _, out, _ = run("groups", "describe", "connect", "--json")
    said = json.loads(out)
    assert led_groups.MEMBERS_OF_BOTH_KINDS in said["malformed"][-1]["reason"]


def test_a_group_that_was_led_and_is_the_coordinators_now(led: Led, run: Run) -> None:
    led.world.topic("orders", 1)
    led.group("billing", state(phase=ClassicPhase.EMPTY))
    led.world.group("billing", GroupState.STABLE, members=1)
    led.world.member("billing", "billing_a", {"orders": 1})
    _, out, _ = run("groups", "describe", "billing", "--members")
    assert rows(out)[1][1] == "billing_a"
    _, out, _ = run("groups", "describe", "billing", "--json")
    assert json.loads(out)["client_led"] is None


def test_a_group_of_which_there_is_nothing(led: Led, run: Run) -> None:
    led.group("g", state(member("a")))
    status, _, err = run("groups", "describe", "nowhere")
    assert status != 0 and "there is no group nowhere" in err


def test_assignments_that_are_read_are_bounded(
    led: Led, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams(led)
    monkeypatch.setattr(led_groups, "ASSIGNED_BYTES_MAX", 3)
    _, out, _ = run("groups", "describe", "streams", "--members", "--verbose")
    assert "bytes" in rows(out)[1][-1]


@pytest.mark.parametrize(
    "command",
    [
        ("groups", "delete", "streams"),
        ("groups", "rebalance", "streams"),
        ("offsets", "delete", "streams", "--topic", "orders", "--execute"),
    ],
)
def test_what_changes_a_group_is_refused_while_clients_lead_it(
    led: Led, run: Run, command: tuple[str, ...]
) -> None:
    streams(led)
    status, out, err = run(*command)
    assert status != 0 and "members that one of them leads ('s1', 's2')" in out + err
    data, _ = led.world.client.get(led.world.layout.offset("streams", TopicPartition("orders", 0)))
    assert data == b"42"


def test_resets_are_refused_as_well(led: Led, zk_hosts: str) -> None:
    streams(led)
    other = led.world.layout.other_profile()
    with SyncClient(ZkOptions(zk_hosts)) as client:
        for layout in (led.world.layout, other):
            with pytest.raises(RefusedError, match="one of them leads"):
                members_now(client, layout, "streams")
        assert members_now(client, led.world.layout, "nowhere") == ()
