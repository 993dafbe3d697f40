"""Consumers, a coordinator and a broker, all real: records, hand-overs, offsets, callbacks,
ends.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import CommitFailedError, IllegalStateError, NoOffsetForPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.api import duties, group_session, poll_loop
from consumer.api.kafka_consumer import KafkaConsumer
from consumer.errors import (
    AgentFailedError,
    CommitUnavailableError,
    ConsumerOptionError,
    SessionRefusedError,
)
from tests.consumer.fakes import Recorder
from tests.harness.kafka import add_partitions, create_topic, produce, produce_numbered, unique
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import (
    PATIENCE_S,
    Taken,
    consumer,
    coordinator,
    drain,
    following,
    iterated,
    settled,
    take,
    whole,
)
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.clock import boot_ms

pytestmark = pytest.mark.kafka


def test_a_group_shares_a_topic_and_every_record_comes_once(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """Join of a second member and a clean leave under records: none lost, none twice, in order."""
    topic = create_topic(kafka_broker.address, unique("share"), 6)
    taken: Taken = {}
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as one:
        produce_numbered(kafka_broker.address, topic, 6, 50)
        drain([one], taken, 300)
        with consumer(kafka_zk_hosts, topic, topic) as two:
            settled([one, two], topic, 6, taken)
            produce_numbered(kafka_broker.address, topic, 6, 50, 50)
            drain([one, two], taken, 600)
        settled([one], topic, 6, taken)
        produce_numbered(kafka_broker.address, topic, 6, 20, 100)
        drain([one], taken, 720)
    whole(taken, 6, 120, topic)


def test_positions_survive_a_restart_and_nothing_is_repeated_after_a_clean_close(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("restart"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 30)
    taken: Taken = {}
    with coordinator(kafka_zk_hosts):
        with consumer(kafka_zk_hosts, topic, topic) as first:
            drain([first], taken, 60)
        produce_numbered(kafka_broker.address, topic, 2, 5, 30)
        with consumer(kafka_zk_hosts, topic, topic) as second:
            drain([second], taken, 70)
    whole(taken, 2, 35, topic)


def test_manual_commits_only_store_what_was_committed(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("manual"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    tp = TopicPartition(topic, 0)
    with coordinator(kafka_zk_hosts):
        with consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as first:
            drain([first], {}, 10)
            first.commit({tp: OffsetAndMetadata(4, "", -1)})
            assert first.committed(tp) == 4 and first.position(tp) == 10
            assert first.committed(tp, metadata=True) == OffsetAndMetadata(4, "", -1)
            assert first.committed(TopicPartition(topic, 7)) is None
            with pytest.raises(CommitFailedError, match=f"{topic}-7"):
                first.commit({TopicPartition(topic, 7): OffsetAndMetadata(1, "", -1)})
        taken: Taken = {}
        with consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as second:
            drain([second], taken, 6)
            answers: list[Any] = []
            future = second.commit_async(
                callback=lambda offsets, answer: answers.append((offsets, answer))
            )
            wait_until(
                lambda: take(second, taken, 10) == 0 and bool(answers), PATIENCE_S, "the callback"
            )
            assert (
                future.succeeded() and answers[0][0][tp].offset == 10 and second.committed(tp) == 10
            )
    assert taken == {(topic, 0): [4, 5, 6, 7, 8, 9]}


def test_automatic_commits_come_in_time_while_iterating(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """What the loop's body has not finished is not committed: the record yielded last stays out
    until the next one is asked for.
    """
    topic = create_topic(kafka_broker.address, unique("auto"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 20)
    tp = TopicPartition(topic, 0)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, auto_commit_interval_ms=50) as it,
    ):
        offsets: list[int] = []
        for record in it:
            assert (it.committed(tp) or 0) <= record.offset
            offsets.append(record.offset)
            if record.offset == 10:
                threading.Event().wait(0.2)  # the handler's own time: a commit becomes due
            if record.offset == 19:
                break
        assert offsets == list(range(20)) and it.position(tp) == 20
        wait_until(
            lambda: (it.committed(tp) or 0) >= 11,
            PATIENCE_S,
            "the commit that became due in the handler",
        )
        wait_until(
            lambda: it.poll(10) == {} and it.committed(tp) == 20,
            PATIENCE_S,
            "the commit of the rest",
        )


def test_iteration_ends_after_its_timeout_and_goes_on_later(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("iterate"), 3)
    produce_numbered(kafka_broker.address, topic, 3, 40)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, consumer_timeout_ms=1_500, max_poll_records=7) as it,
    ):
        first = [(r.partition, r.offset) for r in iterated(it, 120)]
        produce_numbered(kafka_broker.address, topic, 3, 2, 40)
        second = [(r.partition, r.offset) for r in iterated(it, 6)]
    assert (
        sorted(first + second) == [(p, o) for p in range(3) for o in range(42)] and len(second) == 6
    )
    assert all([o for q, o in first + second if q == p] == list(range(42)) for p in range(3))


def test_a_hand_over_during_iteration_keeps_what_was_not_yielded(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("halfway"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 30)
    taken: Taken = {}
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as one:
        for _ in range(5):
            record = next(one)
            taken.setdefault((topic, record.partition), []).append(record.offset)
        with consumer(kafka_zk_hosts, topic, topic) as two:

            def moved() -> bool:
                # the partition that moves is that of the record in hand: iteration must go on
                if one._session.state.due_callbacks:
                    record = next(one)
                    taken.setdefault((topic, record.partition), []).append(record.offset)
                return take(two, taken) >= 0 and len(two.assignment()) == 1

            wait_until(moved, PATIENCE_S, "the second member's partition")
            drain([one, two], taken, 60)
    whole(taken, 2, 30, topic)


def test_callbacks_come_on_the_application_thread_in_kafkas_order(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("callbacks"), 4)
    produce_numbered(kafka_broker.address, topic, 4, 10)
    listener = Recorder()
    threads: set[str] = set()
    committed: list[int] = []
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, enable_auto_commit=False) as one,
    ):

        def act(name: str) -> None:
            threads.add(threading.current_thread().name)
            if name == "revoked":
                one.commit()
                committed.append(1)

        listener.act = act
        one.subscribe([topic], listener=listener)
        taken: Taken = {}
        drain([one], taken, 40)
        assert listener.calls == [("assigned", (0, 1, 2, 3))]
        with consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as two:
            settled([one, two], topic, 4, taken)
            assert (
                listener.calls[1][0] == "revoked" and len(listener.calls[1][1]) == 2 and committed
            )
            kept = one.assignment()
        wait_until(
            lambda: take(one, taken) >= 0 and len(listener.calls) == 3,
            PATIENCE_S,
            "the partitions' return",
        )
        assert listener.calls[2] == ("assigned", listener.calls[1][1])
        assert kept == {TopicPartition(topic, n) for n in range(4)} - {
            TopicPartition(topic, n) for n in listener.calls[1][1]
        }
    assert listener.calls[3] == ("revoked", (0, 1, 2, 3)) and threads == {
        threading.current_thread().name
    }
    whole(taken, 4, 10, topic)


def test_a_slow_handler_delays_only_what_it_works_on(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """While the first member is inside its handler, partitions that it is not working on move
    without it.
    """
    topic = create_topic(kafka_broker.address, unique("slow"), 4)
    produce(kafka_broker.address, topic, {0: [b"x"]})
    taken: Taken = {}
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, partition_assignment_strategy="range") as one,
    ):
        drain([one], taken, 1)
        assert one.assignment() == {TopicPartition(topic, n) for n in range(4)}
        with consumer(kafka_zk_hosts, topic, topic, partition_assignment_strategy="range") as two:
            wait_until(
                lambda: take(two, taken) >= 0 and len(two.assignment()) == 2,
                PATIENCE_S,
                "two partitions while the first member does not poll",
            )
            assert one.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}


@pytest.mark.parametrize("iterating", [False, True])
def test_what_is_being_processed_moves_only_after_the_next_turn(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, iterating: bool
) -> None:
    topic = create_topic(kafka_broker.address, unique("busy"), 2)
    produce(kafka_broker.address, topic, {1: [b"x"] * 3})
    with (
        coordinator(kafka_zk_hosts),
        consumer(
            kafka_zk_hosts,
            topic,
            topic,
            partition_assignment_strategy="range",
            consumer_timeout_ms=PATIENCE_S * 1_000,
            max_poll_records=2,
        ) as one,
    ):
        if iterating:
            assert (next(one).offset, next(one).offset) == (0, 1)
        else:
            wait_until(lambda: one.poll(50), PATIENCE_S, "records")
        with consumer(kafka_zk_hosts, topic, topic, partition_assignment_strategy="range") as two:
            wait_until(
                lambda: take(two, {}) == 0 and one._session.state.due_callbacks,
                PATIENCE_S,
                "the revocation, which waits",
            )
            assert two.assignment() == set() and TopicPartition(topic, 1) in one.assignment()
            one.poll(0)
            taken: Taken = {}
            drain([two], taken, 1)
    assert taken == {(topic, 1): [2]}, "what was processed is not delivered again"


def test_seek_pause_and_resume(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("seek"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as c:
        drain([c], {}, 20)
        c.pause(one)
        c.seek(zero, 7)
        c.seek(one, 8)
        taken: Taken = {}
        drain([c], taken, 3)
        assert taken == {(topic, 0): [7, 8, 9]} and c.paused() == {one} and c.position(one) == 8
        c.resume(one)
        drain([c], taken, 5)
        assert taken[(topic, 1)] == [8, 9] and c.paused() == set()
        c.seek_to_beginning(zero)
        again: Taken = {}
        drain([c], again, 10)
        assert again == {(topic, 0): list(range(10))}
        c.seek_to_end(one)
        assert c.position(one) == 10 and c.highwater(zero) == 10
        assert c.beginning_offsets([zero]) == {zero: 0} and c.end_offsets([zero, one]) == {
            zero: 10,
            one: 10,
        }
        assert (
            c.partitions_for_topic(topic) == {0, 1}
            and topic in c.topics()
            and c.offsets_for_times({zero: 0})[zero].offset == 0
        )
        with pytest.raises(ValueError):
            c.seek(TopicPartition(topic, 9), 1)


def test_iteration_notices_pause_and_seek(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("itseek"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    tp = TopicPartition(topic, 0)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, consumer_timeout_ms=1_500) as c,
    ):
        assert following(c).offset == 0 and following(c).offset == 1
        c.seek(tp, 8)
        assert [r.offset for r in iterated(c, 2)] == [8, 9]
        c.seek(tp, 3)
        assert following(c).offset == 3
        c.pause(tp)
        assert list(c) == [] and c.position(tp) == 4
        c.resume(tp)
        assert following(c).offset == 4


def test_without_a_stored_offset_and_a_policy_poll_says_so(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("none"), 1)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, auto_offset_reset="none") as c,
    ):
        with pytest.raises(NoOffsetForPartitionError, match=f"{topic}-0"):
            wait_until(lambda: c.poll(100) is None, PATIENCE_S, "an error")


def test_latest_begins_after_what_is_there(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("latest"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 5)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, auto_offset_reset="latest") as c,
    ):
        settled([c], topic, 1)
        produce_numbered(kafka_broker.address, topic, 1, 1, 5)
        taken: Taken = {}
        drain([c], taken, 1)
    assert taken == {(topic, 0): [5]}


def test_a_topic_that_does_not_exist_yet_is_one_warning_and_served_when_it_does(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = unique("later")
    with (
        caplog.at_level(logging.WARNING),
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic) as c,
    ):
        wait_until(
            lambda: c.poll(100) == {} and any(topic in r.getMessage() for r in caplog.records),
            PATIENCE_S,
            "the warning",
        )
        create_topic(kafka_broker.address, topic, 2)
        produce_numbered(kafka_broker.address, topic, 2, 3)
        taken: Taken = {}
        drain([c], taken, 6)
    assert len([r for r in caplog.records if topic in r.getMessage()]) == 1, (
        "and no noise from kafka-python"
    )
    whole(taken, 2, 3, topic)


def test_new_partitions_and_new_topics_of_a_pattern_are_picked_up(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    stem = unique("wild")
    create_topic(kafka_broker.address, f"{stem}-a", 1)
    produce_numbered(kafka_broker.address, f"{stem}-a", 1, 2)
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, stem) as c:
        c.subscribe(pattern=f"{stem}-.*")
        taken: Taken = {}
        drain([c], taken, 2)
        create_topic(kafka_broker.address, f"{stem}-b", 1)
        produce_numbered(kafka_broker.address, f"{stem}-b", 1, 2)
        add_partitions(kafka_broker.address, f"{stem}-a", 2)
        produce(kafka_broker.address, f"{stem}-a", {1: [b"x"]})
        drain([c], taken, 5)
        assert c.subscription() == {f"{stem}-a", f"{stem}-b"}
    assert {k: len(v) for k, v in taken.items()} == {
        (f"{stem}-a", 0): 2,
        (f"{stem}-b", 0): 2,
        (f"{stem}-a", 1): 1,
    }


def test_another_subscription_keeps_what_stays(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    stay, go, come = (
        create_topic(kafka_broker.address, unique(name), 1) for name in ("stay", "go", "come")
    )
    listener = Recorder()
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, stay) as c:
        c.subscribe([stay, go], listener=listener)
        wait_until(lambda: c.poll(20) == {} and len(c.assignment()) == 2, PATIENCE_S, "two topics")
        c.subscribe([stay, come], listener=listener)
        wait_until(
            lambda: (
                c.poll(20) == {}
                and c.assignment() == {TopicPartition(stay, 0), TopicPartition(come, 0)}
            ),
            PATIENCE_S,
            "the other topic",
        )
        told = list(listener.calls)
        assert c.subscription() == {stay, come}
        c.unsubscribe()
        assert c.assignment() == set() and c.subscription() is None
        c.subscribe([stay])
        wait_until(lambda: c.poll(20) == {} and len(c.assignment()) == 1, PATIENCE_S, "the return")
    assert told.count(("revoked", (0,))) == 1, "only what went"


def test_without_a_coordinator_one_warning_names_what_to_start(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(kafka_broker.address, unique("nobody"), 1)
    with (
        caplog.at_level(logging.WARNING),
        consumer(kafka_zk_hosts, topic, topic, coordinator_warning_ms=300) as c,
    ):
        (warning,) = wait_until(
            lambda: (
                c.poll(50) == {}
                and [r.getMessage() for r in caplog.records if "coordinator" in r.getMessage()]
            ),
            PATIENCE_S,
            "the warning",
        )
        assert (
            f"zkcoord coordinator --zookeeper {kafka_zk_hosts}" in warning
            and "/consumers/coordinator" in warning
        )
        produce_numbered(kafka_broker.address, topic, 1, 1)
        with coordinator(kafka_zk_hosts):
            drain([c], {}, 1)


def test_a_reset_by_an_operator_is_followed(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("reset"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, auto_commit_interval_ms=100) as c,
    ):
        drain([c], {}, 10)
        zookeeper = connect(kafka_zk_hosts)
        zookeeper.set(f"/consumers/{topic}/offsets/{topic}/0", b"4")
        disconnect(zookeeper)
        produce_numbered(kafka_broker.address, topic, 1, 1, 10)
        taken: Taken = {}
        wait_until(
            lambda: (
                take(c, taken) >= 0 and taken.get((topic, 0), [])[-7:] == [4, 5, 6, 7, 8, 9, 10]
            ),
            PATIENCE_S,
            "the records from the reset offset on",
        )


def test_while_zookeeper_is_away_commits_end_in_time_and_nothing_is_handed_out_after_the_lease(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("away"), 1)
    server, chroot = kafka_zk_hosts.split("/", 1)
    with coordinator(kafka_zk_hosts), Proxy(int(server.rsplit(":", 1)[1])) as proxy:
        hosts = f"{proxy.address}/{chroot}"
        with consumer(
            hosts, topic, topic, guardian=False, bootstrap_servers=kafka_broker.address
        ) as c:
            produce_numbered(kafka_broker.address, topic, 1, 2)
            drain([c], {}, 2)
            proxy.refuse()
            proxy.cut()
            began = time.monotonic()
            with pytest.raises(CommitUnavailableError):
                c.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)}, timeout_ms=300)
            assert time.monotonic() - began < PATIENCE_S
            wait_until(
                lambda: c.metrics()["zkcoord"]["lease-left-ms"] == 0,
                PATIENCE_S,
                "the end of the lease",
            )
            produce_numbered(kafka_broker.address, topic, 1, 5, 2)
            assert [c.poll(100) for _ in range(5)] == [{}] * 5
            proxy.refuse(False)
            taken: Taken = {}
            wait_until(
                lambda: take(c, taken) >= 0 and taken.get((topic, 0), [])[-1:] == [6],
                PATIENCE_S,
                "the records after the lease is back",
            )
    offsets = taken[(topic, 0)]
    assert offsets == list(range(offsets[0], 7)) and offsets[0] <= 2


@pytest.mark.parametrize("where", ["take", "fetch_soon", "put_back"])
def test_a_process_that_stands_still_within_a_poll_hands_out_nothing_when_it_goes_on(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """While it decodes; while it asks for more, which is a system call and lets other threads run;
    while it puts its positions back, where they shall stay. The lease is looked at after each.
    """
    topic = create_topic(kafka_broker.address, unique("still"), 2)
    polls: list[Any] = []
    ahead_ms = 0

    def then_late(act: Callable[..., Any]) -> Callable[..., Any]:
        def acted(*args: Any) -> Any:
            nonlocal ahead_ms
            done = act(*args)
            ahead_ms = 600_000 if where != "take" or done[0] else 0
            return done

        return acted

    for module in (duties, group_session, poll_loop):
        monkeypatch.setattr(module, "boot_ms", lambda: boot_ms() + ahead_ms)
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as one:
        settled([one], topic, 2)
        with monkeypatch.context() as patched:
            side = one._data if where == "put_back" else one._data.fetcher
            patched.setattr(side, where, then_late(getattr(side, where)))
            produce_numbered(kafka_broker.address, topic, 2, 5)
            wait_until(
                lambda: polls.append(one.poll(50, update_offsets=where != "put_back")) or ahead_ms,
                PATIENCE_S,
                "records that come too late",
            )
        assert not any(polls)
        ahead_ms = 0
        taken: Taken = {}
        drain([one], taken, 10)
    whole(taken, 2, 5, topic)


@pytest.mark.parametrize("update_offsets", [True, False])
def test_the_lease_is_the_last_that_a_poll_looks_at(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    monkeypatch: pytest.MonkeyPatch,
    update_offsets: bool,
) -> None:
    """And of that at the clock: nothing is called after it, no lock is let go (where another thread
    waits for that, it is a system call), for whoever is stopped there hands out what is another's
    (chaos seeds 2180, 3234).
    """
    topic = create_topic(kafka_broker.address, unique("last"), 2)
    called: list[str] = []

    class Told:
        def __init__(self, lock: Any) -> None:
            self.lock = lock

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    def watched_poll(one: KafkaConsumer) -> Any:
        called.clear()
        sys.setprofile(
            lambda frame, event, what: (
                called.append(frame.f_code.co_name if event == "call" else what.__name__)
                if event in ("call", "c_call")
                else None
            )
        )
        try:
            return one.poll(50, update_offsets=update_offsets)
        finally:
            sys.setprofile(None)

    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as one:
        settled([one], topic, 2)
        produce_numbered(kafka_broker.address, topic, 2, 5)
        with monkeypatch.context() as patched:
            patched.setattr(one._data, "lock", Told(one._data.lock))
            wait_until(lambda: watched_poll(one), PATIENCE_S, "records")
            assert "__exit__" in called and called[-2:] == ["clock_gettime_ns", "setprofile"]


def test_what_was_lost_meanwhile_is_not_put_back(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have come back, from where another member had got to."""
    topic = create_topic(kafka_broker.address, unique("gone"), 2)
    lost, kept = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as one:
        settled([one], topic, 2)
        produce_numbered(kafka_broker.address, topic, 2, 5)
        begun = {tp: one.position(tp) for tp in (lost, kept)}
        with monkeypatch.context() as patched:
            patched.setattr(
                one._session.state, "lost_of", lambda partitions: {lost: "a test says so"}
            )
            last = wait_until(
                lambda: one.poll(50, update_offsets=False).get(lost),
                PATIENCE_S,
                "records of the one",
            )[-1]
            wait_until(
                lambda: one.poll(50, update_offsets=False).get(kept),
                PATIENCE_S,
                "records of the other",
            )
        assert one.position(kept) == begun[kept] and one.position(lost) > last.offset


def test_records_that_a_poll_could_not_hand_out_come_again(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python's IO thread may have ended by an error, which whoever wakes it is told."""
    topic = create_topic(kafka_broker.address, unique("again"), 2)
    taken: Taken = {}

    def fail() -> None:
        raise RuntimeError("NetworkSelector closed!")

    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as one:
        settled([one], topic, 2)
        with monkeypatch.context() as patched:
            patched.setattr(one._data.fetcher, "fetch_soon", fail)
            produce_numbered(kafka_broker.address, topic, 2, 5)
            with pytest.raises(RuntimeError, match="closed"):
                wait_until(lambda: take(one, taken), PATIENCE_S, "records")
        drain([one], taken, 10)
    whole(taken, 2, 5, topic)


def test_a_closed_consumer_says_so_and_frees_its_partitions_at_once(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("closed"), 2)
    with coordinator(kafka_zk_hosts):
        one = consumer(kafka_zk_hosts, topic, topic)
        settled([one], topic, 2)
        one.close()
        one.close()
        zookeeper = connect(kafka_zk_hosts)
        left = zookeeper.get_children(f"/consumers/groups/{topic}/ids")
        disconnect(zookeeper)
        assert left == []
        for method in (one.poll, one.commit, one.assignment, one.unsubscribe, one.paused):
            with pytest.raises(IllegalStateError):
                method()
        assert list(one) == []


def test_a_second_process_with_the_same_consumer_id_is_refused(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("twice"), 1)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, consumer_id="me") as one,
    ):
        settled([one], topic, 1)
        with consumer(kafka_zk_hosts, topic, topic, consumer_id="me") as two:
            with pytest.raises(Exception, match="'me' is in use"):
                wait_until(lambda: two.poll(100) is None, PATIENCE_S, "an error")
        assert len(one.assignment()) == 1


def test_a_defect_of_the_agent_ends_the_membership_and_says_so(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A session that nobody drives any more must not go on holding partitions."""
    topic = create_topic(kafka_broker.address, unique("defect"), 1)

    def fail() -> None:
        raise ZeroDivisionError("a defect")

    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic) as one,
        consumer(kafka_zk_hosts, topic) as two,
    ):
        settled([one], topic, 1)
        assert one._session.joined is not None
        one._session.joined.thread._post(fail)
        with pytest.raises(AgentFailedError, match="ZeroDivisionError"):
            wait_until(lambda: one.poll(50) is None, PATIENCE_S, "an error")
        two.subscribe([topic])
        settled([two], topic, 1)


def test_manual_assignment_needs_no_group(kafka_broker: KafkaBroker) -> None:
    topic = create_topic(kafka_broker.address, unique("assign"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 5)
    with KafkaConsumer(bootstrap_servers=kafka_broker.address, auto_offset_reset="earliest") as c:
        c.assign([TopicPartition(topic, 1)])
        with pytest.raises(IllegalStateError):
            c.subscribe([topic])
        taken: Taken = {}
        drain([c], taken, 5)
        with pytest.raises(IllegalStateError):
            c.commit()
    assert taken == {(topic, 1): list(range(5))}


def test_bad_places_are_refused_in_one_sentence(
    kafka_broker: KafkaBroker, zk_hosts: str, kafka_zk_hosts: str
) -> None:
    with pytest.raises(ConsumerOptionError, match="no live broker"):
        consumer(zk_hosts, "g", "t")
    with pytest.raises(SessionRefusedError, match="chroot"):
        consumer(f"{kafka_zk_hosts}/nowhere", "g", "t")
    with pytest.raises(SessionRefusedError, match="no ZooKeeper server answers"):
        consumer("127.0.0.1:1", "g", "t", zookeeper_connection_timeout_ms=300)
