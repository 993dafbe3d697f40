"""One run of one seed: servers, processes, the schedule, rest, the end, the judgement."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import BROKEN_OFF
from tests.chaos.checker import Found, check
from tests.chaos.disks import why_none
from tests.chaos.nemesis import Nemesis
from tests.chaos.rig import LEASE_MAX_MS, REBALANCE_TIMEOUT_MS, TOPICS, Rig, Shape
from tests.chaos.schedule import (
    CLOCKS,
    COORDINATORS,
    DISKS,
    GAP_MS,
    SERVERS_CLOCKS,
    SESSION_MS,
    SOAK_GAP_MS,
    Kind,
    drawn,
    shown,
)
from zkcoord.stack.java import Java

BOUND_MS = 2 * SESSION_MS + REBALANCE_TIMEOUT_MS + LEASE_MAX_MS + 5_000
PATIENCE = 3


@dataclass
class Outcome:
    """What a run showed. `recovered_ms`: from the end of the last fault until records of every
    partition had been handed out (0: never).
    """

    seed: int
    found: Found
    recovered_ms: float
    faults: int

    @property
    def text(self) -> str:
        """One line."""
        f = self.found
        wrong = ", ".join(f"{amount} {name}" for name, amount in f.amounts.items()) or "clean"
        return (
            f"seed {self.seed}: {wrong}; {self.faults} faults, {f.terms} terms, {f.produced}"
            f" produced, {f.delivered} handed out ({f.excused} again after crashes), all fetched"
            f" {self.recovered_ms:.0f} ms after the last fault"
        )


def play(
    seed: int,
    seconds: float,
    folder: Path,
    java: Java,
    say: Callable[[str], None],
    shape: Shape = Shape(),
    weakened: str = "",
    kinds: Sequence[Kind] = tuple(Kind),
    gap_ms: tuple[int, int] = GAP_MS,
) -> Outcome:
    """Run a seed in `folder`, which keeps everything."""
    schedule = drawn(
        seed,
        seconds,
        shape.consumers,
        [kind for kind in kinds if not (weakened and kind in CLOCKS)],
        gap_ms,
    )
    met = {happening.kind for happening in schedule}
    with Rig(
        folder,
        java,
        shape,
        weakened,
        disks=bool(met & {*DISKS}) and not why_none(),
        clocks=bool(met & {*SERVERS_CLOCKS}),
    ) as rig:
        rig.keep(
            "schedule.json",
            {"seed": seed, "seconds": seconds, "weakened": weakened, "schedule": shown(schedule)},
        )
        say(
            f"seed {seed}, {seconds:.0f} s, {len(schedule)} faults; again with: python -m"
            f" tests.chaos {again(seed, seconds, weakened, kinds, gap_ms)}"
        )
        wrong: list[tuple[str, str]] = []
        recovered_ms = 0.0
        nemesis = Nemesis(rig, say)
        try:
            rig.start()
            nemesis.play(schedule)
            recovered_ms = recover(rig)
            if recovered_ms > BOUND_MS:
                wrong.append(
                    (
                        "I8",
                        (
                            f"every partition was fetched again {recovered_ms:.0f} ms after the"
                            f" last fault, the bound is {BOUND_MS}"
                        ),
                    )
                )
            wrong += [("end", text) for text in finish(rig)]
        except BROKEN_OFF as error:
            wrong.append(("scenario", str(error)))
    found = concluded(
        check(folder, clocks_jump=bool(met & {*CLOCKS}), disk_full=Kind.JOURNALS_DISK_FULL in met),
        wrong,
    )
    rig.keep("outcome.json", {"seed": seed, "recovered_ms": recovered_ms, **vars(found)})
    return Outcome(seed, found, recovered_ms, len(schedule) - nemesis.left_out)


def again(
    seed: int, seconds: float, weakened: str, kinds: Sequence[Kind], gap_ms: tuple[int, int]
) -> str:
    """The options that give the same schedule."""
    words = [
        f"--seed {seed}",
        f"--soak {seconds / 60:g}" if gap_ms == SOAK_GAP_MS else f"--seconds {seconds:g}",
    ]
    words += [f"--weakened {weakened}"] if weakened else []
    words += [f"--kind {kind.name}" for kind in kinds] if {*kinds} != {*Kind} else []
    return " ".join(words)


def concluded(found: Found, wrong: Sequence[tuple[str, str]]) -> Found:
    """With what went wrong by (name, sentence), which is said first. Where a run was broken off,
    records that nobody was handed yet are no finding.
    """
    if any(name == "scenario" for name, _ in wrong):
        found.forget("unseen")
    for name, text in reversed(wrong):
        found.add(name, 1, text, first=True)
    return found


def recover(rig: Rig) -> float:
    """Wait until everything is fetched, however long that takes (in reason); in ms since now, which
    is after the last fault.
    """
    rig.wait_serving()
    healed_ns = time.time_ns()
    rig.wait(
        lambda: rig.fetched_since(healed_ns),
        "records of every partition after the last fault",
        BOUND_MS / 1000 * PATIENCE,
    )
    with rig.children.lock:
        return (
            max(min(rig.seen.handed_out_ns[at] for at in rig.partitions), healed_ns) - healed_ns
        ) / 1e6


def finish(rig: Rig) -> list[str]:
    """Stop producing, let everything be consumed, end all cleanly; sentences on what did not."""
    for group in TOPICS:
        rig.leave(f"producer-{group}")
    wrong = rig.await_left()
    rig.wait(rig.seen.caught_up, "every record to be handed out")
    rig.wait(lambda: all(map(rig.runs, rig.running)), "every process to do its work")
    for slot in [slot for slot in rig.running if slot not in COORDINATORS]:
        rig.leave(slot)
    wrong += rig.await_left()
    rig.write_stored()
    for slot in list(rig.running):
        rig.leave(slot)
    return wrong + rig.await_left()
