"""A shared group in which nobody here knows what some old consumers take (`Member.unfollowed`).

Old consumers know, and assign by it; so each topic has as many possible assignments as there are
sets of such members that may take it. What is given to ours is only what cannot be an old
consumer's that goes by any of them that is still possible:

* who owns a partition of a topic takes the topic;
* an old consumer claims its whole share or nothing. So once all are at rest, one that owns
  something takes only topics of which it owns something; and what a consumer that is understood
  owns of a topic is its share by the assignment that is true;
* one that owns nothing of a topic, at rest, takes nothing of it until the registrations or the
  topics change, when ours let go of all they have (`consumer.core.parts.legacy_group`): what it
  cannot get is shared among ours.

Only `legacy-range`, where the topics do not depend on each other, and only a few such members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, combinations
from typing import TypeVar

from zkcoord.core.assignment import AssignmentInput
from zkcoord.core.legacy_assignment import assign_legacy_range
from zkcoord.core.model import Member, Mode, Thread, TopicPartition
from zkcoord.core.shared import LEGACY_RANGE

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
        if members[name].legacy and not members[name].unfollowed
    )


def _by_topic(found: Mapping[TopicPartition, V]) -> dict[str, dict[TopicPartition, V]]:
    by_topic: dict[str, dict[TopicPartition, V]] = {}
    for tp, value in found.items():
        by_topic.setdefault(tp.topic, {})[tp] = value
    return by_topic


def _is_old(threads: set[Thread], members: Mapping[str, Member]) -> bool:
    return any(members[thread.member].legacy for thread in threads)


def _subsets(names: list[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))


def _with(given: AssignmentInput, taking: Mapping[str, int]) -> Mapping[TopicPartition, Thread]:
    """The whole assignment where these take every topic, with so many streams."""
    everything = {name: dict.fromkeys(given.partitions, n) for name, n in taking.items()}
    return assign_legacy_range(replace(given, members={**given.members, **everything})).targets


def _of_ours(
    given: AssignmentInput, members: Mapping[str, Member]
) -> Mapping[TopicPartition, Thread]:
    """Where ours alone share everything that they want."""
    mine = {name: topics for name, topics in given.members.items() if not members[name].legacy}
    wanted = {topic for topics in mine.values() for topic in topics}
    partitions = {t: numbers for t, numbers in given.partitions.items() if t in wanted}
    return assign_legacy_range(replace(given, members=mine, partitions=partitions)).targets
