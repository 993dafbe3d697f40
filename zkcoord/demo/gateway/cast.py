"""Gateways, and unmodified clients that begin at one of them, beside the demo's other processes."""

from __future__ import annotations

import socket

from zkcoord.demo.cast import Cast
from zkcoord.demo.options import GROUP, TOPIC, Break
from zkcoord.demo.processes import KILL_TIMEOUT_S
from zkcoord.demo.spark.cast import Applications
from zkcoord.demo.state import ProcessKind
from zkcoord.stack.ports import HOST, free_port
from zkcoord.verdict import engine

SESSION_TIMEOUT_MS = 10_000
CONNECT_S = 0.5
CONSOLE, LIBRDKAFKA, APPLICATION = "j", "r", "s"
"""What the names of clients begin with."""


class WireClients:
    """The gateways and their clients of one run. `applications` starts the Spark application;
    `tools` is the class path of Kafka's tools.
    """

    def __init__(self, cast: Cast, tools: str) -> None:
        self.cast = cast
        self.applications = Applications(cast)
        self.tools = tools
        self._ports: dict[str, tuple[int, int]] = {}
        self.begun_at: dict[str, str] = {}

    # gateways

    def start_gateway(self, name: str) -> None:
        """`zkcoord gateway`; one that was there before has its old ports."""
        port, broker_port = self._ports.setdefault(name, (free_port(), free_port()))
        flags = [
            "--zookeeper",
            self.cast.addresses.zookeeper,
            "--brokers",
            self.cast.addresses.kafka,
            "--listen",
            f"{HOST}:{port}",
            "--broker-ports",
            f"0={broker_port}",
        ]
        self.cast.start(
            name, ProcessKind.GATEWAY, ["zkcoord.cli.main", "gateway", *flags], "output"
        )

    def listens(self, name: str) -> bool:
        """Can clients come to this gateway?"""
        for port in self._ports[name]:
            try:
                socket.create_connection((HOST, port), CONNECT_S).close()
            except OSError:
                return False
        return True

    def port_of(self, name: str) -> int:
        """Where clients begin that know this gateway."""
        return self._ports[name][0]

    def clients_of(self, gateway: str) -> list[str]:
        """Who begins at it."""
        return [name for name, at in self.begun_at.items() if at == gateway]

    # clients

    def start(self, name: str, gateway: str, fault: Break | None = None) -> None:
        """A client that knows one gateway: its name says what it is."""
        self.begun_at[name] = gateway
        flags = [
            "--bootstrap-servers",
            f"{HOST}:{self.port_of(gateway)}",
            "--topic",
            TOPIC,
            "--group",
            GROUP,
            "--client-id",
            name,
            "--commit-interval-ms",
            str(self.cast.options.commit_interval_ms),
            *(("--assignor", assignor) if (assignor := self.cast.options.assignor) else ()),
        ]
        if name.startswith(CONSOLE):
            folder = self.cast.options.folder / "console" / name
            more = ["--classpath", self.tools, "--folder", str(folder), *flags]
            module = ["zkcoord.demo.gateway.console", *more]
        else:
            acting = [] if fault is None else ["--fault", fault.value]
            module = ["zkcoord.demo.gateway.librdkafka", *acting, "--", *flags, *self._verifiable()]
        self.cast.start(name, ProcessKind.CONSUMER, module, engine.CONSUMERS)

    def _verifiable(self) -> list[str]:
        """What `consumer.verifiable` wants to know besides."""
        options = self.cast.options
        return [
            "--zookeeper",
            self.cast.addresses.zookeeper,
            "--commit",
            "auto",
            "--session-timeout-ms",
            str(SESSION_TIMEOUT_MS),
            "--max-poll-records",
            str(options.max_poll_records),
            "--batch-delay-ms",
            str(options.batch_delay_ms),
        ]

    def kill(self, name: str) -> int:
        """kill -9; the time just before it. What tells about a console consumer ends when it has
        told everything.
        """
        if not name.startswith(CONSOLE):
            return self.cast.kill(name)
        return self.kill_told(name, "java")

    def kill_told(self, name: str, program: str) -> int:
        """kill -9 of a client below the process that tells about it; the time just before it."""
        killed_ns = self.cast.kill_below(name, program)
        child = self.cast.children.children[name]
        child.process.wait(KILL_TIMEOUT_S)
        self.cast.gone(child, killed=True)
        return killed_ns

    def left(self, name: str) -> None:
        """Wait for the end of a client that was asked to leave."""
        if name.startswith(APPLICATION):
            self.applications.left(name)
        else:
            self.cast.left(name)
