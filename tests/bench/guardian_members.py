"""kill -9 of real consumers and real coordinators at random moments: how long their registrations
outlive them.

    python -m tests.bench.guardian_members [--kills N] [--session-ms N] [--seed N]

Every other victim is a consumer that joins, polls, forks, changes its session and closes
(`tests.guardian.nemesis_consumer`), in a group of its own that live coordinators serve; the rest
are `zkcoord coordinator` processes, each alone under a chroot and so its leader: some while they
start, some while they lead, some right after SIGTERM, some after they were stopped past their
session. Meanwhile other consumers and the coordinator that leads live on and must keep their
sessions. Time counts from just before the signal until the node is gone for good.

Prints a table and writes build/reports/bench-guardian-members.json; 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.bench.figures import REPORT, Bar, Busy, Row, Section, quantile
from tests.bench.rig import Rig
from tests.bench.running import conclude, measured_in_a_folder, on_a_stack, say
from tests.guardian.conftest import ROOT
from tests.harness.zookeeper import connect, disconnect
from zkcoord.stack.java import find_java
from zkcoord.znodes.paths import layout_named

KILLS = 500
SESSION_MS = 2_000
KILLERS = 3
BYSTANDERS = 2
PARTITIONS = 4
CONSUMER_S_MAX = 2.0
COORDINATOR_S = (0.4, 2.0)
CLOSING_SHARE, STOPPED_SHARE = 0.3, 0.15
CLOSING_S_MAX = 0.05
STOPPED_S, AFTERWARDS_S_MAX = 2.9, 0.5
GONE_S = 0.2
LATE_MS = 1_000.0
PATIENCE_S = 60.0
P99_MS, UNTOLD_PERCENT = 100.0, 2.0
EVERY = 50
LAYOUT = layout_named("draft")
COORDINATOR, CONSUMER = "coordinator", "consumer"
NEW_SESSION = ("connect", "join", "change", "start or lead")
"""Phases in which a session may be so new that the guardian has not been told of it."""


@dataclass(frozen=True)
class Kill:
    """One of them: of what, in which phase, how many nodes there were just before, and how long the
    last of them outlived it (0: there was none).
    """

    kind: str
    phase: str
    nodes: int
    gone_ms: float

    @property
    def untold(self) -> bool:
        """Its guardian cannot have known: only the session's timeout ended it, and the session was
        new.
        """
        return self.gone_ms > LATE_MS and self.phase in NEW_SESSION


def begin(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


@dataclass
class Killer:
    """What victims need, and a client that looks, for all threads."""

    rig: Rig
    topic: str
    session_ms: int
    folder: Path
    observer: KazooClient
    seed: int

    def one(self, number: int) -> Kill:
        """The kill of this number."""
        if number and number % EVERY == 0:
            say(f"  {number} ...")
        return (self.consumer if number % 2 else self.coordinator)(
            number, random.Random(f"{self.seed}-{number}")
        )

    def consumer(self, number: int, chance: random.Random) -> Kill:
        """A consumer from its start to the end of its registration."""
        group = f"victim-{number}"
        process = begin(
            "tests.guardian.nemesis_consumer",
            self.rig.zookeeper,
            self.rig.kafka,
            self.topic,
            group,
            str(self.session_ms),
            str(number),
        )
        assert process.stdout is not None
        phases = [process.stdout.readline()]
        time.sleep(chance.uniform(0, CONSUMER_S_MAX))
        nodes, gone_ms = self.outlived(process, lambda: self.children(LAYOUT.ids(group)))
        phases += process.stdout.readlines()
        self.bury(process)
        return Kill(CONSUMER, phases[-1].decode().strip(), nodes, gone_ms)

    def coordinator(self, number: int, chance: random.Random) -> Kill:
        """A coordinator, the only one under its chroot."""
        root = f"/victim-{number}"
        self.observer.create(root + LAYOUT.topics_root, makepath=True)
        hosts = self.rig.zookeeper.partition("/")[0]
        process = begin(
            "zkcoord.cli.main",
            "coordinator",
            "--zookeeper",
            hosts + self.observer.chroot + root,
            "--http-port",
            "0",
            "--journal-dir",
            str(self.folder / f"journal-{number}"),
            "--session-timeout-ms",
            str(self.session_ms),
        )
        phase = "start or lead"
        time.sleep(chance.uniform(*COORDINATOR_S))
        fate = chance.random()
        if fate < CLOSING_SHARE:
            phase = "close"
            process.terminate()
            time.sleep(chance.uniform(0, CLOSING_S_MAX))
        elif fate < CLOSING_SHARE + STOPPED_SHARE:
            phase = "change"
            process.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            process.send_signal(signal.SIGCONT)
            time.sleep(chance.uniform(0, AFTERWARDS_S_MAX))
        nodes, gone_ms = self.outlived(
            process,
            lambda: 1 if self.observer.exists(root + LAYOUT.leader) else 0,
            may_end=phase == "close",
        )
        self.bury(process)
        return Kill(COORDINATOR, phase, nodes, gone_ms)

    @staticmethod
    def bury(process: subprocess.Popen[bytes]) -> None:
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def children(self, path: str) -> int:
        """How many there are."""
        try:
            return len(self.observer.get_children(path))
        except NoNodeError:
            return 0

    @staticmethod
    def outlived(
        process: subprocess.Popen[bytes], nodes: Callable[[], int], may_end: bool = False
    ) -> tuple[int, float]:
        """kill -9; how many nodes there were just before, and for how long (ms) there were any.
        None for `GONE_S` is none for good: what was under way at the kill has come by then.
        AssertionError where it has ended by itself, unless it `may_end`.
        """
        assert may_end or process.poll() is None, (
            f"a victim ended by itself, with status {process.returncode}: {process.args}"
        )
        before = nodes()
        began = seen = time.monotonic()
        process.kill()
        while (now := time.monotonic()) - seen < GONE_S and now - began < PATIENCE_S:
            if nodes():
                seen = time.monotonic()
            time.sleep(0.001)
        return before, (seen - began) * 1_000 if seen > began else 0.0


def rows_of(kills: Sequence[Kill], kind: str) -> list[Row]:
    """How long registrations of one kind outlived their processes: those that the guardian had been
    told of, and the share of those that it had not.
    """
    mine = [kill for kill in kills if kill.kind == kind]
    with_nodes = [kill for kill in mine if kill.nodes or kill.gone_ms]
    told = [kill.gone_ms for kill in with_nodes if not kill.untold]
    untold = [kill for kill in with_nodes if kill.untold]
    phases = Counter(kill.phase for kill in mine)
    note = (
        f"{len(mine)} kills, {len(mine) - len(with_nodes)} of them without a registration; in"
        f" {', '.join(f'{phase}: {count}' for phase, count in phases.most_common())}"
    )
    return [
        Row(
            f"registration of a {kind} gone",
            "from kill -9",
            told,
            (Bar("max", LATE_MS),),
            note=note,
        ),
        Row(
            "the same, p99",
            "from kill -9",
            [quantile(told, 0.99)] if told else [],
            (Bar("max", P99_MS),),
        ),
        Row(
            f"{kind}s of whose session the guardian was not told yet",
            "longer than 1 s",
            [100 * len(untold) / max(1, len(with_nodes))],
            (Bar("max", UNTOLD_PERCENT),),
            "%",
            note="; ".join(f"in {kill.phase}, {kill.gone_ms:.0f} ms" for kill in untold),
        ),
    ]


def measure(rig: Rig, sections: list[Section], kills: int, session_ms: int) -> None:
    """The section."""
    section = Section(
        "members",
        f"{kills} kill -9 of consumers and coordinators at random moments, sessions of"
        f" {session_ms / 1000:g} s",
    )
    sections.append(section)
    topic = rig.topic(PARTITIONS)
    folder = rig.folder / "victims"
    folder.mkdir(parents=True)
    observer = connect(rig.zookeeper, timeout_s=20.0)
    with rig.coordinators():
        started = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "consumer.verifiable",
                    "--zookeeper",
                    rig.zookeeper,
                    "--topic",
                    topic,
                    "--group",
                    "bystanders",
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(BYSTANDERS)
        ]

        def alive() -> dict[str, int]:
            paths = (
                [
                    f"{LAYOUT.ids('bystanders')}/{name}"
                    for name in observer.get_children(LAYOUT.ids("bystanders"))
                ]
                if observer.exists(LAYOUT.ids("bystanders"))
                else []
            )
            return {
                path: found.czxid
                for path in (*paths, LAYOUT.leader)
                if (found := observer.exists(path))
            }

        try:
            rig.wait(
                lambda: len(alive()) == BYSTANDERS + 1, "consumers and a coordinator that live on"
            )
            before, busy = alive(), Busy()
            with ThreadPoolExecutor(KILLERS) as pool:
                done = [
                    *pool.map(
                        Killer(
                            rig, topic, session_ms, folder, observer, rig.random.randrange(1 << 30)
                        ).one,
                        range(kills),
                    )
                ]
            after = alive()
        finally:
            for process in started:
                process.kill()
                process.wait()
    disconnect(observer)
    section.busy_percent, section.seconds = busy.percent, busy.seconds
    section.rows += [row for kind in (CONSUMER, COORDINATOR) for row in rows_of(done, kind)]
    section.rows.append(
        Row(
            "sessions of living processes that were closed",
            f"{len(before)} that live on",
            [float(sum(after.get(path) != zxid for path, zxid in before.items()))],
            (Bar("max", 0),),
            "sessions",
        )
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.guardian_members",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--session-ms", type=int, default=SESSION_MS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    args = parser.parse_args(argv)

    def run(folder: Path) -> int:
        sections = on_a_stack(
            folder,
            args.seed,
            lambda rig: {
                "members": lambda sections: measure(rig, sections, args.kills, args.session_ms)
            },
            ("members",),
        )
        return conclude(
            sections,
            vars(args),
            str(find_java().major),
            REPORT.with_name("bench-guardian-members.json"),
            "bench-guardian-members",
        )

    return measured_in_a_folder(run)


if __name__ == "__main__":
    raise SystemExit(main())
