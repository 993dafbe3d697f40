"""Where the logs of partitions begin and end, asked of the brokers through kafka-python: the other
half of a lag, and what an offset can be reset to.

Brokers are those that ZooKeeper names (the listeners of the protocol that is used, plain text
unless `--kafka-config` says otherwise) or those that the user names. Asking never fails a listing:
what is not answered within `ENDS_DEADLINE_MS` is missing from the result, and `warning` says once
why. All partitions are asked at once; where that is not answered (one partition without a leader is
enough), each topic alone, so that the others show.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from zkcoord.config.kafka_security import OPEN, PROTOCOL
from zkcoord.core.model import TopicPartition
from zkcoord.kafka_client.clients import kafka_client
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.listeners import PLAINTEXT, by_answer, chosen, listeners_of, none_live
from zkcoord.zk.port import Children, GetChildren, GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes import names
from zkcoord.znodes.codec import decode_broker
from zkcoord.znodes.kafka import BrokerData
from zkcoord.znodes.paths import Layout

ENDS_DEADLINE_MS = 5_000
PIECE_DEADLINE_MS = 1_000
NAMED_MAX = 5
NO_LEADER, UNKNOWN_LEADER = -1, -2
BOOTSTRAP_SERVERS_MAX = 16
NO_RECORD = -1

Ask = Callable[[Any, list[Any], int], Mapping[Any, int | None]]


def registered_brokers(
    reader: SyncClient, layout: Layout, protocol: str = PLAINTEXT, listener: str = ""
) -> tuple[str, ...]:
    """host:port of the live brokers with this security protocol, at most `BOOTSTRAP_SERVERS_MAX`:
    at the listener of this name, or at the first that takes a connection. Raises
    `UnavailableError`, `RefusedError` where brokers are hidden, `ConfigurationError` where there is
    no such listener.
    """
    (answer,) = reader.see([GetChildren(layout.brokers_root)])
    ids = (
        [name for name in answer.names if names.is_broker(name)]
        if isinstance(answer, Children)
        else []
    )
    nodes = reader.see([GetData(layout.broker(name)) for name in ids])
    brokers = [
        broker
        for name, node in zip(ids, nodes, strict=False)
        if isinstance(node, Node)
        and isinstance(broker := decode_broker(name, node.data), BrokerData)
    ]
    found = listeners_of(brokers, protocol)
    tried = chosen(found, listener) if listener else by_answer(found)
    return next(iter(tried.values()), ())[:BOOTSTRAP_SERVERS_MAX]


class LogOffsets:
    """Asks for ends, as often as wanted, with one client. A context manager; `warning` is empty as
    long as all is well.
    """

    def __init__(self, servers: tuple[str, ...], security: Mapping[str, Any] = OPEN) -> None:
        self.servers = servers
        self._security = security
        self.warning = (
            ""
            if servers
            else (
                f"{none_live(security.get(PROTOCOL, PLAINTEXT))}: log ends and lags are not shown"
                " (--bootstrap-servers names brokers)"
            )
        )
        self._consumer: Any = None
        # Asked only where something is not answered.
        self._admin: Any = None
        # Whether the last question was not answered as a whole.
        self._apart = False
        # Who leads what, as far as that was needed.
        self.leaders: dict[TopicPartition, int] = {}

    def __enter__(self) -> LogOffsets:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for client in (self._consumer, self._admin):
            if client is not None:
                client.close()

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will get, as far as brokers say."""
        return self._found(
            partitions, lambda consumer, tps, ms: consumer.end_offsets(tps, timeout_ms=ms)
        )

    def starts_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each log still holds, as far as brokers say."""
        return self._found(
            partitions, lambda consumer, tps, ms: consumer.beginning_offsets(tps, timeout_ms=ms)
        )

    def at_time(
        self, partitions: Iterable[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, int]:
        """The first offset whose record is not older than this (ms since 1970), `NO_RECORD` where
        there is none, as far as brokers say.
        """
        return self.at_times(dict.fromkeys(partitions, time_ms))

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The same of partitions each with a time of its own."""
        return self._found(
            times,
            lambda consumer, tps, ms: {
                tp: NO_RECORD if at is None else at.offset
                for tp, at in consumer.offsets_for_times(
                    {tp: times[TopicPartition(tp.topic, tp.partition)] for tp in tps},
                    timeout_ms=ms,
                ).items()
            },
        )

    def _found(self, partitions: Iterable[TopicPartition], ask: Ask) -> dict[TopicPartition, int]:
        wanted = sorted(partitions)
        if not wanted or not self._connect():
            return {}
        if not self._apart:
            found, complete = self._ask(wanted, ENDS_DEADLINE_MS, ask)
            if complete:
                return found
        found = self._asked_apart(wanted, ask)
        self._apart = len(found) < len(wanted)
        if self._apart:
            self.warning = f"{self._reasons(wanted, found)}: their log ends and lags are not shown"
        return found

    def _asked_apart(self, wanted: Sequence[TopicPartition], ask: Ask) -> dict[TopicPartition, int]:
        """Each broker asked for what it leads, and what is not answered together, apart, as long as
        there is time: what one does not answer hides nothing of the others.
        """
        self.leaders = self._led(wanted)
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in wanted:
            by_leader.setdefault(self.leaders.get(tp, UNKNOWN_LEADER), []).append(tp)
        by_leader.pop(NO_LEADER, None)
        found: dict[TopicPartition, int] = {}
        until_ms = boot_ms() + ENDS_DEADLINE_MS
        pieces: deque[Sequence[TopicPartition]] = deque(by_leader.values())
        while pieces and boot_ms() < until_ms:
            piece = pieces.popleft()
            answered, complete = self._ask(piece, PIECE_DEADLINE_MS, ask)
            found.update(answered)
            if not complete:
                pieces.extend(_parts([tp for tp in piece if tp not in answered]))
        return found

    def _led(self, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Who leads each partition, `NO_LEADER` where nobody does (a broker may not even list what
        never had a leader); empty where nobody says.
        """
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        try:
            if self._admin is None:
                self._admin = kafka_client(KafkaAdminClient, self._config())
            described = self._admin.describe_topics(sorted({tp.topic for tp in wanted}))
        except (KafkaError, OSError, ValueError):
            return {}
        listed = {topic["name"]: topic["partitions"] for topic in described}
        led = {
            TopicPartition(name, partition["partition_index"]): partition["leader_id"]
            for name, partitions in listed.items()
            for partition in partitions
        }
        return {tp: led.get(tp, NO_LEADER) for tp in wanted if listed.get(tp.topic)}

    def _config(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": list(self.servers),
            "bootstrap_timeout_ms": ENDS_DEADLINE_MS,
            "request_timeout_ms": ENDS_DEADLINE_MS,
            **self._security,
        }

    def why_not(self, tp: TopicPartition) -> str:
        """Why the log of a partition is not known."""
        leader = self.leaders.get(tp, UNKNOWN_LEADER)
        if leader == NO_LEADER:
            return "no broker leads it"
        if leader == UNKNOWN_LEADER:
            return "no broker says who leads it" if self.leaders else "no broker answers"
        return f"broker {leader}, which leads it, does not answer"

    def _reasons(self, wanted: Iterable[TopicPartition], found: Container[TopicPartition]) -> str:
        by_reason: dict[str, list[str]] = {}
        for tp in wanted:
            if tp not in found:
                by_reason.setdefault(self.why_not(tp), []).append(str(tp))
        return ", ".join(
            f"{', '.join(names[:NAMED_MAX])}"
            f"{f' and {len(names) - NAMED_MAX} more' if len(names) > NAMED_MAX else ''} ({why})"
            for why, names in by_reason.items()
        )

    def _connect(self) -> bool:
        """A client, or a warning. Not tried again after it failed: once is what a listing can wait
        for.
        """
        if self._consumer is not None or self.warning:
            return self._consumer is not None
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError

        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        try:
            self._consumer = kafka_client(KafkaConsumer, {**self._config(), "group_id": None})
        except (KafkaError, OSError, ValueError) as error:
            self.warning = (
                f"no broker answers at {', '.join(self.servers)} ({' '.join(str(error).split())}):"
                " log ends and lags are not shown"
            )
            return False
        return True

    def _ask(
        self, wanted: Sequence[TopicPartition], deadline_ms: int, ask: Ask
    ) -> tuple[dict[TopicPartition, int], bool]:
        """What was answered, and whether that is all."""
        from kafka import TopicPartition as KafkaTopicPartition
        from kafka.errors import KafkaError

        try:
            answer = ask(self._consumer, [KafkaTopicPartition(*tp) for tp in wanted], deadline_ms)
        # KeyError: kafka-python leaves a topic out that it has not heard of before, where others
        # are asked beside it
        except (KafkaError, OSError, KeyError):
            return {}, False
        found = {
            TopicPartition(tp.topic, tp.partition): offset
            for tp, offset in answer.items()
            if offset is not None
        }
        return found, len(found) == len(wanted)


def _parts(tps: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    """Topics by themselves, then halves; one partition is not asked again."""
    topics = sorted({tp.topic for tp in tps})
    if len(topics) > 1:
        return [[tp for tp in tps if tp.topic == topic] for topic in topics]
    half = len(tps) // 2
    return [tps[:half], tps[half:]] if half else []
