"""What a member notices, for people: one log line each, with what to do about it; repeated ones
once per cause.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.structs import TopicPartition

from consumer.core.messages import Notice, NoticeKind
from consumer.observer import AssignmentObserver
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

_QUIET = {
    NoticeKind.COMMAND: logging.DEBUG,
    NoticeKind.REGISTERED: logging.INFO,
    NoticeKind.COORDINATOR_BACK: logging.INFO,
    NoticeKind.LEASE_BACK: logging.INFO,
    NoticeKind.REBALANCE_OVER: logging.INFO,
    NoticeKind.GROUP_MODE: logging.INFO,
    NoticeKind.RELEASING: logging.INFO,
}

_SENTENCES = {
    NoticeKind.LEASE_LAPSED: (
        "ZooKeeper did not confirm this member in time, so its lease is over: nothing of its {held}"
        " partitions is handed out until ZooKeeper answers"
    ),
    NoticeKind.LEASE_BACK: "ZooKeeper answers again: this member goes on with what it has",
    NoticeKind.FAILSAFE: (
        "no server of ZooKeeper serves anybody, so nobody can take this member's {held} partitions:"
        " it goes on with them and commits nothing until ZooKeeper is back (failsafe)"
    ),
    NoticeKind.SESSION_LOST: (
        "the ZooKeeper session of member {name} ended, and its partitions with it: joining again"
    ),
    NoticeKind.EVICTED: (
        "member {name} was taken out of the group (it did not carry out a command in time, or"
        " somebody deleted its node): joining again"
    ),
    NoticeKind.COORDINATOR_BACK: "a coordinator is alive again",
    NoticeKind.GROUP_NOT_READY: (
        "its nodes in ZooKeeper cannot be used yet, so this consumer waits: {reason}"
    ),
    NoticeKind.REBALANCE_OVER: "the group is rebalanced again",
    NoticeKind.GROUP_MODE: "it is in mode {mode} now (zkcoord groups mode)",
    NoticeKind.RELEASING: (
        "its members changed, and old consumers among them wait for partitions: all {partitions} of"
        " this member's are given up, and what it is to have follows"
    ),
    NoticeKind.UNREADABLE_OFFSET: (
        "what is stored in {node} is no offset ({reason}), so {topic}-{partition} is not consumed:"
        " set it with zkcoord offsets reset, or delete the node to begin where auto_offset_reset"
        " says"
    ),
    NoticeKind.FOREIGN_OFFSET: (
        "somebody, most likely an old consumer that does not own it any more, stored {found} for"
        " {partition}: this member's {ours} is stored again"
    ),
}


class MemberLog:
    """An `AssignmentObserver` that logs notices and passes everything on to the application's."""

    def __init__(
        self, config: Mapping[str, Any], layout: Layout, inner: AssignmentObserver
    ) -> None:
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
        elif notice.kind is NoticeKind.REBALANCE_FAILED:
            log.warning(
                "group %s cannot be rebalanced and keeps what it has; the coordinator tries again"
                " by itself: %s",
                self._config["group_id"],
                notice.detail.get("message", ""),
            )
        elif notice.kind in _SENTENCES:
            log.log(
                _QUIET.get(notice.kind, logging.WARNING),
                "group %s: %s",
                self._config["group_id"],
                _SENTENCES[notice.kind].format(**notice.detail),
            )
        elif notice.kind is NoticeKind.TOPIC_RECREATED:
            self._recreated(notice.detail)
        elif notice.kind is NoticeKind.SENT_AWAY:
            log.warning(
                "group %s does not take this member now, it comes back in %s ms: %s (%s)",
                self._config["group_id"],
                notice.detail.get("back_in_ms"),
                notice.detail.get("message"),
                notice.detail.get("code"),
            )
        else:
            detail = " ".join(f"{key}={value}" for key, value in notice.detail.items())
            log.log(
                _QUIET.get(notice.kind, logging.WARNING),
                "group %s: %s %s",
                self._config["group_id"],
                notice.kind.value,
                detail,
            )

    def _no_coordinator(self, notice: Notice) -> None:
        command = f"zkcoord coordinator --zookeeper {self._config['zookeeper_connect']}"
        if self._layout is not Layout.DRAFT:
            command += f" --layout {self._layout.name}"
        log.warning(
            "no coordinator is alive (there is no node %s), so group %s (state: %s) gets no"
            " partitions; start one with: %s",
            self._layout.leader,
            self._config["group_id"],
            notice.detail.get("group_state", "unknown"),
            command,
        )

    def _recreated(self, detail: Mapping[str, Any]) -> None:
        group, topic = self._config["group_id"], detail["topic"]
        log.warning(
            "topic %s was deleted and created again (it was %s, it is %s), so these offsets that"
            " group %s stored do not count and consumption begins at the first record: %s; if it is"
            " the same topic and only ZooKeeper was moved, stop the group and run: zkcoord offsets"
            " accept %s --zookeeper %s --topic %s --execute",
            topic,
            detail["was"] or "an earlier one",
            detail["now"],
            group,
            detail["ignored"],
            group,
            self._config["zookeeper_connect"],
            topic,
        )

    def _topic_missing(self, topic: str) -> None:
        if topic not in self._missing:
            self._missing.add(topic)
            log.warning(
                "topic %s does not exist yet: its partitions are consumed as soon as it is created",
                topic,
            )
