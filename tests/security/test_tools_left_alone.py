"""A group that a coordinator leaves alone, because of who may write its nodes, is no sound group to
any tool, and nobody waits for it to take something up.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from tests.protocol.rig import GROUP, Coordinator, Rig
from tests.security.older import BOTH, OPEN, acl_of, apply, made_by, named, older
from tests.security.principals import PASSWORDS, digest
from tests.security.test_tools_believe import Capture, led, tool
from zkcoord.cli.main import main
from zkcoord.coordinator.http.summaries import LedTold, seen_groups
from zkcoord.health.stored_offsets import GroupStored, StoredOffsets
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient

TOLD = pytest.mark.parametrize("told", [True, False], ids=["roles", "no-roles"])
ALONE = "left-alone"
OPEN_TO_READ = [make_acl("world", "anyone", read=True)]


@pytest.fixture
def alone(rig: Rig, app: KazooClient) -> str:
    """A group that is served, and whose owners are everybody's when the next coordinator comes; the
    node that is open.
    """
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    assert apply(rig) == 0
    first = rig.coordinator()
    member = rig.member("m", "t")
    member.wait(lambda: len(member.fetching()) == 2, "that it is served")
    owners = rig.layout.owners(GROUP)
    rig.zk.set_acls(owners, OPEN)
    first.stop()
    second = rig.coordinator()
    second.wait(lambda: named(second, "group"), "that it is left alone")
    return owners


def findings(rig: Rig, capsys: Capture, *words: str) -> dict[tuple[str, str], str]:
    """Code and group -> what."""
    _, out, _ = tool(rig, capsys, "check", "--json", *words)
    found = json.loads(out)["findings"]
    return {(one["code"], one["group"] or ""): one["what"] for one in found}


def stored(rig: Rig) -> GroupStored:
    """What a look at the group's health finds."""
    options = ZkOptions(rig.hosts, digest=digest("coord"))
    with SyncClient(options) as reader:
        return StoredOffsets(reader, rig.layout, judges=True).look([GROUP])[GROUP]


@BOTH
def test_it_is_named_by_all_that_show_it(rig: Rig, alone: str, capsys: Capture) -> None:
    for words in ((), ("--only", GROUP)):
        status, _, _ = tool(rig, capsys, "check", *words)
        what = findings(rig, capsys, *words)[ALONE, GROUP]
        assert status == 3 and f"{alone} lets world:anyone do wcda" in what
    _, out, err = tool(rig, capsys, "groups", "describe", GROUP, "--state")
    assert "coordinators leave it alone" in err and f"{alone} lets world:anyone" in err
    _, out, _ = tool(rig, capsys, "groups", "describe", GROUP, "--json")
    (problem,) = [one for one in json.loads(out)["problems"] if alone in one]
    assert "coordinators leave it alone" in problem and "zkcoord acl apply" in problem
    assert "no coordinator serves it" in stored(rig).doubts[0]
    core = rig.procs[-1].driver.core
    (line,) = seen_groups(core, "", None, 10).groups
    assert line[:2] == (GROUP, "left alone") and alone in str(line[2])
    assert apply(rig) == 0
    assert (ALONE, GROUP) not in findings(rig, capsys)
    assert not stored(rig).doubts
    _, _, err = tool(rig, capsys, "groups", "describe", GROUP)
    assert "leave it alone" not in err


@BOTH
@TOLD
def test_nobody_waits_for_what_is_not_taken_up(
    rig: Rig, alone: str, told: bool, capsys: Capture
) -> None:
    member = next(iter(rig.zk.get_children(rig.layout.ids(GROUP))))
    for words in (
        ("rebalance", GROUP),
        ("evict", GROUP, member),
        ("evict", GROUP, member, "--execute"),
        ("pause", GROUP),
        ("pause", GROUP, "--execute"),
        ("resume", GROUP, "--execute"),
        ("mode", GROUP, "coordinated"),
    ):
        began = boot_ms()
        status, out, err = tool(rig, capsys, "groups", *words, told=told)
        assert (status, out, err.count("\n")) == (1, "", 1), (words, out, err)
        assert f"coordinators leave the group {GROUP} alone" in err and alone in err
        assert "zkcoord acl apply" in err and boot_ms() - began < 20_000
    assert rig.zk.exists(rig.layout.mode(GROUP)) is None


@BOTH
def test_where_roles_were_given_up_none_is_said_to_be(
    rig: Rig, alone: str, capsys: Capture
) -> None:
    """The coordinator that leads tells it, by its node's ACL; where none does, it cannot be told,
    and it is said what to do.
    """
    asks, leader = rig.layout.asks, rig.layout.leader
    assert asks not in findings(rig, capsys)[ALONE, GROUP], "they hold"
    with_roles = rig.procs[-1]
    assert isinstance(with_roles, Coordinator)
    with_roles.stop()
    advice = f"where coordinators have no roles any more, delete {asks}"
    assert advice in findings(rig, capsys)[ALONE, GROUP], "nobody leads"
    rig.zk.create(leader, b"", ephemeral=True, acl=OPEN)
    assert advice in findings(rig, capsys)[ALONE, GROUP], "it came without the epoch"
    rig.zk.delete(leader)
    rig.credentials["Coordinator"] = {"digest": digest("coord")}
    without = rig.coordinator("without")
    assert (ALONE, GROUP) not in findings(rig, capsys) and not stored(rig).doubts
    words = "groups", "rebalance", GROUP
    status, _, err = tool(rig, capsys, *words, told=False)
    assert status == 0, err
    for reads in (*OPEN_TO_READ, make_digest_acl("monitor", "pw", read=True)):
        rig.zk.set_acls(leader, [reads, *acl_of("rwcda")[:2]])
        status, _, err = tool(rig, capsys, *words, told=False)
        assert status == 1 and f"coordinators leave the group {GROUP} alone" in err
        assert advice in err and err.count("\n") == 1, (
            "one ACL for all nodes, or roles with readers"
        )
    without.stop()
    assert advice in findings(rig, capsys)[ALONE, GROUP]
    rig.zk.delete(asks)
    assert (ALONE, GROUP) not in findings(rig, capsys), "as it says"


@BOTH
@TOLD
def test_a_sound_group_is_not_said_to_be_left_alone(
    rig: Rig, app: KazooClient, told: bool, capsys: Capture
) -> None:
    """As an older version made it, and as `acl apply` leaves it; whoever asks."""
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    rig.coordinator()
    member = rig.member("m", "t")
    member.wait(lambda: len(member.fetching()) == 2, "that it is served")
    for mended in (False, True):
        if mended:
            assert apply(rig) == 0
        codes = {code for code, _ in findings(rig, capsys)}
        assert not codes & {ALONE, "client-led-left-alone"}, codes
        assert ("client-led-none-served" in codes) is not mended, "members may create above these"
        for user in ("coord", "viewer", "app"):
            who = ("--zookeeper-user", user, "--zookeeper-password", PASSWORDS[user])
            where = ("--zookeeper", rig.hosts, "--layout", rig.layout.name)
            assert main(["groups", "describe", GROUP, *where, *who]) in (0, 1)
            assert "leave it alone" not in capsys.readouterr().err
    status, _, err = tool(rig, capsys, "groups", "rebalance", GROUP, told=told)
    assert status == 0, err


@BOTH
@pytest.mark.parametrize("place", ["group", "state", "round"])
def test_so_is_one_that_clients_lead(rig: Rig, place: str, capsys: Capture) -> None:
    wide = led(rig, place)
    what = findings(rig, capsys, "--only", GROUP)["client-led-left-alone", GROUP]
    assert f"{wide} lets digest:app" in what
    assert "no coordinator serves it" in stored(rig).doubts[0]
    assert apply(rig) == 0
    assert not {code for code, _ in findings(rig, capsys) if code.startswith("client-led")}
    assert not stored(rig).doubts


@BOTH
def test_where_no_group_that_clients_lead_is_served_that_is_said(rig: Rig, capsys: Capture) -> None:
    wide = led(rig, "above")
    found = findings(rig, capsys)
    assert f"{wide} lets digest:app do c" in found["client-led-none-served", ""]
    assert wide in found["client-led-left-alone", GROUP]
    assert "client-led-none-served" not in {c for c, _ in findings(rig, capsys, "--only", GROUP)}
    assert "counts for nothing" in stored(rig).doubts[0] or "serves" in stored(rig).doubts[0]


class Served:
    """Client-led groups that a coordinator serves, by how many members they have."""

    def __init__(self, **members: int) -> None:
        self.names = sorted(members)
        self._members = members

    def group(self, name: str) -> object | None:
        """One of them."""
        return self._members.get(name)

    def summary(self, name: str) -> dict[str, object]:
        """In a line."""
        return {"group": name, "members": self._members[name], "problems": []}


def said(what: str, name: str) -> dict[str, object]:
    return {"kind": "malformed", "what": what, "name": name, "reason": f"why {name}"}


def test_what_a_coordinator_said_of_client_led_groups_is_among_them() -> None:
    told = LedTold()
    told.record(said("client-led group", "alone"))
    told.record(said("state of a group", "broken"))
    told.record(said("state of a group", "again"))
    told.record(said("registration", "m"))
    served: Any = Served(broken=0, again=0)
    told.record({"kind": "client-led rebalance", "group": "again"})
    lines = told.summaries(served, served.names, 10)
    assert [(one["group"], one["problems"]) for one in lines] == [
        ("again", []),
        ("broken", ["the state of a group counts for nothing: why broken"]),
        ("alone", ["why alone"]),
    ]
    assert len(told.summaries(served, served.names, 2)) == 2
    told.record({"kind": "term", "event": "resigned"})
    assert not any(one["problems"] for one in told.summaries(served, served.names, 10))
