"""The story on Spark. Each step waits until the group has shared everything out and has worked,
never for a time.

    two coordinators, two applications, a producer of orders
    a third application joins; one is stopped with SIGTERM; a JVM is killed with -9
    the coordinator that leads is killed with -9
    the producer stops, everything is written, all end cleanly; then one query counts what came out
"""

from __future__ import annotations

import time

from zkcoord.demo.options import Break
from zkcoord.demo.spark.cast import Applications
from zkcoord.demo.state import ConsumerPhase
from zkcoord.demo.steps import GroupSteps


class SparkScenario:
    """One run over a cast that is set up (servers run, the topic exists)."""

    def __init__(self, applications: Applications) -> None:
        self.applications = applications
        self.cast = cast = applications.cast
        self.state = cast.state
        self.story = cast.story
        self.steps = GroupSteps(cast)
        self.members = self.steps.members

    def run(self) -> None:
        """All of it. Raises `ScenarioError` when a step never ends or a process ends by itself."""
        self.form()
        fault = self.cast.options.fault
        if fault in (Break.TWO_OWNERS, Break.OFFSET_BACK):
            self.steps.disturb(fault, "s1")
        if self.cast.options.pace.every_step:
            self.join()
            self.stop()
            self.kill_jvm()
            self.kill_coordinator()
        self.finish()
        if fault in (Break.LOST, Break.DUPLICATE):
            self.cast.say(f"! fault: {fault.value}")
            (self.applications.lose if fault is Break.LOST else self.applications.double)()

    def form(self) -> None:
        """Coordinators, two applications, the producer."""
        step = self.story.began("two applications form the group")
        self.steps.start_coordinators()
        for name in ("s1", "s2"):
            self.add(name)
        self.wait_shared()
        self.applications.start_orders()
        self.steps.wait_records()
        self.balanced(step.name, step.began_ns)
        self.story.write("steady")

    def join(self) -> None:
        """A third application."""
        step = self.story.began("a third application joins")
        self.add("s3")
        self.steps.wait(
            lambda: self.state.consumers["s3"].phase is ConsumerPhase.MEMBER,
            "the registration of s3",
        )
        self.wait_shared()
        self.balanced(step.name, self.state.consumers["s3"].registered_ns)

    def stop(self) -> None:
        """One is stopped: it writes its batch and gives its partitions away."""
        step = self.story.began("an application is stopped (SIGTERM)")
        self.members.discard("s1")
        asked_ns = self.cast.ask_to_leave("s1")
        self.wait_shared()
        self.balanced(step.name, asked_ns)
        self.applications.left("s1")

    def kill_jvm(self) -> None:
        """One JVM dies with a batch under way."""
        step = self.story.began("a JVM is killed (kill -9)")
        before = self.state.consumers["s2"].delivered
        self.steps.wait(lambda: self.state.consumers["s2"].delivered > before, "a batch of s2")
        self.members.discard("s2")
        killed_ns = self.applications.kill_jvm("s2")
        self.wait_shared()
        self.balanced(step.name, killed_ns)

    def kill_coordinator(self) -> None:
        """Nobody notices."""
        killed = self.state.leader
        step = self.story.began("the leading coordinator is killed (kill -9)", quiet=True)
        killed_ns = self.cast.kill(killed)
        self.steps.wait(lambda: self.state.leader not in ("", killed), "a successor")
        self.steps.succession(killed, killed_ns)
        self.balanced(step.name, killed_ns)

    def finish(self) -> None:
        """Stop the producer, let everything be written, end everything cleanly; then count."""
        self.story.began("the end")
        self.cast.stop_producer()
        self.steps.wait(lambda: self.state.lag == 0, "every record to be written and stored")
        for name in sorted(self.members):
            self.cast.ask_to_leave(name)
        for name in sorted(self.members):
            self.applications.left(name)
        self.cast.observer.sample()
        self.cast.end_servers()
        self.story.began("one query counts what came out")
        self.applications.count()

    # small things

    def add(self, name: str) -> None:
        self.applications.start_application(name)
        self.members.add(name)

    def wait_shared(self) -> None:
        """Until exactly the members own everything, each partition once and evenly; then until they
        have worked.
        """

        def shared() -> bool:
            owners = {
                view.name: view.owned
                for view in self.state.consumers.values()
                if view.owned or view.name in self.members
            }
            sizes = [len(owned) for owned in owners.values()]
            return (
                set(owners) == self.members
                and sum(sizes) == self.cast.partitions == len(set().union(*owners.values()))
                and max(sizes) - min(sizes) <= 1
            )

        self.steps.wait(
            shared, f"applications that share everything after '{self.story.steps[-1].name}'"
        )

    def balanced(self, step: str, since_ns: int) -> None:
        """The step is over: how long it took until all was owned again; then some work."""
        took_ms = (time.time_ns() - since_ns) / 1e6
        view = next(view for view in self.story.steps if view.name == step)
        view.done, view.took_ms = True, took_ms
        self.story.write("balanced", name=step, clock=since_ns)
        self.cast.say(f"  {step}: every partition is owned after {took_ms:.0f} ms")
        if "producer" in self.cast.children.children:
            goal = self.state.delivered + self.cast.options.pace.records_between_steps
            self.steps.wait(lambda: self.state.delivered >= goal, "records")
