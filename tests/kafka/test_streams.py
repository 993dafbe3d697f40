"""Message streams on a real broker and ZooKeeper: who gets what, in which order, and what stops for
whom.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.errors import IllegalStateError, InconsistentGroupProtocolError
from kafka.structs import TopicPartition

from consumer import (
    BlackList,
    ConsumerTimeoutError,
    ForkedConsumerError,
    MessageAndMetadata,
    MessageStreamsExistError,
    NotOwnedError,
    WhiteList,
    ZookeeperConsumerConnector,
)
from consumer.streams.connector import KafkaStream
from tests.harness.kafka import admin, create_topic, produce, produce_numbered, unique
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, coordinator
from tests.kafka.test_processes import members, process
from zkcoord.core.model import Subscription
from zkcoord.errors import InvalidSubscriptionError
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def connector(
    hosts: str, group: str, properties: Mapping[str, Any] | None = None, **configs: Any
) -> ZookeeperConsumerConnector:
    """A connector of the group that begins at the first record."""
    usual = {
        "zookeeper.connect": hosts,
        "group.id": group,
        "auto.offset.reset": "smallest",
        "zookeeper.session.timeout.ms": "6000",
    }
    return ZookeeperConsumerConnector({**usual, **(properties or {})}, **configs)


class Worker:
    """A thread that drains one stream. `taken` has what it got; with `gate` it waits in its handler
    for that.
    """

    def __init__(self, stream: KafkaStream, gate: threading.Event | None = None) -> None:
        self.stream = stream
        self.gate = gate
        self.taken: list[MessageAndMetadata] = []
        self.thread_ids: set[str] = set()
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for message in self.stream:
                self.thread_ids.add(self.stream.thread_id)
                self.taken.append(message)
                if self.gate is not None:
                    self.gate.wait(PATIENCE_S)
        except Exception as error:  # thread main
            self.error = error

    def offsets(self) -> dict[tuple[str, int], list[int]]:
        """By partition."""
        found: dict[tuple[str, int], list[int]] = {}
        for message in list(self.taken):
            found.setdefault((message.topic, message.partition), []).append(message.offset)
        return found


@contextmanager
def working(
    streams: Iterable[KafkaStream], gates: Mapping[int, threading.Event] | None = None
) -> Iterator[list[Worker]]:
    """A worker for each stream; gates are opened at the end."""
    workers = [Worker(stream, (gates or {}).get(n)) for n, stream in enumerate(streams)]
    try:
        yield workers
    finally:
        for gate in (gates or {}).values():
            gate.set()


def count(workers: Iterable[Worker]) -> int:
    return sum(len(w.taken) for w in workers)


def owners(hosts: str, group: str, topic: str) -> dict[int, str]:
    """Thread ids in the owner nodes."""
    zookeeper = connect(hosts)
    try:
        path = f"/consumers/groups/{group}/owners/{topic}"
        return {
            int(p): zookeeper.get(f"{path}/{p}")[0].decode()
            for p in zookeeper.get_children(path)
            if zookeeper.exists(f"{path}/{p}")
        }
    finally:
        disconnect(zookeeper)


def test_each_partition_is_of_one_stream_that_of_its_owner_nodes_thread_id(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("threads"), 6)
    produce_numbered(kafka_broker.address, topic, 6, 40)
    with coordinator(kafka_zk_hosts), connector(kafka_zk_hosts, topic) as one:
        streams = one.create_message_streams({topic: 3}, value_decoder=bytes.decode)[topic]
        with working(streams) as workers:
            wait_until(lambda: count(workers) == 240, PATIENCE_S, "240 records")
            said = owners(kafka_zk_hosts, topic, topic)
            for n, worker in enumerate(workers):
                assert worker.thread_ids == {f"{one.consumer_id}-{n}"}
                assert worker.offsets() == {
                    (topic, p): list(range(40))
                    for p, owner in said.items()
                    if owner == streams[n].thread_id
                }
                assert all(
                    m.message == f"{m.partition}:{m.offset}" and m.key is None for m in worker.taken
                )
            assert sorted(len(w.offsets()) for w in workers) == [2, 2, 2]
            one.shutdown()
            for worker in workers:
                worker.thread.join(PATIENCE_S)
                assert not worker.thread.is_alive() and worker.error is None


def test_a_stream_times_out_and_goes_on(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("timeout"), 1)
    with (
        coordinator(kafka_zk_hosts),
        connector(kafka_zk_hosts, topic, {"consumer.timeout.ms": "200"}) as one,
    ):
        (stream,) = one.create_message_streams({topic: 1})[topic]
        with pytest.raises(ConsumerTimeoutError, match="200 ms"):
            next(stream)
        produce_numbered(kafka_broker.address, topic, 1, 2)
        assert [m.offset for m in some(stream, 2)] == [0, 1]


def some(stream: KafkaStream, wanted: int) -> list[MessageAndMetadata]:
    """So many messages, whatever time they take."""
    found: list[MessageAndMetadata] = []

    def enough() -> bool:
        try:
            found.append(next(stream))
        except ConsumerTimeoutError:
            return False
        return len(found) == wanted

    wait_until(enough, PATIENCE_S, f"{wanted} messages")
    return found


class Heard:
    """A rebalance listener that notes its calls, and may act in them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.act: Any = lambda: None

    def before_releasing_partitions(self, partition_ownership: Mapping[str, set[int]]) -> None:
        self.calls.append(
            ("released", {topic: set(numbers) for topic, numbers in partition_ownership.items()})
        )
        self.act()

    def before_starting_fetchers(
        self, consumer_id: str, partition_assignment: Mapping[str, Mapping[int, Any]]
    ) -> None:
        self.calls.append(
            (
                consumer_id,
                {
                    topic: {p: str(thread) for p, thread in threads.items()}
                    for topic, threads in partition_assignment.items()
                },
            )
        )


def stored(hosts: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """Stored next offsets."""
    zookeeper = connect(hosts)
    try:
        found = {
            p: zookeeper.exists(f"/consumers/{group}/offsets/{topic}/{p}")
            for p in range(partitions)
        }
        return {
            p: int(zookeeper.get(f"/consumers/{group}/offsets/{topic}/{p}")[0])
            for p, there in found.items()
            if there
        }
    finally:
        disconnect(zookeeper)


def test_a_slow_stream_stops_neither_the_others_nor_the_membership(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """Stream 0 hangs in its first record. Stream 1 gets all of its records, far more than any queue
    holds, and goes on while a hand-over waits for that record; every record arrives once and in
    order.
    """
    topic = create_topic(kafka_broker.address, unique("slow"), 8)
    produce_numbered(kafka_broker.address, topic, 8, 1_500)
    gate = threading.Event()
    with (
        coordinator(kafka_zk_hosts),
        connector(
            kafka_zk_hosts, topic, {"queued.max.message.chunks": "1", "rebalance.max.retries": "60"}
        ) as one,
        working(one.create_message_streams({topic: 2})[topic], {0: gate}) as (slow, quick),
    ):
        wait_until(
            lambda: len(quick.taken) == 4 * 1_500 and len(slow.taken) == 1,
            PATIENCE_S,
            f"all of the quick stream, not {len(quick.taken)}",
        )
        name = one.consumer_id
        with (
            connector(kafka_zk_hosts, topic) as two,
            working(two.create_message_streams({topic: 1})[topic]) as (other,),
        ):
            wait_until(
                lambda: one._consumer._session.state.callbacks.parks or other.taken,
                PATIENCE_S,
                "the hand-over",
            )
            produce_numbered(kafka_broker.address, topic, 8, 1)
            wait_until(
                lambda: len(quick.taken) > 4 * 1_500,
                PATIENCE_S,
                "more of what stays with the quick stream",
            )
            assert one.consumer_id == name and len(slow.taken) == 1
            gate.set()
            wait_until(
                lambda: count([slow, quick, other]) == 8 * 1_501,
                PATIENCE_S,
                f"every record once, not {count([slow, quick, other])}",
            )
            whole: dict[tuple[str, int], list[int]] = {}
            for worker in (slow, quick, other):
                for partition, offsets in worker.offsets().items():
                    whole.setdefault(partition, []).extend(offsets)
            assert whole == {(topic, p): list(range(1_501)) for p in range(8)}, (
                "in order, from one owner to the next"
            )


def test_a_partition_is_given_up_after_its_record_is_processed(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("giveup"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 50)
    gates = {0: threading.Event(), 1: threading.Event()}
    with (
        coordinator(kafka_zk_hosts),
        connector(kafka_zk_hosts, topic) as one,
        working(one.create_message_streams({topic: 2})[topic], gates) as workers,
    ):
        wait_until(lambda: count(workers) == 2, PATIENCE_S, "a record for each")
        before = owners(kafka_zk_hosts, topic, topic)
        with (
            connector(kafka_zk_hosts, topic) as two,
            working(two.create_message_streams({topic: 2})[topic]) as others,
        ):
            wait_until(
                lambda: one._consumer._session.state.callbacks.parks,
                PATIENCE_S,
                "a revocation that waits",
            )
            assert owners(kafka_zk_hosts, topic, topic) == before and count(others) == 0
            for gate in gates.values():
                gate.set()
            wait_until(lambda: count([*workers, *others]) == 100, PATIENCE_S, "every record once")
            assert sorted(o.offsets() != {} for o in others) == [False, True] and all(
                offsets == list(range(1, 50)) for o in others for offsets in o.offsets().values()
            )
            two.shutdown()
            one.shutdown()
    assert stored(kafka_zk_hosts, topic, topic, 2) == {0: 50, 1: 50}


def test_a_record_in_hand_delays_a_hand_over_only_so_long(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("toolong"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 20)
    gate = threading.Event()
    patience = {"rebalance.max.retries": "1", "rebalance.backoff.ms": "300"}
    with (
        coordinator(kafka_zk_hosts),
        connector(kafka_zk_hosts, topic, patience) as one,
        working(one.create_message_streams({topic: 1})[topic], {0: gate}) as (hanging,),
    ):
        wait_until(lambda: len(hanging.taken) == 1, PATIENCE_S, "the first record")
        # it wants nothing any more: its partition is revoked
        one._consumer._subscriptions.choose(Subscription({}), None)
        wait_until(lambda: not one._consumer.owned(), PATIENCE_S, "the partition given up")
        assert stored(kafka_zk_hosts, topic, topic, 1) == {0: 0} and len(hanging.taken) == 1


def test_a_listener_hears_of_both_and_may_commit(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("listener"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 10)
    heard = Heard()
    with (
        coordinator(kafka_zk_hosts),
        connector(kafka_zk_hosts, topic, {"auto.commit.enable": "false"}) as one,
    ):
        one.set_consumer_rebalance_listener(heard)
        with working(one.create_message_streams({topic: 2})[topic]) as workers:
            wait_until(
                lambda: count(workers) == 20 and not one._consumer.queues.in_hand,
                PATIENCE_S,
                "all records, processed",
            )
            assert stored(kafka_zk_hosts, topic, topic, 2) == {0: 0, 1: 0}
            assert heard.calls[-1] == (
                one.consumer_id,
                {topic: {0: f"{one.consumer_id}-0", 1: f"{one.consumer_id}-1"}},
            )
            with pytest.raises(MessageStreamsExistError):
                one.set_consumer_rebalance_listener(heard)
            heard.act = one.commit_offsets
            one.shutdown()
    assert heard.calls[-1] == ("released", {topic: {0, 1}}) and stored(
        kafka_zk_hosts, topic, topic, 2
    ) == {0: 10, 1: 10}


def test_manual_commits_are_the_applications_own(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """A commit stores what its thread has in hand, too; the end stores nothing that was not
    committed.
    """
    topic = create_topic(kafka_broker.address, unique("manual"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 30)
    with coordinator(kafka_zk_hosts):
        with connector(kafka_zk_hosts, topic, {"auto.commit.enable": "false"}) as one:
            (stream,) = one.create_message_streams({topic: 1})[topic]
            for message in stream:
                if message.offset == 4:
                    one.commit_offsets(retry_on_failure=False)
                    assert stored(kafka_zk_hosts, topic, topic, 1) == {0: 5}
                    one.commit_offsets(offsets={TopicPartition(topic, 0): 3})
                    assert stored(kafka_zk_hosts, topic, topic, 1) == {0: 3}
                    one.commit_offsets()
                if message.offset == 9:
                    with pytest.raises(NotOwnedError, match=f"{topic}-7"):
                        one.commit_offsets(offsets={TopicPartition(topic, 7): 3})
                    break
        assert stored(kafka_zk_hosts, topic, topic, 1) == {0: 5}
        with connector(kafka_zk_hosts, topic) as again:
            assert next(again.create_message_streams({topic: 1})[topic][0]).offset == 5


def test_automatic_commits_leave_out_what_is_in_hand(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("auto"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 30)
    with coordinator(kafka_zk_hosts):
        with connector(kafka_zk_hosts, topic, {"auto.commit.interval.ms": "50"}) as one:
            stream = one.create_message_streams({topic: 1})[topic][0]
            assert [next(stream).offset for _ in range(8)] == list(range(8))
            wait_until(
                lambda: stored(kafka_zk_hosts, topic, topic, 1) == {0: 7},
                PATIENCE_S,
                "the automatic commit",
            )
        assert stored(kafka_zk_hosts, topic, topic, 1) == {0: 8}, (
            "the thread that shuts down has processed what it has"
        )
        with pytest.raises(ZeroDivisionError), connector(kafka_zk_hosts, topic) as two:
            stream = two.create_message_streams({topic: 1})[topic][0]
            assert [next(stream).offset for _ in range(3)] == [8, 9, 10] and 1 // 0
        assert stored(kafka_zk_hosts, topic, topic, 1) == {0: 10}, "a thread that fails has not"


def not_from(stem: str) -> list[str]:
    """Expressions that together cover what does not begin with `stem`: the broker has the topics of
    other tests, too.
    """
    return [f"{stem[:n]}[^{stem[n]}].*" for n in range(len(stem))]


def test_streams_by_filter_take_topics_as_they_appear(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    stem = unique("filter")
    produce_numbered(
        kafka_broker.address, create_topic(kafka_broker.address, unique("filter"), 1), 1, 5
    )
    for name in ("a", "b", "c"):
        create_topic(kafka_broker.address, f"{stem}.{name}", 2)
        produce_numbered(kafka_broker.address, f"{stem}.{name}", 2, 5)
    with (
        coordinator(kafka_zk_hosts),
        connector(kafka_zk_hosts, stem) as one,
        connector(kafka_zk_hosts, f"{stem}-rest") as rest,
    ):
        streams = one.create_message_streams_by_filter(
            WhiteList(rf"{stem}\.a, {stem}\.b, {stem}\.new"), 2
        )
        others = rest.create_message_streams_by_filter(
            BlackList("|".join([rf"{stem}\.a", rf"{stem}\.b", *not_from(stem)]))
        )
        with working(streams) as workers, working(others) as (left,):
            wait_until(
                lambda: count(workers) == 20 and len(left.taken) == 10,
                PATIENCE_S,
                "two topics here, the third there",
            )
            create_topic(kafka_broker.address, f"{stem}.new", 2)
            produce_numbered(kafka_broker.address, f"{stem}.new", 2, 5)
            wait_until(
                lambda: count(workers) == 30 and len(left.taken) == 20,
                PATIENCE_S,
                "the new topic, on both sides",
            )
            assert {m.topic for w in workers for m in w.taken} == {
                f"{stem}.{n}" for n in ("a", "b", "new")
            } and {m.topic for m in left.taken} == {f"{stem}.c", f"{stem}.new"}
            assert all(w.taken for w in workers)


def test_streams_are_made_once_and_what_is_wrong_is_said(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("once"), 1)
    with coordinator(kafka_zk_hosts):
        with connector(kafka_zk_hosts, topic, {"consumer.timeout.ms": "100"}) as one:
            for wrong in ({topic: 0}, {topic: 10_001}, {topic: True}, {"a b": 1}, {}):
                with pytest.raises(ValueError):
                    one.create_message_streams(wrong)
            with pytest.raises(InvalidSubscriptionError, match="RE2"):
                one.create_message_streams_by_filter(WhiteList("(a"))
            with pytest.raises(TypeError, match="WhiteList"):
                one.create_message_streams_by_filter("a.*")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="before_releasing_partitions"):
                one.set_consumer_rebalance_listener(object())  # type: ignore[arg-type]
            one.commit_offsets()
            (stream,) = one.create_message_streams({topic: 1})[topic]
            for again in (
                lambda: one.create_message_streams({topic: 1}),
                lambda: one.create_message_streams_by_filter(WhiteList("a")),
            ):
                with pytest.raises(MessageStreamsExistError, match="make another one"):
                    again()
        assert list(stream) == []
        one.shutdown()
        for late in (one.commit_offsets, lambda: one.create_message_streams({topic: 1})):
            with pytest.raises(IllegalStateError):
                late()
        with connector(
            kafka_zk_hosts, topic, {"partition.assignment.strategy": "no-such"}
        ) as refused:
            streams = refused.create_message_streams({topic: 2})[topic]
            for _ in range(2):
                for stream in streams:
                    with pytest.raises(InconsistentGroupProtocolError, match="no-such"):
                        next(stream)


def test_a_decoder_fails_where_it_is_asked_and_the_stream_goes_on(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("decoder"), 1)
    produce(kafka_broker.address, topic, {0: [b"1", b"x", b"3"]})
    with coordinator(kafka_zk_hosts), connector(kafka_zk_hosts, topic) as one:
        (stream,) = one.create_message_streams({topic: 1}, value_decoder=int)[topic]
        first, bad, third = next(stream), next(stream), next(stream)
        assert (first.message, third.message, first.topic, first.partition, third.offset) == (
            1,
            3,
            topic,
            0,
            2,
        ) and abs(first.timestamp - time.time() * 1000) < 3_600_000
        with pytest.raises(ValueError):
            bad.message


def test_a_listener_may_shut_the_connector_down(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("inside"), 1)
    with coordinator(kafka_zk_hosts), connector(kafka_zk_hosts, topic) as one:
        heard = Heard()
        heard.act = one.shutdown
        one.set_consumer_rebalance_listener(heard)
        (stream,) = one.create_message_streams({topic: 1})[topic]
        wait_until(lambda: one._consumer.owned(), PATIENCE_S, "the partition")
        one._consumer._subscriptions.choose(Subscription({}), one._consumer._listener.listener)
        assert list(stream) == []
        wait_until(lambda: one._consumer.closed, PATIENCE_S, "the end")


def test_streams_that_are_cut_off_hand_out_nothing_of_what_others_own_by_now(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """Its queues are full of records when its connection to ZooKeeper is gone; the broker goes on
    answering.
    """
    topic = create_topic(kafka_broker.address, unique("cutoff"), 4)
    produce_numbered(kafka_broker.address, topic, 4, 1_000)
    server, _, chroot = kafka_zk_hosts.partition("/")
    short = {"zookeeper.session.timeout.ms": "3000", "auto.commit.interval.ms": "50"}
    brake = threading.Event()
    with (
        coordinator(kafka_zk_hosts),
        Proxy(int(server.rpartition(":")[2])) as proxy,
        connector(
            f"{proxy.address}/{chroot}",
            topic,
            short,
            guardian=False,
            bootstrap_servers=kafka_broker.address,
        ) as one,
        working(one.create_message_streams({topic: 2})[topic], {0: brake, 1: brake}) as workers,
        connector(kafka_zk_hosts, topic) as two,
    ):
        wait_until(lambda: count(workers) == 2, PATIENCE_S, "a record for each stream")
        before = one.consumer_id
        proxy.refuse()
        proxy.cut()
        with working(two.create_message_streams({topic: 1})[topic]) as (other,):
            wait_until(
                lambda: len(other.offsets()) == 4,
                PATIENCE_S,
                "all partitions with the other",
            )
            brake.set()  # only now do they ask for more
            wait_until(
                lambda: count([other]) == 4 * 1_000,
                PATIENCE_S,
                "every record at the other, also those two: they were never committed",
            )
            assert count(workers) == 2 and all(w.thread.is_alive() for w in workers), (
                "they wait, and neither fail nor end"
            )
            proxy.refuse(False)
            proxy.heal()
            wait_until(
                lambda: len(one._consumer.owned()) == 2 or len(one._consumer.owned()) == 3,
                PATIENCE_S,
                "its share again",
            )
            produce_numbered(kafka_broker.address, topic, 4, 1, start=1_000)
            wait_until(
                lambda: count([*workers, other]) == 4 * 1_001 + 2,
                PATIENCE_S,
                "what came then, once",
            )
            assert one.consumer_id != before and {
                m.offset for w in workers for m in w.taken[1:]
            } <= {1_000}


def test_a_program_that_forgets_to_shut_down_leaves_its_group_and_stores_what_is_processed(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("forgets"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    script = (
        "from consumer import ZookeeperConsumerConnector\nc ="
        f" ZookeeperConsumerConnector({{'zookeeper.connect': {kafka_zk_hosts!r}, 'group.id':"
        f" {topic!r}, 'auto.offset.reset': 'smallest'}}, guardian=False)\nstream ="
        f" c.create_message_streams({{{topic!r}: 1}})[{topic!r}][0]\nfound = [next(stream).offset"
        ' for _ in range(4)]\nprint(\'{"event": "took", "offsets": %s}\' % found,'
        " flush=True)\nraise SystemExit(0)\n"
    )
    with coordinator(kafka_zk_hosts), process(command=("-c", script)) as one:
        assert one.end() == 0, one.errors
        assert one.of("took")[0]["offsets"] == [0, 1, 2, 3]
        assert members(kafka_zk_hosts, topic) == []
    assert stored(kafka_zk_hosts, topic, topic, 1) == {0: 3}, (
        "the fourth was in hand, and may have been what ended the program"
    )


def test_a_forked_child_is_refused(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("forked"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 3)
    with coordinator(kafka_zk_hosts), connector(kafka_zk_hosts, topic) as one:
        (stream,) = one.create_message_streams({topic: 1})[topic]
        assert next(stream).offset == 0
        child = os.fork()
        if child == 0:
            status = 1
            try:
                next(stream)
            except ForkedConsumerError:
                one._consumer.close()
                status = 0
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(ended) == 0
        assert next(stream).offset == 1 and len(members(kafka_zk_hosts, topic)) == 1


@pytest.mark.parametrize("both", ["true", "false"])
def test_offsets_in_kafka_too_or_only_there(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, both: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("storage"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    storage = {"offsets.storage": "kafka", "dual.commit.enabled": both}
    with coordinator(kafka_zk_hosts):
        with connector(kafka_zk_hosts, topic, storage) as one:
            (stream,) = one.create_message_streams({topic: 1})[topic]
            assert [next(stream).offset for _ in range(10)] == list(range(10))
        with admin(kafka_broker.address) as client:
            assert {
                tp.partition: known.offset
                for tp, known in client.list_group_offsets([topic])[topic].items()
            } == {0: 10}
        assert both == "false" or stored(kafka_zk_hosts, topic, topic, 1) == {0: 10}
        produce_numbered(kafka_broker.address, topic, 1, 2, start=10)
        with connector(kafka_zk_hosts, topic, storage) as again:
            (stream,) = again.create_message_streams({topic: 1})[topic]
            assert [next(stream).offset for _ in range(2)] == [10, 11]
