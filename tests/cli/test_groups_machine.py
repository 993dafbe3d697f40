"""`zkcoord groups machine` on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.test_groups_led import Led, led, member, run, state
from zkcoord.core.model import GroupMode, Malformed, Mode
from zkcoord.znodes.classic.pin import Machine, decode_pin
from zkcoord.znodes.codec import encode_mode

__all__ = ("led", "run")

Run = Callable[..., tuple[int, str, str]]


def said(led: Led, group: str) -> Machine | None:
    path = led.paths.pin(group)
    if led.world.client.exists(path) is None:
        return None
    pin = decode_pin(group, led.world.client.get(path)[0])
    assert not isinstance(pin, Malformed) and pin.by
    return pin.machine


def test_it_is_said_shown_changed_and_taken_back(led: Led, run: Run) -> None:
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


def test_who_has_to_stop_is_named(led: Led, run: Run) -> None:
    led.group("connect", state(member("w1", "sessioned"), kind="connect"))
    status, out, err = run("groups", "machine", "connect", "coordinated")
    assert (status, out) == (0, "connect: coordinated; its leader, a client, runs it now\n")
    assert "members of a leader of its own (w1), and stays what it is until all of them" in err
    _, _, err = run("groups", "describe", "connect", "--state")
    assert "is pinned coordinated: the group has members of a leader of its own" in err
    _, out, _ = run("groups", "describe", "connect", "--json")
    assert json.loads(out)["machine"] == "coordinated"
    led.world.topic("orders", 1)
    led.world.group("billing", members=1)
    led.world.member("billing", "shim", {"orders": 1})
    _, out, _ = run("groups", "machine", "billing", "client-led", "--json")
    found = json.loads(out)
    assert (found["machine"], found["runs"]) == ("client-led", "the coordinator")
    assert "(shim)" in found["waits"]
    _, out, _ = run("groups", "machine", "billing", "coordinated", "--json")
    assert json.loads(out)["waits"] is None


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
