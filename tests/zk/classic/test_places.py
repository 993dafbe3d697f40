"""GroupPlaces for client-led groups: nobody keeps all others out."""

from __future__ import annotations

import pytest

from tests.core.classic.scenario import OPTIONS
from tests.zk.classic.served_side import PATHS, ServedSide
from zkcoord.core.classic.requests import ClassicJoin
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed
from zkcoord.zk.classic import places
from zkcoord.zk.classic.places import GroupPlaces
from zkcoord.zk.port import Create
from zkcoord.znodes.classic.documents import ClassicAsk, decode_answer, encode_ask
from zkcoord.znodes.classic.paths import request_name


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> GroupPlaces:
    monkeypatch.setattr(places, "GROUPS_MAX", 4)
    monkeypatch.setattr(places, "GROUPS_OF_HOST_MAX", 2)
    return GroupPlaces()


def test_there_is_room_until_all_places_are_taken(few: GroupPlaces) -> None:
    for number in range(4):
        assert few.room_for(f"host {number}") and few.give_up(f"host {number}") == ""
        few.take(f"group {number}", f"host {number}")
        few.has_members(f"group {number}", True)
    assert not few.room_for("host 9") and few.give_up("host 9") == ""
    few.free("group 2")
    assert few.room_for("host 9") and len(few) == 3


def test_who_has_had_no_members_for_longest_leaves(few: GroupPlaces) -> None:
    for group in ("a", "b", "c", "d"):
        few.take(group, group)
        few.has_members(group, False)
    few.has_members("a", True)
    few.has_members("b", False)  # as it was
    few.has_members("a", False)
    assert few.room_for("e")
    assert [few.give_up("e") for _ in range(5)] == ["b", "c", "d", "a", ""]
    assert not few.room_for("e")


def test_a_host_has_its_share(few: GroupPlaces) -> None:
    few.take("a", "host")
    few.take("a", "host")  # once
    assert few.room_for("host")
    few.take("b", "host")
    assert not few.room_for("host") and few.room_for("other")
    few.take("c", "other")
    few.has_members("c", False)
    assert not few.room_for("host")  # nobody else's place is its
    few.has_members("b", False)
    assert few.room_for("host") and few.give_up("host") == "b"
    few.free("b")
    few.free("b")
    assert few.room_for("host") and few.give_up("host") == ""


def test_those_of_whom_nobody_says_where_they_are_share_no_limit(few: GroupPlaces) -> None:
    for group in ("a", "b", "c", "d"):
        assert few.room_for("")
        few.take(group, "")
    assert not few.room_for("")


def join(side: ServedSide, group: str, host: str) -> str:
    """A client joins a group; its request."""
    ask = ClassicJoin(
        "",
        f"m-{group}",
        "consumer",
        (("own", b"x"),),
        30_000,
        10_000,
        None,
        False,
        client_id="c",
        host=host,
    )
    name = request_name(group)
    side.write([Create(PATHS.request(name), encode_ask(ClassicAsk(group, ask))[0], ephemeral=True)])
    return name


def answer(side: ServedSide, name: str) -> WireCode | None:
    """What it was answered; None: it waits."""
    node = side.zk.tree.nodes[PATHS.request(name)]
    found = decode_answer(name, node.data) if node.version else None
    assert not isinstance(found, Malformed)
    return None if found is None else found.code


def test_one_more_takes_the_place_of_one_without_members(few: GroupPlaces) -> None:
    side = ServedSide(OPTIONS)
    assert side.groups is not None
    for number in range(4):
        join(side, f"g{number}", f"host {number}")
    side.wait(3 * OPTIONS.initial_delay_ms)
    late = join(side, "late", "host")
    assert answer(side, late) is WireCode.GROUP_MAX_SIZE_REACHED
    side.wait(11_000)  # nobody serves the first ones: they are out
    side.wait(31_000)
    late = join(side, "late", "host")
    side.wait(3 * OPTIONS.initial_delay_ms)
    assert answer(side, late) is WireCode.NONE
    assert "late" in side.groups.names and len(side.groups.names) == 4
    assert PATHS.state("g0") not in side.zk.tree.nodes
    side.restart()
    assert side.groups.names == ["g1", "g2", "g3", "late"]
    assert not side.failures
