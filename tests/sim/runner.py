"""Running many seeds in several processes, and adding up what they did."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.sim import coverage, replay
from tests.sim.change.same import same_run
from tests.sim.invariants import Violation
from tests.sim.led.world import MIX as LED
from tests.sim.led.world import LedWorld
from tests.sim.mixes import CHANGE, DEFAULT, FIRED_PER_THOUSAND, MIXES
from tests.sim.variants import VARIANTS
from tests.sim.world import Result, World

FLOORED_SEEDS_MIN = 200  # floors are judged in runs of so many seeds and more
REPLAYED_EVERY = 8  # one seed in so many has its journals replayed (I12), unless all are asked for


def run_seed(
    seed: int, variant: str = "", tracing: bool = False, mix: str = DEFAULT, replaying: bool = False
) -> Result:
    """Run one seed of a mix in this process; `replaying`: and its journals again, whichever seed it
    is.
    """
    weakened = VARIANTS[variant].applied() if variant else contextlib.nullcontext()
    same = same_run(seed) if mix == CHANGE else contextlib.nullcontext()
    with weakened, same:
        if mix == LED:
            return LedWorld(seed, tracing).run()
        if seed % REPLAYED_EVERY and not replaying:
            return World(seed, tracing, mix=mix).run()
        with replay.recording() as journals:
            result = World(seed, tracing, mix=mix).run()
        result.replayed = replay.replayed(journals)
        result.violations += [
            Violation(result.time_ms, "I12", what)
            for what in result.replayed.differences[: replay.DIFFERENCES_MAX]
        ]
        return result


@dataclass(slots=True)
class Totals:
    """What all seeds of one mix did together."""

    mix: str = DEFAULT
    seeds: int = 0
    steps: list[int] = field(default_factory=list)
    seed_ms: list[int] = field(default_factory=list)
    simulated_ms: int = 0
    transactions: int = 0
    commands: int = 0
    evictions: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    covered: Counter[str] = field(default_factory=Counter)
    violations: dict[int, list[str]] = field(default_factory=dict)
    replayed: replay.Replayed = field(default_factory=replay.Replayed)
    replayed_seeds: int = 0
    replayed_alike: int = 0

    def add(self, result: Result, took_ms: int, covered: Counter[str]) -> None:
        """Count one seed."""
        self.seeds += 1
        self.steps.append(result.steps)
        self.seed_ms.append(took_ms)
        self.simulated_ms += result.time_ms
        self.transactions += result.transactions
        self.commands += result.commands
        self.evictions += result.evictions
        self.faults.update(result.faults)
        self.happened.update(result.happened)
        self.covered.update(covered)
        if result.violations:
            self.violations[result.seed] = [str(v) for v in result.violations]
        if result.replayed is not None:
            self.replayed_seeds += 1
            self.replayed_alike += not result.replayed.differences
            self.replayed.add(result.replayed)

    def reached(self, what: str) -> int:
        """How often something that a floor may name has happened."""
        if what.endswith(" rows"):
            return sum(
                1 for row in coverage.tables()[what.removesuffix(" rows")] if self.covered[row]
            )
        return {"commands": self.commands, "evictions": self.evictions}.get(what, 0) or self.faults[
            what
        ] + self.happened[what]

    def floors(self) -> dict[str, int]:
        """What a run of so many seeds must have reached; nothing where the seeds are too few to
        say.
        """
        if self.seeds < FLOORED_SEEDS_MIN:
            return {}
        mix = MIXES[self.mix]
        per_thousand = {**dict.fromkeys(mix.faults, FIRED_PER_THOUSAND), **mix.floors}
        return {
            what: floor if what.endswith(" rows") else floor * self.seeds // 1000
            for what, floor in per_thousand.items()
        }

    def missed(self) -> list[str]:
        """The floors that were missed, as sentences."""
        return [
            f"{what}: {self.reached(what)}, at least {floor} expected"
            for what, floor in self.floors().items()
            if self.reached(what) < floor
        ]


def work(job: tuple[str, int, str, bool]) -> tuple[Result, int, Counter[str]]:
    """One seed in a worker: what it did, how many ms of processor time it took, and which
    transitions.
    """
    mix, seed, variant, replaying = job
    coverage.reset()
    began = time.process_time()
    result = run_seed(seed, variant, mix=mix, replaying=replaying)
    return result, int((time.process_time() - began) * 1000), coverage.taken()


def run_many(
    seeds: list[int], variant: str, jobs: int, mix: str = DEFAULT, replaying: bool = False
) -> Iterator[tuple[Result, int, Counter[str]]]:
    """Run seeds of a mix in `jobs` processes; results come as they are ready."""
    jobs_to_do = [(mix, seed, variant, replaying) for seed in seeds]
    if jobs == 1:
        yield from map(work, jobs_to_do)
        return
    # Ctrl-C is for the parent, which ends them
    with multiprocessing.get_context("spawn").Pool(
        jobs, signal.signal, (signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        yield from pool.imap_unordered(work, jobs_to_do, chunksize=8)


def digest(seed: int, mix: str = DEFAULT) -> str:
    """A hash of everything that a seed does."""
    result = run_seed(seed, tracing=True, mix=mix)
    return hashlib.sha256("\n".join(result.lines).encode()).hexdigest()[:16]
