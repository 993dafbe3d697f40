"""A ZooKeeper server, or several with a quorum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_ports
from zkcoord.stack.probe import four_letter
from zkcoord.stack.process import ServerProcess, poll_until
from zkcoord.stack.servers.java_process import START_TIMEOUT_S, JavaProcess, OnLaunch

TICK_MS = 500
SESSION_TIMEOUT_MAX_MS = 60_000
INIT_LIMIT_TICKS = 20
SYNC_LIMIT_TICKS = 10
PREALLOCATE_KIB = 4096
ZOOKEEPER_HEAP_MB = 256
FOUR_LETTER_WORDS = "ruok,srvr,mntr,cons,wchs,dirs"


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


class ZooKeeperServer:
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
    def home(self) -> Path:
        """Its folder."""
        return self.program.home

    @property
    def log(self) -> Path:
        """What it writes."""
        return self.program.log

    @property
    def pid(self) -> int:
        """The pid of the running server. Raises `StackError` when it was not started."""
        return self.program.running().id.pid

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

    @property
    def address(self) -> str:
        """`host:port`."""
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
        # Servers of the oldest releases clean up in a thread while they start, and both make the
        # folder: who comes second ends ("Unable to create data directory").
        for name in ("data", "txn"):
            (self.home / name / "version-2").mkdir(parents=True, exist_ok=True)
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
