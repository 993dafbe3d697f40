"""Offsets that are stored in ZooKeeper, mirrored to what Kafka itself keeps of the group
(`offsets_storage="dual"`), for tools that look there and for the way back.

ZooKeeper decides: what is mirrored has been stored there already, behind its fence. The mirror has
no fence, so it is only as good as it is quick: one request is out at a time, what is stored
meanwhile is gathered (the latest offset of each partition, so it is bounded by what a member owns),
and the next request follows `MIRROR_EVERY_MS` later. Nothing is sent while the lease does not hold,
and what was lost is dropped: its next owner mirrors what it starts from, and all that it owns once
more when it closes. Nobody waits for the mirror but `close`, within its limit. A failure is a
warning, once, and counted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import kafka.errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.core import messages as msg
from consumer.offsets.store import REFRESH_S, OffsetStoreLinks, public_offsets
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.zk.bell import Bell

log = logging.getLogger(__name__)

MIRROR_EVERY_MS = 100
RETRY_MS = 500


class DualOffsetStore:
    """The mirror of one membership. The lease is looked at before each request."""

    def __init__(self, links: OffsetStoreLinks) -> None:
        self._links = links
        self.offsets = links.offsets
        # Requests that failed.
        self.failures = 0
        # Of what follows, but for the event.
        self._lock = threading.Lock()
        # What is stored of each partition that is owned.
        self._owned: dict[TopicPartition, OffsetAndMetadata] = {}
        # Next offsets to be mirrored by the next request, and those of the request that is out.
        self._waiting: dict[TopicPartition, OffsetAndMetadata] = {}
        self._sent: dict[TopicPartition, OffsetAndMetadata] = {}
        # Set while nothing runs on the IO thread.
        self._idle = Bell()
        self._idle.set()
        # The group was left, so the lease does not count any more.
        self._closing = False
        # Nothing more is mirrored.
        self._closed = False
        # Whether the last request failed, which is logged once.
        self._failing = False

    def begin(self) -> None:
        """From now on what is owned is mirrored again before Kafka forgets it."""
        self.offsets.start(self._refresh_async).add_errback(
            lambda e: log.debug("refreshing offsets of group %s ended: %s", self.offsets.group, e)
        )

    async def _refresh_async(self) -> None:
        while not self._closed:
            await self.offsets.sleep(REFRESH_S)
            with self._lock:
                self._waiting = {**self._owned, **self._waiting}
            self._begin()

    # the member's thread

    def receive(self, message: msg.ToFetcher) -> None:
        """Take what concerns the mirror, pass the rest on."""
        match message:
            case msg.Stored():
                self._stored(message)
                return
            case msg.Lost():
                self._lost(message.partitions)
            case _:
                pass
        self._links.deliver(message)

    def _stored(self, m: msg.Stored) -> None:
        with self._lock:
            for tp, stored in public_offsets(m.offsets, m.metadata).items():
                self._waiting[tp] = stored
                if m.given:
                    self._owned.pop(tp, None)
                else:
                    self._owned[tp] = stored
        self._begin()

    def _lost(self, partitions: Iterable[ModelPartition]) -> None:
        with self._lock:
            for tp in partitions:
                for kept in (self._owned, self._waiting, self._sent):
                    kept.pop(TopicPartition(*tp), None)

    def _begin(self) -> None:
        with self._lock:
            if not self._idle.is_set():
                return
            self._idle.clear()
        self.offsets.start(self._run_async).add_errback(self._ended)

    def _ended(self, error: Exception) -> None:
        log.log(
            logging.DEBUG if self._closed else logging.WARNING,
            "mirroring offsets of group %s ended: %r; it begins again with the next one",
            self.offsets.group,
            error,
        )
        self._idle.set()

    # the IO thread

    async def _run_async(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or self._closed:
                    self._idle.set()
                    return
                if self._closing or self._links.lease_holds():
                    self._sent, self._waiting = self._waiting, {}
                else:
                    # what was given up may have moved on elsewhere by now
                    self._waiting = {
                        tp: offset for tp, offset in self._waiting.items() if tp in self._owned
                    }
            if self._sent:
                await self._send_async()
            await self.offsets.sleep((RETRY_MS if self._failing else MIRROR_EVERY_MS) / 1000)

    async def _send_async(self) -> None:
        try:
            await self.offsets.commit_async(dict(self._sent))
        except kafka.errors.KafkaError as e:
            self._failed(e)
            with self._lock:
                self._waiting = {**self._sent, **self._waiting}
                self._closed = self._closed or (
                    self._closing and not isinstance(e, kafka.errors.RetriableError)
                )
        else:
            if self._failing:
                log.info("offsets of group %s are mirrored to Kafka again", self.offsets.group)
            self._failing = False
        with self._lock:
            self._sent = {}

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        if not self._failing:
            log.warning(
                "offsets of group %s are stored in ZooKeeper and not mirrored to Kafka: %s; it is"
                " tried again every %d ms",
                self.offsets.group,
                str(error) or type(error).__name__,
                RETRY_MS,
            )
        self._failing = True

    # the application's thread

    def send(self, message: msg.FromFetcher) -> None:
        """Passed on; any thread."""
        self._links.send(message)

    def leave(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Nothing: the member stores the last positions in ZooKeeper when it leaves, and says so
        (`Stored`).
        """

    def close(self, timeout_s: float) -> None:
        """Mirror what waits, and all that was owned until now once more, within `timeout_s`."""
        with self._lock:
            self._closing = True
            self._waiting = {**self._owned, **self._waiting}
        self._begin()
        self._idle.wait(timeout_s)
        with self._lock:
            self._closed = True
            left = len({**self._sent, **self._waiting})
        if left:
            log.warning(
                "the last offsets of %d partitions of group %s are stored in ZooKeeper and were not"
                " mirrored to Kafka before the end",
                left,
                self.offsets.group,
            )

    def figures(self) -> dict[str, Any]:
        """As metrics: offsets that are stored in ZooKeeper and not yet mirrored, and requests that
        failed.
        """
        with self._lock:
            return {
                "mirror-waiting": len({**self._sent, **self._waiting}),
                "mirror-failures": self.failures,
            }
