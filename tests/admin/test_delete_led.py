"""`groups delete` of groups that clients lead, or have led: on a real ZooKeeper, with a coordinator
that leads, and without one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.test_groups_led import Led, Run, led, member, run, state, world
from tests.kafka.groups import coordinator
from zkcoord.cli.main import main
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.znodes.paths import Layout

__all__ = ("led", "run")

WAS_LED = state(phase=ClassicPhase.EMPTY, kind="connect")


@pytest.fixture
def empty(zk_hosts: str) -> Iterator[Led]:
    """A group that clients have led, and its offsets, before a coordinator that leads."""
    with world(zk_hosts, Layout.DRAFT) as found:
        there = Led(found)
        there.group("was-led", WAS_LED)
        found.topic("orders", 1)
        found.offset("was-led", "orders", 0, 42)
        with coordinator(zk_hosts):
            yield there


def test_all_of_a_group_without_members_goes(
    empty: Led, zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    delete = ["groups", "delete", "was-led", "--zookeeper", zk_hosts, "--json"]
    assert main(delete) == 0
    (planned,) = json.loads(capsys.readouterr().out)["groups"]
    assert planned["nodes"]["client-led"] > 1 and planned["nodes"]["offsets"] == 1
    assert empty.world.client.exists(empty.paths.state("was-led"))
    assert main([*delete, "--execute"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["groups"]
    assert done["nodes"].keys() == planned["nodes"].keys()
    assert empty.world.client.exists(empty.paths.group("was-led")) is None
    assert empty.world.client.exists(Layout.DRAFT.offset_topic("was-led", "orders")) is None
    assert empty.world.client.get_children(empty.paths.requests) == []
    assert main(delete) != 0
    assert "there is no group was-led" in capsys.readouterr().err


def test_members_are_named(led: Led, run: Run) -> None:
    led.group("connect", state(member("w1"), member("w2"), kind="connect"))
    status, _, err = run("groups", "delete", "connect", "--execute")
    assert status != 0 and "members that one of them leads ('w1', 'w2')" in err
    assert led.world.client.exists(led.paths.state("connect"))


def test_without_a_coordinator_it_says_so(led: Led, run: Run) -> None:
    led.group("was-led", WAS_LED)
    led.world.client.delete(led.world.layout.leader)
    status, _, err = run("groups", "delete", "was-led", "--execute")
    assert status != 0 and "but none leads" in err and "start one, then repeat this" in err
    assert led.world.client.exists(led.paths.state("was-led"))


def test_a_coordinator_that_does_not_answer_is_not_waited_for_for_ever(
    led: Led, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zkcoord.cli.groups_change.COMMANDS_WAIT_MS", 300)
    led.group("was-led", WAS_LED)
    led.world.put(led.paths.requests, b"")
    status, _, err = run("groups", "delete", "was-led", "--execute")
    assert status != 0 and "the coordinator did not say in time that was-led is deleted" in err
    assert led.world.client.get_children(led.paths.requests) == []
