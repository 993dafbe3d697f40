"""The coordinator dies at a named step, again and again: what is lost, owned twice, and whether a
group that is balanced notices anything.

| here | the draft's step | the failure stage of the group protocol |
|---|---|---|
| before-stop | before 4.1 | 1: before the new generation is persisted |
| between-stop-and-start | between 4.1 and 4.2 | 2 and 3: members told, assignment not |
| between-start-and-clean-up | in 4.3 | 4: persisted, not all members have answered |
| during-takeover | coordinatorStartup, before 3 | a successor dies in any of them |
| twice-in-a-row | 4.1 to 4.2, then its successor at startup | 2, then a successor |
| zombie | before 4.1, goes on after its session under churn | none: its session is gone |
| zombie-whose-session-lives | before 4.1, leader node gone | none: the epoch's check answers |
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.figures import BROKEN_OFF
from tests.chaos.checker import Found, check
from tests.chaos.rig import Rig, Shape
from tests.chaos.run import concluded, finish
from tests.chaos.schedule import COORDINATORS
from tests.chaos.stopping import BEFORE_CLEAN_UP, BEFORE_STOP, BETWEEN, TAKEOVER
from tests.harness.kafka import CHROOT
from tests.harness.zookeeper import connect, disconnect
from zkcoord.demo.processes import DemoProcess
from zkcoord.errors import ScenarioError
from zkcoord.stack.java import Java
from zkcoord.znodes.paths import Layout

TWICE, ZOMBIE, DEPOSED = "twice-in-a-row", "zombie", "zombie-whose-session-lives"
ZOMBIES = (ZOMBIE, DEPOSED)
SCENARIOS = (BEFORE_STOP, BETWEEN, BEFORE_CLEAN_UP, TAKEOVER, TWICE, *ZOMBIES)
VISITOR = "a9"
ATTEMPTS_MAX = 5
QUIET_GROUP = "b"


@dataclass
class StepsFound:
    """What a scenario showed. `commands_to_quiet`: commands that members of the balanced group saw,
    per death; `recovered_ms`: from the death to records of every partition, and to the change that
    was under way being carried out.
    """

    name: str
    found: Found
    deaths: int = 0
    commands_to_quiet: list[int] = field(default_factory=list)
    recovered_ms: list[float] = field(default_factory=list)
    late: dict[str, int] = field(default_factory=dict)
    missed: int = 0


class StepMissedError(Exception):
    """A coordinator lost its office before it came to the step at which it was to die."""


class Deaths:
    """One scenario on a rig that runs."""

    def __init__(self, rig: Rig, name: str, seen: StepsFound) -> None:
        self.rig = rig
        self.name = name
        self.result = seen
        self.epoch = 0

    def once(self) -> None:
        """One death and what follows, up to a group at rest with two coordinators. A coordinator
        that loses its office before it comes to its step (the machine may be that busy) is
        replaced, and it begins again.
        """
        for _ in range(ATTEMPTS_MAX):
            try:
                return self._attempt()
            except StepMissedError:
                self.result.missed += 1
                for slot in [slot for slot in COORDINATORS if slot in self.rig.running]:
                    self.rig.kill(slot)
                self._rest()
        raise ScenarioError(
            f"no coordinator came to the step {self.name} in {ATTEMPTS_MAX} attempts"
        )

    def _attempt(self) -> None:
        self.rig.rest()
        before, self.epoch = self._commands(), self.rig.seen.epoch
        at_ns = {
            BEFORE_STOP: self._step,
            BETWEEN: self._step,
            BEFORE_CLEAN_UP: self._step,
            TAKEOVER: self._takeover,
            TWICE: self._twice,
            ZOMBIE: self._zombie,
            DEPOSED: self._deposed,
        }[self.name]()
        if self.name != ZOMBIE:
            self._change_done(at_ns)
        self.rig.wait(
            lambda: self.rig.fetched_since(at_ns), "records of every partition after the death"
        )
        self.result.recovered_ms.append((time.time_ns() - at_ns) / 1e6)
        self.result.commands_to_quiet.append(self._commands() - before)
        self.result.deaths += 1
        self._rest()

    def _rest(self) -> None:
        for slot in COORDINATORS:
            if slot not in self.rig.running:
                self.rig.start_process(slot)
        self.rig.wait(
            lambda: all(
                self.rig.running[slot].name in self.rig.seen.trapped for slot in COORDINATORS
            ),
            "two coordinators",
        )
        self.rig.wait(lambda: self._leader() != "", "a leader")
        if VISITOR in self.rig.running:
            self._change_back()

    # what dies, and how

    def _step(self) -> int:
        leader = self._leader()
        self._arm(leader, self.name, "kill")
        self._change()
        return self._died(leader)

    def _takeover(self) -> int:
        leader, standby = self._leader(), self._standby()
        self._arm(standby, TAKEOVER, "kill")
        self.rig.kill(leader)
        self._change()
        at_ns = self._died(standby)
        self.rig.start_process(leader)
        return at_ns

    def _twice(self) -> int:
        leader, standby = self._leader(), self._standby()
        self._arm(leader, BETWEEN, "kill")
        self._arm(standby, TAKEOVER, "kill")
        self._change()
        self._died(leader)
        at_ns = self._died(standby)
        self.rig.start_process(leader)
        return at_ns

    def _zombie(self) -> int:
        child, epoch = self._stopped_leader()
        self.rig.wait(lambda: self.rig.seen.epoch > epoch, "a successor")
        at_ns = time.time_ns()
        self._change_done(at_ns)
        self.rig.kill(VISITOR)
        os.kill(child.pid, signal.SIGCONT)
        self.rig.wait(lambda: child.name in self.rig.seen.late, f"what {child.name} writes late")
        return at_ns

    def _deposed(self) -> int:
        """As a zombie, but its session lives: its leader node is taken away while it is stopped.
        What it then sends reaches ZooKeeper, and only the check of the epoch is between it and the
        group.
        """
        child, epoch = self._stopped_leader()
        client = connect(self.rig.ensemble.hosts + CHROOT)
        try:
            client.delete(Layout.DRAFT.leader)
        finally:
            disconnect(client)
        self.rig.wait(lambda: self.rig.seen.epoch > epoch, "a successor")
        at_ns = time.time_ns()
        os.kill(child.pid, signal.SIGCONT)
        self.rig.wait(lambda: child.name in self.rig.seen.late, f"what {child.name} writes late")
        return at_ns

    # small things

    def _stopped_leader(self) -> tuple[DemoProcess, int]:
        """The leader, stopped before its first stop command of a change, and its epoch."""
        leader = self._leader()
        child = self.rig.running[leader]
        self._arm(leader, BEFORE_STOP, "stop")
        self._change()
        self._reached(child)
        return child, self.rig.seen.epoch

    def _leader(self) -> str:
        return next(
            (
                slot
                for slot in COORDINATORS
                if slot in self.rig.running and self.rig.running[slot].name == self.rig.seen.leader
            ),
            "",
        )

    def _standby(self) -> str:
        return next(slot for slot in COORDINATORS if slot != self._leader())

    def _arm(self, slot: str, step: str, how: str) -> None:
        """What a process did at a step before is forgotten: one that was only stopped lives on, and
        may be the next to be.
        """
        child = self.rig.running[slot]
        self.rig.trap_file(child.name).write_text(f"{step} {how}\n", encoding="utf-8")
        with self.rig.children.lock:
            self.rig.seen.forget_steps(child.name)
        os.kill(child.pid, signal.SIGUSR1)
        self.rig.wait(lambda: child.name in self.rig.seen.armed, f"{child.name} to be armed")
        child.expected_to_end = how == "kill"

    def _died(self, slot: str) -> int:
        """Wait for the end of a coordinator at its step; when it was."""
        child = self.rig.running[slot]
        self._reached(child)
        self.rig.wait(lambda: not child.alive, f"{child.name} to die at its step")
        del self.rig.running[slot]
        return int(self.rig.seen.at[child.name]["t"])

    def _reached(self, child: DemoProcess) -> None:
        """Wait until a coordinator is at its step. Raises `StepMissedError` when there was an
        election before.
        """
        self.rig.wait(
            lambda: child.name in self.rig.seen.at or self.rig.seen.epoch > self.epoch,
            f"{child.name} to come to its step",
        )
        if child.name not in self.rig.seen.at:
            raise StepMissedError(child.name)

    def _change(self) -> None:
        """A member joins the first group: partitions must be stopped and started."""
        self.rig.start_process(VISITOR)

    def _change_done(self, at_ns: int) -> None:
        name = self.rig.running[VISITOR].name
        self.rig.wait(
            lambda: self.rig.seen.delivered_ns.get(name, 0) > at_ns, f"records for {name}"
        )

    def _change_back(self) -> None:
        """It is killed, and what it had is fetched by the others: as before the change."""
        self.rig.kill(VISITOR)
        at_ns = time.time_ns()
        self.rig.wait(lambda: self.rig.fetched_since(at_ns), "records of what the visitor had")

    def _commands(self) -> int:
        with self.rig.children.lock:
            return sum(
                count
                for name, count in self.rig.seen.commands.items()
                if name.startswith(QUIET_GROUP)
            )


def play_steps(
    name: str,
    count: int,
    folder: Path,
    java: Java,
    say: Callable[[str], None],
    shape: Shape = Shape(),
) -> StepsFound:
    """`count` deaths of one scenario in `folder`."""
    seen = StepsFound(name, Found())
    wrong: list[tuple[str, str]] = []
    with Rig(folder, java, shape, traps=True) as rig:
        try:
            rig.start()
            rig.wait(
                lambda: all(rig.running[slot].name in rig.seen.trapped for slot in COORDINATORS),
                "two coordinators",
            )
            deaths = Deaths(rig, name, seen)
            for number in range(count):
                deaths.once()
                say(
                    f"  {name}: {number + 1} of {count}, {seen.recovered_ms[-1]:.0f} ms until all"
                    f" was fetched and the change done, {seen.commands_to_quiet[-1]} commands to"
                    " the balanced group"
                )
            wrong += [("end", text) for text in finish(rig)]
        except BROKEN_OFF as error:
            wrong.append(("scenario", str(error)))
        seen.late = dict(rig.seen.outcomes)
    seen.found = concluded(check(folder), wrong)
    return seen
