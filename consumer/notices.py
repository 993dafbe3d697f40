"""What the agent notices, for people: one log line each, with what to do about it; repeated ones once per cause."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.structs import TopicPartition

from consumer.core.messages import Notice, NoticeKind
from consumer.listener import Observer
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

_QUIET = {NoticeKind.COMMAND: logging.DEBUG, NoticeKind.REGISTERED: logging.INFO, NoticeKind.COORDINATOR_BACK: logging.INFO, NoticeKind.LEASE_BACK: logging.INFO}


class Notices(Observer):
    """Logs notices and passes everything on to the application's observer."""

    def __init__(self, config: Mapping[str, Any], layout: Layout, inner: Observer) -> None:
        self._config = config
        self._layout = layout
        self._inner = inner
        self._missing: set[str] = set()

    def on_assigned(self, offsets: Mapping[TopicPartition, int], now_ns: int) -> None:
        """Also: topics that are there are not missing."""
        self._missing.difference_update({tp.topic for tp in offsets})
        self._inner.on_assigned(offsets, now_ns)

    def on_revoke(self, partitions: Iterable[TopicPartition], now_ns: int) -> None:
        """Passed on."""
        self._inner.on_revoke(partitions, now_ns)

    def on_revoked(self, positions: Mapping[TopicPartition, int], now_ns: int) -> None:
        """Passed on."""
        self._inner.on_revoked(positions, now_ns)

    def on_lost(self, partitions: Iterable[TopicPartition], reason: str, now_ns: int) -> None:
        """Passed on."""
        self._inner.on_lost(partitions, reason, now_ns)

    def on_first_fetch(self, partition: TopicPartition, now_ns: int) -> None:
        """Passed on."""
        self._inner.on_first_fetch(partition, now_ns)

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        """Log it, and pass it on."""
        self._inner.on_notice(notice, now_ns)
        if notice.kind is NoticeKind.NO_COORDINATOR:
            self._no_coordinator(notice)
        elif notice.kind is NoticeKind.TOPIC_MISSING:
            self._topic_missing(str(notice.detail.get("topic", "")))
        else:
            detail = " ".join(f"{key}={value}" for key, value in notice.detail.items())
            log.log(_QUIET.get(notice.kind, logging.WARNING), "group %s: %s %s", self._config["group_id"], notice.kind.value, detail)

    def _no_coordinator(self, notice: Notice) -> None:
        command = f"zkcoord coordinator --zookeeper {self._config['zookeeper_connect']}"
        if self._layout is not Layout.DRAFT:
            command += f" --layout {self._layout.name}"
        log.warning("no coordinator is alive (there is no node %s), so group %s (state: %s) gets no partitions; start one with: %s",
                    self._layout.leader, self._config["group_id"], notice.detail.get("group_state", "unknown"), command)

    def _topic_missing(self, topic: str) -> None:
        if topic not in self._missing:
            self._missing.add(topic)
            log.warning("topic %s does not exist yet: its partitions are consumed as soon as it is created", topic)
