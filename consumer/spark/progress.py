"""What a query says of itself in its progress, and how far `Trigger.AvailableNow` reads."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from kafka.errors import KafkaError

from consumer.assignment.subscription import subscription_of
from consumer.spark.decode.errors import NoBrokerError, TopicUnknownError
from consumer.spark.end_offsets import LATEST
from consumer.spark.errors import UndecidedError
from consumer.spark.plan import ranges_named
from consumer.spark.query_member import QueryMember
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.patterns import match_patterns

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.1
UNKNOWN_S = 3.0
"""How long a topic may be unknown: metadata travels."""
NAMED_MAX = 5


def report(member: QueryMember) -> dict[str, object]:
    """Who it is, what it owns and how far that is behind, as known without asking anybody."""
    with member.assignment.lock:
        known = member.ends.known()
        lag = {
            str(tp): max(0, known[tp][1] - _read_up_to(member, tp))
            for tp in sorted(member.assignment.owned)
            if tp in known
        }
        owned = len(member.assignment.owned)
    at = member.session.thread.metrics()
    topics = member.options.pattern or ",".join(member.options.read.topics)
    return {
        "description": f"zkcoord[group {member.options.group}: {topics}]",
        "group": member.options.group,
        "member": at.name,
        "state": at.phase.value,
        "generation": at.generation,
        "epoch": at.epoch,
        "owned": owned,
        "lag": sum(lag.values()),
        "lagUnknown": owned - len(lag),
        "lagByPartition": lag,
        "metrics": {
            "minOffsetsBehindLatest": min(lag.values(), default=0),
            "maxOffsetsBehindLatest": max(lag.values(), default=0),
            "avgOffsetsBehindLatest": sum(lag.values()) / max(1, len(lag)),
        },
    }


def _read_up_to(member: QueryMember, tp: TopicPartition) -> int:
    """Where the batch that Spark has ends: its progress is told when it is written. Under the
    lock.
    """
    in_flight = member.assignment.owned[tp].in_flight
    return in_flight.end if in_flight is not None else member.assignment.position(tp)


def warn_of_unsettled(member: QueryMember) -> None:
    """The query ends: say which offsets the group does not have, if there are any."""
    with member.assignment.lock:
        running = member.planner.running
        ranges = {*member.assignment.uncommitted.values(), *(running.ranges if running else ())}
    if ranges:
        log.warning(
            "this query of group %s ends before Spark asked for another batch, so the group does"
            " not know that its last one is written (%s): the same checkpoint settles that at the"
            " next start; without it, or where others take over, these records are read again."
            " drain_and_stop(query) leaves nothing open",
            member.options.group,
            ranges_named(ranges),
        )


def aim(member: QueryMember, patience_s: float) -> None:
    """From now on read up to the ends of now, and no further; returns when each partition has an
    owner, here or elsewhere. What cannot be learnt is an error: nothing known is not the same as
    nothing to do. Raises `UndecidedError`, `MembershipError`, `TopicUnknownError`,
    `NoBrokerError`.
    """
    deadline = time.monotonic() + patience_s
    partitions = _partitions(member)
    member.planner.targets = _ends(member, partitions, deadline)
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
    # what this query had may be nobody's now
    there = there and _spoken_for(member, member.planner.targets)
    if not there and left_s <= 0:
        raise UndecidedError(
            f"group {member.options.group}: what was there at the start of this query could not be"
            " read to its end: see that ZooKeeper and the brokers answer, then start the query"
            " again"
        )
    return there


def _partitions(member: QueryMember) -> list[TopicPartition]:
    """Of all topics that the query reads. Raises `TopicUnknownError`, `NoBrokerError`."""
    deadline = time.monotonic() + UNKNOWN_S
    while True:
        found = _look_for_partitions(member)
        unknown = [topic for topic, numbers in found.items() if not numbers]
        if found and not unknown:
            return [TopicPartition(topic, n) for topic, numbers in found.items() for n in numbers]
        if time.monotonic() >= deadline:
            what = (
                f"there is no topic {', '.join(unknown)}: create it, or correct subscribe"
                if unknown
                else f"there is no topic that subscribePattern ({member.options.pattern!r}) covers:"
                " create one, or correct it"
            )
            raise TopicUnknownError(
                f"{what}; a query that shall read what is there now cannot wait"
            )
        member.session.wait(LOOK_AGAIN_S)


def _ends(
    member: QueryMember, partitions: Collection[TopicPartition], deadline: float
) -> dict[TopicPartition, int]:
    """The ends of all these logs. Raises `NoBrokerError` where one is not known in time."""
    found: dict[TopicPartition, int] = {}
    while True:
        missing = [tp for tp in partitions if tp not in found]
        if not missing:
            return found
        found.update(member.ends.ask(dict.fromkeys(missing, LATEST)))
        missing = [tp for tp in missing if tp not in found]
        if missing and time.monotonic() >= deadline:
            named = ", ".join(map(str, missing[:NAMED_MAX]))
            more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
            raise NoBrokerError(
                f"the brokers {member.brokers} do not say where the logs of {named}{more} end: see"
                " that they run and that each partition has a leader, then start the query again"
            )
        member.session.wait(LOOK_AGAIN_S if missing else 0.0)


def _look_for_partitions(member: QueryMember) -> dict[str, list[int]]:
    pattern = subscription_of(member.options.read.topics, member.options.pattern).pattern
    try:
        topics = (
            member.options.read.topics
            if pattern is None
            else sorted(match_patterns([pattern], member.data.topics())[pattern])
        )
        return {topic: sorted(member.data.partitions_for_topic(topic)) for topic in topics}
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
