"""Runs of the simulator, recorded: TLC follows them through docs/spec/Transactions.tla."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.sim.mixes import DEFAULT
from tests.sim.variants import VARIANTS
from tests.sim.world import World
from tests.spec.record import STRANGER, Recorder, recorded
from tests.spec.tlc import check

RUNS_AT_ONCE = 25
MIXES_COVERED = (
    DEFAULT,
    "coordinators",
    "members",
    "network",
    "ensemble",
    "failsafe",
    "static",
    "eager",
    "topics",
    "operators",
    "storm",
    "wide",
    "clocks",
    "full",
    "moments",
    "commits",
    "roles",
    "wire",
    "isolated",
)
"""Those whose events Transactions has: not the ones with old consumers (`mixed`), with groups whose
leader is a client (`led`, `change`), or with another source of topics (`sources`).
"""


@dataclass(frozen=True, slots=True)
class TracesChecked:
    """How many runs were looked at and how many events they had; `refused` says where TLC found no
    next step.
    """

    runs: int
    events: int
    refused: tuple[str, ...]


def record(seed: int, mix: str, variant: str = "") -> list[Recorder]:
    """One seed, as seen by each of its groups. `variant`: a weakened system's name."""
    weakened = VARIANTS[variant].applied() if variant else contextlib.nullcontext()
    with weakened:
        world = World(seed, mix=mix)
        recorders = [Recorder(world, group) for group in world.groups]
        world.run()
    return recorders


def portions(seeds: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many as TLC reads at once."""
    for begin in range(0, len(seeds), RUNS_AT_ONCE):
        yield seeds[begin : begin + RUNS_AT_ONCE]


def check_traces(mix: str, seeds: Sequence[int], variant: str = "") -> TracesChecked:
    """Record these seeds of a mix, and have TLC follow them."""
    runs = events = 0
    refused: list[str] = []
    for some in portions(seeds):
        recorders = [one for seed in some for one in record(seed, mix, variant)]
        names = [f"{mix} {seed}" for seed in some]
        runs += len(some)
        events += sum(len(one.events) for one in recorders)
        found = _follow(recorders)
        if found:
            refused.append(f"{names[0]} to {names[-1]}: {found}")
    return TracesChecked(runs, events, tuple(refused))


def _follow(recorders: Sequence[Recorder]) -> str:
    """What TLC refuses of these; "": nothing."""
    members = sorted({f'"{name}"' for one in recorders for name in (*one.names, "gone")})
    partitions = sorted(
        {f'"{tp.topic}-{tp.partition}"' for one in recorders for tp in one.partitions}
    )
    configuration = (
        "SPECIFICATION Spec\nCONSTANTS\n    None = None\n"
        f"    Members = {{{', '.join(members)}}}\n"
        f"    Partitions = {{{', '.join(partitions)}}}\n"
    )
    assert f'"{STRANGER}"' not in members
    said = check(
        "Traces", configuration, deadlocks=True, beside={"Recorded.tla": recorded(recorders)}
    )
    if said.failure:
        return said.failure
    if not said.broken:
        return ""
    last = re.findall(r"/\\ run = (\d+)", said.text), re.findall(r"/\\ at = (\d+)", said.text)
    run, at = int(last[0][-1]), int(last[1][-1])
    one = recorders[run - 1]
    before = "; ".join(one.events[max(0, at - 4) : at - 1])
    return f"seed {one.world.seed} {one.group}, event {at}: {one.events[at - 1]} after {before}"
