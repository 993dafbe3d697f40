"""Assignors: who shall own which partition. Pure functions of the members, their topics, the partitions and the present owners; the order of any mapping changes nothing.

`range` is the old consumer's and Kafka's: per topic, the sorted threads get consecutive runs of partitions, the first ones one more. It ignores who owns what now.
`sticky` (the default) keeps what is owned and levels the rest (`zkcoord.core.sticky`): first between members, weighed by their streams, then between the threads of each member.
What is valid and balanced comes back unchanged, so a new coordinator that computes the target again moves nothing.

A session's owner nodes are capped (`owner_path_bytes_max`): its close is one transaction, and one that is too large stops the ensemble. What does not fit is not assigned, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .model import Thread, TopicPartition
from .sticky import FREE, Problem, balance

OWNER_PATH_BYTES_MAX = 512 * 1024
OWNER_FIXED_BYTES = 64
UNLIMITED = 2**62

MemberTopics = Mapping[str, int]
Subscribers = tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """What an assignor sees. `members` maps a member to its topics with its number of streams (1 or more) for each, wildcards resolved; `partitions` a topic to its partitions. `owners` may
    name threads that no longer exist: what remains valid of them counts. A partition's owner path has `owner_fixed_bytes` + the topic's name + the number's digits."""

    members: Mapping[str, MemberTopics]
    partitions: Mapping[str, tuple[int, ...]]
    owners: Mapping[TopicPartition, Thread] = field(default_factory=dict)
    owner_path_bytes_max: int = OWNER_PATH_BYTES_MAX
    owner_fixed_bytes: int = OWNER_FIXED_BYTES

    def path_bytes(self, partition: TopicPartition) -> int:
        """Bytes of a partition's owner path (topics are ASCII)."""
        return self.owner_fixed_bytes + len(partition.topic) + len(str(partition.partition))


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who shall own what. `unassigned`: partitions that have subscribers but fit under no subscriber's cap. (Partitions that nobody subscribed to are in neither.)"""

    targets: Mapping[TopicPartition, Thread]
    unassigned: tuple[TopicPartition, ...] = ()


Assignor = Callable[[AssignmentInput], Assignment]


def assign_range(given: AssignmentInput) -> Assignment:
    """Per topic: with P sorted partitions and T threads sorted by their text (`B-10` before `B-2`), thread i gets P/T of them in a row, the first P mod T threads one more."""
    subscribers = _subscribers(given)
    thread_lists: dict[Subscribers, list[Thread]] = {}
    used: dict[str, int] = dict.fromkeys(given.members, 0)
    targets: dict[TopicPartition, Thread] = {}
    unassigned: list[TopicPartition] = []
    for topic in sorted(subscribers):
        threads = thread_lists.get(subscribers[topic])
        if threads is None:
            threads = sorted((Thread(m, n) for members, streams in subscribers[topic] for m in members for n in range(streams)), key=str)
            thread_lists[subscribers[topic]] = threads
        partitions = sorted(given.partitions[topic])
        each, more = divmod(len(partitions), len(threads))
        for index, number in enumerate(partitions):
            big = index < more * (each + 1)
            thread = threads[index // (each + 1) if big else more + (index - more * (each + 1)) // each]
            partition = TopicPartition(topic, number)
            used[thread.member] += given.path_bytes(partition)
            if used[thread.member] > given.owner_path_bytes_max:
                used[thread.member] -= given.path_bytes(partition)
                unassigned.append(partition)
            else:
                targets[partition] = thread
    return Assignment(targets, tuple(unassigned))


def assign_sticky(given: AssignmentInput) -> Assignment:
    """Balanced within one among members of equal subscriptions, with as few moves as that takes; then the same within each member between its threads."""
    members = sorted(given.members)
    topics = sorted(given.partitions.keys() & set().union(*given.members.values()))
    kind_of = {topic: kind for kind, topic in enumerate(topics)}
    index_of = {member: index for index, member in enumerate(members)}
    items = [TopicPartition(topic, number) for topic in topics for number in sorted(given.partitions[topic])]
    none = Thread("", 0)
    problem = Problem(
        kinds=[kind_of[item.topic] for item in items],
        costs=[given.path_bytes(item) for item in items],
        held_by=[index_of.get(given.owners.get(item, none).member, FREE) for item in items],
        accepts=_accepts(given, members, kind_of),
        weights=[max(given.members[m].values(), default=1) for m in members],
        room=given.owner_path_bytes_max,
    )
    parts: list[list[TopicPartition]] = [[] for _ in members]
    unassigned = []
    for item, holder in zip(items, balance(problem)):
        if holder == FREE:
            unassigned.append(item)
        else:
            parts[holder].append(item)
    targets: dict[TopicPartition, Thread] = {}
    for member, part in zip(members, parts):
        targets.update(_between_threads(given, member, part))
    return Assignment(targets, tuple(unassigned))


ASSIGNORS: Mapping[str, Assignor] = {"range": assign_range, "sticky": assign_sticky}


def _subscribers(given: AssignmentInput) -> dict[str, Subscribers]:
    """Per topic that exists: its subscribers, as groups of members with equal subscriptions, with their streams. (Groups of thousands usually are one: this costs no more than they differ.)"""
    groups: dict[frozenset[object], list[str]] = {}
    for member in sorted(given.members):
        wanted = given.members[member]
        uniform = len(set(wanted.values())) == 1
        same = frozenset({frozenset(wanted), next(iter(wanted.values()))}) if uniform else frozenset(wanted.items())
        groups.setdefault(same, []).append(member)
    found: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for members in groups.values():
        group = tuple(members)
        for topic, streams in given.members[group[0]].items():
            if topic in given.partitions:
                found.setdefault(topic, []).append((group, streams))
    return {topic: tuple(subscribers) for topic, subscribers in found.items()}


def _accepts(given: AssignmentInput, members: list[str], kind_of: Mapping[str, int]) -> list[frozenset[int]]:
    """Per member the kinds of its topics; members that want the same share one set."""
    shared: dict[frozenset[str], frozenset[int]] = {}
    result = []
    for member in members:
        wanted = frozenset(given.members[member])
        if wanted not in shared:
            shared[wanted] = frozenset(kind_of[topic] for topic in wanted if topic in kind_of)
        result.append(shared[wanted])
    return result


def _between_threads(given: AssignmentInput, member: str, part: list[TopicPartition]) -> dict[TopicPartition, Thread]:
    """Balance one member's partitions between its threads: a thread n takes the topics of which the member has more than n streams."""
    wanted = given.members[member]
    count = max((wanted[item.topic] for item in part), default=0)
    if count <= 1:
        return dict.fromkeys(part, Thread(member, 0))
    topics = sorted({item.topic for item in part})
    kind_of = {topic: kind for kind, topic in enumerate(topics)}
    streams = sorted({wanted[topic] for topic in topics})
    upto = {limit: frozenset(kind_of[topic] for topic in topics if wanted[topic] >= limit) for limit in streams}
    accepts = [upto[next(limit for limit in streams if limit > number)] for number in range(count)]
    owners = [given.owners.get(item) for item in part]
    problem = Problem(
        kinds=[kind_of[item.topic] for item in part],
        costs=[0] * len(part),
        held_by=[owner.number if owner is not None and owner.member == member and owner.number < count else FREE for owner in owners],
        accepts=accepts,
        weights=[1] * count,
        room=UNLIMITED,
    )
    return {item: Thread(member, number) for item, number in zip(part, balance(problem))}
