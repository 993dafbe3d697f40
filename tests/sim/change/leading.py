"""How a client assigns that leads its group: as Kafka's range and round-robin assignors do, or so
that nobody gets what another one still has (KIP-429).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from consumer.gateway.wire.subscription import ClientSubscription
from zkcoord.core.model import TopicPartition

COOPERATIVE = "cooperative-sticky"

Members = Mapping[str, ClientSubscription]
Assignment = dict[str, set[TopicPartition]]


def assign(protocol: str, members: Members, partitions: Callable[[str], int]) -> Assignment:
    """What each member gets. `partitions` says how many a topic has."""
    if protocol == "range":
        return _range(members, partitions)
    return _sticky(members, partitions, gives=protocol != COOPERATIVE)


def _topics(members: Members) -> dict[str, list[str]]:
    """Topic -> who subscribes to it."""
    found: dict[str, list[str]] = defaultdict(list)
    for member in sorted(members):
        for topic in members[member].topics:
            found[topic].append(member)
    return found


def _range(members: Members, partitions: Callable[[str], int]) -> Assignment:
    given: Assignment = {member: set() for member in members}
    for topic, who in sorted(_topics(members).items()):
        each, more = divmod(partitions(topic), len(who))
        first = 0
        for number, member in enumerate(who):
            after = first + each + (number < more)
            given[member].update(TopicPartition(topic, p) for p in range(first, after))
            first = after
    return given


def _sticky(members: Members, partitions: Callable[[str], int], gives: bool) -> Assignment:
    """What somebody alone says to have stays there as far as that is balanced. Unless it `gives`
    what others have: what is to move, or is claimed twice, is nobody's in this round.
    """
    topics = _topics(members)
    claims: dict[TopicPartition, list[str]] = defaultdict(list)
    for member in sorted(members):
        for tp in members[member].owned:
            claims[tp].append(member)
    all_of_it = [TopicPartition(t, p) for t in sorted(topics) for p in range(partitions(t))]
    given: Assignment = {member: set() for member in members}
    free = []
    for tp in all_of_it:
        if len(claims[tp]) == 1 and claims[tp][0] in topics[tp.topic]:
            given[claims[tp][0]].add(tp)
        else:
            free.append(tp)
    for tp in free:
        given[min(topics[tp.topic], key=lambda m: (len(given[m]), m))].add(tp)
    for tp in all_of_it:  # once each: from who has two more than another one
        who = topics[tp.topic]
        least = min(who, key=lambda m: (len(given[m]), m))
        has = next(m for m in who if tp in given[m])
        if len(given[has]) > len(given[least]) + 1:
            given[has].discard(tp)
            given[least].add(tp)
    if not gives:
        for member, has in given.items():
            has -= {tp for tp in has if claims[tp] and claims[tp] != [member]}
    return given
