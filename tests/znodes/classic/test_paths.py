"""Where everything of groups whose leader is a client is, and what a path is."""

from __future__ import annotations

import hashlib

import pytest

from zkcoord.znodes import names
from zkcoord.znodes.classic.paths import (
    ClassicBlobAt,
    ClassicParentAt,
    ClassicPaths,
    ClassicPinAt,
    ClassicPresenceAt,
    ClassicRequestAt,
    ClassicRoundAt,
    ClassicStateAt,
    ClassicWhere,
    is_member_digest,
    is_request,
    lane_of,
    member_digest,
    request_name,
)
from zkcoord.znodes.paths import LAYOUTS, Layout

ROOT = "/consumers/groups/coordinator/classic"
PATHS = ClassicPaths(Layout.DRAFT)
NAME = "0123456789abcdef" * 2
MEMBER = "connect-1-4f1c"
DIGEST = "57c42a104a1909c83b7e6f04dfc8de0e"


def test_where_things_are() -> None:
    assert PATHS.root == ROOT
    assert PATHS.requests == f"{ROOT}/requests"
    assert PATHS.groups == f"{ROOT}/groups"
    assert PATHS.request(NAME) == f"{ROOT}/requests/{NAME}"
    assert PATHS.part(NAME, 2) == f"{ROOT}/requests/{NAME}.2"
    assert PATHS.pins == f"{ROOT}/pins"
    assert PATHS.pin("g") == f"{ROOT}/pins/g"
    assert PATHS.group("g") == f"{ROOT}/groups/g"
    assert PATHS.state("g") == f"{ROOT}/groups/g/state"
    assert PATHS.round("g") == f"{ROOT}/groups/g/round"
    assert PATHS.blobs("g") == f"{ROOT}/groups/g/blobs"
    assert PATHS.blob("g", "d") == f"{ROOT}/groups/g/blobs/d"
    assert PATHS.presences("g") == f"{ROOT}/groups/g/presence"
    assert PATHS.presence("g", MEMBER) == f"{ROOT}/groups/g/presence/{DIGEST}"


def test_what_is_made_is_made_from_the_top_down() -> None:
    assert PATHS.roots() == (
        "/consumers/groups/coordinator",
        ROOT,
        f"{ROOT}/requests",
        f"{ROOT}/pins",
        f"{ROOT}/groups",
    )
    assert PATHS.parts("g") == (
        f"{ROOT}/groups/g",
        f"{ROOT}/groups/g/blobs",
        f"{ROOT}/groups/g/presence",
        f"{ROOT}/groups/g/round",
    )


def test_no_group_can_be_where_these_are() -> None:
    assert not names.is_group("coordinator")


@pytest.mark.parametrize("layout", [*LAYOUTS.values()], ids=[*LAYOUTS])
@pytest.mark.parametrize("group", ["g", "a b", "\u00fcber", "state", "requests"])
def test_what_is_looked_at_when_it_changes(layout: Layout, group: str) -> None:
    paths = ClassicPaths(layout)
    found: dict[str, ClassicWhere] = {
        paths.request(NAME): ClassicRequestAt(NAME),
        paths.pin(group): ClassicPinAt(group),
        paths.state(group): ClassicStateAt(group),
        paths.blobs(group): ClassicParentAt(group),
        paths.presences(group): ClassicParentAt(group),
        paths.blob(group, DIGEST): ClassicBlobAt(group, DIGEST),
        paths.round(group): ClassicRoundAt(group),
        paths.presence(group, MEMBER): ClassicPresenceAt(group, DIGEST),
    }
    for path, where in found.items():
        assert paths.locate(path) == where


@pytest.mark.parametrize(
    "path",
    [
        "/",
        ROOT,
        *PATHS.roots(),
        PATHS.group("g"),
        PATHS.part(NAME, 1),
        f"{ROOT}/groups/g/blobs/{DIGEST}/more",
        f"{ROOT}/requests/",
        f"{ROOT}/requests/{NAME}/more",
        f"{ROOT}/requests/{NAME[:-1]}",
        f"{ROOT}/requests/{NAME[:-1]}G",
        f"{ROOT}/requests-{NAME}",
        f"{ROOT}/other/{NAME}",
        f"{ROOT}/pins-g",
        f"{ROOT}/pins/",
        f"{ROOT}/pins/coordinator",
        f"{ROOT}/pins/g/more",
        f"{ROOT}/groups-g/state",
        f"{ROOT}/groups/coordinator/state",
        f"{ROOT}/groups//state",
        f"{ROOT}/groups/g/state/more",
        f"{ROOT}/groups/g/round/more",
        f"{ROOT}/groups/g/presence/{DIGEST[:-1]}",
        f"{ROOT}/groups/g/presence/{DIGEST}/more",
        f"{ROOT}/groups/g/other/{DIGEST}",
        f"/consumers/groups/g/coordinator/classic/requests/{NAME}",
        PATHS.state("g").replace("/consumers", "/others"),
    ],
)
def test_what_nobody_looks_at(path: str) -> None:
    assert PATHS.locate(path) is None


def test_requests_have_names_of_their_own() -> None:
    first, second = request_name("g"), request_name("g")
    assert first != second
    assert is_request(first) and is_request(second)
    assert not is_request(f"{first}.1") and not is_request(first.upper()) and not is_request("")


def test_a_request_begins_with_the_digits_of_its_group() -> None:
    """As docs/protocol.md has it: a coordinator and gateways of other releases agree on them."""
    digits = hashlib.sha256("b\u00fclling".encode()).hexdigest()[:8]
    assert {lane_of(request_name("b\u00fclling")) for _ in range(3)} == {digits}
    assert lane_of(request_name("b\u00fclling", "f" * 32)) == digits
    assert request_name("g", "f" * 32).endswith("f" * 24)
    assert lane_of(request_name("other")) != digits


def test_members_have_digests() -> None:
    assert member_digest(MEMBER) == DIGEST
    for member_id in ("", "a/b", "\ud800", "\u00fc", "x" * 1_000):
        assert is_member_digest(member_digest(member_id))
    assert not is_member_digest(MEMBER) and not is_member_digest(f"{DIGEST}0")
