"""A leader's process is stopped for longer than its session, replaced, and continued: not one of
its fenced writes lands, and it learns that its session is over.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.harness.wait import wait_until
from tests.zk.port_contract import Session
from tests.zk.real import Loop
from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import (
    Check,
    Committed,
    Connected,
    Create,
    Expired,
    MultiResult,
    PortEvent,
    SetData,
    WatchMode,
)

ROOT = Path(__file__).parents[2]
SESSION_MS = 3_000
WAIT_S = 60.0


def lead(hosts: str) -> None:
    """The child: elect itself, then write under the fence as fast as answers come, until its
    session is over; last line: the number of writes that were acknowledged.
    """
    tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    over: list[PortEvent] = []
    committed = 0

    def on_event(event: PortEvent) -> None:
        if isinstance(event, Connected) and not committed:
            port.multi(
                [Create("/leader", b"", ephemeral=True), SetData("/epoch", b"1", 0)], written
            )
        elif isinstance(event, Expired):
            over.append(event)

    def written(result: MultiResult) -> None:
        nonlocal committed
        if isinstance(result, Committed):
            committed += 1
            if committed == 20:
                print("leading", flush=True)
            port.multi([Check("/epoch", 1), SetData("/work", str(committed).encode(), -1)], written)

    port = KazooEnsemble(ZkOptions(hosts, session_timeout_ms=SESSION_MS), tasks.put).open(on_event)
    while not over:
        tasks.get()()
    print(committed, flush=True)


def test_no_write_of_a_stopped_leader_lands(zk_hosts: str) -> None:
    s = Session(Loop(zk_hosts, session_timeout_ms=10_000))
    s.do(Create("/epoch", b"0"), Create("/work", b""))
    s.watch("/leader", WatchMode.PERSISTENT)
    command = [
        sys.executable,
        "-c",
        "import sys; from tests.zk.test_zombie import lead; lead(sys.argv[1])",
        zk_hosts,
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "leading\n"
            os.kill(child.pid, signal.SIGSTOP)
            s.wait(
                lambda: ("DELETED", "/leader") in s.fired(),
                "the end of the stopped leader's session",
            )
            s.do(Create("/leader", b"", ephemeral=True), SetData("/epoch", b"2", 1))
            os.kill(child.pid, signal.SIGCONT)
            wait_until(
                lambda: child.poll() is not None,
                WAIT_S,
                "the old leader to learn that its session is over",
            )
            acknowledged = int(child.stdout.read())
        finally:
            child.kill()
    work, epoch = s.node("/work"), s.node("/epoch")
    assert child.returncode == 0 and acknowledged >= 20
    assert work.stat.mzxid < epoch.stat.mzxid, (
        "a write of the old leader landed after its successor's election"
    )
    assert int(work.data) <= acknowledged
    s.close()
