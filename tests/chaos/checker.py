"""Judges a run's folder. The rules of what may happen to a partition are those of
`zkcoord.verdict`; here they get the five names that tests of queues use, and what only faults make
visible is added.

    lost-write          an acknowledged record was handed out to nobody, though later ones of its
                        partition were
    unseen              the same at a partition's end: nothing behind it was handed out either
    duplicate           handed out again, though it was committed or its owner had not died
    poll-skip           within one ownership, a poll jumped over records
    nonmonotonic-poll   within one ownership, a poll went back

Beside them the invariants: I1 (one coordinator per epoch, epochs rise), I3 (nobody was handed
records, gave up or committed after another had begun), I4 (a stored offset went back), I5 (handed
out without ownership), I12 (a recorded term decides the same again). And nothing unexpected in any
log.

A member that loses its session under a fault hears of it late: what it had not committed comes
again to its successor, as after a crash. So its ownership is taken to end right before its
successor's begins, as a killed one's; whatever it does after that is a finding. The same holds for
what it had just given up: that counts when ZooKeeper has it, and if the session ended before the
member heard of anything new, perhaps it never did: a member that is stopped past its session while
it gives something up goes on with that first.
"""

from __future__ import annotations

import bisect
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from zkcoord.demo.processes import environment
from zkcoord.verdict import engine
from zkcoord.verdict.facts import (
    Delivered,
    Fact,
    OwnershipEnd,
    Partition,
    PartitionAssigned,
    Produced,
    Released,
    SessionEnded,
)
from zkcoord.verdict.outcome import Verdict
from zkcoord.verdict.rules import Rule

NAMES = ("lost-write", "duplicate", "poll-skip", "nonmonotonic-poll", "unseen")
INVARIANTS = {Rule.OWNED_TWICE: "I3", Rule.OFFSET_BACK: "I4", Rule.UNOWNED: "I5"}
UNEXPECTED = re.compile(
    r"Traceback \(most recent call last\)|should not"
    r" happen|level=(?:error|critical)|\bAssertionError\b"
)
EXAMPLES_MAX = 8
OF_A_FULL_DISK = re.compile(r"No space left on device")
REPLAY_TIMEOUT_S = 300.0


@dataclass
class Found:
    """What is wrong, by name; `examples` are sentences. `excused`: records that came again after a
    crash.
    """

    amounts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    produced: int = 0
    delivered: int = 0
    excused: int = 0
    terms: int = 0

    def add(self, name: str, amount: int, text: str, first: bool = False) -> None:
        """One finding; `first`: what is said of it comes before the others'."""
        if amount:
            self.amounts[name] += amount
            self.examples.insert(0 if first else len(self.examples), f"{name}: {text}")
            del self.examples[EXAMPLES_MAX:]

    def forget(self, name: str) -> None:
        """No findings of this name."""
        self.amounts.pop(name, None)
        self.examples = [example for example in self.examples if not example.startswith(f"{name}:")]

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.amounts


@dataclass
class Ownership:
    """From when to when a member held a partition; `end` None: to the last line."""

    member: str
    since_ns: int
    until_ns: int | None = None
    end: OwnershipEnd | None = None


def settled(facts: Iterable[Fact]) -> list[Fact]:
    """The facts, with a lost or killed member's ownerships ended right before the next owner's
    begin, all as killed (see the module), and what was given up without being heard of as if killed
    then. By time.
    """
    everything = list(facts)
    open_: dict[tuple[str, Partition], Ownership] = {}
    begins: dict[Partition, list[tuple[int, str]]] = defaultdict(list)
    for fact in everything:
        if isinstance(fact, PartitionAssigned):
            begins[fact.partition].append((fact.t_ns, fact.member))
    found: list[Fact] = []
    # by member: what it gave up since it was last assigned something, and where in `found` that
    # stands
    given_up: dict[str, list[tuple[int, Ownership]]] = defaultdict(list)
    for fact in everything:
        if isinstance(fact, PartitionAssigned):
            open_.setdefault((fact.member, fact.partition), Ownership(fact.member, fact.t_ns))
            given_up.pop(fact.member, None)
        if isinstance(fact, SessionEnded) or (
            isinstance(fact, Released) and fact.end is OwnershipEnd.KILLED
        ):
            for index, ownership in given_up.pop(fact.member, ()):
                gave = cast(Released, found[index])
                found[index] = replace(
                    gave,
                    end=OwnershipEnd.KILLED,
                    t_ns=_until(begins[cast(Partition, gave.partition)], ownership, gave.t_ns),
                )
        if not isinstance(fact, Released):
            found.append(fact)
            continue
        held = [key for key in open_ if key[0] == fact.member and fact.partition in (None, key[1])]
        for key in held:
            ownership = open_.pop(key)
            if fact.end in (OwnershipEnd.LOST, OwnershipEnd.KILLED):
                found.append(
                    replace(
                        fact,
                        partition=key[1],
                        end=OwnershipEnd.KILLED,
                        t_ns=_until(begins[key[1]], ownership, fact.t_ns),
                    )
                )
            else:
                given_up[fact.member] += (
                    [(len(found), ownership)] if fact.end is OwnershipEnd.REVOKED else []
                )
                found.append(replace(fact, partition=key[1]))
    return sorted(found, key=lambda fact: fact.t_ns)


def _until(begins: Sequence[tuple[int, str]], ownership: Ownership, heard_ns: int) -> int:
    """When the ownership ended: right before the next one of another member, at the latest when it
    was heard of.
    """
    for t_ns, member in begins[bisect.bisect_right(begins, (ownership.since_ns, "\uffff")) :]:
        if t_ns > heard_ns:
            break
        if member != ownership.member:
            return t_ns - 1
    return heard_ns


class Polls:
    """Whether each ownership was handed its records one after the other, from the stored offset
    on.
    """

    def __init__(self, found: Found) -> None:
        self.found = found
        self.next: dict[tuple[str, Partition], int] = {}
        self.highest: dict[Partition, int] = {}
        self.produced: dict[Partition, int] = {}

    def fact(self, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, PartitionAssigned):
            self.next[fact.member, fact.partition] = fact.offset
        elif isinstance(fact, Released):
            for key in [
                key
                for key in self.next
                if key[0] == fact.member and fact.partition in (None, key[1])
            ]:
                del self.next[key]
        elif isinstance(fact, Produced):
            self.produced[fact.partition] = max(fact.end, self.produced.get(fact.partition, 0))
        elif isinstance(fact, Delivered):
            self.highest[fact.partition] = max(fact.last + 1, self.highest.get(fact.partition, 0))
            self._delivered(fact)

    def _delivered(self, fact: Delivered) -> None:
        expected = self.next.get((fact.member, fact.partition))
        if expected is not None:
            self.found.add(
                "poll-skip",
                max(0, fact.first - expected),
                f"{fact.member} was handed {fact.partition} from {fact.first} on where {expected}"
                " was next",
            )
            self.found.add(
                "nonmonotonic-poll",
                max(0, expected - fact.first),
                f"{fact.member} was handed {fact.partition} from {fact.first} on although it had"
                f" had all below {expected}",
            )
            self.next[fact.member, fact.partition] = fact.last + 1

    def unseen(self) -> dict[Partition, int]:
        """Records at the end of each partition that nobody was handed."""
        return {
            at: end - self.highest.get(at, 0)
            for at, end in self.produced.items()
            if end > self.highest.get(at, 0)
        }


def judged(facts: Iterable[Fact]) -> Found:
    """What the facts of a run, in order of time, show to be wrong."""
    found = Found()
    polls = Polls(found)
    everything = list(facts)
    for fact in everything:
        polls.fact(fact)
    _by_rules(engine.judge(settled(everything)), polls.unseen(), found)
    return found


def _by_rules(verdict: Verdict, unseen: dict[Partition, int], found: Found) -> None:
    for report in verdict.partitions:
        found.produced, found.delivered, found.excused = (
            found.produced + report.produced,
            found.delivered + report.delivered,
            found.excused + report.excused,
        )
        at_end = unseen.get(report.partition, 0)
        said = {
            rule: [
                f"{report.partition}: {example.text}"
                for example in report.examples
                if example.rule is rule
            ]
            for rule in Rule
        }
        found.add(
            "unseen", at_end, f"{report.partition}: the last {at_end} of {report.produced} records"
        )
        found.add(
            "lost-write", report.amounts.get(Rule.LOST, 0) - at_end, "; ".join(said[Rule.LOST])
        )
        found.add(
            "duplicate", report.amounts.get(Rule.DUPLICATED, 0), "; ".join(said[Rule.DUPLICATED])
        )
        for rule, name in INVARIANTS.items():
            found.add(name, report.amounts.get(rule, 0), "; ".join(said[rule]))
    if not any(report.produced for report in verdict.partitions):
        found.add("unseen", 1, "nothing was produced")


def check(folder: Path, clocks_jump: bool = False, disk_full: bool = False) -> Found:
    """Everything about a run whose folder has `run` (see `zkcoord.verdict.engine`) and `logs`.
    `clocks_jump`: the times of coordinators' journals order nothing. `disk_full`: of their disk,
    which they may say.
    """
    unreadable = engine.Unreadable()
    found = judged(engine.facts_in(folder / "run", unreadable))
    found.add(
        "unreadable",
        unreadable.count,
        f"{unreadable.count} lines of the processes could not be read",
    )
    _terms(folder / "run" / engine.COORDINATORS, found, clocks_jump)
    _logs(folder / "logs", found, disk_full)
    _replays(folder / "run" / engine.COORDINATORS, found)
    return found


def elections(folder: Path) -> list[tuple[int, int, str]]:
    """(time in ms, epoch, coordinator) of each election, by time."""
    lines = [
        (path.parent.name, json.loads(raw))
        for path in engine.record_files(folder)
        for raw in path.read_text(encoding="utf-8").splitlines(keepends=True)
        if raw.endswith("\n")
    ]
    return sorted(
        (line["t"], line["epoch"], name)
        for name, line in lines
        if line.get("kind") == "term" and line.get("event") == "elected"
    )


def _terms(folder: Path, found: Found, clocks_jump: bool) -> None:
    terms = (
        sorted(elections(folder), key=lambda term: term[1]) if clocks_jump else elections(folder)
    )
    found.terms = len(terms)
    for (_, before, first), (_, after, second) in zip(terms, terms[1:]):
        found.add(
            "I1",
            int(after <= before),
            f"{second} was elected for epoch {after} after {first} for {before}",
        )


def _logs(folder: Path, found: Found, disk_full: bool) -> None:
    for path in sorted(folder.glob("*.log")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            unexpected = UNEXPECTED.search(line) is not None and not (
                disk_full and OF_A_FULL_DISK.search(line)
            )
            found.add("log", int(unexpected), f"{path.name}: {line[:300]}")


def _replays(folder: Path, found: Found) -> None:
    """`zkcoord replay` of everything that a coordinator was told."""
    for journal in sorted(
        path
        for path in folder.glob("*")
        if any(b"\n" in inputs.read_bytes() for inputs in path.glob(f"{engine.INPUTS}*"))
    ):
        done = subprocess.run(
            [sys.executable, "-m", "zkcoord.cli.main", "replay", "-q", str(journal)],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=REPLAY_TIMEOUT_S,
            check=False,
        )
        found.add(
            "I12",
            int(done.returncode != 0),
            f"zkcoord replay {journal.name}: {(done.stdout + done.stderr).strip()[-300:]}",
        )
