"""One coordinator in a process of its own, as it ships but for what stands around it, that says
when things happened.

    python -m tests.bench.scale_coordinator HOSTS JOURNAL [--session-ms N] [--lease-ms N]
        [--counts] [--weighs] [--targets GROUP] [--stands-by GROUPS] [--profile FILE]

It prints JSON lines {"event", "t" (ns of the machine's clock since it started), ...}:

    connected {cpu_s}                               the session is established; seconds of processor
                                                    time that this process has used so far
    ahead {rss_mib, cpu_s}                          with --stands-by: so many groups have been read
                                                    while it stands by
    elected {received, cpu_s}                       its term begins
    ready {groups, sent, received, rss_mib, cpu_s}  the world is read, decisions begin; bytes on the
                                                    wire so far, and the process's peak memory
    now {cpu_s, rss_mib, multis, ops, written, events, sent, received, queue, targets}
                                             after each SIGUSR1: seconds of processor time and peak
                                             memory so far; since `ready` transactions, with
                                             --weighs their operations and bytes, and watch events;
                                             bytes on the wire so far, groups that wait for their
                                             turn, targets
    ended {trace}                            after SIGTERM, when the session is closed

JOURNAL gets the journal's records, one per line, as they come. `trace` holds what happened on the
session since `ready`: ["fired", t, bytes, path] for each watch event, when its bytes were read on
the connection's thread and how many had been read before it; ["multi", sent, answered, bytes,
paths] for each transaction, with the bytes read until its answer. With --counts they are only
counted, so that memory and time are those of a coordinator that nobody watches. `targets` has
[generation, members, moves, needed] of each target of GROUP: how many partitions it takes from
members that are there, and how many of these a balance needs (`scale_targets`).
"""

from __future__ import annotations

import argparse
import cProfile
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.scale_targets import Targets
from zkcoord.assignors.plugins import find
from zkcoord.assignors.pool import AssignorOptions, AssignorPool
from zkcoord.coordinator import gc_policy
from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.core.assignment import ASSIGNORS
from zkcoord.core.events import Elected, Event, Ready
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.clock import boot_ms, boot_ns, wall_ms
from zkcoord.zk.kazoo_port import connection, wire_requests
from zkcoord.zk.kazoo_port.session import EdgeClient, KazooEnsemble, KazooPort
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import ZkOptions, parse_hosts
from zkcoord.zk.port import Change, MultiResult, Op, PortEvent
from zkcoord.znodes.paths import Layout

TRACE_MAX = 500_000
EVENT_FIXED_BYTES = 32
"""Of a watch event on the wire, beside its path."""


class Wire(connection.EdgeConnection):
    """A connection that counts its bytes."""

    received = 0
    sent = 0

    def _read(self, length: int, timeout: float) -> bytes:
        out = super()._read(length, timeout)
        Wire.received += length
        return out

    def _write(self, frames: bytes, timeout: float) -> None:
        Wire.sent += len(frames)
        super()._write(frames, timeout)


class TracedPort(KazooPort):
    """A session that remembers what happened on it."""

    trace: list[list[Any]] = []
    tracing = False
    counts_only = weighs = False
    multis = ops = written = 0
    events = 0

    def connected(
        self,
        generation: int,
        session_id: int,
        password: bytes,
        timeout_ms: int,
        server: tuple[str, int],
    ) -> None:
        say("connected", cpu_s=time.process_time())
        super().connected(generation, session_id, password, timeout_ms, server)

    @property
    def _keeps(self) -> bool:
        return self.tracing and not self.counts_only and len(self.trace) < TRACE_MAX

    def fired(self, events: Sequence[tuple[Change, str]]) -> None:
        TracedPort.events += self.tracing * len(events)
        if self._keeps:
            now_ns, later = boot_ns(), sum(EVENT_FIXED_BYTES + len(path) for _, path in events)
            for _, path in events:
                later -= EVENT_FIXED_BYTES + len(path)
                self.trace.append(
                    [
                        "fired",
                        now_ns,
                        Wire.received - later,
                        wire_requests.relative(self.chroot, path),
                    ]
                )
        super().fired(events)

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        if self.tracing and self.weighs:
            TracedPort.ops += len(ops)
            TracedPort.written += len(wire_requests.multi_request(self.chroot, ops).payload)
        super().multi(ops, partial(self._answered, boot_ns(), [op.path for op in ops], done))

    def _answered(
        self,
        sent_ns: int,
        paths: list[str],
        done: Callable[[MultiResult], None],
        result: MultiResult,
    ) -> None:
        TracedPort.multis += self.tracing
        if self._keeps:
            self.trace.append(["multi", sent_ns, boot_ns(), Wire.received, paths])
        done(result)


class TracedEnsemble(KazooEnsemble):
    """Sessions of that kind."""

    def open(self, on_event: Callable[[PortEvent], None]) -> KazooPort:
        port = TracedPort(self, on_event, self._post)
        port.start(EdgeClient(self.options, self._tls, port))
        return port


class Driver(CoordinatorDriver):
    """Says when it is ready, and ends the loop when it has finished."""

    loop: Loop
    on_ready: Callable[[], None]
    targets: Targets | None = None
    stands_by: int = 0

    def _feed(self, event: Event) -> None:
        super()._feed(event)
        if self.targets is not None and TracedPort.tracing:
            self.targets.look(self.core)
        if isinstance(event, Ready):
            self.on_ready()
            say(
                "ready",
                groups=len(self.core.groups),
                sent=Wire.sent,
                received=Wire.received,
                rss_mib=peak_mib(),
                cpu_s=time.process_time(),
            )
            TracedPort.tracing = True

    def _step(self, event: Event) -> None:
        if isinstance(event, Elected):
            say("elected", received=Wire.received, cpu_s=time.process_time())
        super()._step(event)

    def report(self) -> None:
        """What has been so far."""
        say(
            "now",
            cpu_s=time.process_time(),
            rss_mib=peak_mib(),
            multis=TracedPort.multis,
            ops=TracedPort.ops,
            written=TracedPort.written,
            events=TracedPort.events,
            sent=Wire.sent,
            received=Wire.received,
            queue=len(self.core.queue),
            targets=self.targets.found if self.targets is not None else [],
        )

    def next_wake_ms(self) -> int | None:
        if self.finished:
            self.loop.stop()
        if self.stands_by and self.world.groups_ahead >= self.stands_by:
            self.stands_by = 0
            say("ahead", rss_mib=peak_mib(), cpu_s=time.process_time())
        return super().next_wake_ms()


def peak_mib() -> float:
    """The most memory that this program has had. (What `getrusage` says counts what the benchmark
    had when it made this process.)
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return round(int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) / 1024, 1)


def say(event: str, **fields: Any) -> None:
    """One line, whole."""
    sys.stdout.write(json.dumps({"event": event, "t": boot_ns(), **fields}) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Coordinate until SIGTERM."""
    parser = argparse.ArgumentParser(description="A coordinator for the scale benchmark.")
    parser.add_argument("hosts")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--session-ms", type=int, default=60_000)
    parser.add_argument("--lease-ms", type=int, default=CoordinatorOptions().lease_max_ms)
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--weighs", action="store_true")
    parser.add_argument("--targets")
    parser.add_argument("--stands-by", type=int, default=0)
    parser.add_argument("--profile", type=Path)
    args = parser.parse_args()
    TracedPort.counts_only, TracedPort.weighs = args.counts, args.weighs
    gc_policy.collect_seldom()
    connection.EdgeConnection = Wire  # type: ignore[misc]
    loop = Loop("coordinator")
    ensemble = TracedEnsemble(ZkOptions(args.hosts, session_timeout_ms=args.session_ms), loop.post)
    profile = cProfile.Profile() if args.profile else None
    with args.journal.open("w", buffering=1, encoding="utf-8") as out:

        def keep(record: dict[str, object]) -> None:
            print(json.dumps(record), file=out)
            if record["kind"] == "term" and record["event"] != "resigned":
                (
                    gc_policy.term_begins
                    if record["event"] == "elected"
                    else gc_policy.world_is_read
                )()

        pool = AssignorPool(AssignorOptions(), loop.post)
        options = CoordinatorOptions(
            external_assignors=find(tuple(ASSIGNORS)).names, lease_max_ms=args.lease_ms
        )
        driver = Driver(
            ensemble,
            Layout.DRAFT,
            options,
            boot_ms,
            wall_ms,
            keep,
            chroot=parse_hosts(args.hosts)[1],
            ask=pool.submit,
        )
        driver.loop = loop
        driver.stands_by = args.stands_by
        driver.targets = Targets(args.targets) if args.targets else None
        driver.on_ready = lambda: profile.disable() if profile else None
        signal.signal(signal.SIGTERM, lambda *_: loop.post(driver.stop))
        signal.signal(signal.SIGUSR1, lambda *_: loop.post(driver.report))
        loop.attach(driver)
        loop.post(driver.start)
        if profile:
            loop.post(profile.enable)
        loop.run()
        pool.close()
    if profile:
        profile.dump_stats(args.profile)
    say("ended", trace=TracedPort.trace)
    if loop.failure is not None:
        raise loop.failure
    return 0 if driver.failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
