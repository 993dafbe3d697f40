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
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .assignment import UNLIMITED, Assignment, AssignmentInput, assign_range
from .model import Thread, TopicPartition
from .shared import LEGACY_RANGE, LEGACY_ROUNDROBIN_08, LEGACY_ROUNDROBIN_10

_BITS = 1 << 32
_SIGN = 1 << 31
_MULTIPLIER = 31
_TWO_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
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
