"""A server's Java process, what can be done with servers of any kind, and what they share."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from zkcoord.errors import StackError
from zkcoord.stack import class_data
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST
from zkcoord.stack.process import ProcessId, ServerProcess

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0

_LOG_CONFIG = """status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %-5p [%t] %c{{1}} %m%n
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
"""


OnLaunch = Callable[[ProcessId], None]


class JavaProcess:
    """A server's Java process: its folder (made if it is not there), start, signals. `what` names
    it in errors. `running`: a process that already runs for it; `on_launch` is called with a new
    one before it is ready.
    """

    def __init__(
        self,
        what: str,
        home: Path,
        java: Java,
        owned: bool,
        running: ServerProcess | None = None,
        on_launch: OnLaunch | None = None,
    ) -> None:
        self.what = what
        self.home = home.absolute()
        self.java = java
        self.owned = owned
        self.on_launch = on_launch
        self.process = running
        self.home.mkdir(parents=True, exist_ok=True)

    @property
    def log(self) -> Path:
        """What the server writes."""
        return self.home / "server.log"

    def alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.alive()

    def stop(self) -> None:
        """A clean stop; nothing happens when it does not run."""
        if self.process is not None:
            self.process.stop(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """As kill -9 does it; returns when the process is gone."""
        self.running().kill()

    def pause(self) -> None:
        """SIGSTOP: it holds its connections and answers nothing."""
        self.running().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.running().signal(signal.SIGCONT)

    def running(self) -> ServerProcess:
        """The process. Raises `StackError` when it was not started."""
        if self.process is None:
            raise StackError(f"This {self.what} was not started: call start() first.")
        return self.process

    def launch(
        self, class_path: str, main: Sequence[str], heap_mb: int, properties: Mapping[str, str]
    ) -> ServerProcess:
        """Start the virtual machine. Small heap, one collector thread, class data shared: these
        machines serve tests, several at once.
        """
        logging = self.home / "log4j2.properties"
        logging.write_text(_LOG_CONFIG.format(log=self.log, level="info"), encoding="utf-8")
        options = [
            f"-Xmx{heap_mb}m",
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            *class_data.options(self.java, class_path),
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={logging}",
            "-Dzookeeper.jmx.log4j.disable=true",
        ]
        options += [f"-D{name}={value}" for name, value in properties.items()]
        command = [str(self.java.executable), *self.java.flags, *options, "-cp", class_path, *main]
        self.process = ServerProcess.start(command, self.log, self.owned)
        if self.on_launch is not None:
            self.on_launch(self.process.id)
        return self.process


class ServerControls(Protocol):
    """What can be done with a server of any kind."""

    program: JavaProcess

    @property
    def home(self) -> Path:
        """Its folder."""
        ...

    @property
    def log(self) -> Path:
        """What it writes."""
        ...

    @property
    def pid(self) -> int:
        """The pid of the running server. Raises `StackError` when it was not started."""
        ...

    @property
    def address(self) -> str:
        """Where it listens, `host:port`."""
        ...

    def start(self) -> None:
        """Start it and return when it serves."""

    def alive(self) -> bool:
        """Whether it runs."""
        ...

    def stop(self) -> None:
        """A clean stop; nothing happens when it does not run."""

    def kill(self) -> None:
        """As kill -9 does it; returns when the process is gone."""

    def pause(self) -> None:
        """SIGSTOP: it holds its connections and answers nothing."""

    def resume(self) -> None:
        """SIGCONT."""


def accepts(port: int) -> bool:
    """Whether something on this machine takes connections there."""
    try:
        socket.create_connection((HOST, port), 1.0).close()
    except OSError:
        return False
    return True


def write_properties(
    home: Path, values: Mapping[str, object], config: Mapping[str, str] | None
) -> Path:
    """Kafka's configuration file: `values`, and over them `config`."""
    path = home / "server.properties"
    lines = [f"{name}={value}" for name, value in {**values, **(config or {})}.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
