"""Of records that were handed out more than once: after whose death, if after any. A fold over the
facts of a run, beside the verdict, which counts what is excused and does not say by whom. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from zkcoord.verdict.facts import Delivered, Fact, OwnershipEnd, Partition, Released
from zkcoord.verdict.ranges import RangeSet


@dataclass
class Again:
    """`kills`: who was killed, and how many records that only he had had were handed out again;
    `others`: whose records were handed out again though he was not killed; `losses`: how many
    partitions members said they had lost.
    """

    kills: dict[str, int] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)

    @property
    def after_kills(self) -> int:
        """Records."""
        return sum(self.kills.values())

    def lines(self) -> list[str]:
        """For a report."""
        named = [f"{name}: {count:,}" for name, count in self.kills.items() if count]
        found = [
            f"Records handed out again after a kill -9 of the one who had had them:"
            f" {self.after_kills:,}, after {len(named)} of {len(self.kills)} kills"
            f" ({', '.join(named) or 'none'})",
            f"Records handed out again, and nobody who had had them was killed:"
            f" {self.others.total():,} ({_listed(self.others)})",
        ]
        if self.losses:
            found.append(f"Partitions that clients said they had lost: {_listed(self.losses)}")
        return found


def _listed(found: Counter[str]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in sorted(found.items())) or "none"


def again(facts: Iterable[Fact]) -> Again:
    """What facts in order of time say."""
    had: dict[Partition, list[Delivered]] = {}
    handed_out: dict[Partition, RangeSet] = {}
    result = Again()
    for fact in facts:
        if isinstance(fact, Released) and fact.end is OwnershipEnd.KILLED:
            result.kills.setdefault(fact.member, 0)
        elif isinstance(fact, Released) and fact.end is OwnershipEnd.LOST:
            result.losses[fact.member] += 1
        elif isinstance(fact, Delivered):
            earlier = had.setdefault(fact.partition, [])
            so_far = handed_out.setdefault(fact.partition, RangeSet())
            for start, end in so_far.add(fact.first, fact.last + 1):
                for name, count in _of(earlier, start, end).items():
                    if name in result.kills:
                        result.kills[name] += count
                    else:
                        result.others[name] += count
            earlier.append(fact)
    return result


def _of(earlier: list[Delivered], first: int, end: int) -> Counter[str]:
    """Who had the records [first, end) last, and how many of them."""
    found: Counter[str] = Counter()
    open_parts = [(first, end)]
    for past in reversed(earlier):
        rest: list[tuple[int, int]] = []
        for start, stop in open_parts:
            low, high = max(start, past.first), min(stop, past.last + 1)
            if low >= high:
                rest.append((start, stop))
                continue
            found[past.member] += high - low
            rest += [part for part in ((start, low), (high, stop)) if part[0] < part[1]]
        open_parts = rest
        if not open_parts:
            break
    return found
