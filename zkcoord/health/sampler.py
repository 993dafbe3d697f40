"""One look at many groups: what they have stored, in ZooKeeper or in Kafka, and where the logs of
exactly these partitions end.

What fails is named and leaves the others whole: a node that may not be read, a topic whose leader
is away, a group that Kafka tells nothing of.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from zkcoord.core.model import TopicPartition
from zkcoord.errors import RefusedError, UnavailableError
from zkcoord.health.log_ends import LogEnd
from zkcoord.health.stored_offsets import GroupStored
from zkcoord.health.window import StoredSeen
from zkcoord.zk.clock import boot_ms

GROUPS_PER_REQUEST = 200


class Storage(enum.Enum):
    """Where offsets are looked for; AUTO: in ZooKeeper, and in Kafka where nothing is there."""

    AUTO = "auto"
    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


class InZooKeeper(Protocol):
    """`zkcoord.health.stored_offsets.StoredOffsets`."""

    def look(self, groups: Sequence[str]) -> dict[str, GroupStored]:
        """What each of these groups has stored."""


class InKafka(Protocol):
    """`zkcoord.admin.kafka_groups.KafkaGroups`."""

    def committed(self, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
        """What each of these groups has committed."""


class Ends(Protocol):
    """`zkcoord.health.log_ends.LogEnds`."""

    def of(
        self, wanted: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, LogEnd], dict[TopicPartition, str]]:
        """Where these logs end, and why that is not known of some."""


@dataclass(frozen=True)
class GroupLook:
    """What one look found of a group. `exists`: somebody knows it; `paused`: by whom. `problems`
    are sentences about what could not be seen; `unreadable` and `hidden` the same for partitions.
    """

    exists: bool
    state: str = ""
    storage: str = ""
    offsets: Mapping[TopicPartition, StoredSeen] = field(default_factory=dict)
    unreadable: Mapping[TopicPartition, str] = field(default_factory=dict)
    hidden: Mapping[TopicPartition, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    paused: str = ""


@dataclass(frozen=True)
class HealthLook:
    """One round: the groups, and the ends of their logs."""

    groups: Mapping[str, GroupLook]
    ends: Mapping[TopicPartition, LogEnd]
    no_ends: Mapping[TopicPartition, str]


class Sampler:
    """For one thread."""

    def __init__(
        self,
        zookeeper: InZooKeeper,
        kafka: InKafka,
        ends: Ends,
        storage: Storage = Storage.AUTO,
        now_ms: Callable[[], int] = boot_ms,
    ) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._ends = ends
        self._storage = storage
        self._now_ms = now_ms

    def look(self, groups: Sequence[str]) -> HealthLook:
        """A round. Raises `UnavailableError` where ZooKeeper does not answer."""
        stored = self._zookeeper.look(groups)
        looks = {group: self._of_zookeeper(found) for group, found in stored.items()}
        in_kafka = [group for group in looks if self._is_in_kafka(looks[group], stored[group])]
        looks.update(self._of_kafka(in_kafka, looks))
        wanted = {tp for look in looks.values() for tp in look.offsets}
        ends, no_ends = self._ends.of(wanted) if wanted else ({}, {})
        return HealthLook(looks, ends, no_ends)

    def _is_in_kafka(self, look: GroupLook, stored: GroupStored) -> bool:
        if self._storage is not Storage.AUTO:
            return self._storage is Storage.KAFKA
        return not (look.offsets or look.unreadable or look.hidden or stored.failures)

    def _of_zookeeper(self, found: GroupStored) -> GroupLook:
        state = found.state.value if found.state is not None else ""
        if self._storage is Storage.KAFKA:
            return GroupLook(found.exists, state, problems=tuple(found.doubts), paused=found.paused)
        return GroupLook(
            found.exists,
            state,
            Storage.ZOOKEEPER.value if found.offsets or found.unreadable or found.hidden else "",
            found.offsets,
            found.unreadable,
            found.hidden,
            (*found.doubts, *found.failures),
            found.paused,
        )

    def _of_kafka(
        self, groups: Sequence[str], looks: Mapping[str, GroupLook]
    ) -> dict[str, GroupLook]:
        """The same of groups that may have committed in Kafka: a request that is refused is halved
        until it is known whose refusal it is; where no broker answers, the others are not tried.
        """
        parts = deque(
            groups[at : at + GROUPS_PER_REQUEST] for at in range(0, len(groups), GROUPS_PER_REQUEST)
        )
        found: dict[str, GroupLook] = {}
        away = ""
        while parts:
            part = parts.popleft()
            problem = away
            try:
                committed = {} if away else self._kafka.committed(part)
            except UnavailableError as error:
                problem = away = str(error)
            except RefusedError as error:
                problem = str(error)
                if len(part) > 1:
                    parts.extendleft((part[len(part) // 2 :], part[: len(part) // 2]))
                    continue
            now = self._now_ms()
            for group in part:
                known = looks[group]
                if problem:
                    found[group] = replace(known, exists=True, problems=(problem,))
                elif committed.get(group):
                    offsets = {tp: StoredSeen(at, now) for tp, at in committed[group].items()}
                    found[group] = replace(
                        known, exists=True, storage=Storage.KAFKA.value, offsets=offsets
                    )
        return found
