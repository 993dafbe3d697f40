"""Whole groups: beside clients that lead nobody is assigned."""

from __future__ import annotations

import pytest

from tests.core.classic.scenario import OPTIONS
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.shared import KEEPER
from zkcoord.zk.mirror.full_read import FullRead
from zkcoord.zk.mirror.group_draft import GroupRead
from zkcoord.zk.mirror.pending_reads import SizeLimits
from zkcoord.zk.port import READS_PER_REQUEST_MAX, Create
from zkcoord.znodes.classic.documents import encode_state
from zkcoord.znodes.paths import Layout

CLIENT = ClassicMember("m", None, "c", "h", 30_000, 30_000, (("own", b""),))
LED = encode_state(ClassicState(ClassicPhase.STABLE, 7, "connect", "own", "m", (CLIENT,)))
EMPTY = encode_state(ClassicState(ClassicPhase.EMPTY, 7, "connect"))


def read(said: bytes, registered: str, may_be_led: bool) -> GroupRead:
    """A group with this state and registration."""
    side, layout = ServedSide(OPTIONS), Layout.DRAFT
    side.write([Create(path, b"") for path in (layout.group(GROUP), layout.ids(GROUP))])
    side.write([Create(PATHS.group(GROUP), b""), Create(PATHS.state(GROUP), said)])
    if registered:
        side.write([Create(layout.registration(GROUP, registered), b"", ephemeral=True)])
    found: dict[str, GroupRead] = {}
    FullRead(
        side.coordinator,
        layout,
        [GROUP],
        SizeLimits(),
        READS_PER_REQUEST_MAX,
        found.update,
        may_be_led=lambda group: may_be_led,
    ).begin()
    side.settle()
    return found[GROUP]


def test_a_group_with_members_of_both_kinds_is_left_alone() -> None:
    bad = read(LED, "old", True).left_alone
    assert bad is not None and "one of its 1 clients leads it" in bad.reason


@pytest.mark.parametrize(
    ("said", "registered", "may_be_led"),
    [(LED, "", True), (LED, KEEPER, True), (EMPTY, "old", True), (LED, "old", False)],
    ids=["nobody", "no-member", "no-client", "not-believed"],
)
def test_any_other_is_not(said: bytes, registered: str, may_be_led: bool) -> None:
    assert read(said, registered, may_be_led).left_alone is None
