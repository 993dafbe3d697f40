"""Groups of which nobody knows whether clients lead them: no command changes one, none says that it
has nobody, and a dry run says so as well.
"""

from __future__ import annotations

import json

import pytest

from tests.protocol.rig import GROUP, Rig, tps
from tests.security.older import BOTH, acl_of
from tests.security.test_tools_believe import PLACES, Capture, led, tool
from zkcoord.admin.offsets.reset_plan import Log
from zkcoord.cli import offsets_reset
from zkcoord.core.model import GroupMode, Mode
from zkcoord.znodes import codec
from zkcoord.znodes.classic.paths import ClassicPaths

T0, T1 = tps("t", 0, 1)
NOT_KNOWN = f"whether clients lead the group {GROUP} is not known"
PAUSED = codec.encode_mode(Mode(GroupMode.COORDINATED, paused=True, by="somebody"))
RESET = ("offsets", "reset", GROUP, "--topic", "t:0,1", "--to-offset", "5")
CHANGES = (
    ("groups", "machine", GROUP, "client-led"),
    ("groups", "machine", GROUP, "coordinated"),
    ("groups", "machine", GROUP, "auto"),
    ("groups", "mode", GROUP, "coordinated"),
    ("groups", "pause", GROUP),
    ("groups", "pause", GROUP, "--execute"),
    ("groups", "delete", GROUP),
    ("groups", "delete", GROUP, "--execute"),
    ("groups", "rebalance", GROUP),
    ("groups", "evict", GROUP, "m"),
    RESET,
    (*RESET, "--json"),
    (*RESET, "--execute"),
    ("offsets", "delete", GROUP, "--topic", "t"),
    ("offsets", "accept", GROUP, "--topic", "t"),
    ("offsets", "accept", GROUP, "--topic", "t", "--execute"),
)


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What brokers say of offsets that are reset."""
    monkeypatch.setattr(offsets_reset, "_logs", lambda *_: dict.fromkeys((T0, T1), Log(0, 9)))
    monkeypatch.setattr(offsets_reset, "brokers", lambda *_: None)


@BOTH
@pytest.mark.parametrize("place", ["above", "group", "state", "round"])
def test_no_command_changes_it_and_a_dry_run_says_so(rig: Rig, place: str, capsys: Capture) -> None:
    rig.topic("t", 2)
    wide = led(rig, place)
    paths = ClassicPaths(rig.layout)
    rig.zk.create(rig.layout.offset(GROUP, T0), b"3", makepath=True)
    rig.zk.create(rig.layout.offset(GROUP, T1), b"3")
    before = rig.zk.get(rig.layout.offset(GROUP, T0))
    for words in CHANGES:
        status, out, err = tool(rig, capsys, *words)
        assert (status, out) == (1, ""), (words, out, err)
        assert NOT_KNOWN in err and f"{wide} lets digest:app" in err, (words, err)
        for path in (rig.layout.mode(GROUP), paths.pin(GROUP)):
            assert rig.zk.exists(path) is None, words
        assert rig.zk.get(rig.layout.offset(GROUP, T0)) == before, words


@BOTH
def test_a_pause_of_it_does_not_end_either(rig: Rig, capsys: Capture) -> None:
    led(rig, "state")
    rig.zk.create(rig.layout.mode(GROUP), PAUSED, acl=acl_of("r"))
    for words in (("resume", GROUP), ("resume", GROUP, "--execute")):
        status, out, err = tool(rig, capsys, "groups", *words)
        assert (status, out) == (1, "") and NOT_KNOWN in err, err
    assert rig.zk.get(rig.layout.mode(GROUP))[0] == PAUSED


@BOTH
@PLACES
def test_its_members_are_not_known_and_that_is_said(rig: Rig, place: str, capsys: Capture) -> None:
    led(rig, place)
    _, out, err = tool(rig, capsys, "groups", "describe", GROUP)
    assert "its members are not known" in err and "no active members" not in out + err
    _, out, _ = tool(rig, capsys, "groups", "describe", GROUP, "--state")
    assert out.split()[-2:] == ["unknown", "unknown"] and "Empty" not in out
    _, out, _ = tool(rig, capsys, "groups", "describe", GROUP, "--state", "--verbose")
    assert out.count("unknown") == 3 and "Empty" not in out
    _, out, _ = tool(rig, capsys, "groups", "describe", GROUP, "--json")
    found = json.loads(out)
    assert (found["state"], found["members"], found["generation"]) == ("unknown", None, None)
    assert found["mode"]["client_led_members"] is None
    _, out, err = tool(rig, capsys, "groups", "mode", GROUP)
    assert "whether clients lead it is not known" in out
    _, out, err = tool(rig, capsys, "groups", "machine", GROUP)
    assert "its members are not known" in out and "no members now" not in out
    _, out, _ = tool(rig, capsys, "groups", "machine", GROUP, "--json")
    assert json.loads(out)["runs"] == "unknown"
    if place == "above":
        _, out, _ = tool(rig, capsys, "groups", "list", "--state")
        assert out.split()[-2:] == [GROUP, "unknown"]
        _, out, _ = tool(rig, capsys, "groups", "list", "--verbose")
        assert out.splitlines()[-1].split()[:3] == [GROUP, "unknown", "unknown"]
        _, out, _ = tool(rig, capsys, "groups", "list", "--json")
        (row,) = json.loads(out)["groups"]
        assert (row["state"], row["members"], row["run_by"]) == ("unknown", None, "unknown")
