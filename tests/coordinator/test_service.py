"""Coordinator processes on a real ZooKeeper: leading, standing by, signals, the broker, HTTP and
the journal.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.admin.world import world
from tests.cli.test_groups_led import Led, member, state
from tests.harness.command import PATIENCE_S, Running, run
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, fresh_chroot
from zkcoord.cli.main import main
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.znodes.paths import Layout


def test_one_leads_another_stands_by_and_sigterm_hands_over(tmp_path: Path, zk_hosts: str) -> None:
    with Running(tmp_path / "a", "--zookeeper", zk_hosts) as first:
        first.ready("leading")
        with Running(tmp_path / "b", "--zookeeper", zk_hosts) as second:
            second.ready("standing by")
            assert (first.metric("zkcoord_leader"), second.metric("zkcoord_leader")) == (1, 0)
            assert first.signal(signal.SIGTERM) == 0
            second.ready("leading")
            second.metric_becomes('zkcoord_terms_total{event="elected"}', 1)
            assert second.signal(signal.SIGINT) == 0
    assert [record["event"] for record in first.records("term")] == ["elected", "ready", "resigned"]
    client = connect(zk_hosts)
    try:
        assert client.exists(Layout.DRAFT.leader) is None
    finally:
        disconnect(client)


def test_who_stands_by_has_read_the_groups_when_it_leads(tmp_path: Path, zk_hosts: str) -> None:
    ahead, empty = "zkcoord_groups_read_ahead", 'zkcoord_groups{state="Empty"}'
    with (
        Running(tmp_path / "a", "--zookeeper", zk_hosts) as first,
        Running(tmp_path / "b", "--zookeeper", zk_hosts) as second,
        world(zk_hosts) as found,
    ):
        wait_until(
            lambda: first.metric("zkcoord_leader") + second.metric("zkcoord_leader") == 1,
            PATIENCE_S,
            "that one leads",
        )
        leads, waits = (second, first) if second.metric("zkcoord_leader") else (first, second)
        found.client.ensure_path(Layout.DRAFT.ids("billing"))
        waits.metric_becomes(ahead, 1)
        assert leads.metric(ahead) == 0
        assert leads.signal(signal.SIGTERM) == 0
        waits.ready("leading")
        waits.metric_becomes(empty, 1)
        assert waits.metric(ahead) == 0


def test_after_kill_9_the_guardian_closes_the_session_at_once(
    tmp_path: Path, zk_hosts: str
) -> None:
    """A session timeout of a minute: without the guardian the seat would be taken for all of it."""
    with Running(tmp_path / "a", "--zookeeper", zk_hosts, "--session-timeout-ms", "60000") as first:
        first.ready("leading")
        with Running(tmp_path / "b", "--zookeeper", zk_hosts) as second:
            second.ready("standing by")
            first.process.kill()
            second.ready("leading")


def test_the_log_is_quiet_the_answers_are_there_and_the_seat_is_described(
    tmp_path: Path, zk_hosts: str
) -> None:
    with Running(tmp_path, "--zookeeper", zk_hosts, "--host", "here.example") as process:
        process.ready("leading")
        assert process.get("/live") == (200, "live\n")
        assert json.loads(process.get("/groups")[1])["leading"] is True
        assert process.get("/other")[0] == 404
        assert process.metric('zkcoord_writes_total{outcome="ok"}') >= 1
        assert process.metric("zkcoord_broker_up") == -1
        assert process.metric("zkcoord_session_contact_age_seconds") < 30
        client = connect(zk_hosts)
        try:
            leader = json.loads(client.get(Layout.DRAFT.leader)[0])
        finally:
            disconnect(client)
        assert (leader["host"], leader["port"], leader["brokerid"]) == (
            "here.example",
            process.port,
            "",
        )
        assert process.signal() == 0
    assert "error" not in process.log and "Traceback" not in process.log


def test_a_group_is_served_shown_counted_and_journalled(
    tmp_path: Path, zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A member that registers and answers nothing: the command stays, and everybody can see for
    whom the group waits.
    """
    with Running(tmp_path, "--zookeeper", zk_hosts) as process, world(zk_hosts) as found:
        process.ready("leading")
        found.topic("orders", 4)
        found.client.ensure_path(Layout.DRAFT.group("billing"))
        found.member("billing", "billing_a", {"orders": 1})
        found.put(Layout.DRAFT.registration("billing", "billing_z"), b"{}", ephemeral=True)
        wait_until(
            lambda: [
                g
                for g in json.loads(process.get("/groups")[1])["groups"]
                if g["commands_outstanding"] and g["malformed"]
            ],
            PATIENCE_S,
            "a command to the member, and the other one seen",
        )
        (group,) = json.loads(process.get("/groups")[1])["groups"]
        assert (group["group"], group["state"], group["members"], group["malformed"]) == (
            "billing",
            "CompletingRebalance",
            1,
            1,
        )
        process.metric_becomes('zkcoord_groups{state="CompletingRebalance"}', 1)
        wait_until(
            lambda: process.records("malformed"), PATIENCE_S, "the malformed member in the journal"
        )
        process.metric_becomes('zkcoord_malformed_total{what="registration"}', 1)
        assert main(["journal", "--dir", str(process.journal), "--group", "billing"]) == 0
        assert "malformed registration" in capsys.readouterr().out
        assert main(["groups", "describe", "billing", "--json", "--zookeeper", zk_hosts]) == 0
        assert (
            json.loads(capsys.readouterr().out)["members"][0]["commands"][0]["option"]
            == "start-fetcher"
        )


def test_a_group_is_named_once_whoever_leads_it(tmp_path: Path, zk_hosts: str) -> None:
    """Its offsets, and a leader that it has had, make it a group of both kinds to who reads them:
    it is what its members are.
    """
    with world(zk_hosts) as found:
        led = Led(found)
        for group in ("apps", "billing", "idle"):
            found.put(Layout.DRAFT.group(group))
            found.offset(group, "orders", 0, 5)
            led.group(group, state(*([member("c")] if group == "apps" else [])))
        led.group("connect", state(member("w", "sessioned"), kind="connect"))
        found.topic("orders", 1)
        found.member("billing", "billing_a", {"orders": 1})
        with Running(tmp_path, "--zookeeper", zk_hosts) as process:
            process.ready("leading")

            def names(kind: str) -> list[str]:
                return [one["group"] for one in json.loads(process.get("/groups")[1])[kind]]

            wait_until(lambda: names("groups") == ["billing"], PATIENCE_S, "the shim's group alone")
            assert names("client_led") == ["apps", "connect", "idle"]
            (billing,) = json.loads(process.get("/groups")[1])["groups"]
            assert (billing["group"], billing["members"]) == ("billing", 1)


def test_the_broker_beside_it_is_seen_lost_and_seen_again(tmp_path: Path, zk_hosts: str) -> None:
    with world(zk_hosts) as found:
        found.broker(5)
        with Running(tmp_path, "--zookeeper", zk_hosts, "--broker-id", "5") as process:
            process.ready("leading")
            assert process.metric("zkcoord_broker_up") == 1
            found.client.delete(Layout.DRAFT.broker(5))
            process.logs("the broker is not registered any more")
            process.metric_becomes("zkcoord_broker_up", 0)
            assert process.get("/ready")[0] == 200, "its loss is reported, nothing more"
            found.broker(5)
            process.metric_becomes("zkcoord_broker_up", 1)
            assert process.signal() == 0
    assert [record["event"] for record in process.records("broker")] == [
        "registered",
        "lost",
        "registered",
    ]


def test_a_lost_connection_is_not_ready_and_comes_back(
    tmp_path: Path, zk_server: ZooKeeperServer, zk_proxy: Proxy
) -> None:
    chroot = "/" + fresh_chroot(zk_server.address).partition("/")[2]
    with Running(
        tmp_path, "--zookeeper", zk_proxy.address + chroot, "--session-timeout-ms", "4000"
    ) as process:
        process.ready("leading")
        zk_proxy.refuse()
        zk_proxy.cut()
        wait_until(lambda: process.get("/ready")[0] == 503, PATIENCE_S, "/ready to say no")
        assert process.get("/live")[0] == 200
        zk_proxy.refuse(False)
        process.ready("leading")
        assert process.signal() == 0


def test_sigterm_while_zookeeper_is_away_ends_within_its_limit(
    tmp_path: Path, zk_server: ZooKeeperServer, zk_proxy: Proxy
) -> None:
    chroot = "/" + fresh_chroot(zk_server.address).partition("/")[2]
    with Running(tmp_path, "--zookeeper", zk_proxy.address + chroot) as process:
        process.ready("leading")
        zk_proxy.black_hole()
        assert process.signal() == 0


def test_a_second_signal_does_not_wait_and_the_guardian_closes_the_session(
    tmp_path: Path, zk_server: ZooKeeperServer, zk_proxy: Proxy
) -> None:
    hosts = fresh_chroot(zk_server.address)
    client = connect(hosts)
    try:
        with Running(
            tmp_path,
            "--zookeeper",
            zk_proxy.address + "/" + hosts.partition("/")[2],
            "--session-timeout-ms",
            "60000",
        ) as process:
            process.ready("leading")
            zk_proxy.black_hole()
            process.process.send_signal(signal.SIGTERM)
            process.logs("stopping")
            assert process.signal(signal.SIGTERM) == 0
            zk_proxy.heal()
            wait_until(
                lambda: client.exists(Layout.DRAFT.leader) is None,
                PATIENCE_S,
                "the leader node to go",
            )
    finally:
        disconnect(client)


def test_sigterm_before_the_first_connection_ends_it(tmp_path: Path, zk_proxy: Proxy) -> None:
    zk_proxy.black_hole()
    with Running(tmp_path, "--zookeeper", zk_proxy.address, "--connect-timeout-ms", "0") as process:
        assert process.port and process.get("/ready")[0] == 503
        assert process.signal() == 0


def test_everything_that_can_be_switched_off_is_off(tmp_path: Path, zk_hosts: str) -> None:
    arguments = [
        "coordinator",
        "--zookeeper",
        zk_hosts,
        "--no-http",
        "--no-journal",
        "--no-guardian",
        "--log-format",
        "json",
        "--log-level",
        "debug",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "zkcoord.cli.main", *arguments], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(json.loads(line))
        if lines[-1]["msg"] == "term of office":
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    assert not children.exists() or children.read_text().strip() == "", "no companion"
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    process.stderr.close()
    assert not any("http" in line["msg"] for line in lines)


def test_two_processes_on_one_port_is_one_sentence(tmp_path: Path, zk_hosts: str) -> None:
    with Running(tmp_path, "--zookeeper", zk_hosts) as process:
        done = run(
            tmp_path, "coordinator", "--zookeeper", zk_hosts, "--http-port", str(process.port)
        )
    assert (
        done.returncode == 1
        and f":{process.port}" in done.stderr
        and "Traceback" not in done.stderr
    )
