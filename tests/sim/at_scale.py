"""`python -m tests.sim.at_scale`: a coordinator takes over a world of any size in the model of
ZooKeeper, and members join beside it.

    python -m tests.sim.at_scale                               100,000 groups with 1,000,000 members
    python -m tests.sim.at_scale --groups 10000 --members 30000 --partitions 100000
    python -m tests.sim.at_scale --groups 300 --members 900    a second, to see what it prints

--members and --partitions are those of all groups together, evenly spread (by default 10 and 30 a
group). The groups are put into the model's tree as they would stand there; then the shipped
coordinator (session, election, mirror, core, writer) reads them, and is balanced if it commands
nobody. Its requests and the answers to them are encoded and decoded as on the wire
(`tests.sim.weighed`), so bytes and memory are real; its processor time lacks what sockets take.
Then members join groups of three beside it, one after the other, and leave.

Beside the figures stands what the unit costs of the benchmark say (--model, a report of `python -m
tests.bench.scale --only units`), where there is one. The exit status is 1 when a balanced group was
commanded or a join did not end, else 0.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from consumer.core import messages as msg
from consumer.core.options import MemberOptions
from consumer.member.driver import MemberDriver
from tests.bench import scale_model
from tests.bench.scale_model import Size
from tests.sim.at_scale_world import LAYOUT, fill
from tests.sim.kernel import Kernel
from tests.sim.processes import Process
from tests.sim.weighed import MeasuredHost, Spent, WeighedEnsemble
from tests.sim.zookeeper import SimEnsemble, Weather
from zkcoord.coordinator import gc_policy
from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.coordinator.http.summaries import seen_groups
from zkcoord.core.model import Subscription
from zkcoord.core.options import CoordinatorOptions
from zkcoord.znodes import names
from zkcoord.znodes.places import CommandAt

GROUPS, MEMBERS_EACH, PARTITIONS_EACH = 100_000, 10, 30
JOINS = 5
SESSION_MS = 60_000
PATIENCE_MS = 3_600_000
QUIET_MS = 5_000
GROUPS_SHOWN = 2_000
JOINED, JOINED_BEFORE = "joined", 3
MIB = 2**20
FRESH = "takeover by one that has just started"
COMPARED = {
    "requests": (f"{FRESH}: requests", 1_000),
    "received": (f"{FRESH}: received", 1),
    "cpu_ns": (f"{FRESH}: processor time", 1e-3),
}
"""Figure -> the quantity of the benchmark, and how many of its units one of ours is."""


def is_command(path: str) -> bool:
    """Whether a node of this path is one, or is to be with ZooKeeper's digits after it."""
    return isinstance(LAYOUT.locate(f"{path}0000000000"), CommandAt)


class MeasuredCoordinator(Process):
    """The shipped coordinator as a process that is measured. `ready` once it has read the world."""

    driver: CoordinatorDriver

    def __init__(self, kernel: Kernel, zk: SimEnsemble) -> None:
        super().__init__(kernel, zk, "coordinator", SESSION_MS)
        self.spent = Spent()
        self.host = MeasuredHost(kernel, "coordinator", self.spent)
        self.ready = False
        self.driver = CoordinatorDriver(
            WeighedEnsemble(zk.open_for(self.host, SESSION_MS), self.host, is_command),
            LAYOUT,
            CoordinatorOptions(),
            self.clock,
            self.wall_clock,
            self.record,
        )
        self.launch()

    def record(self, entry: dict[str, object]) -> None:
        """See `Process`; as the program does, nothing is looked through for garbage meanwhile."""
        super().record(entry)
        if entry["kind"] == "term" and entry["event"] == "elected":
            gc_policy.term_begins()
        elif entry["kind"] == "term" and entry["event"] == "ready":
            gc_policy.world_is_read()
            self.ready = True


class SmallMember(Process):
    """A consumer's driver, with an application that gives up at once what it is asked to."""

    driver: MemberDriver

    def __init__(
        self, kernel: Kernel, zk: SimEnsemble, group: str, topic: str, number: int
    ) -> None:
        super().__init__(kernel, zk, f"member-{number}", SESSION_MS)
        self.epoch = 0
        self.driver = MemberDriver(
            self.zk,
            LAYOUT,
            MemberOptions(group=group, host=self.host.name, max_poll_interval_ms=0),
            self.clock,
            self.wall_clock,
            lambda: names.consumer_id(group, self.host.name, self.wall_clock(), f"{number:08x}"),
            self._hear,
            self.record,
        )
        self.launch()
        wanted = msg.Subscribe(Subscription({topic: 1}))
        self._tell(wanted)

    def _tell(self, message: msg.FromFetcher) -> None:
        self.host.after(0, lambda: self.driver.receive(message))

    def _hear(self, message: msg.ToFetcher) -> None:
        if isinstance(message, (msg.Assigned, msg.Lost, msg.Seek)):
            self.epoch = message.assignment_epoch
        if isinstance(message, msg.Revoke):
            self._tell(msg.Revoked(message.token, dict.fromkeys(message.partitions, 0)))
        elif isinstance(message, msg.Resolve):
            self._tell(msg.Resolved(message.token, dict.fromkeys(message.partitions, 0)))

    @property
    def held(self) -> int:
        """How many partitions it owns by its own account."""
        return len(self.driver.core.session.held)

    def leave(self) -> None:
        """Close, as an application does."""
        self._tell(msg.Close({}, self.epoch))


@dataclass
class Outcome:
    """What a run found. Memory in bytes, time in seconds; `said`: what the unit costs say, by
    figure.
    """

    groups: int
    members: int
    partitions: int
    wrote_s: float
    took_s: float
    memory_before: int
    memory_after: int
    takeover: Spent
    quiet: Spent
    join: Spent
    leave: Spent
    status_ms: float
    groups_ms: float
    said: dict[str, float]

    @property
    def commanded(self) -> int:
        """Commands that nobody needed, and transactions but the election's."""
        return self.takeover.commands + self.quiet.commands + self.quiet.multis


class AtScale:
    """One run."""

    def __init__(self, size: Size, say: Callable[[str], None]) -> None:
        self.size, self.say = size, say
        self.kernel = Kernel(0)
        self.zk = SimEnsemble(self.kernel, 1, Weather(latency_max_ms=0, lag_max_ms=0))
        self.process = psutil.Process()
        self.members: list[SmallMember] = []

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Let happen what happens until it holds. AssertionError when it never does."""
        said_s = time.monotonic()

        def look() -> bool:
            nonlocal said_s
            if time.monotonic() - said_s > 5:
                said_s = time.monotonic()
                self.say(f"{what}: {self.kernel.steps:,} steps")
            return condition()

        self.kernel.run_until(self.kernel.now + PATIENCE_MS, stop=look)
        assert condition(), f"waited in vain for {what}"

    def run(self, joins: int, model: Path) -> Outcome:
        """All of it."""
        began_s = time.process_time()
        fill(self.zk, *self.size, self.say)
        wrote_s = time.process_time() - began_s
        gc.collect()
        gc.freeze()
        gc_policy.collect_seldom()
        before = self.process.memory_info().rss
        self.say(f"{len(self.zk.tree.nodes):,} nodes in {before / MIB:,.0f} MiB")
        began_s = time.process_time()
        self.coordinator = MeasuredCoordinator(self.kernel, self.zk)
        self.until(lambda: self.coordinator.ready, "the coordinator is ready")
        took_s = time.process_time() - began_s
        after = self.process.memory_info().rss
        spent = self.coordinator.spent
        takeover = replace(spent)
        self.kernel.run_until(self.kernel.now + QUIET_MS)
        quiet = spent.since(takeover)
        assert len(self.coordinator.driver.core.groups) == self.size.groups
        status_ms = timed_ms(self.coordinator.driver.status)
        core = self.coordinator.driver.core
        groups_ms = timed_ms(lambda: seen_groups(core, "", None, GROUPS_SHOWN))
        join, leave = self.joined(joins)
        return Outcome(
            *self.size,
            wrote_s,
            took_s,
            before,
            after,
            takeover,
            quiet,
            join,
            leave,
            status_ms,
            groups_ms,
            said_by(model, self.size),
        )

    def joined(self, joins: int) -> tuple[Spent, Spent]:
        """What one join to a group of three costs the coordinator, and one leave: means."""
        groups = [f"{JOINED}-{number}" for number in range(joins)]
        for group in groups:
            for _ in range(JOINED_BEFORE):
                self.come(group)
        self.until(lambda: all(map(self.balanced, groups)), "groups beside it are at rest")
        self.kernel.run_until(self.kernel.now + QUIET_MS)
        joined, left = Spent(), Spent()
        for group in groups:
            before = self.start()
            newcomer = self.come(group)
            self.until(lambda group=group: self.balanced(group), "a join")
            add(joined, self.ended(before))
            before = self.start()
            newcomer.leave()
            self.until(lambda newcomer=newcomer: newcomer.driver.finished, "a leave")
            self.members.remove(newcomer)
            self.until(lambda group=group: self.balanced(group), "a leave")
            add(left, self.ended(before))
        return mean(joined, joins), mean(left, joins)

    def start(self) -> Spent:
        """From now on it counts; what had been spent before."""
        self.coordinator.spent.longest_ns = 0
        return replace(self.coordinator.spent)

    def ended(self, before: Spent) -> Spent:
        """What was spent, with what follows once a group is balanced."""
        self.kernel.run_until(self.kernel.now + QUIET_MS)
        return self.coordinator.spent.since(before)

    def come(self, group: str) -> SmallMember:
        """A member more."""
        number = self.kernel.steps
        member = SmallMember(self.kernel, self.zk, group, "topic-00", number)
        self.members.append(member)
        self.kernel.run_until(self.kernel.now + 1)
        return member

    def balanced(self, group: str) -> bool:
        """Whether each of its members has its share."""
        held = [member.held for member in self.members if member.driver.options.group == group]
        return sum(held) == self.size.partitions and max(held) - min(held) <= 1


def timed_ms(ask: Callable[[], object]) -> float:
    """How much of the thread's time this takes."""
    began_ns = time.thread_time_ns()
    ask()
    return (time.thread_time_ns() - began_ns) / 1e6


def add(total: Spent, one: Spent) -> None:
    """One change more; the longest stretch is that of all."""
    for what, value in vars(one).items():
        old = getattr(total, what)
        setattr(total, what, max(old, value) if what == "longest_ns" else old + value)


def mean(total: Spent, count: int) -> Spent:
    """Of so many, rounded."""
    return Spent(
        **{
            what: value if what == "longest_ns" else round(value / max(count, 1))
            for what, value in vars(total).items()
        }
    )


def said_by(model: Path, size: Size) -> dict[str, float]:
    """Figure -> what the unit costs of this report say of this size; nothing without a report."""
    try:
        costs = scale_model.read(model)
    except OSError:
        return {}
    found = {
        figure: costs[what].at(size) / units
        for figure, (what, units) in COMPARED.items()
        if what in costs
    }
    memory = costs.get(f"{FRESH}: peak memory")
    return {**found, "memory": memory.at(size) - memory.base} if memory else found


def lines_of(found: Outcome) -> list[str]:
    """For people."""

    def beside(figure: str, unit: float = 1.0, digits: int = 0) -> str:
        if figure not in found.said:
            return "-"
        return f"{found.said[figure] / unit:,.{digits}f}"

    spent, grown = found.takeover, found.memory_after - found.memory_before
    rows = [
        ("the takeover", "found", "by the model"),
        ("requests", f"{spent.requests:,}", beside("requests")),
        ("bytes of the requests, MiB", f"{spent.sent / MIB:,.0f}", "-"),
        ("bytes of the answers, MiB", f"{spent.received / MIB:,.0f}", beside("received", MIB)),
        (
            "processor time without sockets, s",
            f"{spent.cpu_ns / 1e9:,.1f}",
            beside("cpu_ns", 1e9, 1),
        ),
        ("longest stretch of it, ms", f"{spent.longest_ns / 1e6:,.0f}", "-"),
        ("memory grown by, MiB", f"{grown / MIB:,.0f}", beside("memory", MIB)),
        ("transactions until it was ready", f"{spent.multis:,}", "-"),
        ("commands, and transactions after that", f"{found.commanded:,}", "0"),
        ("what one scrape of its metrics takes, ms", f"{found.status_ms:,.1f}", "-"),
        ("what one look at /groups takes, ms", f"{found.groups_ms:,.1f}", "-"),
    ]
    lines = [f"  {what:<44}{value:>16}{said:>16}" for what, value, said in rows]
    for what, cost in (("one join", found.join), ("one leave", found.leave)):
        lines.append(
            f"  {what} beside it: {cost.multis} transactions, {cost.ops} operations,"
            f" {cost.commands} commands, {cost.requests} requests, {cost.events} events,"
            f" {cost.received:,} bytes read, {cost.cpu_ns / 1e6:.1f} ms of processor time"
            f" (longest stretch of all {cost.longest_ns / 1e6:.1f} ms)"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim.at_scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--members", type=int, help="of all groups (default 10 a group)")
    parser.add_argument("--partitions", type=int, help="of all groups (default 30 a group)")
    parser.add_argument("--joins", type=int, default=JOINS, help="joins beside it (default 5)")
    parser.add_argument("--model", type=Path, default=scale_model.UNITS_REPORT)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    args = parser.parse_args(arguments)
    members = args.members or args.groups * MEMBERS_EACH
    partitions = args.partitions or args.groups * PARTITIONS_EACH
    size = Size(args.groups, members // args.groups, partitions // args.groups)
    if min(size) < 1:
        parser.error("give at least one group, and one member and partition a group")
    began_s = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began_s:6.0f} s  {text}", file=sys.stderr, flush=True)

    say(f"{size}: {size.groups * size.members:,} members, {size.groups * size.partitions:,} owned")
    found = AtScale(size, say).run(args.joins, args.model)
    print(
        f"{size} groups x members x partitions: {found.members * found.groups:,} members; written"
        f" in {found.wrote_s:.1f} s of processor time, {found.memory_before / MIB:,.0f} MiB; then:"
    )
    print("\n".join(lines_of(found)))
    if not found.said:
        print(f"  (no unit costs: there is no {args.model.name} in build/reports)")
    if args.json:
        args.json.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    return 1 if found.commanded else 0


if __name__ == "__main__":
    raise SystemExit(main())
