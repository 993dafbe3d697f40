"""A custom assignor as a coordinator meets it: in another process, so it answers later, fails,
hangs until its deadline, or answers nonsense. `odd` is sticky otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.sim.kernel import Host, Kernel
from zkcoord.core.assignment import ASSIGNORS, Assignment, AssignmentInput
from zkcoord.core.model import Thread, TopicPartition

ODD = "odd"
DEADLINE_MS = 1_000
OURS_LATE_MAX_MS = 30


class OddAssignor:
    """Answers the questions of one coordinator process. `wrong_chance` says how often it does not
    give what sticky would; 0 once the world is calm.
    """

    def __init__(self, kernel: Kernel, host: Host, wrong_chance: Callable[[], float]) -> None:
        self.kernel = kernel
        self.host = host
        self.wrong_chance = wrong_chance

    def ask(
        self,
        group: str,
        assignor: str,
        given: AssignmentInput,
        done: Callable[[Assignment | None, str], None],
    ) -> None:
        """As `zkcoord.assignors.pool` does. Ours are never odd."""
        if assignor in ASSIGNORS:
            answer = ASSIGNORS[assignor](given)
            self.host.after(len(given.owners) % OURS_LATE_MAX_MS, lambda: done(answer, ""))
            return
        odd, failure, delay = self._answer(group, given)
        self.host.after(delay, lambda: done(odd, failure))

    def _answer(self, group: str, given: AssignmentInput) -> tuple[Assignment | None, str, int]:
        good = ASSIGNORS["sticky"](given)
        quick = self.kernel.between(1, 30)
        if not self.kernel.chance(self.wrong_chance()):
            self.kernel.happened["custom assignor answered"] += 1
            return good, "", quick
        what = self.kernel.rng.choice(("raises", "hangs", "slow", "invents"))
        self.kernel.fault(f"assignor_{what}", self.host.name, group)
        if what == "raises":
            return None, "ZeroDivisionError: division by zero", quick
        if what == "hangs":
            return None, f"no answer within {DEADLINE_MS} ms", DEADLINE_MS
        if what == "slow":
            return good, "", self.kernel.between(100, DEADLINE_MS)
        return (
            replace(
                good, targets={**good.targets, TopicPartition("nosuch", 0): Thread("nobody", 0)}
            ),
            "",
            quick,
        )
