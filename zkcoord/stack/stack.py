"""A ZooKeeper and a Kafka broker under one folder, brought up and down as a whole.

`state.json` in the folder remembers the ports and the processes, so that another run (and another
command: `down`, `status`) finds them, and a stack that was down comes up at the same addresses with
its data. Ports are drawn free for each folder: two checkouts do not collide. A file lock makes two
commands on one folder wait for each other.

Two ways to use it. `Stack(folder).up()` leaves the servers running until `down()`, as `zkcoord
stack` does. `running_stack(folder)` is for a program that needs them while it runs: they end with
the block, with Ctrl-C, with a SIGTERM, and through a watcher process also when the program is
killed with -9.

Order: jars first (so that a failed download leaves nothing running), ZooKeeper before Kafka, Kafka
down before ZooKeeper. What a failing `up` has started it stops again.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.ports import HOST, free_port, is_free
from zkcoord.stack.process import ProcessId, ServerProcess
from zkcoord.stack.servers import (
    CONTROLLER,
    STOP_TIMEOUT_S,
    KafkaBroker,
    KRaftNode,
    ServerControls,
    ZooKeeperOptions,
    ZooKeeperServer,
    new_cluster_id,
)

DEFAULT_FOLDER = ".zkcoord-stack"
STATE_VERSION = 1
SIGTERM_EXIT_STATUS = 128 + signal.SIGTERM


def quiet(_: str) -> None:
    """Progress that is not shown."""


class KafkaKind(str, Enum):
    """Which Kafka a stack has. A folder stays with the one that it was begun with."""

    ZOOKEEPER = "3.9 with ZooKeeper"
    KRAFT = "3.9 with KRaft"
    KRAFT_4 = "4 with KRaft"

    @property
    def artifact(self) -> jars.Artifact:
        """What it runs from."""
        return jars.KAFKA_4 if self is KafkaKind.KRAFT_4 else jars.KAFKA


class ServerState(str, Enum):
    """`gone` is a server that nobody stopped: it ended by itself or was killed."""

    RUNNING = "running"
    STOPPED = "stopped"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server of a stack. `address` is where it is, or will be again; `pid` is None unless it
    runs.
    """

    state: ServerState
    address: str
    pid: int | None
    log: str


@dataclass(frozen=True, slots=True)
class StackStatus:
    """A stack. A server that was never started here is None."""

    folder: str
    zookeeper: ServerStatus | None
    kafka: ServerStatus | None

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The servers that were ever started here, by name."""
        both = {"zookeeper": self.zookeeper, "kafka": self.kafka}
        return {name: status for name, status in both.items() if status is not None}

    @property
    def running(self) -> bool:
        """Whether a server runs and none is gone."""
        states = {status.state for status in self.servers.values()}
        return ServerState.RUNNING in states and ServerState.GONE not in states

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Stack:
    """The stack in `folder`. `owned` servers die with this process; the others run until `down`.
    `progress` gets sentences for the user.
    """

    def __init__(
        self,
        folder: Path,
        progress: jars.Progress = quiet,
        owned: bool = False,
        zookeeper_options: ZooKeeperOptions = ZooKeeperOptions(),
    ) -> None:
        self.folder = folder.absolute()
        self.progress = progress
        self.owned = owned
        self.zookeeper_options = zookeeper_options
        self.zookeeper: ZooKeeperServer | None = None
        self.kafka: KafkaBroker | KRaftNode | None = None

    def up(self, kafka: bool = True, kind: KafkaKind | None = None) -> StackStatus:
        """Start what does not run and return when all of it serves. `kind` None: the one that the
        folder was begun with (else with ZooKeeper). StackError, with nothing left
        running that was not before, when it cannot.
        """
        java = find_java()
        jars.zookeeper_classpath()
        self.folder.mkdir(parents=True, exist_ok=True)
        if kafka:
            jars.resolve((kind or _begun(_read_state(self.folder))).artifact, java, self.progress)
        started: list[ServerControls] = []
        with self._exclusive():
            state = _read_state(self.folder)
            try:
                port = _port(state, "zookeeper")
                self.zookeeper = ZooKeeperServer(
                    self.folder / "zookeeper",
                    port,
                    java,
                    self.owned,
                    self.zookeeper_options,
                    running=self._running(state, "zookeeper"),
                    on_launch=partial(self._launched, state, "zookeeper", port),
                )
                self._start(self.zookeeper, "ZooKeeper", started)
                if kafka:
                    self.kafka = self._kafka(
                        state, kind or _begun(state), self.zookeeper.address, java
                    )
                    self._start(self.kafka, "Kafka", started)
            # also a Ctrl-C: what was started is stopped, and the reason goes on
            except BaseException:
                for server in reversed(started):
                    if server.alive():
                        server.kill()
                self._forget_stopped(state)
                raise
        return self.status()

    def _kafka(
        self, state: dict[str, Any], kind: KafkaKind, zookeeper: str, java: Java
    ) -> KafkaBroker | KRaftNode:
        begun = _begun(state)
        if "kafka" in state and begun is not kind:
            raise StackError(
                f"The stack in {self.folder} was begun with Kafka {begun.value}: use another folder"
                f" (--dir) for Kafka {kind.value}."
            )
        port = _port(state, "kafka")
        state["kafka"]["kind"] = kind.value
        home, running = self.folder / "kafka", self._running(state, "kafka")
        launched = partial(self._launched, state, "kafka", port)
        if kind is KafkaKind.ZOOKEEPER:
            return KafkaBroker(
                home, port, zookeeper, java, self.owned, running=running, on_launch=launched
            )
        return KRaftNode(
            home,
            port,
            java,
            CONTROLLER,
            _port(state, "controller"),
            None,
            kind.artifact,
            self.owned,
            running,
            launched,
            new_cluster_id(),
        )

    def down(self) -> StackStatus:
        """Stop what runs, Kafka first; its data stays in the folder. Nothing happens when nothing
        runs.
        """
        if not self.folder.is_dir():
            return StackStatus(str(self.folder), None, None)
        with self._exclusive():
            state = _read_state(self.folder)
            zookeeper, kafka = (
                _process(state, "zookeeper", self.folder),
                _process(state, "kafka", self.folder),
            )
            if kafka is not None and kafka.alive():
                self.progress("Stopping Kafka ...")
                # Without its ZooKeeper a broker would wait for it for as long as it is let.
                if zookeeper is not None and zookeeper.alive():
                    kafka.stop(STOP_TIMEOUT_S)
                else:
                    kafka.kill()
            if zookeeper is not None and zookeeper.alive():
                self.progress("Stopping ZooKeeper ...")
                zookeeper.stop(STOP_TIMEOUT_S)
            self._forget_stopped(state)
        return self.status()

    def status(self) -> StackStatus:
        """What the folder remembers, and what of it runs now. Starts nothing and writes nothing."""
        state = _read_state(self.folder)
        return StackStatus(
            str(self.folder),
            _status(state, "zookeeper", self.folder),
            _status(state, "kafka", self.folder),
        )

    def _running(self, state: dict[str, Any], name: str) -> ServerProcess | None:
        """The process that already runs for a server, if one does."""
        running = _process(state, name, self.folder)
        if running is None or not running.alive():
            return None
        if self.owned:
            raise StackError(
                f"The stack in {self.folder} is already up and would be stopped with this"
                f" program: use another folder, or run `zkcoord stack down --dir {self.folder}`."
            )
        return running

    def _launched(self, state: dict[str, Any], name: str, port: int, process_id: ProcessId) -> None:
        """Written down at once: whoever is killed while a server starts must not lose it."""
        state[name] = {**_lasting(state[name]), "port": port, **asdict(process_id)}
        self._write(state)

    def _start(self, server: ServerControls, title: str, started: list[ServerControls]) -> None:
        if server.alive():
            self.progress(f"{title} already runs at {server.address}.")
            return
        self.progress(f"Starting {title} at {server.address} ...")
        began = time.monotonic()
        started.append(server)
        server.start()
        self.progress(
            f"{title} serves at {server.address} (after {time.monotonic() - began:.1f} s)."
        )

    def _forget_stopped(self, state: dict[str, Any]) -> None:
        """Keep the ports, drop the processes that do not run any more."""
        for name, entry in state.items():
            process_id = _process_id(state, name)
            if process_id is not None and not process_id.alive():
                state[name] = _lasting(entry)
        self._write(state)

    def _write(self, state: dict[str, Any]) -> None:
        partial = self.folder / f"state.json.{os.getpid()}"
        partial.write_text(
            json.dumps({"version": STATE_VERSION, **state}, indent=1) + "\n", encoding="utf-8"
        )
        partial.rename(self.folder / "state.json")

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with (self.folder / "lock").open("w", encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield


@contextmanager
def running_stack(
    folder: Path,
    kafka: bool = True,
    progress: jars.Progress = quiet,
    zookeeper_options: ZooKeeperOptions = ZooKeeperOptions(),
    kind: KafkaKind | None = None,
) -> Iterator[Stack]:
    """A stack that is up inside the block and gone after it. In the main thread a SIGTERM becomes
    SystemExit, so that the block is left in order.
    """
    stack = Stack(folder, progress, owned=True, zookeeper_options=zookeeper_options)
    with terminable():
        stack.up(kafka, kind)
        try:
            yield stack
        finally:
            stack.down()


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM as SystemExit, unless the program has a handler of its own or this is not the main
    thread.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(SIGTERM_EXIT_STATUS)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _read_state(folder: Path) -> dict[str, Any]:
    """What the folder remembers: server name -> port, pid, started. Empty when it is new."""
    path = folder / "state.json"
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise StackError(
            f"{path} cannot be read ({error}): stop what runs from {folder} and delete that folder."
        ) from None
    if not isinstance(state, dict) or state.pop("version", None) != STATE_VERSION:
        raise StackError(
            f"{path} was written by another version of zkcoord: stop what runs from {folder} and"
            " delete that folder."
        )
    return state


def _begun(state: dict[str, Any]) -> KafkaKind:
    """Which Kafka the folder was begun with."""
    return KafkaKind(state.get("kafka", {}).get("kind", KafkaKind.ZOOKEEPER.value))


def _lasting(entry: dict[str, Any]) -> dict[str, Any]:
    """What is remembered of a server that does not run."""
    return {name: entry[name] for name in ("port", "kind") if name in entry}


def _port(state: dict[str, Any], name: str) -> int:
    """The remembered port, unless something else has taken it meanwhile."""
    remembered = state.get(name, {}).get("port")
    taken = frozenset(entry["port"] for entry in state.values())
    if remembered is None:
        port = free_port(taken)
    else:
        process = _process_id(state, name)
        port = (
            remembered
            if (process is not None and process.alive()) or is_free(remembered)
            else free_port(taken)
        )
    state.setdefault(name, {})["port"] = port
    return port


def _process_id(state: dict[str, Any], name: str) -> ProcessId | None:
    entry = state.get(name, {})
    return ProcessId(entry["pid"], entry["started"]) if "pid" in entry else None


def _process(state: dict[str, Any], name: str, folder: Path) -> ServerProcess | None:
    process_id = _process_id(state, name)
    return (
        None
        if process_id is None
        else ServerProcess.attach(process_id, folder / name / "server.log")
    )


def _status(state: dict[str, Any], name: str, folder: Path) -> ServerStatus | None:
    if name not in state:
        return None
    process_id = _process_id(state, name)
    address, log = f"{HOST}:{state[name]['port']}", str(folder / name / "server.log")
    if process_id is None:
        return ServerStatus(ServerState.STOPPED, address, None, log)
    if process_id.alive():
        return ServerStatus(ServerState.RUNNING, address, process_id.pid, log)
    return ServerStatus(ServerState.GONE, address, None, log)
