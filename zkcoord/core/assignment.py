"""Assignors: who is to own which partition. Pure functions of the members, their topics, the
partitions and the present owners; the order of any mapping changes nothing.

`range` is the old consumer's and Kafka's: per topic, the sorted threads get consecutive runs of
partitions, the first ones one more. It ignores who owns what now. `roundrobin` is Kafka's: all
partitions of all topics, sorted, are dealt in a circle over the sorted threads, past those that do
not take the topic. It ignores who owns what now. `sticky` (the default) keeps what is owned and
levels the rest (`zkcoord.core.sticky`): first between members, weighed by their streams, then
between the threads of each member. What is valid and balanced comes back unchanged, so a new
coordinator that computes the target again moves nothing.

A session's owner nodes are capped (`owner_path_bytes_max`): its close is one transaction, and one
that is too large stops the ensemble. What does not fit is not assigned, and reported.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import islice

from .model import Thread, TopicPartition
from .sticky import FREE, StickyProblem, balance
from .value_type import value

OWNER_PATH_BYTES_MAX = 512 * 1024
OWNER_FIXED_BYTES = 64
UNLIMITED = 2**62

MemberTopics = Mapping[str, int]
Subscribers = tuple[tuple[tuple[str, ...], int], ...]


@value
class AssignmentInput:
    """What an assignor sees. `members` maps a member to its topics with its number of streams (1 or
    more) for each, wildcards resolved; `partitions` a topic to its partitions. `owners` may name
    threads that no longer exist: what remains valid of them counts. A partition's owner path has
    `owner_fixed_bytes` + the topic's name + the number's digits. `user_data` has the text that a
    member registered with for its assignor, opaque to everybody else; members that gave none are
    not in it. `moved` says how often partitions were given to another member since the group was
    last quiet; custom assignors are not told.
    """

    members: Mapping[str, MemberTopics]
    partitions: Mapping[str, tuple[int, ...]]
    owners: Mapping[TopicPartition, Thread] = field(default_factory=dict)
    owner_path_bytes_max: int = OWNER_PATH_BYTES_MAX
    owner_fixed_bytes: int = OWNER_FIXED_BYTES
    user_data: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)

    def path_bytes(self, partition: TopicPartition) -> int:
        """Bytes of a partition's owner path (topics are ASCII)."""
        return self.owner_fixed_bytes + len(partition.topic) + len(str(partition.partition))


@value
class Assignment:
    """Who is to own what. `unassigned`: partitions that have subscribers but fit under no
    subscriber's cap. (Partitions that nobody subscribed to are in neither.) `user_data` is what the
    assignor tells its members, opaque to everybody else; those in it are members of the input.
    """

    targets: Mapping[TopicPartition, Thread]
    unassigned: tuple[TopicPartition, ...] = ()
    user_data: Mapping[str, str] = field(default_factory=dict)


Assignor = Callable[[AssignmentInput], Assignment]


def assign_range(given: AssignmentInput) -> Assignment:
    """Per topic: with P sorted partitions and T threads sorted by their text (`B-10` before `B-2`),
    thread i gets P/T of them in a row, the first P mod T threads one more.
    """
    subscribers = _subscribers(given)
    most = max(map(len, given.partitions.values()), default=0)
    thread_lists: dict[Subscribers, list[Thread]] = {}
    used: dict[str, int] = dict.fromkeys(given.members, 0)
    targets: dict[TopicPartition, Thread] = {}
    unassigned: list[TopicPartition] = []
    for topic in sorted(subscribers):
        threads = thread_lists.get(subscribers[topic])
        if threads is None:
            each_members = (
                _by_text(m, streams) for members, streams in subscribers[topic] for m in members
            )
            threads = thread_lists[subscribers[topic]] = list(
                islice(heapq.merge(*each_members, key=str), most)
            )
        partitions = sorted(given.partitions[topic])
        each, more = divmod(
            len(partitions), sum(len(members) * streams for members, streams in subscribers[topic])
        )
        for index, number in enumerate(partitions):
            big = index < more * (each + 1)
            thread = threads[
                index // (each + 1) if big else more + (index - more * (each + 1)) // each
            ]
            partition = TopicPartition(topic, number)
            used[thread.member] += given.path_bytes(partition)
            if used[thread.member] > given.owner_path_bytes_max:
                used[thread.member] -= given.path_bytes(partition)
                unassigned.append(partition)
            else:
                targets[partition] = thread
    return Assignment(targets, tuple(unassigned))


def assign_roundrobin(given: AssignmentInput) -> Assignment:
    """Sorted partitions (topic, number) in a circle over the threads, sorted by member and number;
    who does not take the topic, or has no room for the longest path that there is, is passed over.
    """
    subscribers = _subscribers(given)
    first: dict[str, int] = {}
    places = 0
    for member in sorted(given.members):
        first[member] = places
        places += max(given.members[member].values(), default=0)
    room = given.owner_path_bytes_max - max(
        (
            given.path_bytes(TopicPartition(t, max(given.partitions[t])))
            for t in subscribers
            if given.partitions[t]
        ),
        default=0,
    )
    circles: dict[Subscribers, _Circle] = {}
    used = dict.fromkeys(given.members, 0)
    targets: dict[TopicPartition, Thread] = {}
    unassigned: list[TopicPartition] = []
    turn = 0
    for topic in sorted(subscribers):
        circle = circles.get(subscribers[topic])
        if circle is None:
            circle = circles[subscribers[topic]] = _Circle(
                sorted(
                    (first[m], streams, m)
                    for members, streams in subscribers[topic]
                    for m in members
                )
            )
        for number in sorted(given.partitions[topic]):
            partition = TopicPartition(topic, number)
            found = circle.next(turn, lambda member: used[member] <= room)
            if found is None:
                unassigned.append(partition)
                continue
            place, member = found
            targets[partition] = Thread(member, place - first[member])
            used[member] += given.path_bytes(partition)
            turn = place + 1
    return Assignment(targets, tuple(unassigned))


class _Circle:
    """Places around a table, in order: each member has some in a row, (first, how many, member).
    Members once found full are left out for ever (each step over them is taken once).
    """

    def __init__(self, rows: list[tuple[int, int, str]]) -> None:
        self.rows = rows
        self.firsts = [first for first, _, _ in rows]
        self.onward = list(range(len(rows) + 1))

    def next(self, place: int, has_room: Callable[[str], bool]) -> tuple[int, str] | None:
        """The first place at or after this one, around the table, whose member has room, and the
        member; None: all are full.
        """
        here = bisect_right(self.firsts, place) - 1
        if here < 0 or place >= self.firsts[here] + self.rows[here][1]:
            here += 1
        index = self._open(here, has_room)
        if index == len(self.rows):
            index = self._open(0, has_room)
        if index == len(self.rows):
            return None
        first, _, member = self.rows[index]
        return (max(place, first) if index == here else first), member

    def _open(self, index: int, has_room: Callable[[str], bool]) -> int:
        passed = []
        while index < len(self.rows):
            if self.onward[index] == index:
                if has_room(self.rows[index][2]):
                    break
                self.onward[index] = index + 1
            passed.append(index)
            index = self.onward[index]
        for step in passed:
            self.onward[step] = index
        return index


def assign_sticky(given: AssignmentInput) -> Assignment:
    """Balanced within one among members of equal subscriptions, with as few moves as that takes;
    then the same within each member between its threads.
    """
    if _is_fair(given):
        return Assignment(given.owners)
    members = sorted(given.members)
    topics = sorted(given.partitions.keys() & set().union(*given.members.values()))
    kind_of = {topic: kind for kind, topic in enumerate(topics)}
    index_of = {member: index for index, member in enumerate(members)}
    items = [
        TopicPartition(topic, number)
        for topic in topics
        for number in sorted(given.partitions[topic])
    ]
    none = Thread("", 0)
    problem = StickyProblem(
        kinds=[kind_of[item.topic] for item in items],
        costs=[given.path_bytes(item) for item in items],
        held_by=[index_of.get(given.owners.get(item, none).member, FREE) for item in items],
        accepts=_accepts(given, members, kind_of),
        weights=[max(given.members[m].values(), default=1) for m in members],
        room=given.owner_path_bytes_max,
        moved=[given.moved.get(item, 0) for item in items] if given.moved else (),
    )
    parts: list[list[TopicPartition]] = [[] for _ in members]
    unassigned = []
    for item, holder in zip(items, balance(problem), strict=False):
        if holder == FREE:
            unassigned.append(item)
        else:
            parts[holder].append(item)
    targets: dict[TopicPartition, Thread] = {}
    for member, part in zip(members, parts, strict=False):
        targets.update(_between_threads(given, member, part))
    return Assignment(targets, tuple(unassigned))


ASSIGNORS: Mapping[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_roundrobin,
    "sticky": assign_sticky,
}


def _is_fair(given: AssignmentInput) -> bool:
    """Whether what is owned is the answer, in the simple case: all members subscribe to the same,
    one stream each, and everything is owned, level within one. Most groups are like that when a
    coordinator takes over, and this costs a fraction of finding out in general.
    """
    wishes = list(given.members.values())
    if (
        not wishes
        or wishes.count(wishes[0]) < len(wishes)
        or set(wishes[0].values()) != {1}
        or wishes[0].keys() != given.partitions.keys()
    ):
        return False
    counts = dict.fromkeys(given.members, 0)
    existing = {topic: frozenset(numbers) for topic, numbers in given.partitions.items()}
    if len(given.owners) != sum(map(len, existing.values())):
        return False
    for (topic, partition), (member, number) in given.owners.items():
        if number or member not in counts or partition not in existing.get(topic, ()):
            return False
        counts[member] += 1
    longest = max(
        [
            given.path_bytes(TopicPartition(topic, max(numbers)))
            for topic, numbers in given.partitions.items()
            if numbers
        ],
        default=0,
    )
    most = max(counts.values())
    return most - min(counts.values()) <= 1 and most * longest <= given.owner_path_bytes_max


def _subscribers(given: AssignmentInput) -> dict[str, Subscribers]:
    """Per topic that exists: its subscribers, as groups of members with equal subscriptions, with
    their streams. (Groups of thousands usually are one: this costs no more than they differ.)
    """
    groups: dict[frozenset[object], list[str]] = {}
    for member in sorted(given.members):
        wanted = given.members[member]
        uniform = len(set(wanted.values())) == 1
        same = (
            frozenset({frozenset(wanted), next(iter(wanted.values()))})
            if uniform
            else frozenset(wanted.items())
        )
        groups.setdefault(same, []).append(member)
    found: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for members in groups.values():
        group = tuple(members)
        for topic, streams in given.members[group[0]].items():
            if topic in given.partitions:
                found.setdefault(topic, []).append((group, streams))
    return {topic: tuple(subscribers) for topic, subscribers in found.items()}


def _accepts(
    given: AssignmentInput, members: list[str], kind_of: Mapping[str, int]
) -> list[frozenset[int]]:
    """Per member the kinds of its topics; members that want the same share one set."""
    shared: dict[frozenset[str], frozenset[int]] = {}
    result = []
    for member in members:
        wanted = frozenset(given.members[member])
        if wanted not in shared:
            shared[wanted] = frozenset(kind_of[topic] for topic in wanted if topic in kind_of)
        result.append(shared[wanted])
    return result


def _between_threads(
    given: AssignmentInput, member: str, part: list[TopicPartition]
) -> dict[TopicPartition, Thread]:
    """Balance one member's partitions between its threads: a thread n takes the topics of which the
    member has more than n streams.
    """
    wanted = given.members[member]
    streams = max((wanted[item.topic] for item in part), default=0)
    if streams <= 1:
        return dict.fromkeys(part, Thread(member, 0))
    topics = sorted({item.topic for item in part})
    kind_of = {topic: kind for kind, topic in enumerate(topics)}
    owners = [given.owners.get(item) for item in part]
    held = [
        (
            owner.number
            if owner is not None and owner.member == member and owner.number < streams
            else FREE
        )
        for owner in owners
    ]
    threads = _threads_that_count(held, streams)
    place_of = {number: place for place, number in enumerate(threads)}
    limits = sorted({wanted[topic] for topic in topics})
    upto = {
        limit: frozenset(kind_of[topic] for topic in topics if wanted[topic] >= limit)
        for limit in limits
    }
    problem = StickyProblem(
        kinds=[kind_of[item.topic] for item in part],
        costs=[0] * len(part),
        held_by=[place_of.get(number, FREE) for number in held],
        accepts=[upto[limits[bisect_right(limits, number)]] for number in threads],
        weights=[1] * len(threads),
        room=UNLIMITED,
    )
    return {
        item: Thread(member, threads[place])
        for item, place in zip(part, balance(problem), strict=False)
    }


def _threads_that_count(held: list[int], streams: int) -> list[int]:
    """Those that have something now, and of the others the first ones, as many as there are things:
    the lowest of equal ones is taken first and takes whatever a later one does, so no other can get
    any.
    """
    having = {number for number in held if number != FREE}
    others = islice((number for number in range(streams) if number not in having), len(held))
    return sorted({*having, *others})


def _by_text(member: str, streams: int) -> Iterator[Thread]:
    """A member's threads as their texts sort (`B-10` before `B-2`), one by one: it may have
    thousands, and only the first ones of a group get anything.
    """
    yield Thread(member, 0)
    number = 1
    for _ in range(streams - 1):
        yield Thread(member, number)
        if number * 10 < streams:
            number *= 10
            continue
        if number + 1 >= streams:
            number //= 10
        number += 1
        while number % 10 == 0:
            number //= 10
