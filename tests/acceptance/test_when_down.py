"""The table "When things are down" of docs/consumer.md: ZooKeeper, the coordinator, a topic, the
group itself. One test for each line, one block for each cell; real servers, and a proxy that cuts.

The lines about brokers are in test_when_down_brokers.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka.errors import CommitFailedError, IllegalStateError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer import KafkaConsumer, Observer
from consumer.core.messages import Notice, NoticeKind
from consumer.errors import CommitUnavailableError, NotOwnedError, SessionRefusedError
from tests.acceptance.when_down import Logged, Row, bounded, checked, documented
from tests.consumer.fakes import Recorder
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, settled, take
from zkcoord.core.options import CoordinatorOptions
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

QUICK_MS = 300
LEAVE_MS = 1_000
LATE_MS = 300_000  # a second member warns for itself: not while the first one's lines are counted
POLLS = 200


@dataclass
class Cut:
    """A member that owns partition 0 of a topic of its own and has processed two records, behind a
    proxy to ZooKeeper.
    """

    member: KafkaConsumer
    proxy: Proxy
    topic: str
    broker: str
    listener: Recorder
    taken: Taken

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def offsets(self, offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
        return {self.tp: OffsetAndMetadata(offset, "", -1)}

    def produce(self, count: int, start: int) -> None:
        produce_numbered(self.broker, self.topic, 1, count, start)

    def lease_left(self) -> int:
        return int(self.member.metrics()["zkcoord"]["lease-left-ms"])

    def down(self) -> None:
        """ZooKeeper is away: connections end, new ones are refused."""
        self.proxy.refuse()
        self.proxy.cut()

    def close_while_down(self) -> list[str]:
        """Close within a limit, and what is heard of it."""
        assert bounded(QUICK_MS, self.member.close, timeout_ms=QUICK_MS) is None
        return [name for name, _ in self.listener.calls]


@contextmanager
def behind_a_proxy(
    broker: KafkaBroker, hosts: str, lease_ms: int, session_ms: int
) -> Iterator[Cut]:
    """See `Cut`."""
    topic = create_topic(broker.address, unique("down"), 1)
    server, chroot = hosts.split("/", 1)
    listener, taken = Recorder(), {}
    with (
        coordinator(hosts, CoordinatorOptions(lease_max_ms=lease_ms)),
        Proxy(int(server.rsplit(":", 1)[1])) as proxy,
        consumer(
            f"{proxy.address}/{chroot}",
            topic,
            zookeeper_session_timeout_ms=session_ms,
            guardian=False,
            enable_auto_commit=False,
            commit_timeout_ms=LEAVE_MS,
            bootstrap_servers=broker.address,
        ) as member,
    ):
        member.subscribe([topic], listener=listener)
        produce_numbered(broker.address, topic, 1, 2)
        drain([member], taken, 2)
        yield Cut(member, proxy, topic, broker.address, listener, taken)


def questions_end(c: Cut) -> None:
    """What asks ZooKeeper ends in time with an error that may be tried again; what is known, and
    what asks the brokers, goes on.
    """
    unknown = bounded(QUICK_MS, c.member.committed, TopicPartition(c.topic, 9), timeout_ms=QUICK_MS)
    assert isinstance(unknown, CommitUnavailableError) and unknown.retriable
    assert bounded(QUICK_MS, c.member.committed, c.tp, timeout_ms=QUICK_MS) == 0
    assert (
        bounded(QUICK_MS, c.member.position, c.tp, timeout_ms=QUICK_MS)
        == c.taken[tuple(c.tp)][-1] + 1
    )
    assert bounded(30_000, c.member.partitions_for_topic, c.topic) == {0} and c.topic in bounded(
        30_000, c.member.topics
    )
    assert (
        bounded(30_000, c.member.end_offsets, [c.tp])[c.tp] >= 2
        and bounded(30_000, c.member.offsets_for_times, {c.tp: 0})[c.tp].offset == 0
    )


def refused_for_now(c: Cut) -> None:
    """A commit of everything, and one of something."""
    for given in (None, c.offsets(1)):
        error = bounded(QUICK_MS, c.member.commit, given, timeout_ms=QUICK_MS)
        assert isinstance(error, CommitUnavailableError) and error.retriable, error


def test_zookeeper_away_for_less_than_the_lease(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    row = Row("ZooKeeper is away for less than the lease")
    with (
        caplog.at_level(logging.INFO),
        behind_a_proxy(kafka_broker, kafka_zk_hosts, lease_ms=30_000, session_ms=60_000) as c,
    ):
        log = Logged(caplog)
        c.down()
        with row.cell("poll"):
            c.produce(3, 2)
            drain([c.member], c.taken, 5)
            assert c.lease_left() > 0
        with row.cell("commit"):
            refused_for_now(c)
            questions_end(c)
            future = c.member.commit_async(c.offsets(1))
            wait_until(
                lambda: c.member.poll(0) is not None and future.is_done, PATIENCE_S, "the answer"
            )
            assert isinstance(future.exception, CommitUnavailableError)
            waits = threading.Thread(
                target=c.member.commit,
                args=(c.offsets(5),),
                kwargs={"timeout_ms": PATIENCE_S * 1_000},
            )
            waits.start()
            c.proxy.heal()
            waits.join(PATIENCE_S)
            assert not waits.is_alive() and c.member.committed(c.tp) == 5, (
                "a commit that waits happens when ZooKeeper is back"
            )
        with row.cell("callbacks"):
            c.produce(1, 5)
            drain([c.member], c.taken, 6)
            assert c.listener.calls == [("assigned", (0,))]
        with row.cell("log"):
            assert [c.member.poll(0) for _ in range(POLLS)] == [{}] * POLLS
            assert len(log.warnings()) == len(log.of("lost the connection to ZooKeeper")) == 1, (
                log.warnings()
            )
            assert len(log.of("connected to ZooKeeper", "INFO")) == 1
        with row.cell("close"):
            c.down()
            assert (
                c.close_while_down() == ["assigned", "revoked"] and len(log.of("left group")) == 1
            )
    assert c.taken == {tuple(c.tp): list(range(6))}


def test_zookeeper_away_for_longer_than_the_lease(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection stays, and nothing passes."""
    row = Row("ZooKeeper is away for longer than the lease")
    with (
        caplog.at_level(logging.INFO),
        behind_a_proxy(kafka_broker, kafka_zk_hosts, lease_ms=5_000, session_ms=60_000) as c,
    ):
        log = Logged(caplog)
        c.proxy.black_hole()
        wait_until(lambda: c.lease_left() == 0, PATIENCE_S, "the end of the lease")
        with row.cell("poll"):
            c.produce(3, 2)
            assert [bounded(20, c.member.poll, 20) for _ in range(20)] == [{}] * 20, (
                "nothing is handed out"
            )
            assert c.member.assignment() == {c.tp}
        with row.cell("commit"):
            questions_end(c)
            refused_for_now(c)
        with row.cell("log"):
            assert [c.member.poll(0) for _ in range(POLLS)] == [{}] * POLLS
            wait_until(lambda: log.of("its lease is over"), PATIENCE_S, "the line")
            assert len(log.warnings()) == 1, log.warnings()
            c.proxy.heal()
            drain([c.member], c.taken, 5)
            assert (
                len(log.of("ZooKeeper answers again", "INFO")) == 1
                and len(log.of("its lease is over")) == 1
            )
        with row.cell("callbacks"):
            c.member.commit()
            assert c.listener.calls == [("assigned", (0,))] and c.member.committed(c.tp) == 5
        with row.cell("close"):
            c.proxy.black_hole()
            wait_until(lambda: c.lease_left() == 0, PATIENCE_S, "the end of the lease")
            assert (
                bounded(LEAVE_MS, c.member.unsubscribe) is None
                and c.member.assignment() == set()
                and c.member.poll(0) == {}
            )
            assert (
                c.close_while_down() == ["assigned", "revoked"] and len(log.of("left group")) == 1
            )
    assert c.taken == {tuple(c.tp): list(range(5))}, "and it goes on where it was"


def test_zookeeper_away_for_longer_than_the_session(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another member, which is not cut off, takes over."""
    row = Row("ZooKeeper is away for longer than the session")
    with (
        caplog.at_level(logging.INFO),
        behind_a_proxy(kafka_broker, kafka_zk_hosts, lease_ms=12_000, session_ms=9_000) as c,
        consumer(kafka_zk_hosts, c.topic, enable_auto_commit=False) as other,
    ):
        c.member.commit(c.offsets(1))
        log = Logged(caplog)
        c.down()
        other.subscribe([c.topic])
        theirs: Taken = {}
        drain([other], theirs, 1)
        with row.cell("poll"):
            assert c.lease_left() == 0, "it ended before somebody else was given the partition"
            assert [bounded(20, c.member.poll, 20) for _ in range(20)] == [{}] * 20
        with row.cell("commit"):
            error = bounded(QUICK_MS, c.member.commit, c.offsets(2), timeout_ms=QUICK_MS)
            assert isinstance(error, CommitUnavailableError), error
            c.proxy.heal()
            wait_until(
                lambda: log.of("ended, and its partitions with it"),
                PATIENCE_S,
                "the end of the session",
            )
            lost = bounded(QUICK_MS, c.member.commit, c.offsets(2), timeout_ms=PATIENCE_S * 1_000)
            assert (
                isinstance(lost, NotOwnedError)
                and "session is over" in str(lost)
                and lost.partitions == (tuple(c.tp),)
            )
            other.commit()
        with row.cell("callbacks"):
            other.close()
            wait_until(
                lambda: take(c.member, c.taken) >= 0 and len(c.listener.calls) >= 3,
                PATIENCE_S,
                "its return",
            )
            assert c.listener.calls == [("assigned", (0,)), ("lost", (0,)), ("assigned", (0,))]
        with row.cell("log"):
            ours = [
                "lost the connection to ZooKeeper",
                "its lease is over",
                "ended, and its partitions with it",
                "lost 1 partitions",
            ]
            assert [len(log.of(word)) for word in ours] == [1] * 4 and len(log.warnings()) == 4, (
                log.warnings()
            )
        with row.cell("close"):
            c.down()
            assert c.close_while_down()[-1] == "revoked" and len(log.of("left group")) == 1
    assert theirs == {tuple(c.tp): [1]} and c.taken == {tuple(c.tp): [0, 1]}, (
        "what was not committed came twice, and nothing else"
    )


def test_zookeeper_is_away_when_a_consumer_joins(
    kafka_broker: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong address, or down: somebody should look."""
    row, listener, topic = (
        Row("ZooKeeper is away when a consumer joins"),
        Recorder(),
        create_topic(kafka_broker.address, unique("early"), 1),
    )
    # from before there is a member: its 300 ms may be over as soon as it is made
    log, offsets = Logged(caplog), {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)}
    with (
        caplog.at_level(logging.INFO),
        consumer(
            "127.0.0.1:1/kafka",
            topic,
            zookeeper_connection_timeout_ms=QUICK_MS,
            bootstrap_servers=kafka_broker.address,
            enable_auto_commit=False,
        ) as c,
    ):
        c.subscribe([topic], listener=listener)
        with row.cell("poll"):
            error = bounded(PATIENCE_S * 1_000, c.poll, PATIENCE_S * 1_000)
            assert (
                isinstance(error, SessionRefusedError)
                and "no ZooKeeper server answers at 127.0.0.1:1" in str(error)
                and type(bounded(0, c.poll, 0)) is type(error)
            )
        with row.cell("commit"):
            assert isinstance(
                bounded(QUICK_MS, c.commit, offsets, timeout_ms=QUICK_MS), SessionRefusedError
            )
        with row.cell("callbacks"):
            assert listener.calls == [] and c.assignment() == set()
        with row.cell("log"):
            assert [type(bounded(0, c.poll, 0)) for _ in range(20)] == [
                SessionRefusedError
            ] * 20 and len(log.of("no ZooKeeper server answers")) == 1
        with row.cell("close"):
            assert bounded(
                PATIENCE_S * 1_000, c.close, timeout_ms=PATIENCE_S * 1_000
            ) is None and not log.of("left group")


def test_no_coordinator(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    row = Row("no coordinator leads")
    topic, listener, taken = (
        create_topic(kafka_broker.address, unique("headless"), 2),
        Recorder(),
        {},
    )
    with (
        caplog.at_level(logging.INFO),
        consumer(
            kafka_zk_hosts, topic, enable_auto_commit=False, coordinator_warning_ms=QUICK_MS
        ) as c,
        consumer(
            kafka_zk_hosts, topic, enable_auto_commit=False, coordinator_warning_ms=LATE_MS
        ) as late,
    ):
        with coordinator(kafka_zk_hosts):
            c.subscribe([topic], listener=listener)
            settled([c], topic, 2, taken)
        log = Logged(caplog)
        with row.cell("poll"):
            produce_numbered(kafka_broker.address, topic, 2, 3)
            drain([c], taken, 6)
            late.subscribe([topic])
            wait_until(
                lambda: late.poll(20) == {} and late.metrics()["zkcoord"]["state"] == "member",
                PATIENCE_S,
                "the newcomer's registration",
            )
            assert late.assignment() == set()
        with row.cell("commit"):
            c.commit()
            assert [c.committed(TopicPartition(topic, n)) for n in range(2)] == [3, 3]
        with row.cell("log"):
            wait_until(
                lambda: c.poll(0) == {} and log.of("no coordinator is alive"),
                PATIENCE_S,
                "the warning",
            )
            assert [c.poll(0) for _ in range(POLLS)] == [{}] * POLLS and len(log.warnings()) == 1
        with row.cell("callbacks"):
            assert listener.calls == [("assigned", (0, 1))]
        with row.cell("close"):
            assert bounded(PATIENCE_S * 1_000, c.close, timeout_ms=PATIENCE_S * 1_000) is None
            assert listener.calls[1:] == [("revoked", (0, 1))] and not log.of("left group")
            with coordinator(kafka_zk_hosts):
                settled([late], topic, 2, taken)
        assert len(log.of("no coordinator is alive")) <= 2, "once for each member at most"
    assert taken == {(topic, n): [0, 1, 2] for n in range(2)}


class Slow(Observer):
    """Holds up its member's own thread, so that no command is carried out in time."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        if notice.kind is NoticeKind.COMMAND:
            self.over.wait(3.0)


def test_the_group_is_quarantined(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A member that carries out no command is evicted and comes back, again and again."""
    row = Row("the group is quarantined")
    topic, listener, taken, slow = (
        create_topic(kafka_broker.address, unique("quarantined"), 2),
        Recorder(),
        {},
        Slow(),
    )
    options = CoordinatorOptions(
        max_rebalance_retries=2,
        quarantine_backoff_ms=600_000,
        quarantine_backoff_max_ms=600_000,
        lease_max_ms=1_500,
        lease_margin_ms=100,
    )
    with (
        caplog.at_level(logging.INFO),
        coordinator(kafka_zk_hosts, options),
        consumer(kafka_zk_hosts, topic, enable_auto_commit=False) as c,
    ):
        c.subscribe([topic], listener=listener)
        settled([c], topic, 2, taken)
        log = Logged(caplog)
        with consumer(
            kafka_zk_hosts, topic, topic, rebalance_timeout_ms=300, observer=slow
        ) as poison:
            wait_until(
                lambda: (
                    take(c, taken) >= 0
                    and poison.poll(0) == {}
                    and c.metrics()["zkcoord"]["rebalance-failure"]
                ),
                2 * PATIENCE_S,
                "the quarantine",
            )
            slow.over.set()
        kept = c.assignment()
        with row.cell("poll"):
            produce_numbered(kafka_broker.address, topic, 2, 3)
            drain([c], taken, 3 * len(kept))
            assert kept and set(taken) == {tuple(tp) for tp in kept}, "what it has goes on"
        with row.cell("commit"):
            c.commit()
            assert [c.committed(tp) for tp in sorted(kept)] == [3] * len(kept)
        with row.cell("callbacks"):
            heard = list(listener.calls)
            assert (
                [take(c, taken, 0) for _ in range(POLLS)] == [0] * POLLS
                and listener.calls == heard
                and c.assignment() == kept
            )
        with row.cell("log"):
            assert (
                1 <= len(log.of("cannot be rebalanced")) <= 2
                and "tries again by itself" in log.of("cannot be rebalanced")[0]
            ), "once for each of the two members at most"
        with row.cell("close"):
            assert bounded(
                PATIENCE_S * 1_000, c.close, timeout_ms=PATIENCE_S * 1_000
            ) is None and not log.of("left group")
            assert listener.calls[len(heard) :] == [
                ("revoked", tuple(sorted(tp.partition for tp in kept)))
            ]


def test_a_topic_is_missing(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    row = Row("a topic is missing")
    topic, missing, listener, taken = (
        create_topic(kafka_broker.address, unique("there"), 1),
        unique("missing"),
        Recorder(),
        {},
    )
    with (
        caplog.at_level(logging.INFO),
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, enable_auto_commit=False) as c,
    ):
        log, absent = Logged(caplog), TopicPartition(missing, 0)
        c.subscribe([topic, missing], listener=listener)
        produce_numbered(kafka_broker.address, topic, 1, 3)
        with row.cell("poll"):
            drain([c], taken, 3)
            assert (
                c.assignment() == {TopicPartition(topic, 0)}
                and c.partitions_for_topic(missing) == set()
            )
            assert isinstance(bounded(QUICK_MS, c.position, absent), IllegalStateError)
        with row.cell("commit"):
            c.commit()
            error = bounded(QUICK_MS, c.commit, {absent: OffsetAndMetadata(1, "", -1)})
            assert (
                isinstance(error, CommitFailedError)
                and f"{missing}-0" in str(error)
                and c.committed(absent) is None
            )
        with row.cell("log"):
            assert [c.poll(0) for _ in range(POLLS)] == [{}] * POLLS
            assert len(log.warnings()) == len(log.of(missing, "WARNING")) == 1, log.warnings()
        with row.cell("callbacks"):
            assert listener.calls == [("assigned", (0,))]
            create_topic(kafka_broker.address, missing, 1)
            produce_numbered(kafka_broker.address, missing, 1, 2)
            drain([c], taken, 5)
            assert listener.calls == [("assigned", (0,))] * 2
        with row.cell("close"):
            assert bounded(PATIENCE_S * 1_000, c.close) is None
            assert [name for name, _ in listener.calls] == ["assigned", "assigned", "revoked"]


def test_the_table_says_what_is_tested() -> None:
    assert documented() == checked(Path(__file__).parent)
