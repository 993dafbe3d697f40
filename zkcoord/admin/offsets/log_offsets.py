"""Where the logs of partitions begin and end, asked of the brokers through kafka-python: the other
half of a lag, and what an offset can be reset to.

Brokers are those in /brokers/ids (the listeners of the protocol that is used, plain text unless
`--kafka-config` says otherwise) or those that the user names. Asking never fails a listing: what is
not answered within `ENDS_DEADLINE_MS` is missing from the result, and `warning` says once why. All
partitions are asked at once; where that is not answered (one partition without a leader is enough),
each topic alone, so that the others show.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any

from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.tls import kafka_tls
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import Children, GetChildren, GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes import names
from zkcoord.znodes.codec import decode_broker
from zkcoord.znodes.paths import Layout

ENDS_DEADLINE_MS = 5_000
TOPIC_DEADLINE_MS = 1_000
BOOTSTRAP_SERVERS_MAX = 16
NO_RECORD = -1
PROTOCOL, PLAINTEXT = "security_protocol", "PLAINTEXT"
OPEN: Mapping[str, Any] = MappingProxyType({})

Ask = Callable[[Any, list[Any], int], Mapping[Any, int | None]]


def registered_brokers(
    reader: SyncClient, layout: Layout, protocol: str = PLAINTEXT
) -> tuple[str, ...]:
    """host:port of the live brokers' listeners with this security protocol, at most
    `BOOTSTRAP_SERVERS_MAX`. Raises `UnavailableError`.
    """
    (answer,) = reader.read([GetChildren(layout.brokers_root)])
    ids = (
        [name for name in answer.names if names.is_number(name)]
        if isinstance(answer, Children)
        else []
    )
    found = []
    for name, node in zip(
        ids, reader.read([GetData(layout.broker(name)) for name in ids]), strict=False
    ):
        broker = decode_broker(name, node.data) if isinstance(node, Node) else None
        if broker is None or isinstance(broker, Malformed):
            continue
        listening = [
            address
            for listener, address in broker.endpoints.items()
            if broker.protocols.get(listener, listener) == protocol
        ]
        if not listening and protocol == PLAINTEXT and broker.host and broker.port >= 0:
            listening = [(broker.host, broker.port)]
        found += [
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in listening
        ]
    return tuple(found[:BOOTSTRAP_SERVERS_MAX])


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
                f"no live broker with a {security.get(PROTOCOL, PLAINTEXT)} listener is in"
                " /brokers/ids: log ends and lags are not shown (--bootstrap-servers names"
                " brokers)"
            )
        )
        self._consumer: Any = None

    def __enter__(self) -> LogOffsets:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._consumer is not None:
            self._consumer.close()

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
        return self._found(
            partitions,
            lambda consumer, tps, ms: {
                tp: NO_RECORD if at is None else at.offset
                for tp, at in consumer.offsets_for_times(
                    dict.fromkeys(tps, time_ms), timeout_ms=ms
                ).items()
            },
        )

    def _found(self, partitions: Iterable[TopicPartition], ask: Ask) -> dict[TopicPartition, int]:
        wanted = sorted(partitions)
        if not wanted or not self._connect():
            return {}
        found, complete = self._ask(wanted, ENDS_DEADLINE_MS, ask)
        if complete:
            return found
        until_ms = boot_ms() + ENDS_DEADLINE_MS
        for topic in sorted({tp.topic for tp in wanted}):
            if boot_ms() < until_ms:
                found.update(
                    self._ask([tp for tp in wanted if tp.topic == topic], TOPIC_DEADLINE_MS, ask)[0]
                )
        if len(found) < len(wanted):
            self.warning = (
                f"not every partition's leader answered within {ENDS_DEADLINE_MS} ms: some log ends"
                " and lags are not shown"
            )
        return found

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
            self._consumer = KafkaConsumer(
                bootstrap_servers=list(self.servers),
                group_id=None,
                bootstrap_timeout_ms=ENDS_DEADLINE_MS,
                request_timeout_ms=ENDS_DEADLINE_MS,
                **self._security,
                **kafka_tls(self._security),
            )
        except (KafkaError, OSError, ValueError) as error:
            self.warning = (
                f"no broker answers at {', '.join(self.servers)} ({' '.join(str(error).split())}):"
                " log ends and lags are not shown"
            )
            return False
        return True

    def _ask(
        self, wanted: list[TopicPartition], deadline_ms: int, ask: Ask
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
