"""`zkcoord groups evict`, `pause` and `resume` where they are refused, and what they do not do:
groups whose members nobody can stop. What they do is in tests/protocol/test_operators.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.admin.world import world
from tests.cli.test_groups_led import member
from tests.cli.test_groups_led import state as led_state
from tests.cli.test_groups_mode import command, put, registers
from tests.protocol.rig import GROUP, Rig, rigged, tps
from zkcoord.cli import groups_pause
from zkcoord.cli.main import main
from zkcoord.core.model import Mode
from zkcoord.znodes.classic.documents import encode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin
from zkcoord.znodes.codec import decode_mode
from zkcoord.znodes.paths import Layout

Told = pytest.CaptureFixture[str]


@pytest.fixture
def rig(zk_hosts: str) -> Iterator[Rig]:
    with rigged(zk_hosts, Layout.ISOLATED) as made:
        made.topic("t", 4)
        yield made


def refused(rig: Rig, told: Told, *words: str) -> str:
    """The sentence, with --execute and without."""
    said = {command(rig, told, *words, *more) for more in ((), ("--execute",))}
    assert len(said) == 1
    ((status, out, err),) = said
    assert status != 0 and not out and err.count("\n") == 1 and "Traceback" not in err
    return err


def test_clients_that_lead_are_not_stopped(rig: Rig, capsys: Told) -> None:
    put(rig, ClassicPaths(rig.layout).state(GROUP), encode_state(led_state(member("c1"))))
    assert "one of them leads ('c1')" in refused(rig, capsys, "pause", GROUP)
    assert "one of them leads ('c1')" in refused(rig, capsys, "evict", GROUP, "c1")
    assert rig.zk.exists(rig.layout.mode(GROUP)) is None


def test_a_group_that_is_pinned_to_clients_is_not_paused(rig: Rig, capsys: Told) -> None:
    rig.zk.ensure_path(rig.layout.group(GROUP))
    put(rig, ClassicPaths(rig.layout).pin(GROUP), encode_pin(Pin(Machine.CLIENT_LED)))
    assert "is pinned client-led" in refused(rig, capsys, "pause", GROUP)


def test_old_consumers_are_neither_stopped_nor_evicted(rig: Rig, capsys: Told) -> None:
    registers(rig)
    old = f"{GROUP}_a"
    assert f"({old}), and nobody can stop them" in refused(rig, capsys, "pause", GROUP)
    assert f"{old} is an old consumer" in refused(rig, capsys, "evict", GROUP, old)


def test_a_paused_group_goes_to_no_leader_among_clients(rig: Rig, capsys: Told) -> None:
    rig.coordinator()
    rig.member("m", "t").fetches(*tps("t", 0, 1, 2, 3))
    assert command(rig, capsys, "pause", GROUP, "--execute")[0] == 0
    status, _, err = command(rig, capsys, "machine", GROUP, "client-led")
    assert status != 0 and "is paused" in err and f"groups resume {GROUP}" in err


def test_who_was_evicted_is_not_taken_for_another_member(rig: Rig, capsys: Told) -> None:
    """Names of a group's members are alike; only a slip of the finger is one of them."""
    name = rig.member("billing_h-1700000000000-5f2a90c4", "t").joined().member
    gone = name.replace("1700000000000-5f2a90c4", "1700000012345-77b1e033")
    assert gone != name and "did you mean" not in refused(rig, capsys, "evict", GROUP, gone)
    assert f"did you mean {name}" in refused(rig, capsys, "evict", GROUP, name[:-1])


def test_nobody_leads(rig: Rig, capsys: Told) -> None:
    """An eviction is refused, and a resume of what is not paused is nothing."""
    m = rig.member("m", "t").joined()
    status, out, _ = command(rig, capsys, "evict", GROUP, m.member, "--json")
    assert status == 0 and json.loads(out)["executed"] is False
    status, _, err = command(rig, capsys, "evict", GROUP, m.member, "--execute")
    assert status != 0 and "nobody leads" in err
    status, out, _ = command(rig, capsys, "resume", GROUP)
    assert status == 0 and "is not paused" in out
    assert rig.zk.exists(rig.layout.mode(GROUP)) is None


def test_who_interrupts_a_pause_is_told_that_it_holds(
    zk_hosts: str, capsys: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody leads and does nothing, so that there is something to wait for."""

    class Interrupted:
        def wait(self, seconds: float) -> None:
            raise KeyboardInterrupt

    def said(what: str) -> str:
        assert main(["groups", what, "billing", "--zookeeper", zk_hosts, "--execute"]) == 130
        out, err = capsys.readouterr()
        assert not out and err.count("\n") == 1
        return err

    monkeypatch.setattr(groups_pause, "threading", SimpleNamespace(Event=Interrupted))
    with world(zk_hosts) as here:
        here.leader()
        here.topic("orders", 1)
        here.group("billing")
        here.member("billing", "billing_a", {"orders": 1})
        err = said("pause")
        assert "billing is paused" in err and "resume billing --execute takes it back" in err
        mode = decode_mode(here.client.get(here.layout.mode("billing"))[0])
        assert isinstance(mode, Mode) and mode.paused
        assert "interrupted: nothing was written" in said("pause"), "it was said before"


@pytest.mark.parametrize(
    "words", [("evict", GROUP, "m"), ("pause", GROUP), ("resume", GROUP)], ids=lambda w: w[0]
)
def test_words_that_cannot_be_meant(rig: Rig, capsys: Told, words: tuple[str, ...]) -> None:
    for more, why in (
        (("--execute", "--dry-run"), "leave one of them out"),
        (("--timeout-ms", "0"), "write 1 or more"),
    ):
        status, _, err = command(rig, capsys, *words, *more)
        assert status != 0 and why in err
