"""What a group hands out, folded, and what an event did to it. It starts nothing and waits for
nothing; all that is known of a system is who handed out records of which partition, and when.

Times are wall-clock nanoseconds of one machine, taken by the member that hands out. Methods of
`Flow` are called under the lock of `zkcoord.demo.processes.DemoProcesses`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Line = Mapping[str, Any]
HandOut = tuple[int, str]

MS = 1_000_000
BALANCED_WITHIN = 1


class MemberFailedError(AssertionError):
    """A member's application got an error that it has no answer to."""


class Flow:
    """One group on one topic of `partitions` partitions, each of which gets a record every
    `beat_ms`. `at`: member -> event -> its last time; `errors`: what members failed with.
    """

    def __init__(self, partitions: int, beat_ms: int) -> None:
        self.partitions = partitions
        self.beat_ms = beat_ms
        self.handed: list[list[HandOut]] = [[] for _ in range(partitions)]
        self.at: dict[str, dict[str, int]] = {}
        self.errors: list[str] = []
        self.latest_ns = 0
        self._last: list[HandOut] = [(0, "")] * partitions
        self._since_ns = [0] * partitions

    @property
    def quiet_ns(self) -> int:
        """For so long nothing may change hands before an event counts as over; and so long a
        partition may be silent meanwhile.
        """
        return max(1_000, 6 * self.beat_ms) * MS

    def expect(self, who: str) -> None:
        """A member is about to be."""
        self.at[who] = {}

    def gone(self, who: str) -> None:
        """A member is no more."""
        self.at.pop(who, None)

    def forget(self, before_ns: int) -> None:
        """Keep only hand-outs that are later."""
        self.handed = [[found for found in of if found[0] >= before_ns] for of in self.handed]

    def line(self, who: str, line: Line) -> None:
        """Take a line of a member."""
        event, t_ns = str(line["event"]), int(line["t"])
        if event == "records":
            for number in line["partitions"]:
                self._hand_out(number, (t_ns, who))
        elif event == "error":
            self.errors.append(f"{who}: {line['message']}")
        elif who in self.at:
            self.at[who][event] = t_ns

    def _hand_out(self, number: int, found: HandOut) -> None:
        self.handed[number].append(found)
        last = self._last[number]
        if found[0] >= last[0]:
            if found[1] != last[1]:
                self._since_ns[number] = found[0]
            self._last[number] = found
            self.latest_ns = max(self.latest_ns, found[0])

    def settled(self, members: Collection[str], since_ns: int) -> bool:
        """Have exactly these members handed out all partitions, evenly, each partition by one of
        them, for `quiet_ns`, all of it after `since_ns`?
        """
        if self.errors:
            raise MemberFailedError(f"a member failed: {self.errors[0]}")
        horizon_ns = self.latest_ns - self.quiet_ns
        sizes = dict.fromkeys(members, 0)
        for (t_ns, who), began_ns in zip(self._last, self._since_ns):
            if who not in sizes or t_ns < horizon_ns or began_ns > horizon_ns:
                return False
            sizes[who] += 1
        return (
            horizon_ns >= since_ns and max(sizes.values()) - min(sizes.values()) <= BALANCED_WITHIN
        )

    def owners(self) -> dict[int, str]:
        """Partition -> who handed out its records last."""
        return {number: who for number, (_, who) in enumerate(self._last)}

    def shown(self) -> str:
        """Who hands out how many partitions, for a complaint."""
        horizon_ns = self.latest_ns - self.quiet_ns
        found = dict.fromkeys(self.at, 0)
        silent = 0
        for t_ns, who in self._last:
            if t_ns < horizon_ns or who not in found:
                silent += 1
            else:
                found[who] += 1
        idle = sum(count == 0 for count in found.values())
        return (
            f"{silent} of {self.partitions} partitions silent, {idle} of {len(found)} members"
            f" without any, the others have {sorted(count for count in found.values() if count)}"
        )


def gap_ns(of: Iterable[HandOut], begin_ns: int, end_ns: int) -> int:
    """The longest time between two hand-outs of a partition of which the later one lies in the
    window, or from the last one to the window's end; the window's length where none does.
    """
    times = sorted(t_ns for t_ns, _ in of if t_ns <= end_ns)
    longest = max(
        (later - earlier for earlier, later in pairwise(times) if later >= begin_ns), default=0
    )
    last_ns = times[-1] if times else begin_ns
    return max(longest, end_ns - max(last_ns, begin_ns))


def taken_ns(of: Sequence[HandOut], who: str, begin_ns: int) -> int:
    """When `who`, who hands the partition out at last, began to do so without anybody else in
    between; not before `begin_ns`.
    """
    found = 0
    for t_ns, by in sorted(of, reverse=True):
        if by != who or t_ns < begin_ns:
            break
        found = t_ns
    assert found, f"{who} was not handed out by"
    return found


@dataclass(frozen=True)
class Change:
    """What an event did, all in ms. `took`: until the last partition with another owner than before
    is handed out by that one, for good; `moved`: the longest silence of a partition that moved,
    `kept`: of one that did not, `quiet`: of the latter in an equally long time just before. What
    there is none of is None. `first`: until the first partition came to its new owner.
    """

    took: float
    first: float
    moved: float
    kept: float | None
    quiet: float | None


def change(
    flow: Flow, before: Mapping[int, str], asked_ns: int, without: Collection[int] = ()
) -> Change:
    """What happened since `asked_ns`, when `before` were the owners; the group is settled now.
    Partitions of `without` are not looked at. AssertionError when nothing moved.
    """
    after = flow.owners()
    mine = [number for number in before if number not in without]
    moved = [number for number in mine if after[number] != before[number]]
    kept = [number for number in mine if after[number] == before[number]]
    assert moved, "nothing moved"
    taken = [taken_ns(flow.handed[number], after[number], asked_ns) for number in moved]
    until_ns = flow.latest_ns - flow.quiet_ns // 2
    window_ns = until_ns - asked_ns
    longest = {
        name: max(
            (gap_ns(flow.handed[number], begin_ns, begin_ns + window_ns) for number in numbers),
            default=None,
        )
        for name, numbers, begin_ns in (
            ("moved", moved, asked_ns),
            ("kept", kept, asked_ns),
            ("quiet", kept, asked_ns - window_ns),
        )
    }
    seen_ns = min((of[0][0] for number in kept if (of := flow.handed[number])), default=asked_ns)
    if seen_ns > asked_ns - window_ns and kept:  # less is remembered: compare with that
        longest["quiet"] = max(gap_ns(flow.handed[number], seen_ns, asked_ns) for number in kept)

    def ms(value: int | None) -> float | None:
        return None if value is None else value / MS

    return Change(
        (max(taken) - asked_ns) / MS,
        (min(taken) - asked_ns) / MS,
        (longest["moved"] or 0) / MS,
        ms(longest["kept"]),
        ms(longest["quiet"]),
    )
