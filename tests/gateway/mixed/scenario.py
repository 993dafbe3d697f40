"""The steps, played. Records are produced all the time; a step is followed by the next when the
group is balanced and is handed records again, or when so many more records have been produced.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.gateway.mixed.cast import MixedClients
from tests.gateway.mixed.plan import LIBRDKAFKA, Act, MixedStep
from zkcoord.demo.options import Break
from zkcoord.demo.state import ConsumerPhase
from zkcoord.demo.steps import GroupSteps

GATEWAYS = ("gateway A", "gateway B")
VICTIM = f"{LIBRDKAFKA}1"
"""Who does what is wrong, or suffers from it, where something is broken."""


class MixedScenario:
    """One run over a cast that is set up (servers run, the topic exists)."""

    def __init__(
        self, clients: MixedClients, first: Sequence[str], steps: Sequence[MixedStep]
    ) -> None:
        self.clients = clients
        self.cast = clients.cast
        self.state = self.cast.state
        self.story = self.cast.story
        self.first = first
        self.plan = steps
        self.steps = GroupSteps(self.cast)
        self.members = self.steps.members
        self.leaving: list[str] = []

    def run(self) -> None:
        """All of it. Raises `ScenarioError` when a step is never balanced or a process ends by
        itself.
        """
        self.form()
        if self.cast.options.fault is not None:
            self.steps.disturb(self.cast.options.fault, VICTIM)
            self.steps.work()
        for number, step in enumerate(self.plan, 1):
            self.play(number, step)
        for name in self.leaving:
            self.clients.left(name)
        self.steps.finish(self.clients.left)

    def form(self) -> None:
        """Servers, the producer, and all members."""
        step = self.story.began("all of them form the group")
        self.steps.start_coordinators()
        for name in GATEWAYS:
            self.clients.start_gateway(name)
        self.steps.wait(
            lambda: (
                all(map(self.clients.listens, GATEWAYS))
                and self.cast.observer.gateways() == len(GATEWAYS)
            ),
            "two gateways",
        )
        self.clients.applications.start_orders()
        for name in self.first:
            self.begin(name)
        self.steps.wait_balanced()
        self.story.balanced(step, step.began_ns, self.steps.took_ms(step.began_ns))
        self.steps.work()
        self.story.write("steady")

    def begin(self, name: str) -> None:
        """Gateways take turns."""
        fault = self.cast.options.fault if name == VICTIM else None
        spoilt = fault if fault in (Break.LOST, Break.DUPLICATE) else None
        self.members.add(name)
        self.clients.begin(name, GATEWAYS[int(name[1:]) % len(GATEWAYS)], spoilt)

    def play(self, number: int, step: MixedStep) -> None:
        """One step."""
        if step.act is not Act.JOIN:
            self.steps.wait(lambda: self.works(step.name), f"{step.name} to have had records")
        view = self.story.began(f"{number}. {step}")
        clock_ns = view.began_ns
        if step.act is Act.JOIN:
            self.begin(step.name)
        else:
            self.members.discard(step.name)
            if step.act is Act.LEAVE:
                clock_ns = self.cast.ask_to_leave(step.name)
                self.leaving.append(step.name)
            else:
                clock_ns = self.clients.kill(step.name)
        if step.moment is None:
            self.steps.wait_balanced()
            if step.act is Act.JOIN:
                clock_ns = self.state.consumers[step.name].registered_ns
            self.story.balanced(view, clock_ns, self.steps.took_ms(clock_ns))
            self.steps.work()
        else:
            goal = self.produced + step.moment
            self.steps.wait(lambda: self.produced >= goal, "records of the producer")
        for name in [name for name in self.leaving if self.clients.ended(name)]:
            self.leaving.remove(name)
            self.clients.left(name)

    def works(self, name: str) -> bool:
        """Whether this one is a member that has been handed something."""
        view = self.state.consumers[name]
        return view.phase is ConsumerPhase.MEMBER and view.delivered > 0

    @property
    def produced(self) -> int:
        """Records in the topic."""
        return sum(self.state.produced.values())
