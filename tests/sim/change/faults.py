"""What an operator says of who runs a group, at any moment: once, twice in a row, and taken back
before it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind
from zkcoord.znodes.classic.pin import Machine

if TYPE_CHECKING:
    from tests.sim.change.wires import ChangeWires
    from tests.sim.world import World


def _wires(world: World) -> ChangeWires:
    from tests.sim.change.wires import ChangeWires

    assert isinstance(world.wires, ChangeWires)
    return world.wires


def _other(word: Machine | None) -> Machine:
    return Machine.COORDINATED if word is Machine.CLIENT_LED else Machine.CLIENT_LED


def _pin(world: World) -> str | None:
    """To the other kind."""
    wires, group = _wires(world), world.kernel.rng.choice(world.groups)
    word = _other(wires.pinned(group))
    wires.pin(group, word)
    return f"{group} {word.value}"


def _pin_twice(world: World) -> str | None:
    """And back within moments."""
    return _pinned_for(world, 200)


def _pin_back(world: World) -> str | None:
    """And back while it goes on."""
    return _pinned_for(world, 4_000)


def _pinned_for(world: World, longest_ms: int) -> str:
    wires, group = _wires(world), world.kernel.rng.choice(world.groups)
    before = wires.pinned(group)
    word = _other(before)
    wires.pin(group, word)
    after = before if world.kernel.chance(0.5) else _other(word)
    duration = world.kernel.between(0, longest_ms)
    world.later(duration, lambda: wires.pin(group, after))
    return f"{group} {word.value}, and after {duration} ms {after}"


def _unpin(world: World) -> str | None:
    wires, group = _wires(world), world.kernel.rng.choice(world.groups)
    if wires.pinned(group) is None:
        return None
    wires.pin(group, None)
    return group


CHANGE_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("pin_group", _pin),
    FaultKind("pin_twice", _pin_twice),
    FaultKind("pin_back", _pin_back),
    FaultKind("unpin_group", _unpin),
)
