"""The old consumers' assignors, to the letter: who owns what in a group that shares its partitions
with them. Each old member computes the whole group's assignment by itself and takes its part, so in
such a group the only right answer is the one that they will find.

`legacy-range` is `range` over threads. `legacy-roundrobin-0.8` (0.8.2 to 0.11) and
`legacy-roundrobin-1.0` (1.0 and 1.1) deal partitions in the order of the hash of their text, which
was written `[topic,number]` and then `topic-number`: the two orders differ, and nothing in
ZooKeeper tells a member's version or strategy. An operator names the one that all of a group's old
members use.

* The hash is that of Java's strings: 32 bits, signed, and compared as such.
* Partitions of equal hashes stay in the order of a hash table of the old members' library, which is
  specified nowhere: a group that has such partitions is refused, by their names.
* 0.8.2 to 0.10.1 deal only where all members subscribe to the same topics with the same numbers of
  streams; otherwise they give up. Later ones pass over the threads that do not take a topic, and so
  does this, which where all subscribe to the same is no difference.
* Nothing is capped and nobody's present ownership counts: the old members know neither.

There are shared groups in which nobody here knows what some old consumers take
(`Member.unfollowed`).

Old consumers know, and assign by it; so each topic has as many possible assignments as there are
sets of such members that may take it. What is given to ours is only what cannot be an old
consumer's that goes by any of them that is still possible:

* who owns a partition of a topic takes the topic;
* an old consumer claims its whole share or nothing. So once all are at rest, one that owns
  something takes only topics of which it owns something; and what it owns of a topic is its share
  by the assignment that is true;
* one that owns nothing of a topic, at rest, takes nothing of it until the registrations or the
  topics change, when ours let go of all they have (`consumer.core.parts.legacy_group`): what it
  cannot get is shared among ours.

Only `legacy-range`, where the topics do not depend on each other, and only a few such members.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, combinations
from typing import TypeVar

from zkcoord.core.value_type import value

from .assignment import UNLIMITED, Assignment, AssignmentInput, assign_range
from .model import Member, Mode, Thread, TopicPartition
from .shared import LEGACY_RANGE, LEGACY_ROUNDROBIN_08, LEGACY_ROUNDROBIN_10

_BITS = 1 << 32
_SIGN = 1 << 31
_MULTIPLIER = 31
_TWO_BYTES = 1 << 16


@value
class EqualHashes:
    """Why there is no answer: these partitions (two or more, sorted) have one hash, so in which
    order old members deal them is not specified.
    """

    hash: int
    partitions: tuple[TopicPartition, ...]

    @property
    def sentence(self) -> str:
        """For an operator: what is wrong, and the way out."""
        shown = ", ".join(map(str, self.partitions))
        return (
            f"{shown} have equal hashes, so the order in which old members deal them is not"
            " specified: use range in this group, or put these topics into groups of their own"
        )


LegacyAssignor = Callable[[AssignmentInput], Assignment | EqualHashes]


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 units, 32 bits, signed."""
    found = 0
    for character in text:
        code = ord(character)
        units = (
            (code,)
            if code < _TWO_BYTES
            else (0xD800 + (code - _TWO_BYTES >> 10), 0xDC00 + (code & 0x3FF))
        )
        for unit in units:
            found = (found * _MULTIPLIER + unit) % _BITS
    return found - _BITS if found >= _SIGN else found


def assign_legacy_range(given: AssignmentInput) -> Assignment:
    """`range`, whatever the members' owner paths add up to."""
    return assign_range(dataclasses.replace(given, owner_path_bytes_max=UNLIMITED))


def assign_legacy_roundrobin_08(given: AssignmentInput) -> Assignment | EqualHashes:
    """Round robin as 0.10.2 and 0.11 do it, and 0.8.2 to 0.10.1 where these do it at all."""
    return _deal(given, lambda partition: f"[{partition.topic},{partition.partition}]")


def assign_legacy_roundrobin_10(given: AssignmentInput) -> Assignment | EqualHashes:
    """Round robin as 1.0 and 1.1 do it."""
    return _deal(given, str)


LEGACY_ASSIGNORS: Mapping[str, LegacyAssignor] = {
    LEGACY_RANGE: assign_legacy_range,
    LEGACY_ROUNDROBIN_08: assign_legacy_roundrobin_08,
    LEGACY_ROUNDROBIN_10: assign_legacy_roundrobin_10,
}


def _deal(
    given: AssignmentInput, text: Callable[[TopicPartition], str]
) -> Assignment | EqualHashes:
    """In the order of the hashes of their texts, around all threads sorted by theirs; past those
    that do not take the topic.
    """
    streams = {
        topic: {
            member: wanted[topic] for member, wanted in given.members.items() if topic in wanted
        }
        for topic in given.partitions
    }
    most = {member: max(wanted.values()) for member, wanted in given.members.items() if wanted}
    circle = sorted(
        (Thread(member, number) for member, count in most.items() for number in range(count)),
        key=str,
    )
    hashes: dict[int, list[TopicPartition]] = {}
    for topic, numbers in given.partitions.items():
        for partition in (TopicPartition(topic, number) for number in numbers if streams[topic]):
            hashes.setdefault(java_hash(text(partition)), []).append(partition)
    equal = min(
        (value for value, partitions in hashes.items() if len(partitions) > 1), default=None
    )
    if equal is not None:
        return EqualHashes(equal, tuple(sorted(hashes[equal])))
    places = {
        topic: [
            place
            for place, thread in enumerate(circle)
            if thread.number < wanted.get(thread.member, 0)
        ]
        for topic, wanted in streams.items()
    }
    targets: dict[TopicPartition, Thread] = {}
    turn = 0
    for _, (partition,) in sorted(hashes.items()):
        of_topic = places[partition.topic]
        index = bisect_left(of_topic, turn)
        place = of_topic[index if index < len(of_topic) else 0]
        targets[partition] = circle[place]
        turn = place + 1
    return Assignment(targets)


# beside members that are not understood

UNFOLLOWED_MAX = 3

V = TypeVar("V")

Owned = Mapping[TopicPartition, str]
"""Partition -> the registered member that owns it."""


def followed_in_part(members: Mapping[str, Member], mode: Mode) -> bool:
    """Whether a group with such members can be assigned at all."""
    found = [m for m in members.values() if m.unfollowed]
    return (
        mode.strategy == LEGACY_RANGE
        and len(found) <= UNFOLLOWED_MAX
        and all(m.subscription.streams > 0 for m in found)
    )


def target_beside(
    given: AssignmentInput, members: Mapping[str, Member], owned: Owned, at_rest: bool
) -> tuple[dict[TopicPartition, Thread], tuple[TopicPartition, ...]]:
    """Who is to own what, as far as that is certain, and what nobody here can decide. `given` is of
    the members that are understood; `at_rest`: nothing has changed for as long as old consumers
    try.
    """
    unfollowed = {n: m.subscription.streams for n, m in members.items() if m.unfollowed}
    possible = {
        frozenset(taking): _by_topic(_with(given, {name: unfollowed[name] for name in taking}))
        for taking in _subsets(sorted(unfollowed))
    }
    ours, held = _of_ours(given, members), _by_topic(owned)
    target: dict[TopicPartition, Thread] = {}
    undecided: list[TopicPartition] = []
    for topic, numbers in sorted(given.partitions.items()):
        holding = set(held.get(topic, {}).values())
        idle = unfollowed.keys() - holding if at_rest else set()
        elsewhere = set(owned.values()) - holding if at_rest else set()
        assignments = {taking: each.get(topic, {}) for taking, each in possible.items()}
        left = [
            assignment
            for taking, assignment in assignments.items()
            if _agrees(taking, assignment, held.get(topic, {}), elsewhere, members, at_rest)
        ] or list(assignments.values())
        for number in numbers:
            tp = TopicPartition(topic, number)
            threads = {each[tp] for each in left if tp in each}
            certain = {thread for thread in threads if thread.member not in idle}
            if not certain and tp in ours:
                target[tp] = ours[tp]
            elif certain and not _is_old(certain, members):
                target[tp] = next(each[tp] for each in left if each.get(tp) in certain)
            elif len(threads) == 1:
                (target[tp],) = threads
            elif threads:
                undecided.append(tp)
    return target, tuple(undecided)


def _agrees(
    taking: frozenset[str],
    assignment: Mapping[TopicPartition, Thread],
    held: Owned,
    elsewhere: set[str],
    members: Mapping[str, Member],
    at_rest: bool,
) -> bool:
    """Whether an assignment of a topic, which is that where these take it, can be the true one by
    what is owned of the topic, and who owns something of others only.
    """
    holding = set(held.values())
    if any(members[name].unfollowed and name not in taking for name in holding):
        return False
    if not at_rest:
        return True
    shares: dict[str, set[TopicPartition]] = {}
    for tp, thread in assignment.items():
        shares.setdefault(thread.member, set()).add(tp)
    if any(name in elsewhere and name in shares for name in taking):
        return False
    return all(
        shares.get(name, set()) == {tp for tp, owner in held.items() if owner == name}
        for name in holding
    )


def _by_topic(found: Mapping[TopicPartition, V]) -> dict[str, dict[TopicPartition, V]]:
    by_topic: dict[str, dict[TopicPartition, V]] = {}
    for tp, one in found.items():
        by_topic.setdefault(tp.topic, {})[tp] = one
    return by_topic


def _is_old(threads: set[Thread], members: Mapping[str, Member]) -> bool:
    return any(members[thread.member].legacy for thread in threads)


def _subsets(names: list[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))


def _with(given: AssignmentInput, taking: Mapping[str, int]) -> Mapping[TopicPartition, Thread]:
    """The whole assignment where these take every topic, with so many streams."""
    everything = {name: dict.fromkeys(given.partitions, n) for name, n in taking.items()}
    return assign_legacy_range(
        dataclasses.replace(given, members={**given.members, **everything})
    ).targets


def _of_ours(
    given: AssignmentInput, members: Mapping[str, Member]
) -> Mapping[TopicPartition, Thread]:
    """Where ours alone share everything that they want."""
    mine = {name: topics for name, topics in given.members.items() if not members[name].legacy}
    wanted = {topic for topics in mine.values() for topic in topics}
    partitions = {t: numbers for t, numbers in given.partitions.items() if t in wanted}
    return assign_legacy_range(
        dataclasses.replace(given, members=mine, partitions=partitions)
    ).targets
