"""A member that the coordinator assigns registers while a group's first clients join, and the
coordinator has not heard of it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.core.classic.scenario import OPTIONS, Play, Scenario
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.shared import KEEPER
from zkcoord.zk.classic.edge import LOOKED_AT_ONCE
from zkcoord.zk.port import Create, Delete, Read, ReadResult
from zkcoord.znodes.paths import Layout

IDS = Layout.DRAFT.ids(GROUP)


def side_with(name: str) -> tuple[ServedSide, Play]:
    side = ServedSide(OPTIONS)
    side.write([Create(path, b"") for path in (Layout.DRAFT.group(GROUP), IDS)])
    side.write([Create(f"{IDS}/{name}", b"", ephemeral=True)])
    return side, Play(side)


def lines(*texts: str) -> Scenario:
    return Scenario("lines", tuple(enumerate(texts, 1)))


def test_a_first_generation_beside_a_registration_is_taken_back() -> None:
    side, player = side_with("shim")
    player.run(lines("a enter p=own:m -> waits", "wait first", "a gets 23"))
    view = side.view()
    assert not view.state.members and view.phase is ClassicPhase.EMPTY
    first = view.state.generation
    assert [one.kind for one in side.records].count("client-led refusal") == 1
    side.write([Delete(f"{IDS}/shim")])
    player.run(lines("b enter -> waits"))
    side.wait(OPTIONS.initial_delay_ms + 60_000)
    assert side.view().state.generation > first, "no generation is given twice"
    assert not side.failures


def test_who_can_be_assigned_beside_it_tries_again() -> None:
    side, player = side_with("shim")
    player.run(lines("a enter -> waits", "wait first", "a gets 14"))
    assert not side.view().state.members
    assert "client-led refusal" not in [one.kind for one in side.records]


@pytest.mark.parametrize("name", [KEEPER, "x" * 1_000])
def test_what_is_nobody_stands_in_no_ones_way(name: str) -> None:
    side, player = side_with(name)
    player.run(lines("group a"))
    assert side.view().phase is ClassicPhase.STABLE


def test_what_stays_without_its_maker_is_nobody() -> None:
    """A member can make it, and would keep clients from leading for ever."""
    side = ServedSide(OPTIONS)
    side.write([Create(path, b"") for path in (Layout.DRAFT.group(GROUP), IDS)])
    side.write([Create(f"{IDS}/junk-{number}", b"x") for number in range(3)])
    player = Play(side)
    player.run(lines("group a"))
    assert side.view().phase is ClassicPhase.STABLE


def test_one_of_many_whom_a_session_keeps_is_somebody() -> None:
    side = ServedSide(OPTIONS)
    side.write([Create(path, b"") for path in (Layout.DRAFT.group(GROUP), IDS)])
    side.write([Create(f"{IDS}/junk-{number}", b"x") for number in range(3)])
    side.write([Create(f"{IDS}/shim", b"", ephemeral=True)])
    Play(side).run(lines("a enter p=own:m -> waits", "wait first", "a gets 23"))
    assert not side.view().state.members


def test_later_generations_are_not_looked_at() -> None:
    side = ServedSide(OPTIONS)
    player = Play(side)
    player.run(lines("group a"))
    side.write([Create(path, b"") for path in (Layout.DRAFT.group(GROUP), IDS)])
    side.write([Create(f"{IDS}/shim", b"", ephemeral=True)])
    player.run(lines("a join meta=other -> 0"))
    assert side.view().state.generation == 2
    assert side.data(PATHS.state(GROUP)) is not None


def test_registrations_are_looked_at_a_few_at_a_time() -> None:
    """Each may be as long as a node can be, and an answer that is too large ends the connection."""
    side = ServedSide(OPTIONS)
    side.write([Create(path, b"") for path in (Layout.DRAFT.group(GROUP), IDS)])
    side.write([Create(f"{IDS}/junk-{number}", b"x") for number in range(3 * LOOKED_AT_ONCE)])
    asked: list[int] = []
    read = side.coordinator.read

    def noted(reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        asked.append(sum(one.path.startswith(f"{IDS}/") for one in reads))
        read(reads, done)

    side.coordinator.read = noted  # type: ignore[method-assign]
    Play(side).run(lines("group a"))
    assert side.view().phase is ClassicPhase.STABLE
    assert max(asked) == LOOKED_AT_ONCE and sum(asked) == 3 * LOOKED_AT_ONCE
