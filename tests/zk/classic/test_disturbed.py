"""Nodes of a client-led group that somebody else has deleted, changed or added: the group goes on,
without another coordinator.
"""

from __future__ import annotations

import json

import pytest

from tests.core.classic.scenario import OPTIONS, Play, Scenario
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.zk.classic import served_group
from zkcoord.zk.port import Create, Delete, SetData
from zkcoord.znodes.classic.paths import member_digest

LONG_MS = 100_000
ALL = {
    "state": PATHS.state(GROUP),
    "round": PATHS.round(GROUP),
    "blobs": PATHS.blobs(GROUP),
    "presence": PATHS.presences(GROUP),
    "group": PATHS.group(GROUP),
    "all-groups": PATHS.groups,
}


def lines(*texts: str) -> Scenario:
    """Of a scenario that stands in a test."""
    return Scenario("lines", tuple(enumerate(texts, 1)))


def stable(*options: str) -> tuple[ServedSide, Play]:
    """A group with two members."""
    side = ServedSide(OPTIONS)
    player = Play(side)
    player.run(lines(" ".join(["group a b", *options])))
    return side, player


def delete(side: ServedSide, path: str) -> None:
    """With all that is below."""
    nodes = [one for one in side.zk.tree.nodes if one == path or one.startswith(f"{path}/")]
    for node in sorted(nodes, key=len, reverse=True):
        side.write([Delete(node)])


def forms_again(side: ServedSide, player: Play) -> None:
    """Clients that come anew are a group once the former members are out by their timeouts."""
    side.wait(LONG_MS)
    for client in ("c", "d"):
        # the first may be refused once, while what is missing is made
        player.run(lines(f"{client} enter p=own:{client} -> waits"))
        side.wait(LONG_MS)
    assert side.data(PATHS.state(GROUP)) is not None
    assert all(side.data(path) is not None for path in PATHS.parts(GROUP))
    assert not side.failures
    assert len([one for one in side.records if "refused" in one.detail]) <= 1


@pytest.mark.parametrize("what", ALL)
@pytest.mark.parametrize("restarted", [False, True], ids=["same", "another"])
def test_what_was_deleted_is_made_again(what: str, restarted: bool) -> None:
    side, player = stable()
    delete(side, ALL[what])
    if restarted:
        side.restart()
    forms_again(side, player)


AGAIN = (
    "a join p=own:data -> waits",
    "b join p=own:data -> 0",
    "a gets 0 led=a meta=a:data,b:data",
    "a sync give=a:x,b:y -> 0 got=x",
    "b sync -> 0 got=y",
)


@pytest.mark.parametrize("what", ["blobs", "group"])
def test_a_rebalance_that_is_under_way_goes_on(what: str) -> None:
    side, player = stable("p=own:data")
    player.run(lines("a join p=own:more -> waits"))
    delete(side, ALL[what])
    player.run(lines(*AGAIN))
    assert not side.failures


@pytest.mark.parametrize("what", ["blobs", "group"])
def test_what_the_leader_assigns_to_who_has_brought_what_is_gone(what: str) -> None:
    """All join again."""
    side = ServedSide(OPTIONS)
    player = Play(side)
    player.run(lines("joined a b p=own:data"))
    delete(side, ALL[what])
    player.run(lines("a sync give=a:x,b:y -> 15", *AGAIN))
    assert not side.failures


def test_bytes_that_were_changed_are_brought_again() -> None:
    side, player = stable("p=own:data")
    blobs = [path for path in side.zk.tree.nodes if path.startswith(f"{PATHS.blobs(GROUP)}/")]
    before = {path: side.data(path) for path in blobs}
    assert before
    side.write([SetData(path, b"junk", -1) for path in blobs])
    assert not any(side.data(path) for path in blobs), "nobody reads these"
    player.run(lines(*AGAIN))


def test_a_group_is_deleted_of_which_something_is_gone() -> None:
    side, player = stable()
    player.run(lines("a leave -> 0 0", "b leave -> 0 0"))
    delete(side, PATHS.state(GROUP))
    player.run(lines("delete -> 0"))
    assert side.data(PATHS.group(GROUP)) is None


def test_a_generation_after_which_there_is_none_is_none_that_was_decided() -> None:
    """Clients are told it in 32 bits."""
    side, player = stable()
    state = json.loads(side.data(PATHS.state(GROUP)) or b"")
    data = json.dumps(state | {"generation": 2**31 - 1}).encode()
    side.write([SetData(PATHS.state(GROUP), data, -1)])
    side.restart()
    player.run(lines("a join -> 25", "b leave -> 0 25"))
    forms_again(side, player)
    assert side.view().state.generation < 10_000


def test_an_instance_that_two_members_have_is_none_that_was_decided() -> None:
    """Whoever takes one of them away would not find the other any more."""
    side, player = stable()
    state = json.loads(side.data(PATHS.state(GROUP)) or b"")
    for member in state["members"]:
        member["instance"] = "same"
    side.write([SetData(PATHS.state(GROUP), json.dumps(state).encode(), -1)])
    side.restart()
    player.run(lines("a leave -> 0 25", "b leave -> 0 25"))
    forms_again(side, player)
    said = [one.detail for one in side.records if one.kind == "malformed"]
    assert [one["name"] for one in said] == [GROUP]


@pytest.mark.parametrize("restarted", [False, True], ids=["same", "another"])
def test_members_are_served_however_many_are_said_to_be(
    monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    """Nobody is out by its session timeout whose gateway says that it is there."""
    monkeypatch.setattr(served_group, "PRESENCES_MAX", 5)
    side, player = stable()
    members = [one.member_id for one in side.view().state.members]
    nobody = [f"{PATHS.presences(GROUP)}/{n:032x}" for n in range(20)]
    side.write([Create(path, b"", ephemeral=True) for path in nobody])
    side.write([Create(PATHS.presence(GROUP, one), b"", ephemeral=True) for one in members])
    assert all(member_digest(one) > f"{20:032x}" for one in members)
    if restarted:
        side.restart()
    side.wait(10 * LONG_MS)
    view = side.view()
    assert view.phase is ClassicPhase.STABLE and len(view.state.members) == 2
