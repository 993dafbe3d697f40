"""What a query says of itself in its progress, and how far `Trigger.AvailableNow` reads."""

from __future__ import annotations

import time
from collections.abc import Collection

from kafka.errors import KafkaError

from consumer.assignment.subscription import subscription_of
from consumer.spark.decode.errors import NoBrokerError
from consumer.spark.end_offsets import LATEST
from consumer.spark.errors import UndecidedError
from consumer.spark.query_member import QueryMember
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.patterns import match_patterns

LOOK_AGAIN_S = 0.1


def report(member: QueryMember) -> dict[str, object]:
    """Who it is, what it owns and how far that is behind, as known without asking anybody."""
    with member.assignment.lock:
        known = member.ends.known()
        lag = {
            str(tp): max(0, known[tp][1] - member.assignment.position(tp))
            for tp in sorted(member.assignment.owned)
            if tp in known
        }
        owned = len(member.assignment.owned)
    at = member.session.thread.metrics()
    return {
        "group": member.options.group,
        "member": at.name,
        "state": at.phase.value,
        "generation": at.generation,
        "epoch": at.epoch,
        "owned": owned,
        "lag": sum(lag.values()),
        "lagByPartition": lag,
    }


def aim(member: QueryMember, patience_s: float) -> None:
    """From now on read up to the ends of now, and no further; returns when each partition has an
    owner, here or elsewhere. Raises `UndecidedError`, `MembershipError`, `NoBrokerError`.
    """
    partitions = _partitions(member)
    member.planner.targets = member.ends.ask(dict.fromkeys(partitions, LATEST))
    deadline = time.monotonic() + patience_s
    while not _spoken_for(member, partitions):
        if time.monotonic() >= deadline:
            raise UndecidedError(
                f"the partitions of group {member.options.group} were not all owned within"
                f" {patience_s:.0f} s: see that a coordinator runs (zkcoord groups describe"
                f" {member.options.group}), then start the query again"
            )
        member.session.wait(LOOK_AGAIN_S)


def arrived(member: QueryMember, left_s: float) -> bool:
    """Is everything read that `aim` aimed at, and stored, of what is this query's? Raises
    `UndecidedError` when there is no time left and it cannot be told.
    """
    if member.planner.targets is None:
        return False
    with member.assignment.lock:
        assignment = member.assignment
        there = member.session.leased() and all(
            tp not in assignment.uncommitted and owned.position >= member.planner.targets.get(tp, 0)
            for tp, owned in assignment.owned.items()
            if not owned.revoking
        )
    if not there and left_s <= 0:
        raise UndecidedError(
            f"group {member.options.group}: what was there at the start of this query could not be"
            " read to its end: see that ZooKeeper and the brokers answer, then start the query"
            " again"
        )
    return there


def _partitions(member: QueryMember) -> list[TopicPartition]:
    pattern = subscription_of(member.options.read.topics, member.options.pattern).pattern
    try:
        topics = (
            member.options.read.topics
            if pattern is None
            else sorted(match_patterns([pattern], member.data.topics())[pattern])
        )
        return [
            TopicPartition(topic, n)
            for topic in topics
            for n in sorted(member.data.partitions_for_topic(topic))
        ]
    except KafkaError as e:
        raise NoBrokerError(
            f"the topics' partitions cannot be learnt ({type(e).__name__}): see that the brokers"
            f" {member.brokers} run"
        ) from None


def _spoken_for(member: QueryMember, partitions: Collection[TopicPartition]) -> bool:
    member.session.check()
    if not member.session.joined:
        return False
    with member.assignment.lock:
        others = [tp for tp in partitions if tp not in member.assignment.owned]
    return len(member.session.read_owners(others)) == len(others)
