"""`zkcoord groups` against a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.admin.world import World, world
from tests.harness import kafka as kafka_harness
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, fresh_chroot
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.cli.groups_text import OFFSET_COLUMNS
from zkcoord.cli.main import main
from zkcoord.core.model import GroupMetadata, GroupState, TopicPartition
from zkcoord.errors import InvalidGroupError, UnavailableError, UnknownGroupError
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer
from zkcoord.text_table import table
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import GetData, Missing, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import describe_group, list_groups, shown_state
from zkcoord.znodes.gateway_nodes import instance_of_client
from zkcoord.znodes.paths import Layout

PATIENCE_S = 30.0
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=["draft", "isolated"])
def layout(request: pytest.FixtureRequest) -> Layout:
    """Both layouts."""
    return Layout.DRAFT if request.param == "draft" else Layout.ISOLATED


@pytest.fixture
def billing(zk_hosts: str, layout: Layout) -> Iterator[World]:
    """Two members, one of them idle, a partition of a departed member, an uncommitted one, and a
    group beside it that is Empty.
    """
    with world(zk_hosts, layout) as found:
        found.topic("orders", 4)
        found.leader()
        found.group("billing", members=2)
        incarnation = found.member("billing", "billing_a", {"orders": 1}, client="app-1")
        found.member("billing", "billing_b", {"orders": 1, "nowhere": 2}, client="app-2")
        for partition in (0, 1):
            found.owner("billing", "orders", partition, "billing_a")
        for partition, offset in ((0, 100), (1, 0), (2, 7)):
            found.offset("billing", "orders", partition, offset)
        found.command("billing", "billing_a", incarnation, "orders", 3)
        found.group("audit", GroupState.EMPTY, topics=("orders", "users"))
        yield found


@pytest.fixture
def run(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """`zkcoord ARGUMENTS --zookeeper HERE` in this process: status, standard output, standard
    error.
    """

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "--zookeeper", zk_hosts])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_offsets_have_the_columns_of_kafkas_tool(billing: World, run: Run, layout: Layout) -> None:
    status, out, err = run("groups", "describe", "billing", "--layout", layout.name)
    assert status == 0
    assert rows(out) == [
        [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
        ],
        ["billing", "orders", "0", "100", "-", "-", "billing_a", "host.example", "app-1"],
        ["billing", "orders", "1", "0", "-", "-", "billing_a", "host.example", "app-1"],
        ["billing", "orders", "2", "7", "-", "-", "-", "-", "-"],
        ["billing", "orders", "3", "-", "-", "-", "-", "-", "-"],
        ["billing", "-", "-", "-", "-", "-", "billing_b", "host.example", "app-2"],
    ]
    assert err.count("\n") == 1 and "no live broker" in err


def test_members_and_state_have_the_columns_of_kafkas_tool(
    billing: World, run: Run, layout: Layout
) -> None:
    _, out, err = run("groups", "describe", "billing", "--members", "--layout", layout.name)
    assert rows(out) == [
        ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"],
        ["billing", "billing_a", "host.example", "app-1", "2"],
        ["billing", "billing_b", "host.example", "app-2", "0"],
    ]
    assert err == "", "no broker is asked for members"
    _, out, _ = run(
        "groups", "describe", "billing", "--members", "--verbose", "--layout", layout.name
    )
    assert (
        rows(out)[0][-1] == "ASSIGNMENT"
        and rows(out)[1][-1] == "orders(0,1)"
        and rows(out)[2][-1] == "-"
    )
    _, out, _ = run("groups", "describe", "billing", "--state", "--layout", layout.name)
    assert rows(out)[0] == [
        "GROUP",
        "COORDINATOR",
        "(ID)",
        "ASSIGNMENT-STRATEGY",
        "STATE",
        "#MEMBERS",
    ]
    assert rows(out)[1] == ["billing", "coord.example:9405", "(3)", "sticky", "Stable", "2"]
    _, out, _ = run(
        "groups", "describe", "billing", "--state", "--verbose", "--layout", layout.name
    )
    assert rows(out)[1][-8:] == ["2", "31", "7", "1", "0", "member", "joined", "m"]


def test_static_members_have_their_instance_as_in_kafkas_tool(zk_hosts: str, run: Run) -> None:
    with world(zk_hosts) as found:
        found.group("g")
        found.member("g", "g_a", {"orders": 1}, instance="node-1")
        _, out, _ = run("groups", "describe", "g", "--members")
    assert rows(out) == [
        ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"],
        ["g", "g_a", "node-1", "host.example", "app", "0"],
    ]


def test_clients_of_gateways_have_library_and_gateway_and_no_instance_of_their_own(
    zk_hosts: str, run: Run
) -> None:
    unnamed = instance_of_client("me-1")
    with world(zk_hosts) as found:
        found.group("g")
        found.member(
            "g", "g_a", {"orders": 1}, "me", "10.0.0.7", unnamed, "librdkafka 2.16", "gw1:9192"
        )
        found.member("g", "g_b", {"orders": 1})
        _, plain, _ = run("groups", "describe", "g", "--members")
        _, verbose, _ = run("groups", "describe", "g", "--members", "--verbose")
        _, as_json, _ = run("groups", "describe", "g", "--json")
    assert rows(plain) == [
        ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"],
        ["g", "g_a", "10.0.0.7", "me", "0"],
        ["g", "g_b", "host.example", "app", "0"],
    ]
    assert rows(verbose) == [
        [*rows(plain)[0], "LIBRARY", "GATEWAY", "ASSIGNMENT"],
        [*rows(plain)[1], "librdkafka", "2.16", "gw1:9192", "-"],
        [*rows(plain)[2], "-", "-", "-"],
    ]
    wire, other = json.loads(as_json)["members"]
    fields = ("instance", "host", "client_id", "library", "gateway")
    assert [wire[field] for field in fields] == [
        None,
        "10.0.0.7",
        "me",
        "librdkafka 2.16",
        "gw1:9192",
    ]
    assert [other[field] for field in fields] == [None, "host.example", "app", None, None]


def test_json_has_all_that_a_group_consists_of(billing: World, run: Run, layout: Layout) -> None:
    _, out, _ = run("groups", "describe", "billing", "--json", "--layout", layout.name)
    found = json.loads(out)
    assert found["topics"]["orders"] == {
        "exists": True,
        "partitions": 4,
        "incarnation": found["topics"]["orders"]["incarnation"],
        "subscribers": ["billing_a", "billing_b"],
    }
    assert found["topics"]["nowhere"]["exists"] is False
    assert (
        found["configuration"]["grace_ms"] == 0
        and found["configuration"]["members"]["billing_a"]["rebalance_timeout_ms"] == 60_000
    )
    first = found["members"][0]
    assert (
        first["consumer_id"] == "billing_a"
        and first["partitions"] == [["orders", 0], ["orders", 1]]
        and first["subscription"] == {"orders": 1}
    )
    assert first["commands"] == [
        {
            "option": "start-fetcher",
            "epoch": 7,
            "seq": 3,
            "generation": 31,
            "partitions": {"orders": "3"},
        }
    ]
    assert found["offsets"][0] == {
        "topic": "orders",
        "partition": 0,
        "current_offset": 100,
        "log_end_offset": None,
        "lag": None,
        "consumer_id": "billing_a",
        "thread": "billing_a-0",
    }
    assert found["ownership"] == {"billing_a": {"orders": "0-1"}, "billing_b": {}}
    assert (
        found["generation"],
        found["state"],
        found["coordinator"]["epoch"],
        found["cause"]["reason"],
    ) == (31, "Stable", 7, "member joined")


def test_list_and_its_filter_and_the_groups_of_each_topic(
    billing: World, run: Run, layout: Layout
) -> None:
    def listed(*more: str) -> str:
        return run("groups", "list", "--layout", layout.name, *more)[1]

    assert listed() == "audit\nbilling\n"
    assert rows(listed("--state")) == [
        ["GROUP", "STATE"],
        ["audit", "Empty"],
        ["billing", "Stable"],
    ]
    assert rows(listed("--state=empty,Dead")) == [["GROUP", "STATE"], ["audit", "Empty"]]
    found = json.loads(listed("--json"))
    assert found["groups_by_topic"] == {"orders": ["audit", "billing"], "users": ["audit"]}
    assert found["coordinator"]["broker_id"] == "3"
    status, _, err = run("groups", "list", "--state=stabel")
    assert status == 2 and "'stabel'" in err and "Stable" in err


def test_malformed_nodes_are_named_and_the_rest_is_shown(
    billing: World, run: Run, layout: Layout
) -> None:
    billing.put(layout.registration("billing", "billing_z"), b"\xff\x00not json", ephemeral=True)
    billing.put(layout.offset("billing", TopicPartition("orders", 3)), b"seven")
    billing.put(layout.group("odd"), b"[" * 1_000)
    billing.put(layout.owners("billing") + "/orders/2", b"\x00", ephemeral=True)
    _, out, _ = run("groups", "describe", "billing", "--json", "--layout", layout.name)
    found = json.loads(out)
    assert sorted(bad["what"] for bad in found["malformed"]) == ["offset", "owner", "registration"]
    assert [member["consumer_id"] for member in found["members"]] == ["billing_a", "billing_b"]
    listed = json.loads(run("groups", "list", "--json", "--layout", layout.name)[1])
    assert [bad["what"] for group in listed["groups"] for bad in group["malformed"]] == [
        "group metadata"
    ]


def test_wildcards_show_the_topics_that_they_match(zk_hosts: str, run: Run) -> None:
    with world(zk_hosts) as found:
        found.topic("orders", 2)
        found.topic("users", 1)
        found.group("g")
        data = {
            "version": 1,
            "subscription": {"ord.*": 1},
            "pattern": "white_list",
            "timestamp": "1",
            "zkcoord": "1",
        }
        found.put(found.layout.registration("g", "g_w"), json.dumps(data).encode(), ephemeral=True)
        found_json = json.loads(run("groups", "describe", "g", "--json")[1])
    assert found_json["members"][0]["subscription"] == {"orders": 1}
    assert found_json["members"][0]["pattern"] == {"kind": "white_list", "regex": "ord.*"}
    assert [row["partition"] for row in found_json["offsets"]] == [0, 1]


def test_a_group_without_members_says_so_as_kafkas_tool_does(
    billing: World, run: Run, layout: Layout
) -> None:
    status, out, err = run("groups", "describe", "audit", "--state", "--layout", layout.name)
    assert status == 0 and "Empty" in out and "Consumer group 'audit' has no active members." in err


def test_a_quarantined_group_says_why_and_what_to_do(zk_hosts: str, run: Run) -> None:
    why = (
        "ConsumerRebalanceFailedException: m did not answer a command in time and was evicted (4"
        " failures in a row)"
    )
    with world(zk_hosts, Layout.DRAFT) as found:
        found.topic("orders", 1)
        found.group("stuck", GroupState.QUARANTINED, members=1, failure=why)
        found.member("stuck", "stuck_a", {"orders": 1})
        status, out, err = run("groups", "describe", "stuck", "--members")
        assert (
            status == 0
            and "stuck_a" in out
            and why in err
            and "zkcoord groups rebalance stuck" in err
        )
        found_json = json.loads(run("groups", "describe", "stuck", "--json")[1])
    assert (found_json["state"], found_json["failure"]) == ("Quarantined", why)


def test_an_unknown_group_is_one_sentence(billing: World, run: Run, layout: Layout) -> None:
    status, out, err = run("groups", "describe", "bilingual", "--layout", layout.name)
    assert (
        (status, out) == (1, "")
        and err.count("\n") == 1
        and "no group bilingual" in err
        and "did you mean billing?" in err
    )
    status, _, err = run("groups", "describe", "owners", "--layout", layout.name)
    assert status == 2 and "refused" in err


def test_an_unknown_group_where_no_kafka_is_either_points_at_the_chroot(
    zk_hosts: str, run: Run
) -> None:
    status, _, err = run("groups", "describe", "billing")
    assert status == 1 and "/brokers/topics" in err and "chroot" in err


def test_a_group_of_which_only_offsets_are_left_can_be_described(zk_hosts: str, run: Run) -> None:
    with world(zk_hosts) as found:
        found.topic("orders", 1)
        found.offset("left", "orders", 0, 7)
        status, out, err = run("groups", "describe", "left")
        assert (
            status == 0
            and rows(out)[1][:4] == ["left", "orders", "0", "7"]
            and "no active members" in err
        )
        assert run("groups", "list")[1] == ""


def test_watch_draws_again(billing: World, run: Run, layout: Layout) -> None:
    _, out, _ = run(
        "groups",
        "describe",
        "billing",
        "--state",
        "--watch",
        "--times",
        "3",
        "--interval-ms",
        "100",
        "--layout",
        layout.name,
    )
    assert out.count("coord.example") == 3
    status, _, err = run("groups", "describe", "billing", "--watch", "--interval-ms", "1")
    assert status == 2 and "--interval-ms" in err


@pytest.mark.parametrize(
    ("reported", "members", "expected"),
    [
        (GroupState.STABLE, 2, GroupState.STABLE),
        (GroupState.STABLE, 0, GroupState.EMPTY),
        (GroupState.EMPTY, 1, GroupState.PREPARING_REBALANCE),
        (GroupState.DEAD, 1, GroupState.PREPARING_REBALANCE),
        (GroupState.QUARANTINED, 1, GroupState.QUARANTINED),
    ],
)
def test_registrations_win_over_an_old_report(
    reported: GroupState, members: int, expected: GroupState
) -> None:
    assert shown_state(GroupMetadata(state=reported), members) is expected


def test_tables_are_as_wide_as_their_widest_cell() -> None:
    text = table(OFFSET_COLUMNS, [["g" * 20, *["-"] * 8]])
    head, line = text.splitlines()
    assert head.index("TOPIC") == 21 and line.index(" -") == 20


# the reader


def test_more_reads_than_one_request_holds_come_back_in_order(zk_hosts: str) -> None:
    with world(zk_hosts) as found:
        found.put("/a", b"1")
        with SyncClient(ZkOptions(zk_hosts)) as reader:
            answers = reader.read([GetData("/a"), *[GetData("/none")] * 2_500, GetData("/a")])
    assert len(answers) == 2_502
    assert (
        isinstance(answers[0], Node)
        and isinstance(answers[-1], Node)
        and all(isinstance(a, Missing) for a in answers[1:-1])
    )


def test_a_lost_connection_is_waited_out(zk_server: ZooKeeperServer, zk_proxy: Proxy) -> None:
    chroot = "/" + fresh_chroot(zk_server.address).partition("/")[2]
    with world(zk_server.address + chroot) as found:
        found.group("g")
        with SyncClient(ZkOptions(zk_proxy.address + chroot)) as reader:
            assert [group.name for group in list_groups(reader, Layout.DRAFT)] == ["g"]
            zk_proxy.cut()
            zk_proxy.heal()
            assert [group.name for group in list_groups(reader, Layout.DRAFT)] == ["g"]


def test_no_answer_is_one_error_within_the_deadline(
    zk_server: ZooKeeperServer, zk_proxy: Proxy
) -> None:
    with SyncClient(ZkOptions(zk_proxy.address), read_deadline_ms=500) as reader:
        zk_proxy.black_hole()
        with pytest.raises(UnavailableError, match="look at its servers"):
            reader.sync()


def test_errors_are_named(zk_hosts: str) -> None:
    with SyncClient(ZkOptions(zk_hosts)) as reader:
        with pytest.raises(UnknownGroupError):
            describe_group(reader, Layout.DRAFT, "g")
        with pytest.raises(InvalidGroupError):
            describe_group(reader, Layout.DRAFT, "a/b")
        assert list_groups(reader, Layout.DRAFT) == []


# log ends


@pytest.mark.kafka
def test_log_ends_and_lags_come_from_the_broker(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka_harness.create_topic(kafka_broker.address, kafka_harness.unique("ends"), 3)
    kafka_harness.produce_numbered(kafka_broker.address, topic, 3, 10)
    with world(kafka_zk_hosts) as found:
        found.group("g", topics=(topic,))
        found.member("g", "g_a", {topic: 1})
        found.offset("g", topic, 1, 4)
        assert main(["groups", "describe", "g", "--json", "--zookeeper", kafka_zk_hosts]) == 0
        out, err = capsys.readouterr()
    rows_found: list[dict[str, Any]] = json.loads(out)["offsets"]
    assert [
        (row["partition"], row["current_offset"], row["log_end_offset"], row["lag"])
        for row in rows_found
    ] == [(0, None, 10, None), (1, 4, 10, 6), (2, None, 10, None)]
    assert err == ""
    with LogOffsets((kafka_broker.address,)) as ends:
        wait_until(lambda: len(ends.of([TopicPartition(topic, 0)])) == 1, PATIENCE_S, "an end")


def test_no_broker_costs_one_warning_and_dashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zkcoord.admin.offsets.log_offsets.ENDS_DEADLINE_MS", 300)
    with LogOffsets(("127.0.0.1:1",)) as ends:
        assert ends.of([TopicPartition("t", 0)]) == {}
        assert "no broker answers at 127.0.0.1:1" in ends.warning
        assert ends.of([TopicPartition("t", 0)]) == {}


def test_no_group_is_dead(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's state of that name is accepted, and said to be nobody's."""
    with world(zk_hosts) as found:
        found.group("g", state=GroupState.DEAD)
        for state, said in (("Dead", True), ("dead,Empty", False)):
            assert main(["groups", "list", "--state", state, "--zookeeper", zk_hosts]) == 0
            out, err = capsys.readouterr()
            assert ("it has no nodes" in err) == said and ("Dead" in out) is False
    assert main(["groups", "list", "--state", "Ded", "--zookeeper", zk_hosts]) == 2
    assert "Dead" not in capsys.readouterr().err


def test_where_no_group_is_listed_it_is_said_where_others_are(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old consumers' groups are there, and have no coordinator's nodes: none of them is listed."""
    client = connect(zk_hosts)
    client.create("/consumers/old/ids", makepath=True)
    disconnect(client)
    assert main(["groups", "list", "--layout", "isolated", "--zookeeper", zk_hosts]) == 0
    out, err = capsys.readouterr()
    assert out == "" and "zkcoord check has those of old consumers alone" in err
