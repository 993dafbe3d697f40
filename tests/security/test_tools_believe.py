"""Operators' tools believe what coordinators believe. What others can have said they do not show as
true; where it would let something happen they refuse. They write nothing that nobody would follow.
"""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient

from tests.protocol.rig import GROUP, Rig, tps
from tests.security.older import BOTH, OPEN, above, acl_of, apply, made_by, older
from tests.security.principals import PASSWORDS, flags
from zkcoord.admin.offsets.reset_plan import Log
from zkcoord.cli import offsets_reset
from zkcoord.cli.main import main
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.model import GroupMode, Mode
from zkcoord.zk.sync import beliefs
from zkcoord.znodes import codec
from zkcoord.znodes.classic.documents import ClassicRound, encode_round, encode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin
from zkcoord.znodes.codec import LeaderData
from zkcoord.znodes.paths import Layout, parents

Capture = pytest.CaptureFixture[str]
CLIENT = ClassicMember("forged-1", None, "c", "h", 30_000, 30_000, (("own", b""),))
LED = ClassicState(ClassicPhase.STABLE, 7, "connect", "own", "forged-1", (CLIENT,))
NOBODY = ClassicState(ClassicPhase.EMPTY, 7)
T0, T1 = tps("t", 0, 1)
WRITING = {"rebalance", "evict", "reset", "mode", "pause", "resume", "machine"}
PLACES = pytest.mark.parametrize("place", ["above", "group", "state"])
MENDED = "run zkcoord acl apply --execute, then repeat this"
LEGACY = codec.encode_mode(Mode(GroupMode.LEGACY, by="somebody"))
PAUSED = codec.encode_mode(Mode(GroupMode.COORDINATED, paused=True, by="somebody"))


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What brokers say of offsets that are reset."""
    monkeypatch.setattr(offsets_reset, "_logs", lambda *_: dict.fromkeys((T0, T1), Log(0, 9)))
    monkeypatch.setattr(offsets_reset, "brokers", lambda *_: None)


def tool(rig: Rig, capsys: Capture, *words: str, told: bool = True) -> tuple[int, str, str]:
    """A command, by an operator; those that write are told who is what."""
    capsys.readouterr()
    who = ("--zookeeper-user", "coord", "--zookeeper-password", PASSWORDS["coord"])
    given = flags() if told and WRITING & {*words} else ()
    where = () if words[0] == "check" else ("--layout", rig.layout.name)
    status = main([*words, "--zookeeper", rig.hosts, *where, *who, *given])
    said = capsys.readouterr()
    return status, said.out, said.err


def closed(rig: Rig) -> None:
    """Roots and a group as coordinators make them."""
    layout = rig.layout
    for path in dict.fromkeys((*layout.roots(), *above(rig), *layout.parts(GROUP))):
        if rig.zk.exists(path) is None:
            rig.zk.create(path, b"", acl=acl_of(letters(path, rig)))


def letters(path: str, rig: Rig) -> str:
    """What members may do there."""
    layout = rig.layout
    few = {layout.ids(GROUP): "rcd", layout.asks: "rcd", ClassicPaths(layout).requests: "rcd"}
    few |= {layout.owners(GROUP): "rc", layout.channels(GROUP): "rc", layout.offsets(GROUP): "rc"}
    return few.get(path, "r")


def led(rig: Rig, place: str, state: ClassicState = LED) -> str:
    """What is said of a group that clients lead, where members can have said it; the node that is
    open.
    """
    closed(rig)
    paths = ClassicPaths(rig.layout)
    for path in (paths.group(GROUP), paths.state(GROUP), paths.round(GROUP)):
        data = {paths.state(GROUP): encode_state(state)}.get(path, b"")
        data = encode_round(ClassicRound()) if path == paths.round(GROUP) else data
        rig.zk.create(path, data, acl=acl_of("r"))
    wide = {
        "above": paths.groups,
        "group": paths.group(GROUP),
        "state": paths.state(GROUP),
        "round": paths.round(GROUP),
    }[place]
    rig.zk.set_acls(wide, acl_of("rw" if place in ("state", "round") else "rc"))
    return wide


def moded(rig: Rig, place: str, data: bytes = LEGACY) -> str:
    """A mode, where members can have said it; its path."""
    closed(rig)
    layout = rig.layout
    path = layout.mode(GROUP)
    rig.zk.create(path, data, acl=acl_of("rw" if place == "mode" else "r"))
    if place == "group":
        rig.zk.set_acls(layout.group(GROUP), acl_of("rc"))
    return path


@BOTH
@PLACES
@pytest.mark.parametrize("state", [LED, NOBODY], ids=["led", "nobody"])
def test_where_it_is_not_known_whether_clients_lead_nothing_is_changed(
    rig: Rig, place: str, state: ClassicState, capsys: Capture
) -> None:
    """Whatever is written: taken for absent, it would have the group changed under its clients."""
    rig.topic("t", 2)
    wide = led(rig, place, state)
    paths = ClassicPaths(rig.layout)
    reset = ("offsets", "reset", GROUP, "--topic", "t:0,1", "--to-offset", "5", "--execute")
    delete = ("offsets", "delete", GROUP, "--topic", "t", "--execute")
    for words in (
        reset,
        delete,
        ("groups", "delete", GROUP, "--execute"),
        ("groups", "rebalance", GROUP),
        ("groups", "evict", GROUP, "somebody"),
        ("groups", "pause", GROUP),
        *([("groups", "mode", GROUP, "mixed")] if rig.layout == Layout.ISOLATED else []),
    ):
        status, _, err = tool(rig, capsys, *words)
        assert status == 1 and err.count("\n") == 1, err
        assert f"whether clients lead the group {GROUP} is not known" in err
        assert f"{paths.state(GROUP)} is not believed" in err and f"{wide} lets digest:app" in err
        assert MENDED in err
    assert rig.zk.exists(rig.layout.offset(GROUP, T0)) is None
    assert rig.zk.exists(rig.layout.mode(GROUP)) is None
    assert apply(rig) == 0
    status, _, err = tool(rig, capsys, *reset)
    assert (status == 0) is (state is NOBODY), err
    assert state is NOBODY or "has members that one of them leads ('forged-1')" in err


@BOTH
@PLACES
def test_what_others_can_have_said_of_clients_that_lead_is_not_shown_as_true(
    rig: Rig, place: str, capsys: Capture
) -> None:
    wide = led(rig, place)
    status, out, err = tool(rig, capsys, "groups", "describe", GROUP, "--json")
    assert status == 0, err
    found = json.loads(out)
    assert "forged-1" not in json.dumps({**found, "malformed": None})
    (bad,) = [one for one in found["malformed"] if one["what"].startswith("client-led group")]
    assert bad["name"] == GROUP and f"{wide} lets digest:app" in bad["reason"]
    assert "zkcoord acl apply" in bad["reason"]
    _, out, err = tool(rig, capsys, "groups", "describe", GROUP, "--members")
    assert "counts for nothing" in err and wide in err and "forged-1" not in out + err
    status, out, err = tool(rig, capsys, "groups", "list", "--json")
    (row,) = [one for one in json.loads(out)["groups"] if one["group"] == GROUP]
    if place == "above":  # of each group alone only where it is described: there may be thousands
        assert row["members"] is None and wide in row["malformed"][-1]["reason"]
        assert f"of {GROUP} is not believed" in err
    assert apply(rig) == 0
    _, out, err = tool(rig, capsys, "groups", "describe", GROUP, "--members")
    assert "forged-1" in out and "counts for nothing" not in err


@BOTH
def test_a_list_of_many_groups_asks_once_who_may_write_above_them(
    rig: Rig, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    led(rig, "above")
    paths = ClassicPaths(rig.layout)
    for n in range(20):
        rig.zk.create(paths.group(f"more{n}"), b"", acl=acl_of("r"))
        rig.zk.create(paths.state(f"more{n}"), encode_state(LED), acl=acl_of("r"))
    asked: list[str] = []
    true = beliefs.acls_of
    monkeypatch.setattr(
        beliefs, "acls_of", lambda client, paths: asked.extend(paths) or true(client, paths)
    )
    _, out, _ = tool(rig, capsys, "groups", "list", "--json")
    rows = [one for one in json.loads(out)["groups"] if one["group"].startswith("more")]
    assert len(rows) == 20 and all(one["members"] is None for one in rows)
    assert (
        asked
        == [rig.layout.epoch, *paths.above_groups(), rig.layout.epoch, *paths.above_pins()][
            : len(asked)
        ]
    )


@BOTH
@pytest.mark.parametrize("place", ["group", "mode"])
@pytest.mark.parametrize("data", [LEGACY, PAUSED], ids=["legacy", "paused"])
def test_a_mode_that_others_can_have_made_is_not_shown_as_said(
    rig: Rig, place: str, data: bytes, capsys: Capture
) -> None:
    path = moded(rig, place, data)
    _, out, err = tool(rig, capsys, "groups", "describe", GROUP, "--json")
    found = json.loads(out)
    assert found["mode"]["said"] is None and not found["paused"], found["mode"]
    (bad,) = [one for one in found["malformed"] if one["what"] == "mode"]
    assert bad["name"] == GROUP and "not only coordinators can have made it" in bad["reason"]
    _, _, err = tool(rig, capsys, "groups", "describe", GROUP)
    assert "counts for nothing (mode)" in err and "zkcoord acl apply" in err
    _, _, err = tool(rig, capsys, "groups", "mode", GROUP)
    assert "the mode of g counts for nothing" in err and "zkcoord acl apply" in err
    status, out, _ = tool(rig, capsys, "check", "--json")
    codes = {(one["code"], one["node"]) for one in json.loads(out)["findings"]}
    assert ("mode-unusable", path) in codes and "group-paused" not in {code for code, _ in codes}
    assert apply(rig) == 0
    said = capsys.readouterr().out
    assert f"{path}: others than coordinators could make it" in said
    _, out, _ = tool(rig, capsys, "groups", "describe", GROUP, "--json")
    now = json.loads(out)
    assert (
        now["malformed"] == [] and now["mode"]["said"] and bool(now["paused"]) is (data == PAUSED)
    )


@pytest.mark.parametrize("layout", [Layout.ISOLATED], ids=["isolated"])
@pytest.mark.parametrize("place", ["group", "mode"])
@pytest.mark.parametrize(
    "words", [("mode", GROUP, "mixed"), ("pause", GROUP, "--execute"), ("resume", GROUP)], ids=str
)
def test_no_mode_is_written_that_nobody_would_follow(
    rig: Rig, place: str, words: tuple[str, ...], capsys: Capture
) -> None:
    path = moded(rig, place, PAUSED)
    status, _, err = tool(rig, capsys, "groups", *words)
    assert status == 1 and err.count("\n") == 1, err
    assert f"what is to be said in {path} would not be believed" in err and MENDED in err
    assert rig.zk.get(path)[0] == PAUSED


@BOTH
def test_nor_is_a_mode_made_below_a_group_of_an_older_version(
    rig: Rig, app: KazooClient, capsys: Capture
) -> None:
    """Where nothing is there to be mistaken; and what is none of it goes on as ever."""
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    status, _, err = tool(rig, capsys, "groups", "pause", GROUP, "--execute")
    assert status == 1 and "would not be believed" in err and MENDED in err
    assert rig.zk.exists(rig.layout.mode(GROUP)) is None
    assert tool(rig, capsys, "groups", "resume", GROUP)[0] == 0, "nothing is to be written"
    for words in (
        ("groups", "list"),
        ("groups", "describe", GROUP),
        ("offsets", "reset", GROUP, "--topic", "t:0,1", "--to-offset", "5", "--execute"),
        ("offsets", "show", GROUP),
    ):
        status, _, err = tool(rig, capsys, *words)
        assert status == 0 and "believed" not in err, err
    assert apply(rig) == 0
    status, _, err = tool(rig, capsys, "groups", "pause", GROUP, "--execute")
    assert status == 0 and rig.zk.exists(rig.layout.mode(GROUP)) is not None, err


@BOTH
@pytest.mark.parametrize("place", ["above", "pin"])
def test_no_pin_is_written_that_nobody_would_believe(rig: Rig, place: str, capsys: Capture) -> None:
    closed(rig)
    paths = ClassicPaths(rig.layout)
    pin = paths.pin(GROUP)
    said = encode_pin(Pin(Machine.CLIENT_LED))
    if place == "pin":
        rig.zk.create(pin, said, acl=acl_of("rw"))
    else:
        rig.zk.set_acls(paths.pins, acl_of("rc"))
    status, _, err = tool(rig, capsys, "groups", "machine", GROUP, "coordinated")
    assert status == 1 and f"what is to be said in {pin} would not be believed" in err, err
    assert MENDED in err and (rig.zk.get(pin)[0] == said if place == "pin" else True)
    assert tool(rig, capsys, "groups", "machine", GROUP, "auto")[0] == 0, "it is taken back"
    assert rig.zk.exists(pin) is None


@BOTH
def test_no_request_is_made_that_nobody_would_take_up(
    rig: Rig, app: KazooClient, capsys: Capture
) -> None:
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    rig.coordinator()
    m = rig.member("m", "t")
    m.wait(m.fetching, "that it is served")
    for words in (
        ("rebalance", GROUP),
        ("evict", GROUP, m.member, "--execute"),
    ):
        status, _, err = tool(rig, capsys, "groups", *words)
        assert status == 1 and "would not be believed" in err and MENDED in err, err
    assert rig.zk.get_children(rig.layout.requests(GROUP)) == []


@BOTH
def test_a_living_leader_node_that_others_can_have_made_is_named(
    rig: Rig, app: KazooClient, capsys: Capture
) -> None:
    """It came without an epoch; that of a coordinator came with one."""
    older(rig)
    seat, other = rig.layout.leader, rig.layout.other_profile().leader
    rig.coordinator()
    for path in parents(other):
        if rig.zk.exists(path) is None:
            rig.zk.create(path, b"", acl=acl_of("rc"))
        elif path == parents(other)[-1]:
            rig.zk.set_acls(path, acl_of("rc"))
    forged = codec.encode_leader(LeaderData("", "h", 1, 5, 1))
    app.create(other, forged, ephemeral=True, acl=acl_of("r"))
    rig.zk.set_acls(parents(seat)[-1], acl_of("rc"))
    capsys.readouterr()
    assert apply(rig) == 0
    said = capsys.readouterr().out
    assert f"{other}: others than coordinators could make it" in said
    assert f"{seat}: others than coordinators could make it, together with its epoch; a" in said


@BOTH
@pytest.mark.parametrize("place", ["root", "coordinator", "above", "group", "state"])
def test_what_is_said_of_clients_that_lead_is_named_before_it_is_believed(
    rig: Rig, place: str, capsys: Capture
) -> None:
    led(rig, "state")
    paths = ClassicPaths(rig.layout)
    rig.zk.create(paths.group("other"), b"", acl=acl_of("r"))
    rig.zk.create(paths.state("other"), encode_state(LED), acl=acl_of("r"))
    if place != "state":
        rig.zk.set_acls(paths.state(GROUP), acl_of("r"))
        wide = {
            "root": rig.layout.epoch,
            "coordinator": parents(paths.root)[-1],
            "above": paths.groups,
            "group": paths.group(GROUP),
        }[place]
        rig.zk.set_acls(wide, acl_of("rc"))
    assert apply(rig) == 0
    said = capsys.readouterr().out
    assert f"{paths.state(GROUP)}: others than coordinators could make it" in said
    of_all = place in ("root", "coordinator", "above")
    assert (f"{paths.state('other')}: " in said) is of_all
    assert f"{paths.round(GROUP)}: " not in said


@BOTH
def test_so_is_a_pin_that_was_open_itself(rig: Rig, capsys: Capture) -> None:
    closed(rig)
    paths = ClassicPaths(rig.layout)
    for group, acl in (("ours", acl_of("r")), ("open", OPEN)):
        rig.zk.create(paths.pin(group), encode_pin(Pin(Machine.CLIENT_LED)), acl=acl)
    assert apply(rig) == 0
    said = capsys.readouterr().out
    assert f"{paths.pin('open')}: others" in said and f"{paths.pin('ours')}: " not in said


@BOTH
def test_where_the_ensemble_is_open_everything_is_believed(rig: Rig, capsys: Capture) -> None:
    paths, layout = ClassicPaths(rig.layout), rig.layout
    nodes: dict[str, bytes] = dict.fromkeys(layout.parts(GROUP), b"")
    nodes |= {layout.mode(GROUP): PAUSED, paths.state(GROUP): encode_state(LED)}
    for path, data in nodes.items():
        if rig.zk.exists(path) is None:
            rig.zk.create(path, data, makepath=True)
    _, out, _ = tool(rig, capsys, "groups", "describe", GROUP, "--json", told=False)
    found = json.loads(out)
    assert found["paused"] and "forged-1" in out and found["malformed"] == []
    _, out, err = tool(rig, capsys, "groups", "list", "--json", told=False)
    (row,) = json.loads(out)["groups"]
    assert (row["members"], row["malformed"], err.count("believed")) == (1, [], 0)
    status, _, err = tool(rig, capsys, "groups", "resume", GROUP, "--execute", told=False)
    assert status == 0, err
