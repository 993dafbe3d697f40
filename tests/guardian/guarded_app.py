"""A guarded process for tests: a ZooKeeper session with one ephemeral node and a Guardian; told on
standard input what to do next.

    python -m tests.guardian.guarded_app HOSTS '{"node": "/n", ...}'

Options (JSON): node; timeout_ms; servers [[host, port], ...] (what the guardian is told, default
HOSTS'); report; socket; tls {ca_file: ...}; guardian (false: do without); also (a pid). Every event
is one JSON line on standard output; the first says "ready" with the pids of the process and its
companion, and the session. Commands, one per line: `fork` (a child that lives on), `session` (a new
session, the old one closed after), `both` (a new session, the old one left), `close` (clean:
session, then guardian), `forget`, `state`, `return` (the process ends, nothing closed), `exec`
(become `sleep`), `flood` (say the session more often than a pipe holds), `eat` (take memory until
the kernel objects).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient

from zkcoord.guardian.client import (
    SOCKET_VARIABLE,
    Guardian,
    GuardianAway,
    Off,
    Running,
    TlsOptions,
)

CHILD_LIFE_S = 120
FLOOD_MESSAGES = 1000
EATEN_BYTES = 1 << 20
SAYING = threading.Lock()


def say(event: str, **fields: Any) -> None:
    """One event line, from whatever thread."""
    with SAYING:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


class App:
    """The session, the node and the guardian."""

    def __init__(self, hosts: str, options: dict[str, Any]) -> None:
        self.hosts = hosts
        self.options = options
        tls = TlsOptions(**options["tls"]) if "tls" in options else None
        self.guardian = Guardian.start(
            tls,
            lambda line: say("log", line=line),
            enabled=options.get("guardian", True),
            socket_path=options.get("socket"),
            report_path=options.get("report"),
            also=options.get("also"),
        )
        self.client = self.connect()

    def connect(self) -> KazooClient:
        """A new session with the node, handed over."""
        client = KazooClient(self.hosts, timeout=self.options.get("timeout_ms", 20_000) / 1000)
        client.start()
        session_id, password = client.client_id
        default = [
            (host, int(port))
            for host, _, port in (
                word.rpartition(":") for word in self.hosts.partition("/")[0].split(",")
            )
        ]
        servers = [(host, port) for host, port in self.options.get("servers", default)]
        self.watched = (session_id, password, client._session_timeout, servers)
        self.guardian.watch(*self.watched)
        client.create(self.options["node"], b"", ephemeral=True)
        return client

    def ready(self) -> None:
        """Say who and what we are."""
        state = self.guardian.state
        companion = companion_pid()
        while (
            companion is None
            and isinstance(state, Running)
            and "socket" not in self.options
            and SOCKET_VARIABLE not in os.environ
        ):
            # on a busy machine it may still be on its way into its program
            companion = companion_pid()
            state = self.guardian.state
        say(
            "ready",
            pid=os.getpid(),
            companion=companion,
            session=self.client.client_id[0],
            password=self.client.client_id[1].hex(),
            state=type(state).__name__,
            why=str(state) if isinstance(state, (Off, GuardianAway)) else "",
        )

    def obey(self, command: str) -> None:
        """One command of the test."""
        if command in ("session", "both"):
            old = self.client
            self.options["node"] += "x"
            self.client = self.connect()
            if command == "session":
                old.stop()
            self.ready()
        elif command == "fork":
            self.fork()
        elif command == "close":
            self.client.stop()
            self.guardian.stop()
            say("closed")
        elif command == "forget":
            self.guardian.forget()
            say("forgotten")
        elif command == "state":
            self.ready()
        elif command == "flood":
            for _ in range(FLOOD_MESSAGES):
                self.guardian.watch(*self.watched)
            self.ready()
        elif command == "eat":
            eaten = bytearray()
            while True:
                eaten += b"x" * EATEN_BYTES
        elif command == "exec":
            say("exec")
            os.execvp("sleep", ["sleep", str(CHILD_LIFE_S)])
        elif command == "return":
            sys.stdout.flush()
            os._exit(0)

    def fork(self) -> None:
        """A child that has everything we have and lives on."""
        child = os.fork()
        if child == 0:
            self.guardian.watch(1, b"x" * 16, 1000, [("127.0.0.1", 1)])  # must not reach anybody
            state = self.guardian.state
            say(
                "forked",
                pid=os.getpid(),
                state=type(state).__name__,
                reason=getattr(state, "reason", None) and state.reason.name,
            )
            time.sleep(CHILD_LIFE_S)
            os._exit(0)


def companion_pid() -> int | None:
    """Our child that is a companion."""
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        pids = [int(pid) for pid in children.read().split()]
    for task in os.listdir("/proc/self/task"):  # it is the child of the thread that started it
        with open(f"/proc/self/task/{task}/children") as children:
            pids += [int(pid) for pid in children.read().split()]
    for pid in pids:
        # one that is being replaced may end while we look
        with (
            suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/{pid}/cmdline", "rb") as command,
        ):
            if b"companion.py" in command.read():
                return pid
    return None


def main() -> None:
    """Run until standard input ends."""
    app = App(sys.argv[1], json.loads(sys.argv[2]))
    app.ready()
    for line in sys.stdin:
        app.obey(line.strip())


if __name__ == "__main__":
    main()
