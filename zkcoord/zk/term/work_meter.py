"""For whom a thread works, and how long that took: what the fair queue charges (see
`zkcoord.core.filing.fair_queue`).

Counted is the thread's own time on a processor: waiting, and what other threads do meanwhile, costs
nobody anything. Work is counted from one `works_for` to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

TOLD_FROM_NS = 1_000_000
NS_PER_US = 1_000


class WorkMeter:
    """Of one thread. `cpu_ns` is its clock; `is_heavy(group)` says whether a group gets what others
    leave, `rests(group)` whether it is to be left alone for now.
    """

    def __init__(
        self,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        is_heavy: Callable[[str], bool] = lambda group: False,
        rests: Callable[[str], bool] = lambda group: False,
    ) -> None:
        self.is_heavy = is_heavy
        self.rests = rests
        self.cpu_ns = cpu_ns
        self._group = ""
        self._since_ns = 0
        self._spent_ns: dict[str, int] = {}
        self._much: set[str] = set()

    def works_for(self, group: str) -> None:
        """What follows is done for this group ("": for nobody)."""
        now = self.cpu_ns()
        if self._group:
            self.charge(self._group, now - self._since_ns)
        self._group, self._since_ns = group, now

    def charge(self, group: str, spent_ns: int) -> None:
        """So much was spent on a group, counted elsewhere."""
        spent = self._spent_ns.get(group, 0) + spent_ns
        self._spent_ns[group] = spent
        if spent >= TOLD_FROM_NS:
            self._much.add(group)

    @property
    def due(self) -> bool:
        """Whether there is something to be told."""
        return bool(self._much)

    def take_us(self) -> Mapping[str, int]:
        """What was spent on groups, where that is `TOLD_FROM_NS` or more by now."""
        told = {group: self._spent_ns.pop(group) // NS_PER_US for group in sorted(self._much)}
        self._much.clear()
        return told

    def forget(self) -> None:
        """Another term begins."""
        self._spent_ns.clear()
        self._much.clear()
