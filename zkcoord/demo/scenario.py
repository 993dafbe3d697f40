"""The story: a group forms, and then everything happens to it that happens in a year. Each step
waits until the group is balanced and fetching again, never for a time.

    four consumers and two coordinators start; the producer starts
    a consumer joins; one leaves with SIGTERM; one is killed with -9
    the coordinator that leads is killed with -9, and a consumer joins before anybody else could
        know; the coordinator comes back as a candidate
    partitions are added
    the producer stops, everything is consumed, all end cleanly

`cast` starts and ends the processes; this module decides what happens to them and writes it down
(`story`). A fault (`--break`) comes after the first join.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from zkcoord.demo.cast import Cast
from zkcoord.demo.options import Break, DemoOptions
from zkcoord.demo.state import ConsumerPhase

SET_BACK_RECORDS = 50
ROGUE_RECORDS_MIN = 20


class Scenario:
    """One run over a cast that is set up (servers run, the topic exists)."""

    def __init__(self, cast: Cast, options: DemoOptions) -> None:
        self.cast = cast
        self.options = options
        self.pace = options.pace
        self.story = cast.story
        self.random = random.Random(options.seed)  # noqa: S311  no secret
        self.partitions = self.pace.partitions
        self.members: set[str] = set()
        self.started = 0
        self.killed = ""

    def run(self) -> None:
        """All of it. Raises `ScenarioError` when a step is never balanced or a process ends by
        itself.
        """
        self.form()
        self.join()
        if self.options.fault is not None:
            self.inject(self.options.fault)
        if self.pace.every_step:
            self.leave()
            self.kill_consumer()
            self.kill_coordinator()
            self.come_back()
            self.add_partitions()
        self.finish()

    # steps

    def form(self) -> None:
        """Coordinators, consumers, producer."""
        step = self.story.began("the group forms")
        for name in ("coordinator A", "coordinator B"):
            self.cast.start_coordinator(name)
        self.wait(lambda: self.cast.state.leader != "", "a coordinator that leads")
        for _ in range(4):
            self.new_consumer()
        self.wait_balanced()
        self.story.balanced(step, step.began_ns, self.took_ms(step.began_ns))
        self.cast.start_producer()
        self.wait(
            lambda: len(self.cast.state.handed_out) == self.partitions, "records of every partition"
        )
        self.work()
        self.story.write("steady")

    def join(self) -> None:
        """One more consumer."""
        step = self.story.began("a consumer joins")
        name = self.new_consumer()
        self.wait_balanced()
        registered_ns = self.cast.state.consumers[name].registered_ns
        self.cast.story.mark(f"{name} joins", registered_ns)
        self.story.balanced(step, registered_ns, self.took_ms(registered_ns))
        self.work()

    def leave(self) -> None:
        """A consumer gets a SIGTERM."""
        name = self.a_member()
        step = self.story.began("a consumer leaves (SIGTERM)")
        self.members.discard(name)
        asked_ns = self.cast.ask_to_leave(name)
        self.wait_balanced()
        self.story.mark(f"{name} leaves", asked_ns)
        self.story.balanced(step, asked_ns, self.took_ms(asked_ns))
        self.cast.left(name)
        self.work()

    def kill_consumer(self) -> None:
        """A consumer gets a kill -9."""
        name = self.a_member()
        step = self.story.began("a consumer is killed (kill -9)")
        self.members.discard(name)
        killed_ns = self.cast.kill(name)
        self.wait_balanced()
        self.story.mark(f"kill -9 {name}", killed_ns)
        self.story.balanced(step, killed_ns, self.took_ms(killed_ns))
        self.work()

    def kill_coordinator(self) -> None:
        """The leading coordinator gets a kill -9, and a consumer joins before anybody can know.
        Until that consumer is registered nothing may be commanded.
        """
        state = self.cast.state
        self.killed = state.leader
        name = self.new_consumer(wait_for_go=True)
        self.wait(lambda: self.cast.is_waiting(name), "a consumer that is about to join")
        step = self.story.began("the leading coordinator is killed (kill -9)", quiet=True)
        killed_ns = self.cast.kill(self.killed)
        self.cast.go(name)
        self.wait(
            lambda: (
                state.leader not in ("", self.killed)
                and state.consumers[name].phase is ConsumerPhase.MEMBER
            ),
            "a successor and the consumer that joins",
        )
        registered_ns = state.consumers[name].registered_ns
        led_ms = (state.elected_ns - killed_ns) / 1e6
        self.story.mark(
            f"kill -9 {self.killed}\n{state.leader.split()[-1]} leads after {led_ms:.0f} ms",
            killed_ns,
        )
        self.story.balanced(step, killed_ns, None, registered_ns - 1)
        self.story.succession_ms = led_ms
        self.cast.say(f"  {state.leader} leads {led_ms:.0f} ms after the kill")
        step = self.story.began("a consumer joins right after it", t_ns=registered_ns)
        self.wait_balanced()
        self.story.mark(f"{name} joins", registered_ns)
        self.story.balanced(step, registered_ns, self.took_ms(registered_ns))
        self.work()

    def come_back(self) -> None:
        """The killed coordinator is started again and stands by."""
        step = self.story.began("the killed coordinator comes back", quiet=True)
        self.cast.start_coordinator(self.killed)
        self.wait(lambda: self.cast.is_ready(self.killed), f"{self.killed} to stand by")
        self.story.mark(f"{self.killed} is back", time.time_ns())
        self.work()
        self.story.balanced(step, step.began_ns, None)

    def add_partitions(self) -> None:
        """The topic grows."""
        step = self.story.began(f"partitions are added: {self.partitions} to {self.pace.grown}")
        self.cast.grow(self.pace.grown)
        self.partitions = self.pace.grown
        self.wait_balanced()
        changed_ns = self.cast.observer.topic_changed_ns()
        self.story.mark(f"{self.pace.partitions} to {self.pace.grown} partitions", changed_ns)
        self.story.balanced(step, changed_ns, self.took_ms(changed_ns))
        self.wait(
            lambda: len(self.cast.state.handed_out) == self.partitions,
            "records of every new partition",
        )
        self.work()

    def finish(self) -> None:
        """Stop the producer, let everything be consumed, end everything cleanly."""
        self.story.began("the end")
        self.cast.stop_producer()
        self.wait(self.cast.state.caught_up, "every record to be consumed")
        for name in sorted(self.members):
            self.cast.ask_to_leave(name)
        for name in sorted(self.members):
            self.cast.left(name)
        self.cast.observer.sample()
        self.cast.end_coordinators()

    # faults

    def inject(self, fault: Break) -> None:
        """Do something wrong, for real."""
        self.cast.say(f"! fault: {fault.value}")
        victim = "c1"
        if fault in (Break.LOST, Break.DUPLICATE):
            self.cast.trigger(victim)
            self.wait(lambda: bool(self.cast.state.fired.get(victim)), "the fault")
        elif fault is Break.TWO_OWNERS:
            number = min(self.cast.state.consumers[victim].owned)
            name = self.cast.start_rogue(number)
            self.wait(
                lambda: self.cast.state.fired.get(name, 0) >= ROGUE_RECORDS_MIN,
                "the rogue's records",
            )
            self.cast.kill(name)
        else:
            state = self.cast.state
            self.wait(
                lambda: state.committed.get(0, 0) > SET_BACK_RECORDS,
                "a stored offset that can go back",
            )
            before, after = self.cast.observer.set_back(0, SET_BACK_RECORDS)
            self.cast.say(f"! the stored offset of partition 0 was set from {before} to {after}")
        self.work()

    # small things

    def new_consumer(self, wait_for_go: bool = False) -> str:
        self.started += 1
        name = f"c{self.started}"
        fault = (
            self.options.fault
            if name == "c1" and self.options.fault in (Break.LOST, Break.DUPLICATE)
            else None
        )
        self.cast.start_consumer(name, fault, wait_for_go)
        self.members.add(name)
        return name

    def a_member(self) -> str:
        """Some member, but not the newest."""
        return self.random.choice(sorted(self.members)[:-1])

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        self.cast.children.wait_for(condition, self.options.step_timeout_s, what)

    def wait_balanced(self) -> None:
        self.wait(
            lambda: self.cast.state.balanced(self.members, self.partitions),
            f"a balanced group after '{self.story.steps[-1].name}'",
        )

    def took_ms(self, clock_ns: int) -> float | None:
        """From `clock_ns` to the latest first fetch; None when none came since."""
        ms = (self.cast.state.last_fetch_ns - clock_ns) / 1e6
        return ms if ms > 0 else None

    def work(self) -> None:
        """Let the group visibly do its work."""
        goal = self.cast.state.delivered + self.pace.records_between_steps
        self.wait(lambda: self.cast.state.delivered >= goal, "records")
