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
from tests.sim.invariants import Violation
from tests.sim.variants import VARIANTS
from tests.sim.world import Result, World


REPLAYED_EVERY = 8  # one seed in so many has its journals replayed (I12)


def run_seed(seed: int, variant: str = "", tracing: bool = False) -> Result:
    """Run one seed in this process."""
    with VARIANTS[variant].applied() if variant else contextlib.nullcontext():
        if seed % REPLAYED_EVERY:
            return World(seed, tracing).run()
        with replay.recording() as journals:
            result = World(seed, tracing).run()
        result.violations += [Violation(result.time_ms, "I12", what) for what in replay.differences(journals)]
        return result


@dataclass(slots=True)
class Totals:
    """What all seeds did together."""

    seeds: int = 0
    steps: list[int] = field(default_factory=list)
    seed_ms: list[int] = field(default_factory=list)
    simulated_ms: int = 0
    transactions: int = 0
    commands: int = 0
    evictions: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    covered: Counter[str] = field(default_factory=Counter)
    violations: dict[int, list[str]] = field(default_factory=dict)

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
        self.covered.update(covered)
        if result.violations:
            self.violations[result.seed] = [str(v) for v in result.violations]


def work(job: tuple[int, str]) -> tuple[Result, int, Counter[str]]:
    """One seed in a worker: what it did, how many ms it took, and which transitions."""
    seed, variant = job
    coverage.reset()
    began = time.perf_counter()
    result = run_seed(seed, variant)
    return result, int((time.perf_counter() - began) * 1000), coverage.taken()


def run_many(seeds: list[int], variant: str, jobs: int) -> Iterator[tuple[Result, int, Counter[str]]]:
    """Run seeds in `jobs` processes; results come as they are ready."""
    jobs_to_do = [(seed, variant) for seed in seeds]
    if jobs == 1:
        yield from map(work, jobs_to_do)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:  # Ctrl-C is for the parent, which ends them
        yield from pool.imap_unordered(work, jobs_to_do, chunksize=8)


def digest(seed: int) -> str:
    """A hash of everything that a seed does."""
    result = run_seed(seed, tracing=True)
    return hashlib.sha256("\n".join(result.lines).encode()).hexdigest()[:16]
