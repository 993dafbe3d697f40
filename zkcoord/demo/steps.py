"""What stories are made of: waiting until a group is at rest, and what happens in more than one of
them. Nothing here waits for a time.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.demo.cast import Cast
from zkcoord.demo.options import COORDINATOR_NAMES, Break

SET_BACK_RECORDS = 50
ROGUE_RECORDS_MIN = 20


class GroupSteps:
    """Parts of the story over a cast that is set up. `members`: the names of who belongs to the
    group now. Methods raise `ScenarioError` for what does not come, or a process that ends by
    itself.
    """

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.story = cast.story
        self.members: set[str] = set()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until it holds."""
        self.cast.children.wait_for(condition, self.cast.options.step_timeout_s, what)

    def wait_balanced(self) -> None:
        """Until exactly the members own all partitions, evenly, and records of each come."""
        self.wait(
            lambda: self.cast.state.balanced(self.members, self.cast.partitions),
            f"a balanced group after '{self.story.steps[-1].name}'",
        )

    def wait_records(self) -> None:
        """Until each partition has been handed out."""
        self.wait(
            lambda: len(self.cast.state.handed_out) == self.cast.partitions,
            "records of every partition",
        )

    def took_ms(self, clock_ns: int) -> float | None:
        """From `clock_ns` to the latest first fetch; None when none came since."""
        ms = (self.cast.state.last_fetch_ns - clock_ns) / 1e6
        return ms if ms > 0 else None

    def work(self) -> None:
        """Let the group visibly do its work."""
        goal = self.cast.state.delivered + self.cast.options.pace.records_between_steps
        self.wait(lambda: self.cast.state.delivered >= goal, "records")

    def start_coordinators(self) -> None:
        """Two, of which one leads."""
        for name in COORDINATOR_NAMES:
            self.cast.start_coordinator(name)
        self.wait(lambda: self.cast.state.leader != "", "a coordinator that leads")

    def succession(self, killed: str, killed_ns: int) -> None:
        """Another one leads since `killed` is dead: write down how long that took."""
        state = self.cast.state
        took_ms = (state.elected_ns - killed_ns) / 1e6
        self.story.succession_ms = took_ms
        self.story.mark(
            f"kill -9 {killed}\n{state.leader.split()[-1]} leads after {took_ms:.0f} ms", killed_ns
        )
        self.cast.say(f"  {state.leader} leads {took_ms:.0f} ms after the kill")

    def finish(self, left: Callable[[str], None] | None = None) -> None:
        """Stop the producer, let everything be consumed, end members and servers cleanly. `left`
        waits for a member's end, where that is not the cast's way.
        """
        self.story.began("the end")
        self.cast.stop_producer()
        self.wait(self.cast.state.caught_up, "every record to be consumed")
        for name in sorted(self.members):
            self.cast.ask_to_leave(name)
        for name in sorted(self.members):
            (left or self.cast.left)(name)
        self.cast.observer.sample()
        self.cast.end_servers()

    def disturb(self, fault: Break, victim: str) -> None:
        """Do something wrong to the group, for real: `victim` does it, or suffers from it."""
        state = self.cast.state
        self.cast.say(f"! fault: {fault.value}")
        if fault in (Break.LOST, Break.DUPLICATE):
            self.cast.trigger(victim)
            self.wait(lambda: bool(state.fired.get(victim)), "the fault")
        elif fault is Break.TWO_OWNERS:
            name = self.cast.start_rogue(min(state.consumers[victim].owned))
            self.wait(
                lambda: state.fired.get(name, 0) >= ROGUE_RECORDS_MIN,
                "the rogue's records",
            )
            self.cast.kill(name)
        else:
            self.wait(
                lambda: state.committed.get(0, 0) > SET_BACK_RECORDS,
                "a stored offset that can go back",
            )
            before, after = self.cast.observer.set_back(0, SET_BACK_RECORDS)
            self.cast.say(f"! the stored offset of partition 0 was set from {before} to {after}")
            self.cast.observer.sample()
