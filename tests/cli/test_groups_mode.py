"""`zkcoord groups mode`, and what `groups describe` says of groups that are shared with old
consumers, on a real server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.test_groups_led import member
from tests.cli.test_groups_led import state as led_state
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Rig, rigged
from zkcoord.admin.common import Progress
from zkcoord.cli.main import main
from zkcoord.core.model import GroupMode, Mode
from zkcoord.zk.clock import wall_ms
from zkcoord.znodes.classic.documents import encode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin
from zkcoord.znodes.codec import encode_mode
from zkcoord.znodes.paths import Layout

OLD = {"version": 1, "subscription": {"t": 1}, "pattern": "static"}


@pytest.fixture
def rig(zk_hosts: str) -> Iterator[Rig]:
    with rigged(zk_hosts, Layout.ISOLATED) as made:
        made.topic("t", 4)
        yield made


def command(
    rig: Rig, capsys: pytest.CaptureFixture[str], *arguments: str, layout: str = "isolated"
) -> tuple[int, str, str]:
    status = main(["groups", *arguments, "--zookeeper", rig.hosts, "--layout", layout])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def registers(rig: Rig, regex: str = "") -> object:
    """An old consumer."""
    client = rig.client()
    rig.zk.ensure_path(rig.layout.ids(GROUP))
    said = {"subscription": {regex: 1}, "pattern": "white_list"} if regex else {}
    client.create(
        rig.layout.registration(GROUP, f"{GROUP}_a"),
        json.dumps({**OLD, **said, "timestamp": str(wall_ms())}).encode(),
        ephemeral=True,
    )
    return client


def test_a_group_is_shared_and_comes_back(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a group that only old consumers know: mixed without a coordinator, then with one;
    coordinated is refused while an old consumer is there.
    """
    old = registers(rig)
    status, out, _ = command(rig, capsys, "mode", GROUP)
    assert (
        status == 0
        and "no mode: its old consumers keep it" in out
        and "1 old consumers own 0 partitions" in out
    )
    status, out, err = command(rig, capsys, "mode", GROUP, "mixed")
    assert (
        status == 0
        and "mode mixed (legacy-range), not taken up by the coordinator yet" in out
        and "nobody leads" in err
    )
    member = rig.member("m", "t").joined()
    rig.coordinator()
    member.wait(lambda: len(member.driver.core.session.held) == 2, "its half of four partitions")
    status, out, err = command(rig, capsys, "mode", GROUP, "coordinated")
    assert (
        status != 0 and f"{GROUP}_a" in err and "stop them first" in err and "Traceback" not in err
    )
    old.stop()  # type: ignore[attr-defined]
    member.wait(lambda: len(member.driver.core.session.held) == 4, "everything")
    status, out, _ = command(rig, capsys, "mode", GROUP, "coordinated", "--json")
    said = json.loads(out)
    assert (
        status == 0
        and said["mode"]["said"] == said["mode"]["taken_up"] == "coordinated"
        and said["mode"]["owned_by_members"] == 4
        and said["problems"] == []
    )
    status, out, _ = command(rig, capsys, "describe", GROUP, "--json")
    assert json.loads(out)["mode"]["strategy"] == "legacy-range"


def test_what_is_wrong_is_named(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """A wildcard that its old consumer escaped twice, and a registration that old consumers cannot
    read: in groups describe, and gone from there when they are gone.
    """
    registers(rig, "t\\\\..*")
    rig.coordinator()
    assert command(rig, capsys, "mode", GROUP, "mixed")[0] == 0
    rig.zk.create(f"{rig.layout.ids(GROUP)}/poison", b"t", ephemeral=True)
    wait_until(
        lambda: (
            "poison" in (err := command(rig, capsys, "describe", GROUP, "--members")[2])
            and "escaped twice" in err
        ),
        WAIT_S,
        "both problems",
    )
    rig.zk.delete(f"{rig.layout.ids(GROUP)}/poison")
    wait_until(
        lambda: "poison" not in command(rig, capsys, "describe", GROUP, "--members")[2],
        WAIT_S,
        "one problem less",
    )


def put(rig: Rig, path: str, data: bytes) -> None:
    rig.zk.ensure_path(path)
    rig.zk.set(path, data)


def test_a_group_that_a_client_leads(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no node among the others, and is nobody's but its leader's."""
    state = ClassicPaths(rig.layout).state(GROUP)
    put(rig, state, encode_state(led_state(member("c1"), member("c2"))))
    status, out, _ = command(rig, capsys, "mode", GROUP)
    assert (status, out) == (0, f"{GROUP}: no mode: one of its 2 clients leads it\n")
    _, out, _ = command(rig, capsys, "mode", GROUP, "--json")
    assert json.loads(out)["mode"]["client_led_members"] == 2
    for word in ("mixed", "legacy"):
        status, _, err = command(rig, capsys, "mode", GROUP, word)
        assert status != 0 and "has members that one of them leads (c1, c2)" in err
    status, out, _ = command(rig, capsys, "mode", GROUP, "coordinated")
    assert status == 0
    assert "coordinated, not taken up by the coordinator yet, and one of its 2 clients leads" in out
    rig.coordinator()
    status, out, _ = command(rig, capsys, "mode", GROUP, "coordinated")
    assert (status, out) == (0, f"{GROUP}: mode coordinated, and one of its 2 clients leads it\n")


def test_a_group_that_a_client_is_to_lead(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    rig.zk.ensure_path(rig.layout.group(GROUP))
    put(rig, ClassicPaths(rig.layout).pin(GROUP), encode_pin(Pin(Machine.CLIENT_LED)))
    status, out, _ = command(rig, capsys, "mode", GROUP)
    assert status == 0 and "no mode: a client is to lead it (zkcoord groups machine)" in out
    status, _, err = command(rig, capsys, "mode", GROUP, "mixed")
    assert status != 0 and f"zkcoord groups machine {GROUP} auto first" in err
    assert rig.zk.exists(rig.layout.mode(GROUP)) is None


def test_a_registration_that_only_earlier_releases_die_of_is_named(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    """zkcoord and old consumers of 1.0 and 1.1 read it: a number that is no Java int."""
    registers(rig)
    assert "problem" not in command(rig, capsys, "describe", GROUP, "--members")[2]
    rig.zk.create(
        rig.layout.registration(GROUP, f"{GROUP}_go"),
        json.dumps({**OLD, "timestamp": wall_ms()}).encode(),
        ephemeral=True,
    )
    (problem,) = json.loads(command(rig, capsys, "describe", GROUP, "--json")[1])["problems"]
    assert (
        problem in command(rig, capsys, "describe", GROUP, "--members")[2]
        and f"the registration {GROUP}_go: " in problem
        and "0.8.0 - 0.11.0" in problem
    )
    assert problem in command(rig, capsys, "mode", GROUP)[1]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("mixt",), "there is no mode mixt"),
        (("mixed", "--strategy", "sticky"), "there is no strategy sticky"),
        (("--strategy", "legacy-range"), "name it, too"),
    ],
)
def test_what_cannot_be_said(
    rig: Rig, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    status, _, err = command(rig, capsys, "mode", GROUP, *arguments)
    assert status != 0 and sentence in err and "Traceback" not in err


def test_only_the_isolated_layout_can_be_shared(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with rigged(zk_hosts) as rig:
        rig.topic("t", 1)
        rig.member("m", "t").joined()
        status, _, err = command(rig, capsys, "mode", GROUP, "mixed", layout="draft")
        assert status != 0 and "layout isolated" in err


def test_a_group_of_which_nobody_knows_what_an_old_consumer_takes(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    """Look-around that only Java knows: mixed is refused with an example, and where the group is
    mixed already the group is at rest, with the cause.
    """
    registers(rig, "(?=t)t")
    rig.coordinator()
    status, _, err = command(rig, capsys, "mode", GROUP, "mixed")
    assert status == 1 and "cannot be shared" in err and "black_list of __.*" in err
    rig.zk.create(rig.layout.mode(GROUP), encode_mode(Mode(GroupMode.MIXED)), makepath=True)

    def at_rest() -> bool:
        shown = json.loads(command(rig, capsys, "describe", GROUP, "--json")[1])
        return shown["state"] == "Stable" and any(
            "only old consumers can read" in problem for problem in shown["problems"]
        )

    wait_until(at_rest, WAIT_S, "the group at rest, and the cause")


def test_a_mode_that_is_not_reached_is_exit_status_1(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    """An old consumer that owns nothing of its share: what is waited for is said once, not every
    second.
    """
    registers(rig)
    rig.coordinator()
    rig.member("m", "t")
    status, _, err = command(rig, capsys, "mode", GROUP, "mixed", "--timeout-ms", "4000")
    assert status == 1 and "after 4000 ms the group still waits for" in err
    said = [line for line in err.splitlines() if "waiting for" in line]
    assert said and len(said) == len(set(said)) and "PreparingRebalance" not in err


def test_ctrl_c_says_where_to_look(
    rig: Rig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for the group the mode is written already."""

    def interrupted(_: object) -> bool:
        raise KeyboardInterrupt

    registers(rig)
    monkeypatch.setattr("zkcoord.cli.groups_mode.SetMode.run", interrupted)
    status, out, err = command(rig, capsys, "mode", GROUP, "mixed")
    assert (status, out) == (130, "") and f"says zkcoord groups mode {GROUP}" in err


def test_a_line_that_is_updated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal one line is written over; it is gone when something else is said."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("zkcoord.admin.common.QUIET_MS", 0)
    progress = Progress("zkcoord groups")
    for text in ("a", "a", "b"):
        progress.update(text)
    progress.note("c")
    progress.end()
    assert capsys.readouterr().err == (
        "\r\x1b[Kzkcoord groups: a\r\x1b[Kzkcoord groups: b\r\x1b[Kzkcoord groups: c\n"
    )
