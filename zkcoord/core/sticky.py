"""Sticky balancing: give things to holders evenly and move as few as possible. Pure, deterministic,
and indifferent to what the things are.

Items are of kinds (partitions of topics), a holder accepts some kinds and has a weight (members
with their subscription and streams; or the threads of one member). A holder's *level* is its number
of items divided by its weight. Three steps:

1. keep   what is held now by a holder that accepts it;
2. fill   give each free item to the holder whose level will be lowest, kinds with the fewest takers
   first;
3. level  while some item can go from a holder A to a holder B that will still be below what A is
   now: move one from the highest A to the lowest B.

Why it ends: every move of step 3 makes the list of levels, sorted from the highest, smaller. Why it
is balanced: when it ends, no single move helps; so two holders that accept the same and have the
same weight differ by at most one item, and in general it is as balanced as Kafka's sticky assignor
promises. Why few moves: where all holders are alike, each move takes from one above its share for
one below its share, which is the lower bound. Why it is a fixpoint: the result, given back as what
is held now, leaves nothing to do.

Holders have room for a limited cost (the bytes of a session's owner paths). A holder takes an item
only if the costliest of all items would fit, so room is a property of the holder alone; items whose
takers all lack room stay free, and steps 2 and 3 alternate until neither does anything.

Cost: each step works on heaps whose stale entries are skipped; holders that accept the same form a
class, and only classes are searched. Ties go to the lower index everywhere, so the result depends
on nothing but the problem.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from zkcoord.core.value_type import value

FREE = -1


@value
class StickyProblem:
    """Items 0..n-1 and holders 0..m-1. `kinds[i]`, `costs[i]` and `held_by[i]` (a holder or `FREE`)
    describe item i; `accepts[h]` and `weights[h]` (1 or more) holder h. Items of a kind are
    adjacent and in their natural order. Holders that accept the same should share one set object.
    `room` is what one holder's costs may add up to. `moved[i]` is how often item i has moved lately
    (empty: none has).
    """

    kinds: Sequence[int]
    costs: Sequence[int]
    held_by: Sequence[int]
    accepts: Sequence[frozenset[int]]
    weights: Sequence[int]
    room: int
    moved: Sequence[int] = ()


def balance(problem: StickyProblem) -> list[int]:
    """For each item its holder, or `FREE` where no holder accepts it or has room."""
    work = _Balance(problem)
    work.keep()
    work.fill()
    while work.level() and work.free:
        work.fill()
    return work.holder


@dataclass(slots=True)
class _Class:
    """Holders that accept the same with the same weight. `heap` holds (level after one more item,
    holder, its load then).
    """

    kinds: frozenset[int]
    heap: list[tuple[int, int, int]] = field(default_factory=list)


class _Balance:
    """The state of one computation."""

    def __init__(self, problem: StickyProblem) -> None:
        self.problem = problem
        count = len(problem.accepts)
        self.holder = [FREE] * len(problem.kinds)
        self.free: list[int] = []
        self.load = [0] * count
        self.used = [0] * count
        self.items: list[set[int]] = [set() for _ in range(count)]
        self.counts: list[dict[int, int]] = [{} for _ in range(count)]
        scale = math.lcm(*set(problem.weights))
        self.unit = [scale // weight for weight in problem.weights]
        self.full_above = problem.room - max(problem.costs, default=0)
        self.classes: list[_Class] = []
        self.class_of = self._classify()
        self.takers: dict[int, list[int]] = {}
        for index, found in enumerate(self.classes):
            for kind in found.kinds:
                self.takers.setdefault(kind, []).append(index)

    def _classify(self) -> list[int]:
        index_of: dict[tuple[frozenset[int], int], int] = {}
        result = []
        for kinds, weight in zip(self.problem.accepts, self.problem.weights, strict=False):
            index = index_of.setdefault((kinds, weight), len(self.classes))
            if index == len(self.classes):
                self.classes.append(_Class(kinds))
            result.append(index)
        return result

    def keep(self) -> None:
        """Step 1. Where the cost of what a holder has exceeds its room, the first items stay."""
        problem = self.problem
        for item, holder in enumerate(problem.held_by):
            kept = (
                holder != FREE
                and problem.kinds[item] in problem.accepts[holder]
                and self.used[holder] + problem.costs[item] <= problem.room
            )
            if kept:
                self._give(item, holder)
            else:
                self.free.append(item)
        for holder in range(len(self.load)):
            self._offer(holder)

    def fill(self) -> None:
        """Step 2."""
        population = [0] * len(self.classes)
        for index in self.class_of:
            population[index] += 1
        by_kind: dict[int, list[int]] = {}
        for item in self.free:
            by_kind.setdefault(self.problem.kinds[item], []).append(item)
        self.free = []
        for kind in sorted(
            by_kind, key=lambda k: (sum(population[c] for c in self.takers.get(k, ())), k)
        ):
            self._fill_kind(by_kind[kind], self.takers.get(kind, []))

    def _fill_kind(self, items: list[int], takers: list[int]) -> None:
        """Give items of one kind to the lowest of their takers, through a heap of the classes'
        lowest holders.
        """
        heap = [(*top, index) for index in takers if (top := self._lowest(index)) is not None]
        heapq.heapify(heap)
        for item in items:
            if not heap:
                self.free.append(item)
                continue
            _, holder, index = heap[0]
            self._give(item, holder)
            self._offer(holder)
            top = self._lowest(index)
            if top is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (*top, index))

    def level(self) -> bool:
        """Step 3, in passes: a holder that can give nothing now may be able to after a later move.
        Returns whether any item moved.
        """
        moved = False
        while self._level_once():
            moved = True
        return moved

    def _level_once(self) -> bool:
        """One pass. The givers' levels never rise in it, so who gives takes nothing afterwards:
        that would have to end below what it was when it gave.
        """
        moved = False
        queues: dict[tuple[int, int], list[int]] = {}
        heap = [
            (-load * self.unit[holder], holder) for holder, load in enumerate(self.load) if load
        ]
        heapq.heapify(heap)
        while heap:
            negative, giver = heapq.heappop(heap)
            if -negative != self.load[giver] * self.unit[giver]:
                continue
            found = self._receiver(giver)
            if found is None:
                continue
            (_, receiver), index = found
            item = self._next_item(queues, giver, index)
            self._take(item, giver)
            self._give(item, receiver)
            for changed in (giver, receiver):
                self._offer(changed)
                heapq.heappush(heap, (-self.load[changed] * self.unit[changed], changed))
            moved = True
        return moved

    def _receiver(self, giver: int) -> tuple[tuple[int, int], int] | None:
        """The holder that an item of `giver` is to go to (behind its level then), and its class;
        None: no move from it helps.
        """
        level = self.load[giver] * self.unit[giver]
        best: tuple[tuple[int, int], int] | None = None
        for index, found in enumerate(self.classes):
            top = self._lowest(index)
            if top is None or top[0] >= level or (best is not None and top >= best[0]):
                continue
            if not found.kinds.isdisjoint(self.counts[giver]):
                best = top, index
        return best

    def _next_item(self, queues: dict[tuple[int, int], list[int]], giver: int, index: int) -> int:
        """Which item goes from `giver` to a holder of class `index`: one that has no owner or moves
        anyway before one that does not, then from the kind of which the giver has most, then the
        one that has moved least lately, then the last.
        """
        queue = queues.get((giver, index))
        if queue is None:
            queue = queues[(giver, index)] = self._queue(giver, self.classes[index].kinds)
        while self.holder[queue[-1]] != giver:
            queue.pop()
        return queue.pop()

    def _queue(self, giver: int, kinds: frozenset[int]) -> list[int]:
        """The giver's items of these kinds, the next to give last."""
        held_by, kind_of, moved = self.problem.held_by, self.problem.kinds, self.problem.moved
        by_kind: dict[int, list[int]] = {}
        for item in sorted(
            self.items[giver], key=lambda i: (held_by[i] != giver, -moved[i] if moved else 0, i)
        ):
            if kind_of[item] in kinds:
                by_kind.setdefault(kind_of[item], []).append(item)
        ranked = sorted(
            (held_by[item] != giver, rank, -kind, item)
            for kind, items in by_kind.items()
            for rank, item in enumerate(items)
        )
        return [item for *_, item in ranked]

    def _lowest(self, index: int) -> tuple[int, int] | None:
        """(level after one more item, holder) of the lowest holder with room in a class; None: all
        are full.
        """
        heap = self.classes[index].heap
        while heap:
            level, holder, load = heap[0]
            if load == self.load[holder] and self.used[holder] <= self.full_above:
                return level, holder
            heapq.heappop(heap)
        return None

    def _offer(self, holder: int) -> None:
        """Put a holder's present level into its class's heap, if it has room."""
        if self.used[holder] <= self.full_above:
            load = self.load[holder]
            heapq.heappush(
                self.classes[self.class_of[holder]].heap,
                ((load + 1) * self.unit[holder], holder, load),
            )

    def _give(self, item: int, holder: int) -> None:
        assert self.holder[item] == FREE, item
        kind = self.problem.kinds[item]
        self.holder[item] = holder
        self.load[holder] += 1
        self.used[holder] += self.problem.costs[item]
        self.items[holder].add(item)
        self.counts[holder][kind] = self.counts[holder].get(kind, 0) + 1

    def _take(self, item: int, holder: int) -> None:
        assert self.holder[item] == holder, item
        kind = self.problem.kinds[item]
        self.holder[item] = FREE
        self.load[holder] -= 1
        self.used[holder] -= self.problem.costs[item]
        self.items[holder].discard(item)
        left = self.counts[holder][kind] - 1
        if left:
            self.counts[holder][kind] = left
        else:
            del self.counts[holder][kind]
