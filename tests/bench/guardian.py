"""How long a registration outlives its process, for every way a process can end: with the guardian,
and where it cannot help.

    python -m tests.bench.guardian [--kills N] [--session-ms N] [--quick]

Part one is a table: per scenario n, min, median, max of the time until the ephemeral node is gone,
on a ZooKeeper server of its own (tickTime 500 ms, log forced to disk). The clock starts when the
signal was sent; where the kernel kills (out of memory), when the process's end is seen on a pidfd.
Part two kills N processes (0 = leave it out) at random moments of connect, hand-over, register,
hold, fork, change of session and close, while bystanders live on, and says how long their nodes
outlived them and whether any living process lost its session.

Writes build/reports/bench-guardian.json. What this machine does not allow (groups of processes need
root) is a row that says so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import kazoo
import psutil
from kazoo.client import KazooClient

from tests.guardian.conftest import ROOT, GuardedApp, Sidecar, alive, reported
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.stack.java import find_java
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import ZooKeeperOptions, ZooKeeperServer

REPORT = ROOT / "build" / "reports" / "bench-guardian.json"
PATIENCE_S = 120.0
MEMORY_LIMIT_BYTES = 96 << 20
KILLERS = 3
BYSTANDERS = 3
UPTIME_S_MAX = 0.8
LATE_MS = 1_000
SETTLED_S = 0.2
FRONT = (sys.executable, "-m", "zkcoord.guardian", "--")


@dataclass
class Row:
    """One scenario's result; times in milliseconds; `note` says what was done, or why nothing
    was.
    """

    scenario: str
    note: str
    expected: str
    times_ms: list[float] = field(default_factory=list)
    failure: str = ""

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {**asdict(self), "n": len(self.times_ms)}
        if self.times_ms:
            found |= {
                "min": min(self.times_ms),
                "median": statistics.median(self.times_ms),
                "max": max(self.times_ms),
            }
        return found


class NotHere(Exception):
    """This machine does not allow the scenario; the message says why."""


class Bench:
    """A server, an observer, and the clock of one measurement."""

    def __init__(self, server: ZooKeeperServer, session_ms: int, folder: Path) -> None:
        self.hosts = server.address
        self.session_ms = session_ms
        self.folder = folder
        self.observer = connect(self.hosts, timeout_s=20.0)
        self.count = 0

    def app(self, settle: bool = True, **options: Any) -> GuardedApp:
        """A guarded process with a node of its own; `settle`: its companion has started, which
        takes some 20 ms of processor time, and sleeps.
        """
        self.count += 1
        app = GuardedApp(
            self.hosts,
            quiet=True,
            **{"node": f"/n{self.count}", "timeout_ms": self.session_ms, **options},
        )
        if (
            settle
            and app.companion is not None
            and psutil.pid_exists(app.companion)
            and "front" not in options
        ):
            _settle(app.companion)
        return app

    def measure(self, app: GuardedApp, end: Callable[[], float]) -> float:
        """Milliseconds from what `end` returns (monotonic seconds of the process's end) to the
        deletion of its node.
        """
        gone = threading.Event()
        moment: list[float] = []

        def on_event(_: object) -> None:
            moment.append(time.monotonic())
            gone.set()

        node = app.options["node"]
        if self.observer.exists(node, watch=on_event) is None:
            raise AssertionError(f"{node} is not there")
        ended = end()
        if not gone.wait(PATIENCE_S) or self.observer.exists(node) is not None:
            raise AssertionError(
                f"{node} is still there {PATIENCE_S} s after the end of its process"
            )
        return (moment[0] - ended) * 1000

    def run(self, app: GuardedApp, end: Callable[[], float]) -> float:
        """Measure, then clean up, then wait for the companion."""
        try:
            return self.measure(app, end)
        finally:
            app.clean_up()
            if app.companion is not None:
                wait_until(lambda: not alive(app.companion), PATIENCE_S, "the companion's end")


def _settle(pid: int) -> None:
    """Wait until a process has used no processor time for a while: its start is over."""
    process, used, since = psutil.Process(pid), -1.0, time.monotonic()
    while time.monotonic() - since < SETTLED_S:
        now = sum(process.cpu_times()[:2])
        if now != used or process.status() != psutil.STATUS_SLEEPING:
            used, since = now, time.monotonic()
        time.sleep(SETTLED_S / 20)


def send(*pids: int, number: int = signal.SIGKILL) -> float:
    """Signal them all; the moment before the first."""
    moment = time.monotonic()
    for pid in pids:
        os.kill(pid, number)
    return moment


def kill_plain(bench: Bench) -> float:
    app = bench.app()
    return bench.run(app, lambda: send(app.pid))


def kill_at_start(bench: Bench) -> float:
    app = bench.app(settle=False)
    return bench.run(app, lambda: send(app.pid))


def kill_with_children(bench: Bench) -> float:
    app = bench.app()
    app.ask("fork", "forked")
    return bench.run(app, lambda: send(app.pid))


def kill_first_server_dead(bench: Bench) -> float:
    host, _, port = bench.hosts.rpartition(":")
    app = bench.app(servers=[[HOST, free_port()], [host, int(port)]])
    return bench.run(app, lambda: send(app.pid))


def kill_unguarded(bench: Bench) -> float:
    app = bench.app(guardian=False)
    return bench.run(app, lambda: send(app.pid))


def kill_sidecar(bench: Bench) -> float:
    path = str(bench.folder / f"s{bench.count}")
    sidecar = Sidecar("--socket", path)
    try:
        sidecar.expect("Guarding processes")
        app = bench.app(socket=path)
        return bench.run(app, lambda: send(app.pid))
    finally:
        sidecar.end()


def kill_under_pid_1(bench: Bench) -> float:
    app = bench.app(front=(*_namespace(), *FRONT))
    inside = _youngest(app)
    return bench.run(app, lambda: send(inside))


def kill_guardian_pid_1(bench: Bench) -> float:
    app = bench.app(front=(*_namespace(), *FRONT))
    (first,) = psutil.Process(app.process.pid).children()
    return bench.run(app, lambda: send(first.pid))


def kill_application_pid_1(bench: Bench) -> float:
    app = bench.app(front=_namespace())
    (first,) = psutil.Process(app.process.pid).children()
    app.ready["companion"] = None  # a number of the other namespace
    return bench.run(app, lambda: send(first.pid))


def _namespace() -> tuple[str, ...]:
    command = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        raise NotHere("there is no `unshare`") from None
    if tried.returncode != 0:
        raise NotHere(f"no new PID namespace ({tried.stderr.strip()})")
    return command


def _youngest(app: GuardedApp) -> int:
    """The application's pid as seen from here: the last of unshare -> guard -> application."""
    return psutil.Process(app.process.pid).children(recursive=True)[-1].pid


def kill_systemd_main(bench: Bench) -> float:
    app = bench.app()

    def end() -> float:
        moment = send(app.pid)
        try:
            send(app.companion, number=signal.SIGTERM)
        except ProcessLookupError:  # done already
            pass
        return moment

    return bench.run(app, end)


def kill_systemd_all(bench: Bench) -> float:
    app = bench.app()
    return bench.run(app, lambda: send(app.companion, app.pid))


def kill_cgroup(bench: Bench) -> float:
    app = bench.app()
    with _cgroup("cgroup2", "cgroup.kill") as group:
        _move(group, app.pid, app.companion)

        def end() -> float:
            moment = time.monotonic()
            (group / "cgroup.kill").write_text("1")
            return moment

        return bench.run(app, end)


def kill_out_of_memory(bench: Bench) -> float:
    """A memory limit on a group of two, the application and its companion; the kernel chooses."""
    with _cgroup("cgroup", "memory.limit_in_bytes", "memory") as group:
        (group / "memory.limit_in_bytes").write_text(str(MEMORY_LIMIT_BYTES))
        app = bench.app()
        _move(group, app.pid, app.companion)

        def end() -> float:
            pidfd = os.pidfd_open(app.pid)
            app.tell("eat")
            poller = select.poll()
            poller.register(pidfd, select.POLLIN)
            assert poller.poll(PATIENCE_S * 1000)
            os.close(pidfd)
            return time.monotonic()

        took = bench.run(app, end)
        events = dict(
            line.split() for line in (group / "memory.oom_control").read_text().splitlines()
        )
        if events.get("oom_kill") != "1" or app.process.returncode != -signal.SIGKILL:
            raise AssertionError(
                f"the kernel did not kill it as intended: {events}, status {app.process.returncode}"
            )
        return took


@contextmanager
def _cgroup(kind: str, needs: str, controller: str = "") -> Iterator[Path]:
    """An empty group of processes at the top of a hierarchy, removed afterwards."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, found, options, *_ = line.split()
        if found == kind and (not controller or controller in options.split(",")):
            group = Path(mount) / f"zkcoord-bench-{os.getpid()}"
            break
    else:
        raise NotHere(f"no {kind} {controller} hierarchy is mounted".replace("  ", " "))
    try:
        group.mkdir()
    except OSError as error:
        raise NotHere(f"no group can be made ({error.strerror})") from None
    try:
        if not (group / needs).exists():
            raise NotHere(f"the groups here have no {needs}")
        yield group
    finally:
        wait_until(
            lambda: not (group / "cgroup.procs").read_text().split(), PATIENCE_S, "an empty group"
        )
        group.rmdir()


def _move(group: Path, *pids: int) -> None:
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))


def stop_process(bench: Bench) -> float:
    app = bench.app()
    return bench.run(app, lambda: send(app.pid, number=signal.SIGSTOP))


def lose_host(bench: Bench) -> float:
    """Nobody is there any more and no connection is closed: both are frozen, as seen from
    ZooKeeper.
    """
    app = bench.app()

    def end() -> float:
        return send(app.companion, app.pid, number=signal.SIGSTOP)

    try:
        return bench.measure(app, end)
    finally:
        send(app.companion, app.pid)
        app.clean_up()


@dataclass(frozen=True)
class Scenario:
    """A way to end; `slow` ones take the session timeout."""

    name: str
    act: Callable[[Bench], float]
    n: int
    slow: bool
    note: str


SCENARIOS = (
    Scenario("kill -9", kill_plain, 30, False, "SIGKILL to the process"),
    Scenario(
        "kill -9 right after the first hand-over",
        kill_at_start,
        10,
        False,
        "the companion is still starting",
    ),
    Scenario(
        "kill -9, forked child alive",
        kill_with_children,
        10,
        False,
        "a child holds every descriptor open",
    ),
    Scenario(
        "kill -9, first server of the list dead",
        kill_first_server_dead,
        10,
        False,
        "its port refuses",
    ),
    Scenario(
        "kill -9, sidecar `zkcoord guard --socket`",
        kill_sidecar,
        10,
        False,
        "no companion of its own",
    ),
    Scenario(
        "out of memory, kernel kills one process",
        kill_out_of_memory,
        5,
        False,
        "96 MiB cgroup v1 limit around process and companion; it ate until oom_kill",
    ),
    Scenario(
        "container: process under `zkcoord guard --` as PID 1",
        kill_under_pid_1,
        10,
        False,
        "`unshare --pid --kill-child`; the process is killed",
    ),
    Scenario(
        "container: the guard itself, PID 1, killed",
        kill_guardian_pid_1,
        3,
        True,
        "the kernel kills the whole namespace with it",
    ),
    Scenario(
        "container: the application is PID 1 and killed",
        kill_application_pid_1,
        3,
        True,
        "the kernel kills its companion with it",
    ),
    Scenario(
        "systemd: main process killed, rest gets SIGTERM",
        kill_systemd_main,
        10,
        False,
        "emulated: SIGKILL, then SIGTERM to the companion (KillMode=control-group)",
    ),
    Scenario(
        "systemd: `systemctl kill -s KILL`",
        kill_systemd_all,
        3,
        True,
        "emulated: SIGKILL to the companion, then to the process",
    ),
    Scenario("cgroup-wide kill", kill_cgroup, 3, True, "cgroup.kill of a cgroup v2 with both"),
    Scenario(
        "SIGSTOP",
        stop_process,
        3,
        True,
        "not a death: the process may go on, so it keeps its session for the timeout",
    ),
    Scenario(
        "host loss", lose_host, 3, True, "emulated: both frozen, so that no connection is closed"
    ),
    Scenario("kill -9 without guardian", kill_unguarded, 3, True, "for comparison"),
)


def measure(bench: Bench, scenario: Scenario, quick: bool) -> Row:
    """One row of the table."""
    row = Row(scenario.name, scenario.note, "session timeout" if scenario.slow else "milliseconds")
    for _ in range(1 if quick else scenario.n):
        try:
            row.times_ms.append(scenario.act(bench))
        except NotHere as reason:
            row.failure = f"not measured here: {reason}"
            break
        except AssertionError as reason:
            row.failure = f"FAILED: {reason}"
            break
    return row


@dataclass
class Kill:
    """One kill of part two: the phase it fell into, the nodes the process had then, and how long
    the last of them outlived it.
    """

    phase: str
    nodes: int
    gone_ms: float


class Massacre:
    """Kills at random moments, several at a time."""

    def __init__(self, hosts: str, session_ms: int, seed: int, folder: Path) -> None:
        self.hosts = hosts
        self.session_ms = session_ms
        self.random = random.Random(seed)
        self.report = folder / "kills.jsonl"
        self.kills: list[Kill] = []
        self.begun = 0
        self.lock = threading.Lock()

    def run(self, kills: int) -> None:
        """All of them; three at a time."""
        threads = [threading.Thread(target=self.work, args=(kills,)) for _ in range(KILLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self, kills: int) -> None:
        observer = connect(self.hosts, timeout_s=20.0)
        while True:
            with self.lock:
                if self.begun >= kills:
                    break
                self.begun += 1
                seed, uptime_s = (
                    self.random.randrange(1 << 30),
                    self.random.uniform(0, UPTIME_S_MAX),
                )
            kill = self.one(observer, seed, uptime_s)
            with self.lock:
                self.kills.append(kill)
        disconnect(observer)

    def one(self, observer: KazooClient, seed: int, uptime_s: float) -> Kill:
        """A process from its start to the end of its nodes."""
        command = [
            sys.executable,
            "-m",
            "tests.guardian.nemesis_app",
            self.hosts,
            str(self.session_ms),
            str(self.report),
            str(seed),
        ]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        phases = [process.stdout.readline()]  # it has come as far as starting its guardian
        time.sleep(uptime_s)
        moment = time.monotonic()
        process.kill()
        nodes = -1
        while True:
            mine = [
                name
                for name in observer.get_children("/members")
                if name.startswith(f"{process.pid}-")
            ]
            nodes = len(mine) if nodes < 0 else nodes
            if not mine:
                break
            time.sleep(0.001)
        gone_ms = (time.monotonic() - moment) * 1000
        phases += process.stdout.readlines()  # its children do not hold this pipe
        process.wait()
        process.stdout.close()
        return Kill(phases[-1].decode().strip(), nodes, gone_ms)


def massacre(
    server: ZooKeeperServer, session_ms: int, kills: int, seed: int, folder: Path
) -> dict[str, Any]:
    """Part two."""
    observer = connect(server.address, timeout_s=20.0)
    observer.create("/members")
    bystanders = [
        GuardedApp(
            server.address,
            node=f"/members/bystander-{number}",
            timeout_ms=session_ms,
            report=str(folder / "bystanders.jsonl"),
        )
        for number in range(BYSTANDERS)
    ]
    before = {
        name: observer.exists(f"/members/{name}").czxid
        for name in observer.get_children("/members")
    }
    run = Massacre(server.address, session_ms, seed, folder)
    run.run(kills)
    after = {
        name: observer.exists(f"/members/{name}").czxid
        for name in observer.get_children("/members")
    }
    sessions = [app.ask("state", "ready")["session"] == app.ready["session"] for app in bystanders]
    for app in bystanders:
        app.clean_up()
    disconnect(observer)
    # who had no node left nothing behind, and is not counted as fast
    times = sorted(kill.gone_ms for kill in run.kills if kill.nodes)
    return {
        "kills": len(run.kills),
        "seed": seed,
        "with_nodes_when_killed": len(times),
        "with_two_sessions": sum(kill.nodes > 1 for kill in run.kills),
        "load_1_min": os.getloadavg()[0],
        "min": times[0],
        "median": statistics.median(times),
        "p99": times[math.ceil(0.99 * len(times)) - 1],
        "max": times[-1],
        "later_than_1_s": [asdict(kill) for kill in run.kills if kill.gone_ms > LATE_MS],
        "killed_in_phase": dict(Counter(kill.phase for kill in run.kills)),
        "guardians_said": dict(Counter(line["outcome"] for line in reported(run.report))),
        "living_sessions_closed": sum(not same for same in sessions) + (after != before),
    }


def print_rows(rows: list[Row]) -> None:
    """The table for people."""
    print(
        f"{'how it ended':54} {'n':>3} {'min ms':>9} {'median ms':>10} {'max ms':>9}  what was done"
    )
    for row in rows:
        found = row.summary()
        if row.times_ms:
            print(
                f"{row.scenario:54} {found['n']:>3} {found['min']:>9.1f} {found['median']:>10.1f}"
                f" {found['max']:>9.1f}  {row.note}"
            )
        if row.failure:
            print(f"{row.scenario:54}   {row.failure}")


def resident(server: ZooKeeperServer) -> dict[str, float]:
    """The companion's size in MiB once it waits."""
    app = GuardedApp(server.address, node="/size", timeout_ms=20_000)
    memory = psutil.Process(app.companion).memory_full_info()
    app.clean_up()
    return {
        "rss_mib": memory.rss / 2**20,
        "uss_mib": memory.uss / 2**20,
        "pss_mib": memory.pss / 2**20,
    }


def main() -> int:
    """Measure, print, write; 1 when a living process lost its session or a kill went unnoticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--session-ms", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--quick", action="store_true", help="every scenario once")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="zkcoord-bench-") as name:
        folder = Path(name)
        java = find_java()
        server = ZooKeeperServer(
            folder / "zookeeper", free_port(), java, owned=True, options=ZooKeeperOptions()
        )
        server.start()
        try:
            bench = Bench(server, args.session_ms, folder)
            rows = [measure(bench, scenario, args.quick) for scenario in SCENARIOS]
            print_rows(rows)
            size = resident(server)
            print(
                f"companion: {size['rss_mib']:.1f} MiB resident, {size['uss_mib']:.1f} MiB its own"
            )
            kills = (
                massacre(server, args.session_ms, args.kills, args.seed, folder)
                if args.kills
                else {}
            )
            disconnect(bench.observer)
        finally:
            server.kill()
    for label, value in kills.items():
        print(f"{label}: {value:.1f}" if isinstance(value, float) else f"{label}: {value}")
    machine = {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "kazoo": kazoo.__version__,
        "load_1_min": load,
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(
        json.dumps(
            {
                "machine": machine,
                "session_ms": args.session_ms,
                "companion": size,
                "rows": [row.summary() for row in rows],
                "kills": kills,
            },
            indent=2,
        )
        + "\n"
    )
    print(f"Written: {REPORT.relative_to(ROOT)}")
    failed = any(row.failure.startswith("FAILED") for row in rows)
    return (
        1
        if failed or (kills and (kills["living_sessions_closed"] or kills["later_than_1_s"]))
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
