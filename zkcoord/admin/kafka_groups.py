"""What Kafka itself keeps of many groups: live members of its own protocol, committed offsets; and
offsets stored there as by a consumer without membership, which brokers refuse while members live.

The brokers' answers are the truth or an error, never a guess: what is not answered within
`DEADLINE_S` raises. A coordinator that moves, or is still loading, is asked again on new
connections.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import tenacity

from zkcoord.config.kafka_security import OPEN, PROTOCOL
from zkcoord.core.model import TopicPartition
from zkcoord.errors import RefusedError, UnavailableError
from zkcoord.kafka_client.clients import kafka_client
from zkcoord.zk.listeners import PLAINTEXT, none_live

DEADLINE_S = 30.0
REQUEST_MS = 10_000
RETRY_S = 0.2
GROUPS_PER_REQUEST = 200
PARTITIONS_PER_REQUEST = 2_000

T = TypeVar("T")
Offsets = dict[TopicPartition, int]


class KafkaGroups:
    """One client, made when it is first needed. For one thread. `servers` are host:port. Every
    method raises `UnavailableError` where brokers cannot be asked, `RefusedError` where they say
    no.
    """

    def __init__(
        self,
        servers: Sequence[str],
        deadline_s: float = DEADLINE_S,
        security: Mapping[str, Any] = OPEN,
    ) -> None:
        self.servers = tuple(servers)
        self.deadline_s = deadline_s
        self._security = security
        self._client: Any = None

    def __enter__(self) -> KafkaGroups:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, if there are any."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def cluster_id(self) -> str:
        """Of which cluster the brokers are; "" where they have no id (before 0.10.1)."""
        return self._ask(lambda client: client.describe_cluster()).get("cluster_id") or ""

    def names(self) -> list[str]:
        """The groups that brokers know, sorted."""
        return sorted(group["group_id"] for group in self._ask(lambda client: client.list_groups()))

    def live_members(self, groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """By group, the live members of Kafka's own protocol as "client on host"; () where there
        are none.
        """
        found: dict[str, tuple[str, ...]] = {}
        for some in _slices(groups, GROUPS_PER_REQUEST):
            found.update(self._ask(partial(_describe, some)))
        return found

    def committed(self, groups: Sequence[str]) -> dict[str, Offsets]:
        """By group, what is committed in Kafka: next offsets."""
        found: dict[str, Offsets] = {}
        for some in _slices(groups, GROUPS_PER_REQUEST):
            for name, offsets in self._ask(partial(_list_offsets, some)).items():
                found[name] = {
                    TopicPartition(tp.topic, tp.partition): known.offset
                    for tp, known in offsets.items()
                    if known.offset >= 0
                }
        return found

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store next offsets. What was stored before an error stays stored; the same offsets may be
        stored again.
        """
        from kafka import TopicPartition as Theirs
        from kafka.structs import OffsetAndMetadata

        for some in _slices(sorted(offsets), PARTITIONS_PER_REQUEST):
            asked = {Theirs(*tp): OffsetAndMetadata(offsets[tp], "", -1) for tp in some}
            self._ask(partial(_store, group, asked))

    def forget(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete stored offsets of these partitions. Brokers can do that since 2.4."""
        from kafka import TopicPartition as Theirs
        from kafka.errors import GroupIdNotFoundError, UnsupportedVersionError

        asked = [Theirs(*tp) for tp in sorted(partitions)]

        def delete(client: Any) -> None:
            try:
                _accepted(group, client.delete_group_offsets(group, asked))
            except GroupIdNotFoundError:
                return
            except UnsupportedVersionError as error:
                raise RefusedError(
                    f"brokers before 2.4 cannot delete single offsets of a group ({group}): delete"
                    " the group in Kafka (kafka-consumer-groups.sh --delete), then repeat the"
                    " command"
                ) from error

        self._ask(delete)

    def _ask(self, question: Callable[[Any], T]) -> T:
        """Ask until there is an answer, for `deadline_s` at most."""
        from kafka.errors import KafkaError

        if not self.servers:
            raise UnavailableError(
                f"{none_live(self._security.get(PROTOCOL, PLAINTEXT))}: name brokers with"
                " --bootstrap-servers"
            )
        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_delay(self.deadline_s),
            wait=tenacity.wait_fixed(RETRY_S),
            retry=tenacity.retry_if_exception(_again),
            reraise=True,
        )
        try:
            answer: T = attempts(self._once, question)
            return answer
        except KafkaError as error:
            said = " ".join(str(error).split()) or type(error).__name__
            if getattr(error, "retriable", False):
                raise UnavailableError(
                    f"no broker answers at {', '.join(self.servers)} ({said}): look at the brokers,"
                    " then try again"
                ) from error
            raise RefusedError(
                f"Kafka refuses it ({said}): see what the brokers allow this client, or whether the"
                " group is in use"
            ) from error

    def _once(self, question: Callable[[Any], T]) -> T:
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        if self._client is None:
            config = {
                "bootstrap_servers": list(self.servers),
                "request_timeout_ms": REQUEST_MS,
                "bootstrap_timeout_ms": REQUEST_MS,
                **self._security,
            }
            self._client = kafka_client(KafkaAdminClient, config)
        try:
            return question(self._client)
        except KafkaError as error:
            if _again(error):
                self.close()  # it remembers coordinators
            raise


def _again(error: BaseException) -> bool:
    return bool(getattr(error, "retriable", False))


def _slices(values: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))


async def _described(client: Any, groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Live members by group. Raises `KafkaError`. (The client's own method asks for authorized
    operations, which brokers before 2.3 do not know.)
    """
    from kafka import errors
    from kafka.protocol.admin import DescribeGroupsRequest

    by_node: dict[Any, list[str]] = {}
    for name, node in (await client._find_coordinator_ids(list(groups))).items():
        by_node.setdefault(node, []).append(name)
    found: dict[str, tuple[str, ...]] = {}
    for node, theirs in by_node.items():
        response = await client._manager.send(
            DescribeGroupsRequest(groups=theirs, include_authorized_operations=False), node_id=node
        )
        for group in response.groups:
            kind = errors.for_code(group.error_code)
            if kind not in (errors.NoError, errors.GroupIdNotFoundError):
                raise kind(group.group_id)
            found[group.group_id] = tuple(
                f"{member.client_id} on {member.client_host.lstrip('/')}"
                for member in group.members or ()
            )
    return found


def _describe(groups: Sequence[str], client: Any) -> Any:
    return client._manager.run(_described, client, groups)


def _list_offsets(groups: Sequence[str], client: Any) -> Any:
    return client.list_group_offsets(dict.fromkeys(groups))


def _store(group: str, offsets: Mapping[Any, Any], client: Any) -> None:
    _accepted(group, client.alter_group_offsets(group, offsets))


def _accepted(group: str, results: Mapping[Any, type[Exception]]) -> None:
    """Raises what was answered for the first partition that was refused."""
    from kafka import errors

    for tp, kind in results.items():
        if kind in (
            errors.UnknownMemberIdError,
            errors.IllegalGenerationError,
            errors.RebalanceInProgressError,
            errors.GroupSubscribedToTopicError,
        ):
            raise RefusedError(
                f"the group {group} has live members of Kafka's own protocol: stop them first"
            )
        if kind is not errors.NoError:
            raise kind(f"{group}, {tp.topic}-{tp.partition}")
