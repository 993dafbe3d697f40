"""Static members (group.instance.id): a restart within its grace gets the same partitions back, and
nobody else notices.

What each instance has is a promise, kept in the group's metadata so that a new coordinator keeps
it, too: also of instances that are there, because one may leave together with the coordinator.
While an instance is away its partitions stay in the target under the name that it had: nobody owns
them, nobody gets them. A new coordinator counts the grace again from its own beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from zkcoord.core.model import Departed, Member, Subscription, Thread, TopicPartition

ALIAS_PREFIX = "!/"


def alias_of(instance: str) -> str:
    """What stands for a static member where its name of the day must not count: never a member's
    name, since those have no slash, and in sorted order before them.
    """
    return ALIAS_PREFIX + instance


@dataclass(slots=True)
class Promise:
    """What an instance has: partition -> number of its thread (another one with another target).
    `member` is its last registration (None: known from the metadata only); `left_ms` is when it
    left (None: it is there).
    """

    instance: str
    grace_ms: int
    member: Member | None = None
    threads: dict[TopicPartition, int] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    left_ms: int | None = None
    _departed: Departed | None = field(default=None, repr=False, compare=False)
    _is_of: tuple[object, ...] = field(default=(), repr=False, compare=False)

    def departed(self) -> Departed:
        """For the group's metadata: the same as long as nothing of it changes, since each decision
        wants all of them.
        """
        is_of = (self.threads, self.topics, self.grace_ms, self.left_ms)
        if self._departed is None or any(
            a is not b for a, b in zip(is_of, self._is_of, strict=False)
        ):
            numbers = {tp: n for tp, n in self.threads.items() if n}
            self._departed = Departed(
                self.instance,
                tuple(sorted(self.threads)),
                self.left_ms or 0,
                self.grace_ms,
                numbers,
                self.topics,
            )
            self._is_of = is_of
        return self._departed

    @property
    def name(self) -> str:
        """The name under which its partitions stand in the target while it is away."""
        return self.member.name if self.member is not None else alias_of(self.instance)

    def stand_in(self) -> Member:
        """A member to assign to while it is away."""
        known = (
            self.member
            if self.member is not None
            else Member(self.name, 0, 0, Subscription(), instance=self.instance)
        )
        return replace(
            known,
            subscription=Subscription(
                self.topics or dict.fromkeys((tp.topic for tp in self.threads), 1)
            ),
        )


class StaticMembers:
    """The static members of one group. `grace_max_ms` caps what a member may ask for."""

    def __init__(self, grace_max_ms: int) -> None:
        self.grace_max_ms = grace_max_ms
        self.promises: dict[str, Promise] = {}

    def load(self, departed: tuple[Departed, ...]) -> None:
        """What the coordinator before us promised; who is there is seen next."""
        for d in departed:
            threads = {tp: d.numbers.get(tp, 0) for tp in d.partitions}
            self.promises[d.instance] = Promise(
                d.instance, min(d.grace_ms, self.grace_max_ms), None, threads, d.topics
            )

    def settle(self, now_ms: int, members: Mapping[str, Member]) -> None:
        """After loading: an instance that is not there has left, as far as we know now."""
        there = {m.instance for m in members.values()} if self.promises else set()
        for promise in self.promises.values():
            if promise.left_ms is None and promise.instance not in there:
                promise.left_ms = now_ms

    def left(
        self, now_ms: int, member: Member, evicted: bool, members: Mapping[str, Member]
    ) -> bool:
        """A member left. True: it is expected back, and nothing changes for the others. Its last
        registration counts, also where no target was made since: one that wants no grace any more
        is not expected.
        """
        promise = self.promises.get(member.instance) if member.instance is not None else None
        if promise is None or any(m.instance == member.instance for m in members.values()):
            return False
        promise.grace_ms = min(member.grace_ms, self.grace_max_ms)
        if evicted or not promise.grace_ms:
            del self.promises[promise.instance]
            return False
        promise.member, promise.left_ms = member, now_ms
        return True

    def joined(
        self, member: Member, topics_of: Callable[[Member], Mapping[str, int]]
    ) -> str | None:
        """A member joined. Returns the name whose place in the target it takes, if nothing changes
        for the others.
        """
        promise = self.promises.get(member.instance) if member.instance is not None else None
        if promise is None or promise.left_ms is None:
            return None
        before = promise.member
        promise.member, promise.left_ms = member, None
        promise.grace_ms = min(member.grace_ms, self.grace_max_ms)
        return (
            before.name
            if before is not None
            and topics_of(member) == promise.topics
            and _same_wishes(before, member)
            else None
        )

    def away(self) -> dict[str, Member]:
        """Stand-ins of those expected back, by their names."""
        return {p.name: p.stand_in() for p in self.promises.values() if p.left_ms is not None}

    def held(self, members: Mapping[str, Member]) -> dict[TopicPartition, Thread]:
        """What instances have, there or away, owned at the moment or not."""
        if not self.promises:
            return {}
        # of two, the older one
        names = {
            m.instance: m.name
            for m in sorted(members.values(), key=lambda m: -m.incarnation)
            if m.instance is not None
        }
        return {
            tp: Thread(names.get(p.instance, p.name), n)
            for p in self.promises.values()
            for tp, n in p.threads.items()
        }

    def topics_away(self) -> set[str]:
        """Topics that concern those expected back."""
        return {t for p in self.promises.values() if p.left_ms is not None for t in p.topics}

    def promise(
        self,
        target: Mapping[TopicPartition, Thread],
        members: Mapping[str, Member],
        rejected: Mapping[str, object],
        topics_of: Callable[[Member], Mapping[str, int]],
    ) -> None:
        """A target was made: that is what the instances have from now on. One whose member is
        rejected has nothing, and is not expected back.
        """
        by_name = {p.name: p for p in self.promises.values() if p.left_ms is not None}
        for name, member in members.items():
            if member.instance is not None and name not in rejected:
                grace_ms = min(member.grace_ms, self.grace_max_ms)
                by_name[name] = self.promises[member.instance] = Promise(
                    member.instance, grace_ms, member, {}, topics_of(member)
                )
        for promise in by_name.values():
            promise.threads = {}
        for tp, thread in target.items() if by_name else ():
            if thread.member in by_name:
                by_name[thread.member].threads[tp] = thread.number
        self.promises = {p.instance: p for p in by_name.values()}

    def expire(self, now_ms: int) -> list[str]:
        """Forget the instances whose grace is over; returns them."""
        over = sorted(
            [
                p.instance
                for p in self.promises.values()
                if p.left_ms is not None and now_ms >= p.left_ms + p.grace_ms
            ]
        )
        for instance in over:
            del self.promises[instance]
        return over

    def next_wake_ms(self) -> int | None:
        """When the next grace ends."""
        return (
            min(
                [p.left_ms + p.grace_ms for p in self.promises.values() if p.left_ms is not None],
                default=None,
            )
            if self.promises
            else None
        )

    def departed(self) -> tuple[Departed, ...]:
        """For the group's metadata."""
        if not self.promises:
            return ()
        kept = sorted((p for p in self.promises.values() if p.grace_ms), key=lambda p: p.instance)
        return tuple([p.departed() for p in kept])


def _same_wishes(a: Member, b: Member) -> bool:
    return (a.subscription, a.assignors, a.protocols, a.user_data) == (
        b.subscription,
        b.assignors,
        b.protocols,
        b.user_data,
    )
