"""The clients of the mixed group: those that the demo has, and those of other languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.bench.gateway_clients import ROUND_ROBIN, options_of
from tests.gateway.mixed.plan import FRANZ, JAVA, KAFKAJS, SHIM, SPARK
from zkcoord.demo.cast import Cast
from zkcoord.demo.gateway.cast import WireClients
from zkcoord.demo.options import GROUP, TOPIC, Break
from zkcoord.demo.state import ProcessKind
from zkcoord.stack.ports import HOST
from zkcoord.verdict import engine

TOLD = {KAFKAJS: "kafkajs", FRANZ: "franz-go"}
"""Kind -> the library of `tests.gateway.foreign`."""
PROGRAMS = {JAVA: "java", KAFKAJS: "node", FRANZ: "franz"}
"""Kind -> the program that is killed, where another process tells about it."""


class MixedClients(WireClients):
    """As the demo's. `foreign`: library -> the first words of its client's command."""

    def __init__(self, cast: Cast, tools: str, foreign: Mapping[str, Sequence[str]]) -> None:
        super().__init__(cast, tools)
        self.foreign = foreign

    def begin(self, name: str, gateway: str, fault: Break | None = None) -> None:
        """A client of any kind; one that comes through a gateway begins at this one."""
        kind = name[0]
        if kind == SHIM:
            self.cast.start_consumer(name, fault)
        elif kind == SPARK:
            self.applications.start_application(name)
        elif kind in TOLD:
            self._start_told(name, TOLD[kind], gateway)
        else:
            self.start(name, gateway, fault)

    def _start_told(self, name: str, library: str, gateway: str) -> None:
        self.begun_at[name] = gateway
        options = options_of(library, ROUND_ROBIN, f"{HOST}:{self.port_of(gateway)}", GROUP)
        options |= {
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": str(self.cast.options.commit_interval_ms),
        }
        given = [f"{option}={value}" for option, value in options.items()]
        words = ["tests.gateway.mixed.told", TOPIC, "--", *self.foreign[library], TOPIC, *given]
        self.cast.start(name, ProcessKind.CONSUMER, words, engine.CONSUMERS)

    def kill(self, name: str) -> int:
        """kill -9; the time just before it."""
        if name[0] == SPARK:
            return self.applications.kill_jvm(name)
        if name[0] in PROGRAMS:
            return self.kill_told(name, PROGRAMS[name[0]])
        return self.cast.kill(name)

    def ended(self, name: str) -> bool:
        """Whether one that was asked to leave is gone."""
        return not self.cast.children.children[name].alive

    def left(self, name: str) -> None:
        """Wait for the end of a client that was asked to leave: some take their time."""
        self.cast.children.wait_for(
            lambda: self.ended(name), self.cast.options.step_timeout_s, f"the end of {name}"
        )
        self.cast.left(name)
