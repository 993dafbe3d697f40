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

from zkcoord.demo.cast import Cast
from zkcoord.demo.options import Break, DemoOptions
from zkcoord.demo.state import ConsumerPhase
from zkcoord.demo.steps import GroupSteps


class Scenario:
    """One run over a cast that is set up (servers run, the topic exists)."""

    def __init__(self, cast: Cast, options: DemoOptions) -> None:
        self.cast = cast
        self.options = options
        self.pace = options.pace
        self.story = cast.story
        self.steps = GroupSteps(cast)
        self.members = self.steps.members
        self.random = random.Random(options.seed)  # noqa: S311  no secret
        self.started = 0
        self.killed = ""

    def run(self) -> None:
        """All of it. Raises `ScenarioError` when a step is never balanced or a process ends by
        itself.
        """
        self.form()
        self.join()
        if self.options.fault is not None:
            self.steps.disturb(self.options.fault, "c1")
            self.steps.work()
        if self.pace.every_step:
            self.leave()
            self.kill_consumer()
            self.kill_coordinator()
            self.come_back()
            self.add_partitions()
        self.steps.finish()

    # steps

    def form(self) -> None:
        """Coordinators, consumers, producer."""
        step = self.story.began("the group forms")
        self.steps.start_coordinators()
        for _ in range(4):
            self.new_consumer()
        self.steps.wait_balanced()
        self.story.balanced(step, step.began_ns, self.steps.took_ms(step.began_ns))
        self.cast.start_producer()
        self.steps.wait_records()
        self.steps.work()
        self.story.write("steady")

    def join(self) -> None:
        """One more consumer."""
        step = self.story.began("a consumer joins")
        name = self.new_consumer()
        self.steps.wait_balanced()
        registered_ns = self.cast.state.consumers[name].registered_ns
        self.cast.story.mark(f"{name} joins", registered_ns)
        self.story.balanced(step, registered_ns, self.steps.took_ms(registered_ns))
        self.steps.work()

    def leave(self) -> None:
        """A consumer gets a SIGTERM."""
        name = self.a_member()
        step = self.story.began("a consumer leaves (SIGTERM)")
        self.members.discard(name)
        asked_ns = self.cast.ask_to_leave(name)
        self.steps.wait_balanced()
        self.story.mark(f"{name} leaves", asked_ns)
        self.story.balanced(step, asked_ns, self.steps.took_ms(asked_ns))
        self.cast.left(name)
        self.steps.work()

    def kill_consumer(self) -> None:
        """A consumer gets a kill -9."""
        name = self.a_member()
        step = self.story.began("a consumer is killed (kill -9)")
        self.members.discard(name)
        killed_ns = self.cast.kill(name)
        self.steps.wait_balanced()
        self.story.mark(f"kill -9 {name}", killed_ns)
        self.story.balanced(step, killed_ns, self.steps.took_ms(killed_ns))
        self.steps.work()

    def kill_coordinator(self) -> None:
        """The leading coordinator gets a kill -9, and a consumer joins before anybody can know.
        Until that consumer is registered nothing may be commanded.
        """
        state = self.cast.state
        self.killed = state.leader
        name = self.new_consumer(wait_for_go=True)
        self.steps.wait(lambda: self.cast.is_waiting(name), "a consumer that is about to join")
        step = self.story.began("the leading coordinator is killed (kill -9)", quiet=True)
        killed_ns = self.cast.kill(self.killed)
        self.cast.go(name)
        self.steps.wait(
            lambda: (
                state.leader not in ("", self.killed)
                and state.consumers[name].phase is ConsumerPhase.MEMBER
            ),
            "a successor and the consumer that joins",
        )
        registered_ns = state.consumers[name].registered_ns
        self.steps.succession(self.killed, killed_ns)
        self.story.balanced(step, killed_ns, None, registered_ns - 1)
        step = self.story.began("a consumer joins right after it", t_ns=registered_ns)
        self.steps.wait_balanced()
        self.story.mark(f"{name} joins", registered_ns)
        self.story.balanced(step, registered_ns, self.steps.took_ms(registered_ns))
        self.steps.work()

    def come_back(self) -> None:
        """The killed coordinator is started again and stands by."""
        step = self.story.began("the killed coordinator comes back", quiet=True)
        self.cast.start_coordinator(self.killed)
        self.steps.wait(lambda: self.cast.is_ready(self.killed), f"{self.killed} to stand by")
        self.story.mark(f"{self.killed} is back", time.time_ns())
        self.steps.work()
        self.story.balanced(step, step.began_ns, None)

    def add_partitions(self) -> None:
        """The topic grows."""
        step = self.story.began(
            f"partitions are added: {self.cast.partitions} to {self.pace.grown}"
        )
        self.cast.grow(self.pace.grown)
        self.steps.wait_balanced()
        changed_ns = self.cast.observer.topic_changed_ns()
        self.story.mark(f"{self.pace.partitions} to {self.pace.grown} partitions", changed_ns)
        self.story.balanced(step, changed_ns, self.steps.took_ms(changed_ns))
        self.steps.wait_records()
        self.steps.work()

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
