"""One ZooKeeper server, three of them, one Kafka broker: configuration, start, readiness, faults,
stop.

Readiness is a condition, never a time: ZooKeeper answers `srvr` with its mode (a member of an
ensemble that has no quorum answers too, but without one), Kafka has created a NEW `brokers/ids/N`.
New matters: after a kill the old broker's node lives on until its session ends, and Kafka refuses
to start while it is there; so `start` first waits until it is gone.

Everything of a server is in its own folder: configuration, data, transaction log, `server.log`.
Addresses are loopback only.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_ports
from zkcoord.stack.probe import broker_probe, four_letter
from zkcoord.stack.process import ProcessId, ServerProcess, poll_until

TICK_MS = 500
SESSION_TIMEOUT_MAX_MS = 60_000
INIT_LIMIT_TICKS = 20
SYNC_LIMIT_TICKS = 10
PREALLOCATE_KIB = 4096
ZOOKEEPER_HEAP_MB = 256
KAFKA_HEAP_MB = 512
KAFKA_SESSION_TIMEOUT_MS = 6_000
KAFKA_RETENTION_HOURS = 24
OFFSETS_TOPIC_PARTITIONS = 10
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
FOUR_LETTER_WORDS = "ruok,srvr,mntr,cons,wchs,dirs"

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
    """What can be done with a server of any kind: everything that its process can."""

    program: JavaProcess

    @property
    def home(self) -> Path:
        """Its folder."""
        return self.program.home

    @property
    def log(self) -> Path:
        """What it writes."""
        return self.program.log

    @property
    def java(self) -> Java:
        """The Java that runs it."""
        return self.program.java

    @property
    def pid(self) -> int:
        """The pid of the running server. Raises `StackError` when it was not started."""
        return self.program.running().id.pid

    @property
    def address(self) -> str:
        """Where it listens, `host:port`."""
        ...

    def start(self) -> None:
        """Start it and return when it serves."""

    def alive(self) -> bool:
        """Whether it runs."""
        return self.program.alive()

    def stop(self) -> None:
        """A clean stop; nothing happens when it does not run."""
        self.program.stop()

    def kill(self) -> None:
        """As kill -9 does it; returns when the process is gone."""
        self.program.kill()

    def pause(self) -> None:
        """SIGSTOP: it holds its connections and answers nothing."""
        self.program.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.program.resume()


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """What a test may want to be different. `config` lines go into zoo.cfg as they are,
    `properties` become Java system properties; `class_path` is that of another release (else
    PySpark's).
    """

    tick_ms: int = TICK_MS
    session_timeout_max_ms: int = SESSION_TIMEOUT_MAX_MS
    connections_per_host_max: int = 0
    force_sync: bool = True
    heap_mb: int = ZOOKEEPER_HEAP_MB
    config: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    class_path: str = ""


class ZooKeeperServer(ServerControls):
    """A ZooKeeper server, alone or as member `number` of an ensemble (`peers`: number -> (quorum
    port, election port)).
    """

    def __init__(
        self,
        home: Path,
        port: int,
        java: Java,
        owned: bool,
        options: ZooKeeperOptions = ZooKeeperOptions(),
        number: int = 0,
        peers: Mapping[int, tuple[int, int]] | None = None,
        running: ServerProcess | None = None,
        on_launch: OnLaunch | None = None,
    ) -> None:
        self.program = JavaProcess("ZooKeeper server", home, java, owned, running, on_launch)
        self.port = port
        self.options = options
        self.number = number
        self.peers = dict(peers or {})

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def txn(self) -> Path:
        """The folder of its transaction log."""
        return self.home / "txn"

    def start(self) -> None:
        """Start it and return when it serves (a member of an ensemble: when it has a quorum)."""
        self.launch()
        self.wait_serving()

    def launch(self) -> None:
        """Start it and do not wait: the members of an ensemble need each other to become ready."""
        config = self._write_config()
        properties = {
            "zookeeper.preAllocSize": str(PREALLOCATE_KIB),
            "zookeeper.forceSync": "yes" if self.options.force_sync else "no",
            "zookeeper.admin.enableServer": "false",
        }
        properties |= self.options.properties
        self.program.launch(
            self.options.class_path or jars.zookeeper_classpath(),
            ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)],
            self.options.heap_mb,
            properties,
        )

    def wait_serving(self, timeout_s: float = START_TIMEOUT_S) -> None:
        self.program.running().wait_ready(
            lambda: self.mode() is not None, timeout_s, f"ZooKeeper at {self.address}"
        )

    def mode(self) -> str | None:
        """`standalone`, `leader` or `follower`; None while it does not serve."""
        return four_letter(self.port, "srvr").get("Mode")

    def _write_config(self) -> Path:
        for name in ("data", "txn"):
            (self.home / name).mkdir(exist_ok=True)
        values = {
            "tickTime": self.options.tick_ms,
            "maxSessionTimeout": self.options.session_timeout_max_ms,
            "maxClientCnxns": self.options.connections_per_host_max,
            "dataDir": self.home / "data",
            "dataLogDir": self.txn,
            "clientPort": self.port,
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": FOUR_LETTER_WORDS,
            "autopurge.purgeInterval": 1,
        }
        if self.peers:
            (self.home / "data" / "myid").write_text(f"{self.number}\n", encoding="utf-8")
            values |= {"initLimit": INIT_LIMIT_TICKS, "syncLimit": SYNC_LIMIT_TICKS}
            values |= {
                f"server.{number}": f"{HOST}:{quorum}:{election}"
                for number, (quorum, election) in self.peers.items()
            }
        lines = [f"{name}={value}" for name, value in {**values, **self.options.config}.items()]
        path = self.home / "zoo.cfg"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


class ZooKeeperEnsemble:
    """Several ZooKeeper servers with a quorum, numbered from 1. Members are started, killed and
    paused one by one through `members`.
    """

    def __init__(
        self,
        home: Path,
        java: Java,
        owned: bool,
        size: int = 3,
        options: ZooKeeperOptions = ZooKeeperOptions(),
    ) -> None:
        ports = free_ports(3 * size)
        peers = {
            number: (ports[size + number - 1], ports[2 * size + number - 1])
            for number in range(1, size + 1)
        }
        self.members = {
            number: ZooKeeperServer(
                home / f"zookeeper-{number}", ports[number - 1], java, owned, options, number, peers
            )
            for number in peers
        }

    @property
    def hosts(self) -> str:
        """A client's connect string: every member."""
        return ",".join(member.address for member in self.members.values())

    def start(self) -> None:
        """Start all and return when all serve."""
        for member in self.members.values():
            member.launch()
        for member in self.members.values():
            member.wait_serving()

    def stop(self) -> None:
        for member in self.members.values():
            if member.alive():
                member.kill()

    def leader(self) -> ZooKeeperServer:
        """The member that leads; StackError when none does within the start limit."""
        found: list[ZooKeeperServer] = []

        def look() -> bool:
            found[:] = [
                member
                for member in self.members.values()
                if member.alive() and member.mode() == "leader"
            ]
            return bool(found)

        if not poll_until(look, START_TIMEOUT_S):
            raise StackError(
                "The ensemble has no leader: are more than half of its members running?"
            )
        return found[0]

    def followers(self) -> list[ZooKeeperServer]:
        return [
            member
            for member in self.members.values()
            if member.alive() and member.mode() == "follower"
        ]


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


class KafkaBroker(ServerControls):
    """A Kafka broker in ZooKeeper mode. `zookeeper` is a connect string and may end in a chroot,
    which Kafka creates; `artifact` is the release to run.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        zookeeper: str,
        java: Java,
        owned: bool,
        broker_id: int = 0,
        config: Mapping[str, str] | None = None,
        artifact: jars.Artifact = jars.KAFKA,
        running: ServerProcess | None = None,
        on_launch: OnLaunch | None = None,
    ) -> None:
        self.program = JavaProcess("Kafka broker", home, java, owned, running, on_launch)
        self.port = port
        self.config = config
        self.artifact = artifact
        self.zookeeper = zookeeper
        self.broker_id = broker_id

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{HOST}:{self.port}"

    def start(self, progress: jars.Progress = lambda _: None) -> None:
        """Start it and return when it is registered and takes connections. The first start on a
        machine fetches its jars.
        """
        found = jars.resolve(self.artifact, self.java, progress)
        class_path = os.pathsep.join([jars.logging_classpath(), *map(str, found)])
        with broker_probe(self.zookeeper, self.broker_id) as registered:
            if not poll_until(
                lambda: registered() is None, KAFKA_SESSION_TIMEOUT_MS / 1000 + START_TIMEOUT_S
            ):
                raise StackError(
                    f"Another broker {self.broker_id} is registered at {self.zookeeper}: stop it"
                    " first."
                )
            process = self.program.launch(
                class_path, ["kafka.Kafka", str(self._write_config())], KAFKA_HEAP_MB, {}
            )
            process.wait_ready(
                lambda: registered() is not None and accepts(self.port),
                START_TIMEOUT_S,
                f"Kafka at {self.address}",
            )

    def _write_config(self) -> Path:
        values = {
            "broker.id": self.broker_id,
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": KAFKA_SESSION_TIMEOUT_MS,
            "log.dirs": self.home / "data",
            "log.retention.hours": KAFKA_RETENTION_HOURS,
            "auto.create.topics.enable": "false",
            "delete.topic.enable": "true",
            "num.partitions": 1,
            "offsets.topic.num.partitions": OFFSETS_TOPIC_PARTITIONS,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": OFFSETS_TOPIC_PARTITIONS,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "controlled.shutdown.enable": "false",
        }
        return write_properties(self.home, values, self.config)
