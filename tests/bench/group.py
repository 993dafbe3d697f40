"""What the members of one group say, folded: who owns and fetches what now, and every event with
its time. It starts nothing and waits for nothing.

All methods are called under the lock of `zkcoord.demo.processes.DemoProcesses`. Times are
wall-clock nanoseconds of one machine, taken where the thing happened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Line = Mapping[str, Any]

BALANCED_WITHIN = 1
TOUCHING = ("revoke", "revoked", "assigned", "lost", "called")


@dataclass
class View:
    """One member. `name` is its registration's."""

    owned: set[int] = field(default_factory=set)
    fetched: set[int] = field(default_factory=set)
    name: str = ""
    at: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """One line of a member, with what is used of it."""

    t_ns: int
    who: str
    event: str
    partitions: tuple[int, ...] = ()
    option: str = ""
    count: int = 0


class Group:
    """One group on one topic of `partitions` partitions. `log` holds what was seen since `forget`,
    in the order in which it was read; `handed_out` the times at which records of a partition were
    handed out, and how old (ms) the oldest of them was.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.views: dict[str, View] = {}
        self.log: list[Seen] = []
        self.handed_out: dict[int, list[tuple[int, int]]] = {}
        self.errors: list[str] = []

    def expect(self, who: str) -> None:
        """A member is about to be."""
        self.views[who] = View()

    def gone(self, who: str) -> None:
        """A member's process is no more."""
        self.views.pop(who, None)

    def forget(self, before_ns: int) -> None:
        """Keep only what is later."""
        self.log = [seen for seen in self.log if seen.t_ns >= before_ns]
        self.handed_out = {
            number: [at for at in times if at[0] >= before_ns]
            for number, times in self.handed_out.items()
        }

    def line(self, who: str, line: Line) -> None:
        """Take a line of a member."""
        event, t_ns = str(line["event"]), int(line["t"])
        view = self.views.get(who)
        if event == "records":
            for number, age_ms in zip(line["partitions"], line["ages"]):
                self.handed_out.setdefault(number, []).append((t_ns, age_ms))
            return
        if event == "error":
            self.errors.append(f"{who}: {line['message']}")
        partitions = (
            tuple(line["partitions"])
            if isinstance(line.get("partitions"), list)
            else (line["partition"],)
            if "partition" in line
            else ()
        )
        count = line["partitions"] if isinstance(line.get("partitions"), int) else 0
        self.log.append(Seen(t_ns, who, event, partitions, str(line.get("option", "")), count))
        if view is not None:
            view.at[event] = t_ns
            self._apply(view, event, partitions, line)

    @staticmethod
    def _apply(view: View, event: str, partitions: Collection[int], line: Line) -> None:
        if event == "registered":
            view.name = str(line.get("name", ""))
        elif event == "assigned":
            view.owned.update(partitions)
        elif event in ("revoked", "lost"):
            view.owned.difference_update(partitions)
            view.fetched.difference_update(partitions)
        elif event == "first_fetch":
            view.fetched.update(partitions)
        elif event in ("closing", "error"):
            view.owned.clear()
            view.fetched.clear()

    def balanced(self, members: Collection[str]) -> bool:
        """Do exactly these members own all partitions, each partition one of them, evenly, and is
        each fetched by its owner?
        """
        if self.errors:
            raise AssertionError(f"a member failed: {self.errors[0]}")
        views = [view for who, view in self.views.items() if view.owned or who in members]
        sizes = [len(view.owned) for view in views]
        return (
            all(who in self.views and self.views[who].owned for who in members)
            and len(views) == len(members)
            and sum(sizes) == self.partitions == len(set().union(*[view.owned for view in views]))
            and max(sizes) - min(sizes) <= BALANCED_WITHIN
            and all(view.owned <= view.fetched for view in views)
        )

    def shown(self) -> str:
        """Who owns and fetches how much, for a complaint."""
        return ", ".join(
            f"{who} owns {len(view.owned)} and fetches {len(view.owned & view.fetched)} of"
            f" {self.partitions}"
            for who, view in sorted(self.views.items())
        )

    def owners(self) -> dict[int, str]:
        """Partition -> member."""
        return {number: who for who, view in self.views.items() for number in view.owned}

    def since(self, t_ns: int, *events: str) -> list[Seen]:
        """What was seen at `t_ns` or later of these kinds (all, without one)."""
        return [
            seen for seen in self.log if seen.t_ns >= t_ns and (not events or seen.event in events)
        ]

    def gap_ns(self, number: int, begin_ns: int, end_ns: int) -> int:
        """The longest time between two hand-outs of a partition of which the later one lies in the
        window; the window's own length when none does.
        """
        times = sorted(t for t, _ in self.handed_out.get(number, ()) if t <= end_ns)
        longest, last = 0, None
        for t in times:
            if last is not None and t >= begin_ns:
                longest = max(longest, t - last)
            last = t
        return max(longest, end_ns - max(last or begin_ns, begin_ns))

    def age_ms(self, number: int, begin_ns: int, end_ns: int) -> int:
        """The age of the oldest record of a partition that was handed out in the window."""
        return max(
            (age for t, age in self.handed_out.get(number, ()) if begin_ns <= t <= end_ns),
            default=0,
        )

    def last_hand_out_ns(self, number: int) -> int:
        """The last time at which records of a partition were handed out; 0 for never."""
        return max((t for t, _ in self.handed_out.get(number, ())), default=0)
