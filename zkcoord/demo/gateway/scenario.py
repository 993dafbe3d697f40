"""The story through gateways: one group of four kinds of clients. Records are produced all the
time, and each step waits until the group is balanced and is handed records again, never for a time.

    two coordinators, two gateways and the producer start; a shim (`zkcoord.consumer`) is alone
    a Java console consumer and a librdkafka client join at gateway A, a Spark application beside
        them, another Java client and another librdkafka client at gateway B
    one of the last two leaves with SIGTERM, the other is killed with -9
    gateway A is killed with -9: its clients go on at B, and no partition changes hands; it comes
        back
    the coordinator that leads is killed with -9; then a client joins
    the producer stops, everything is consumed, all end cleanly

A fault (`--break`) comes after the joins.
"""

from __future__ import annotations

import random
import time

from zkcoord.demo.gateway.cast import APPLICATION, CONSOLE, LIBRDKAFKA, WireClients
from zkcoord.demo.options import Break
from zkcoord.demo.steps import GroupSteps

A, B = "gateway A", "gateway B"
KINDS = {
    CONSOLE: "a Java console consumer",
    LIBRDKAFKA: "a librdkafka client",
    APPLICATION: "a Spark application",
}
SHIM = "c1"
VICTIMS = {
    Break.LOST: "r1",
    Break.DUPLICATE: "r1",
    Break.TWO_OWNERS: "j1",
    Break.OFFSET_BACK: "j1",
}
"""Who does what is wrong, or suffers from it."""


class GatewayScenario:
    """One run over a cast that is set up (servers run, the topic exists). `with_spark`: a Spark
    application joins.
    """

    def __init__(self, clients: WireClients, with_spark: bool) -> None:
        self.clients = clients
        self.cast = cast = clients.cast
        self.options = cast.options
        self.state = cast.state
        self.story = cast.story
        self.with_spark = with_spark
        self.steps = GroupSteps(cast)
        self.members = self.steps.members

    def run(self) -> None:
        """All of it. Raises `ScenarioError` when a step is never balanced or a process ends by
        itself.
        """
        self.form()
        self.join("j1", A)
        self.join("r1", A)
        if self.options.pace.every_step:
            if self.with_spark:
                self.join("s1", "")
            self.join("j2", B)
            self.join("r2", B)
        if self.options.fault is not None:
            self.steps.disturb(self.options.fault, VICTIMS[self.options.fault])
            self.steps.work()
        if self.options.pace.every_step:
            drawn = ["j2", "r2"]
            random.Random(self.options.seed).shuffle(drawn)  # noqa: S311  no secret
            self.leave(drawn[0])
            self.kill_client(drawn[1])
            self.kill_gateway()
            self.come_back()
            self.kill_coordinator()
            self.join("r3", A)
        self.steps.finish(self.clients.left)

    # steps

    def form(self) -> None:
        """Servers, the producer, and a shim."""
        step = self.story.began("two gateways, and a shim alone in the group")
        self.steps.start_coordinators()
        for name in (A, B):
            self.clients.start_gateway(name)
        self.steps.wait(
            lambda: all(map(self.clients.listens, (A, B))) and self.cast.observer.gateways() == 2,
            "two gateways",
        )
        self.clients.applications.start_orders()
        self.members.add(SHIM)
        self.cast.start_consumer(SHIM)
        self.steps.wait_balanced()
        self.story.balanced(step, step.began_ns, self.steps.took_ms(step.began_ns))
        self.steps.work()
        self.story.write("steady")

    def join(self, name: str, gateway: str) -> None:
        """One more client."""
        where = f" at {gateway}" if gateway else ""
        step = self.story.began(f"{KINDS[name[0]]} joins{where} ({name})")
        self.members.add(name)
        if name.startswith(APPLICATION):
            self.clients.applications.start_application(name)
        else:
            spoilt = self.options.fault in (Break.LOST, Break.DUPLICATE)
            fault = self.options.fault if spoilt and name == VICTIMS[Break.LOST] else None
            self.clients.start(name, gateway, fault)
        self.steps.wait_balanced()
        registered_ns = self.state.consumers[name].registered_ns
        self.story.mark(f"{name} joins", registered_ns)
        self.story.balanced(step, registered_ns, self.steps.took_ms(registered_ns))
        self.steps.work()

    def leave(self, name: str) -> None:
        """A client gets a SIGTERM."""
        step = self.story.began(f"{KINDS[name[0]]} leaves (SIGTERM, {name})")
        self.members.discard(name)
        asked_ns = self.cast.ask_to_leave(name)
        self.steps.wait_balanced()
        self.story.mark(f"{name} leaves", asked_ns)
        self.story.balanced(step, asked_ns, self.steps.took_ms(asked_ns))
        self.clients.left(name)
        self.steps.work()

    def kill_client(self, name: str) -> None:
        """A client gets a kill -9."""
        step = self.story.began(f"{KINDS[name[0]]} is killed (kill -9, {name})")
        self.members.discard(name)
        killed_ns = self.clients.kill(name)
        self.steps.wait_balanced()
        self.story.mark(f"kill -9 {name}", killed_ns)
        self.story.balanced(step, killed_ns, self.steps.took_ms(killed_ns))
        self.steps.work()

    def kill_gateway(self) -> None:
        """Gateway A gets a kill -9. Nothing may be commanded and nothing may move, until records
        that were produced after it are handed out and committed, and the sessions of its members
        are over.
        """
        state = self.state
        step = self.story.began(f"{A} is killed (kill -9)", quiet=True)
        killed_ns = self.cast.kill(A)
        orphans = [name for name in self.clients.clients_of(A) if name in self.members]
        theirs = {number for name in orphans for number in state.consumers[name].owned}
        self.steps.wait(lambda: state.produced_ns > killed_ns, "records after the kill")
        ends = dict(state.produced)
        self.steps.wait(
            lambda: all(state.handed_out.get(number, 0) > ends[number] for number in theirs),
            f"new records for {' and '.join(orphans)}",
        )
        self.story.handed_on_ms = (time.time_ns() - killed_ns) / 1e6
        self.steps.wait(
            lambda: all(state.committed.get(number, 0) > end for number, end in ends.items()),
            "commits of records after the kill",
        )
        self.steps.wait(lambda: self.cast.observer.gateways() == 1, f"the end of {A}'s session")
        self.steps.work()
        self.story.mark(f"kill -9 {A}", killed_ns)
        self.story.balanced(step, killed_ns, None)
        self.cast.say(
            f"  {' and '.join(orphans)} go on at {B}: new records of all their partitions"
            f" {self.story.handed_on_ms:.0f} ms after the kill"
        )

    def come_back(self) -> None:
        """Gateway A is started again."""
        step = self.story.began(f"{A} comes back", quiet=True)
        self.clients.start_gateway(A)
        self.steps.wait(lambda: self.clients.listens(A), f"{A} to listen")
        self.story.mark(f"{A} is back", time.time_ns())
        self.steps.work()
        self.story.balanced(step, step.began_ns, None)

    def kill_coordinator(self) -> None:
        """The leading coordinator gets a kill -9. Nobody notices."""
        killed = self.state.leader
        step = self.story.began("the leading coordinator is killed (kill -9)", quiet=True)
        killed_ns = self.cast.kill(killed)
        self.steps.wait(lambda: self.state.leader not in ("", killed), "a successor")
        self.steps.succession(killed, killed_ns)
        self.steps.work()
        self.story.balanced(step, killed_ns, None)
