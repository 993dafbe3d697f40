"""Listeners: which are accepted, and what their calls look like."""

from __future__ import annotations

import logging

import pytest
from kafka.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from kafka.structs import TopicPartition

from consumer.assignment.listener import RebalanceListenerInvoker, check_listener
from consumer.core.messages import Notice, NoticeKind
from consumer.fetch.broker_log import BrokerLog
from consumer.member.log import MemberLog
from consumer.observer import Observer
from tests.consumer.fakes import Recorder, tp
from zkcoord.znodes.paths import Layout


class Kafkas(ConsumerRebalanceListener):
    """A listener without on_partitions_lost: kafka-python's default calls on_partitions_revoked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[TopicPartition]]] = []

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.calls.append(("revoked", revoked))

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.calls.append(("assigned", assigned))


class Async(AsyncConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Nothing."""

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Nothing."""


def test_what_can_be_a_listener() -> None:
    check_listener(None)
    check_listener(Kafkas())
    check_listener(Recorder())
    for wrong in (Async(), object(), "listener"):
        with pytest.raises(TypeError):
            check_listener(wrong)


def test_lost_falls_back_to_revoked() -> None:
    listening = RebalanceListenerInvoker()
    listening.listener = Kafkas()
    listening.call("on_partitions_lost", {tp(1)})
    assert listening.listener.calls == [("revoked", {tp(1)})]


class Seen(Observer):
    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        self.notices.append(notice)


def test_without_a_coordinator_one_warning_says_where_and_what_to_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Seen()
    notices = MemberLog({"group_id": "g", "zookeeper_connect": "h:1/k"}, Layout.ISOLATED, seen)
    with caplog.at_level(logging.WARNING):
        notices.on_notice(Notice(NoticeKind.NO_COORDINATOR, {"group_state": "Stable"}), 1)
    (record,) = caplog.records
    for part in (
        "/zkcoord/coordinator",
        "group g",
        "Stable",
        "zkcoord coordinator --zookeeper h:1/k --layout isolated",
    ):
        assert part in record.getMessage()
    assert len(seen.notices) == 1


def test_a_missing_topic_is_said_once_until_it_was_there(caplog: pytest.LogCaptureFixture) -> None:
    notices = MemberLog({"group_id": "g", "zookeeper_connect": "h:1"}, Layout.DRAFT, Observer())
    missing = Notice(NoticeKind.TOPIC_MISSING, {"topic": "t"})
    with caplog.at_level(logging.WARNING):
        notices.on_notice(missing, 1)
        notices.on_notice(missing, 2)
        assert len(caplog.records) == 1
        notices.on_assigned({tp(0): 0}, 3)
        notices.on_notice(missing, 4)
    assert len(caplog.records) == 2


def test_what_happens_to_a_member_is_said_in_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    notices = MemberLog({"group_id": "g", "zookeeper_connect": "h:1"}, Layout.DRAFT, Observer())
    details: tuple[tuple[NoticeKind, dict[str, str | int]], ...] = (
        (NoticeKind.LEASE_LAPSED, {"held": 3}),
        (NoticeKind.LEASE_BACK, {}),
        (NoticeKind.SESSION_LOST, {"name": "m"}),
        (NoticeKind.EVICTED, {"name": "m"}),
        (NoticeKind.COORDINATOR_BACK, {}),
        (NoticeKind.REBALANCE_OVER, {}),
        (NoticeKind.GROUP_MODE, {"mode": "mixed"}),
        (NoticeKind.RELEASING, {"partitions": 4}),
        (NoticeKind.FOREIGN_OFFSET, {"partition": "t-0", "found": 3, "ours": 9}),
    )
    with caplog.at_level(logging.INFO):
        for kind, detail in details:
            notices.on_notice(Notice(kind, detail), 1)
    assert [r.levelname for r in caplog.records] == [
        "WARNING",
        "INFO",
        "WARNING",
        "WARNING",
        "INFO",
        "INFO",
        "INFO",
        "INFO",
        "WARNING",
    ]
    assert (
        "3 partitions" in caplog.records[0].getMessage()
        and "member m" in caplog.records[2].getMessage()
    )


def test_a_broker_that_does_not_answer_is_said_once_and_so_is_its_return(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports = BrokerLog()
    with caplog.at_level(logging.INFO):
        reports.answered(1)
        for _ in range(3):
            reports.failed(1, "h:9", "refused")
        reports.failed(2, "h:8", "refused")
        for _ in range(2):
            reports.answered(1)
    assert [
        (r.levelname, r.getMessage().split(" does")[0].split(" answers")[0]) for r in caplog.records
    ] == [("WARNING", "broker 1 at h:9"), ("WARNING", "broker 2 at h:8"), ("INFO", "broker 1")]


def test_partitions_that_nobody_leads_are_said_once_when_that_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [100.0]
    reports = BrokerLog(lambda: now[0])
    with caplog.at_level(logging.INFO):
        assert reports.is_due() and not reports.is_due()
        for partitions, after_s in (
            ({tp(1)}, 1.0),
            (set(), 1.0),
            ({tp(1), tp(2)}, 2.9),
            ({tp(1), tp(2)}, 0.2),
            ({tp(1), tp(2)}, 9.0),
            ({tp(2)}, 1.0),
            (set(), 0.0),
        ):
            reports.leaderless(partitions)
            now[0] += after_s
    assert [r.getMessage().split(":")[0] for r in caplog.records] == [
        "no broker leads t-1, t-2",
        "t-1",
        "t-2",
    ]
