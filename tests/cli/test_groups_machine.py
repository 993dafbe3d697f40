"""`zkcoord groups machine` on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from tests.cli.test_groups_led import Led, led, member, run, state
from tests.znodes.test_gateway_nodes import CLIENT
from zkcoord.admin import group_machine
from zkcoord.cli import groups_machine
from zkcoord.core.classic.requests import ClassicJoin
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.model import GroupMode, Malformed, Mode
from zkcoord.zk.sync import led_groups
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.documents import ClassicAsk, encode_ask, encode_state
from zkcoord.znodes.classic.pin import Machine, decode_pin
from zkcoord.znodes.codec import encode_mode
from zkcoord.znodes.gateway_nodes import encode_client, encode_gateway
from zkcoord.znodes.paths import Layout

__all__ = ("led", "run")

Run = Callable[..., tuple[int, str, str]]
NOBODY = state(phase=ClassicPhase.EMPTY)


def said(led: Led, group: str) -> Machine | None:
    path = led.paths.pin(group)
    if led.world.client.exists(path) is None:
        return None
    pin = decode_pin(group, led.world.client.get(path)[0])
    assert not isinstance(pin, Malformed) and pin.by
    return pin.machine


def test_it_is_said_shown_changed_and_taken_back(led: Led, run: Run) -> None:
    led.world.group("g")
    assert run("groups", "machine", "g") == (0, "g: auto; it has no members now\n", "")
    for _ in range(2):
        status, out, err = run("groups", "machine", "g", "client-led")
        assert (status, out, err) == (0, "g: client-led; it has no members now\n", "")
        assert said(led, "g") is Machine.CLIENT_LED
    run("groups", "machine", "g", "coordinated")
    assert said(led, "g") is Machine.COORDINATED
    for _ in range(2):
        status, out, _ = run("groups", "machine", "g", "auto")
        assert (status, out) == (0, "g: auto; it has no members now\n")
        assert said(led, "g") is None


def test_a_group_that_nobody_knows_is_said_to_be_so(led: Led, run: Run) -> None:
    """It may be pinned before its first member comes, but a slip of the pen is not to be silent."""
    led.group("connect", state(member("w1", "sessioned"), kind="connect"))
    status, out, err = run("groups", "machine", "conect", "client-led")
    assert (status, out) == (0, "conect: client-led; it has no members now\n")
    assert "there is no group conect on this ensemble" in err and "did you mean connect?" in err
    assert (
        "the pin holds for when the first member comes; zkcoord groups machine conect auto" in err
    )
    assert said(led, "conect") is Machine.CLIENT_LED
    _, out, _ = run("groups", "machine", "conect", "--json")
    assert json.loads(out)["known"] is False
    _, out, err = run("groups", "machine", "conect", "auto")
    assert "there is no group conect" in err and "the pin holds" not in err
    _, out, err = run("groups", "machine", "connect", "client-led", "--json")
    assert json.loads(out)["known"] is True and err == ""


def test_who_runs_groups_and_who_is_to_is_listed(led: Led, run: Run) -> None:
    led.group("connect", state(member("w1", "sessioned"), kind="connect"))
    led.world.broker(1)
    led.world.topic("orders", 1)
    led.world.group("billing", members=1)
    led.world.member("billing", "shim", {"orders": 1})
    led.world.group("idle")
    for group, word in [("connect", "coordinated"), ("later", "client-led"), ("idle", "auto")]:
        run("groups", "machine", group, word)
    led.world.put(led.paths.pin("billing"), b"{")
    status, out, err = run("groups", "list", "--verbose")
    assert (status, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["GROUP", "STATE", "RUN-BY", "PINNED"],
        ["billing", "Stable", "coordinated", "unreadable"],
        ["connect", "Stable", "client-led", "coordinated"],
        ["idle", "Empty", "-", "-"],
        ["later", "-", "-", "client-led"],
    ]
    assert "later" not in run("groups", "list", "--verbose", "--state", "Empty")[1]
    assert run("groups", "list")[1] == "billing\nconnect\nidle\n", "what others read line by line"
    found = json.loads(run("groups", "list", "--json")[1])
    by_name = {one["group"]: one for one in found["groups"]}
    connect, billing = by_name["connect"], by_name["billing"]
    assert (connect["run_by"], connect["machine"]) == ("client-led", "coordinated")
    assert connect["pinned_by"]
    assert (billing["run_by"], billing["machine"]) == ("coordinated", "auto")
    assert [bad["what"] for bad in billing["malformed"]] == ["pin of a group"]
    assert (by_name["idle"]["run_by"], by_name["idle"]["machine"]) == (None, "auto")
    (later,) = found["pinned_and_unknown"]
    assert (later["group"], later["machine"]) == ("later", "client-led")


def test_pins_that_may_not_be_seen_are_named(led: Led, run: Run) -> None:
    led.world.group("g")
    led.world.put(led.paths.pin("g"), b"")
    for path in (led.paths.pin("g"), led.paths.pins):
        led.world.client.set_acls(path, [make_digest_acl("u", "p", all=True)])
        status, out, err = run("groups", "list", "--json")
        if path == led.paths.pins:
            assert status != 0 and f"does not let this client read {path}" in err
        else:
            assert f"read {path}" in json.loads(out)["groups"][0]["malformed"][0]["reason"]
    led.world.client.add_auth("digest", "u:p")
    for path in (led.paths.pin("g"), led.paths.pins):
        led.world.client.set_acls(path, OPEN_ACL_UNSAFE)


def test_who_has_to_stop_is_named(led: Led, run: Run) -> None:
    led.group("connect", state(member("w1", "sessioned"), kind="connect"))
    status, out, err = run("groups", "machine", "connect", "coordinated")
    assert (status, out) == (0, "connect: coordinated; its leader, a client, runs it now\n")
    assert "list no assignor that the coordinator knows (w1), and stays what it is until" in err
    _, _, err = run("groups", "describe", "connect", "--state")
    assert "is pinned coordinated: the group has members that list no assignor" in err
    _, out, _ = run("groups", "describe", "connect", "--json")
    assert json.loads(out)["machine"] == "coordinated"
    led.world.topic("orders", 1)
    led.world.group("billing", members=1)
    led.world.member("billing", "shim", {"orders": 1})
    status, _, err = run("groups", "machine", "billing", "client-led")
    assert status != 0 and "members that are no clients of a gateway (shim)" in err
    assert said(led, "billing") is None
    _, out, _ = run("groups", "machine", "billing", "coordinated", "--json")
    found = json.loads(out)
    assert (found["machine"], found["runs"]) == ("coordinated", "the coordinator")
    assert found["waits"] is None


def test_who_has_still_to_go_over_is_named(led: Led, run: Run) -> None:
    led.group("apps", state(member("c1"), member("c2")))
    _, _, err = run("groups", "machine", "apps", "coordinated")
    assert "members of a leader of its own (c1, c2), which go over when they join again" in err
    led.world.topic("orders", 1)
    led.world.group("billing", members=1)
    led.world.member("billing", "client", {"orders": 1}, gateway="gw:9192")
    _, out, _ = run("groups", "machine", "billing", "client-led", "--json")
    found = json.loads(out)
    assert (found["machine"], found["runs"]) == ("client-led", "the coordinator")
    assert "that the coordinator assigns (client), which go over" in found["waits"]


def test_members_that_go_over_while_it_is_read_are_seen(
    led: Led, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is registered is read first: it has left its leader when that is read."""
    led.world.topic("orders", 1)
    led.world.group("apps")
    led.group("apps", state(member("c1")))
    read, looks = led_groups.see_led, 0

    def meanwhile(*asked: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 2:
            led.world.client.set(led.paths.state("apps"), encode_state(NOBODY))
            led.world.member("apps", "c1", {"orders": 1}, gateway="gw:9192")
        return read(*asked)

    monkeypatch.setattr(led_groups, "see_led", meanwhile)
    status, out, err = run("groups", "machine", "apps", "coordinated")
    assert (status, out, err) == (0, "apps: coordinated; the coordinator runs it now\n", "")
    assert looks > 2


def test_members_that_are_between_the_machines_are_not_denied(
    led: Led, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    led.group("apps", state(member("c1")))
    written = groups_machine.set_machine

    def meanwhile(*asked: Any) -> None:
        written(*asked)
        led.world.client.set(led.paths.state("apps"), encode_state(NOBODY))

    monkeypatch.setattr(groups_machine, "set_machine", meanwhile)
    status, out, err = run("groups", "machine", "apps", "coordinated")
    assert (status, out, err) == (0, "apps: coordinated; its members join just now\n", "")


def test_who_joins_and_is_in_no_generation_yet_is_seen(led: Led, run: Run) -> None:
    led.group("apps", NOBODY)
    run("groups", "machine", "apps", "client-led")
    assert run("groups", "machine", "apps")[1] == "apps: client-led; it has no members now\n"
    joins = ClassicJoin("", "c1", "consumer", (("range", b""),), 10_000, 10_000)
    for number, group in enumerate(("others", "apps")):
        path, data = led.paths.request(f"{number:032x}"), encode_ask(ClassicAsk(group, joins))[0]
        led.world.put(path, data, ephemeral=True)
    status, out, err = run("groups", "machine", "apps")
    assert (status, out, err) == (0, "apps: client-led; its members join just now\n", "")
    found = json.loads(run("groups", "machine", "apps", "--json")[1])
    assert (found["runs"], found["waits"]) == ("", "its members join just now")
    led.world.client.set(path, b"the answer")
    assert run("groups", "machine", "apps")[1] == "apps: client-led; it has no members now\n"


def test_clients_that_could_not_be_led_are_named(led: Led, run: Run) -> None:
    led.world.topic("orders", 1)
    led.world.group("billing", members=2)
    layout = led.world.layout
    led.world.put(layout.clients("billing"), b"")
    for number, lists in enumerate([("range", "roundrobin"), ("cooperative-sticky",)]):
        led.world.member("billing", f"client-{number}", {"orders": 1}, gateway="gw:9192")
        client = replace(CLIENT, instance=f"i{number}", lists=lists)
        led.world.put(layout.client("billing", client.node), encode_client(client))
    status, _, err = run("groups", "machine", "billing", "client-led")
    assert status != 0 and said(led, "billing") is None
    assert "no assignor of the same name (cooperative-sticky, range+roundrobin)" in err
    client = replace(CLIENT, instance="i1", lists=("sticky", "range"))
    led.world.client.set(layout.client("billing", "i1"), encode_client(client))
    assert run("groups", "machine", "billing", "client-led")[0] == 0


def test_who_comes_just_then_is_not_left_alone(
    led: Led, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    led.world.topic("orders", 1)
    led.world.group("billing", members=1)
    written = groups_machine.set_machine

    def meanwhile(client: SyncClient, layout: Layout, group: str, *rest: Any) -> None:
        written(client, layout, group, *rest)
        if led.world.client.exists(layout.registration(group, "shim")) is None:
            led.world.member(group, "shim", {"orders": 1})

    monkeypatch.setattr(groups_machine, "set_machine", meanwhile)
    status, _, err = run("groups", "machine", "billing", "client-led")
    assert status != 0 and "(shim)" in err
    assert said(led, "billing") is None


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1,"machine":"auto"}'])
def test_what_cannot_be_read_is_named_and_is_said_again(led: Led, run: Run, data: bytes) -> None:
    run("groups", "machine", "g", "client-led")
    led.world.client.set(led.paths.pin("g"), data)
    status, out, err = run("groups", "machine", "g")
    assert (status, out) == (0, "g: auto; it has no members now\n")
    assert f"{led.paths.pin('g')} cannot be read (" in err and "say it again" in err
    assert "cannot be read" not in run("groups", "machine", "g", "coordinated")[2]
    assert said(led, "g") is Machine.COORDINATED


def test_no_more_is_said_than_is_taken(led: Led, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_machine, "PINS_MAX", 2)
    for group in ("a", "b"):
        assert run("groups", "machine", group, "client-led")[0] == 0
    status, _, err = run("groups", "machine", "c", "client-led")
    assert status != 0 and "there are 2 such words below" in err
    assert run("groups", "machine", "a", "coordinated")[0] == 0, "it is there already"
    assert run("groups", "machine", "b", "auto")[0] == 0
    assert run("groups", "machine", "c", "client-led")[0] == 0


def test_a_pin_that_somebody_has_made_nodes_below_is_said_to_stay(led: Led, run: Run) -> None:
    run("groups", "machine", "g", "client-led")
    foreign = f"{led.paths.pin('g')}/foreign"
    led.world.put(foreign, b"somebody's")
    status, _, err = run("groups", "machine", "g", "auto")
    assert status != 0 and err.count("\n") == 1
    assert f"what was said still holds: {led.paths.pin('g')} has nodes below it ('foreign')" in err
    assert led.world.client.get(foreign)[0] == b"somebody's"
    assert said(led, "g") is Machine.CLIENT_LED
    assert run("groups", "machine", "g", "coordinated")[0] == 0, "it can be said otherwise"
    led.world.client.delete(foreign)
    assert run("groups", "machine", "g", "auto")[0] == 0 and said(led, "g") is None


def test_a_group_whose_offsets_are_in_kafka_is_not_the_coordinators(led: Led, run: Run) -> None:
    """It would be said for ever that it goes over."""
    led.group("etl-1", state(member("c1")))
    assert run("groups", "machine", "etl-1", "coordinated")[0] == 0
    gateways = led.world.layout.gateways
    for number, says in enumerate((b"{", encode_gateway("gw1", 9192, None, "( other etl-.*"))):
        led.world.put(f"{gateways}/gateway-{number:010}", says, ephemeral=True)
    for arguments in (("machine", "etl-1"), ("describe", "etl-1", "--state")):
        status, _, err = run("groups", *arguments)
        assert status == 0 and "go over" not in err
        assert (
            "offsets of the group etl-1 are in Kafka (--offsets-in-kafka of the gateway at" in err
        )
        assert "gw1:9192" in err and "take the word back (zkcoord groups machine etl-1 auto)" in err
    assert run("groups", "machine", "etl-1", "auto") == (
        0,
        "etl-1: auto; its leader, a client, runs it now\n",
        "",
    )
    for group in ("etl-1", "etl-2"):
        status, _, err = run("groups", "machine", group, "coordinated")
        assert status != 0 and f"the offsets of the group {group} are in Kafka" in err
        assert said(led, group) is None
    assert run("groups", "machine", "etl-1", "client-led")[0] == 0
    assert run("groups", "machine", "billing", "coordinated")[0] == 0


def test_a_word_that_is_none(led: Led, run: Run) -> None:
    status, _, err = run("groups", "machine", "g", "mixed")
    assert status != 0 and "there is no machine mixed: write auto, client-led or coordinated" in err
    status, _, err = run("groups", "machine", "a/b", "auto")
    assert status != 0


def test_a_group_of_old_consumers_is_led_by_no_client(led: Led, run: Run) -> None:
    led.world.group("old")
    led.world.put(led.world.layout.mode("old"), encode_mode(Mode(GroupMode.MIXED)))
    status, _, err = run("groups", "machine", "old", "client-led")
    assert status != 0 and "is shared with old consumers (mode mixed)" in err
    assert said(led, "old") is None
    assert run("groups", "machine", "old", "coordinated")[0] == 0


@pytest.mark.parametrize("data", [b"", b"\xff{"])
def test_a_word_that_cannot_be_read_says_nothing(led: Led, run: Run, data: bytes) -> None:
    led.world.put(led.paths.pin("g"), data)
    assert run("groups", "machine", "g")[:2] == (0, "g: auto; it has no members now\n")
    run("groups", "machine", "g", "client-led")
    assert said(led, "g") is Machine.CLIENT_LED
