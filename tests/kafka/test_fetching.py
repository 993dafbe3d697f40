"""The fetching side on a real broker: newcomers are not kept waiting by a long poll, those that
stay are not disturbed, nothing is handed out twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer import KafkaConsumer
from consumer.fetch.client import FetchClient
from consumer.options import check
from tests.harness.kafka import add_partitions, create_topic, produce, produce_numbered, unique
from tests.harness.wait import wait_until
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PATIENCE_S = 60.0
LONG_POLL_MS = 120_000


class Eater(threading.Thread):
    """The application: takes records until stopped."""

    def __init__(self, data: FetchClient) -> None:
        super().__init__(daemon=True)
        self.data = data
        self.taken: dict[TopicPartition, list[int]] = {}
        self.batches: list[dict[TopicPartition, int]] = []
        self.stopping = False
        self.gate = threading.Event()
        self.gate.set()
        self.start()

    def run(self) -> None:
        data = self.data
        while not self.stopping:
            self.gate.wait()
            data.wakeup.clear()
            data.housekeeping(False)
            with data.lock:
                records, enough = data.fetcher.take(50) if self.gate.is_set() else ({}, False)
            for tp, found in records.items():
                self.taken.setdefault(tp, []).extend(r.offset for r in found)
            if records:
                self.batches.append({tp: len(found) for tp, found in records.items()})
            if not enough:
                data.fetcher.send_fetches()
            if not records:
                limit = data.wait_ms()
                data.wakeup.wait(None if limit is None else limit / 1000)

    def count(self) -> int:
        return sum(map(len, self.taken.values()))


@contextmanager
def fetching(
    broker: KafkaBroker, first: dict[TopicPartition, int], **configs: Any
) -> Iterator[tuple[FetchClient, Eater]]:
    """A fetching side whose long polls are longer than any test waits for a newcomer."""
    chosen = {
        "bootstrap_servers": broker.address,
        "fetch_max_wait_ms": LONG_POLL_MS,
        "request_timeout_ms": 2 * LONG_POLL_MS,
        "auto_offset_reset": "earliest",
        **configs,
    }
    data = FetchClient(
        check(chosen).kafka_configs(broker.address), lambda tp, now: first.setdefault(tp, now)
    )
    eater = Eater(data)
    try:
        yield data, eater
    finally:
        eater.stopping = True
        eater.gate.set()
        data.wakeup.set()
        eater.join(PATIENCE_S)
        data.close()


def assign(data: FetchClient, topic: str, *numbers: int, offset: int = 0) -> None:
    data.add({TopicPartition(topic, n): OffsetAndMetadata(offset, "", -1) for n in numbers})


def long_poll_out(data: FetchClient) -> None:
    """Until a fetch of all that is assigned waits at the broker."""
    wait_until(
        lambda: (
            data.fetcher.waiting_for_broker
            and not data.fetcher._newcomers
            and not data.fetcher._completed_fetches
        ),
        PATIENCE_S,
        "a long poll",
    )


def arrived(data: FetchClient) -> set[TopicPartition]:
    """What something was fetched of that was not handed out yet."""
    with data.lock:
        data.fetcher._take_in()
        return set(data.fetcher._buffers._of)


def test_newcomers_are_fetched_while_a_long_poll_is_out(kafka_broker: KafkaBroker) -> None:
    """Also when several assignments follow each other, and when what they have is empty."""
    topic = create_topic(kafka_broker.address, unique("newcomers"), 8)
    produce_numbered(kafka_broker.address, topic, 4, 5)
    first: dict[TopicPartition, int] = {}
    with fetching(kafka_broker, first) as (data, eater):
        assign(data, topic, 4)
        long_poll_out(data)
        began = time.monotonic()
        for n in (0, 1, 5):
            assign(data, topic, n)
        assign(data, topic, 2, 3, 6, 7)
        wait_until(lambda: len(first) == 8 and eater.count() == 20, PATIENCE_S, "the first fetches")
        assert (
            time.monotonic() - began < LONG_POLL_MS / 1000 / 2 and data.fetcher.waiting_for_broker
        )
    assert all(offsets == list(range(5)) for offsets in eater.taken.values())


def test_a_newcomer_is_looked_after_until_the_long_poll_returns(kafka_broker: KafkaBroker) -> None:
    """A record that arrives after the first (empty) fetch, while the old long poll is still out."""
    topic = create_topic(kafka_broker.address, unique("bridge"), 2)
    first: dict[TopicPartition, int] = {}
    with fetching(kafka_broker, first) as (data, eater):
        assign(data, topic, 0)
        long_poll_out(data)
        assign(data, topic, 1)
        wait_until(lambda: TopicPartition(topic, 1) in first, PATIENCE_S, "the first fetch")
        produce(kafka_broker.address, topic, {1: [b"x"]})
        wait_until(lambda: eater.count() == 1, LONG_POLL_MS / 1000 / 2, "the record")
        assert data.fetcher.waiting_for_broker
        produce(kafka_broker.address, topic, {0: [b"y"], 1: [b"y"]})
        wait_until(lambda: eater.count() == 3, PATIENCE_S, "records of the main fetch")
    assert eater.taken == {TopicPartition(topic, 1): [0, 1], TopicPartition(topic, 0): [0]}


def test_those_that_stay_keep_their_fetch_and_their_place(kafka_broker: KafkaBroker) -> None:
    """Coming and going of others neither interrupts nor repeats anything."""
    topic = create_topic(kafka_broker.address, unique("stay"), 6)
    first: dict[TopicPartition, int] = {}
    stop = threading.Event()
    with fetching(kafka_broker, first, fetch_max_wait_ms=500) as (data, eater):
        assign(data, topic, 0)
        producer = threading.Thread(
            target=_produce_until, args=(kafka_broker, topic, stop), daemon=True
        )
        producer.start()
        for round_number in range(10):
            count = eater.count()
            assign(data, topic, 1, 2, 3, 4, 5)
            wait_until(
                lambda: eater.count() > count + 5, PATIENCE_S, f"records in round {round_number}"
            )
            data.remove([TopicPartition(topic, n) for n in (1, 2, 3, 4, 5)])
        stop.set()
        producer.join(PATIENCE_S)
    kept = eater.taken[TopicPartition(topic, 0)]
    assert kept == list(range(len(kept)))


def _produce_until(broker: KafkaBroker, topic: str, stop: threading.Event) -> None:
    while not stop.is_set():
        produce_numbered(broker.address, topic, 6, 3)


def test_removed_partitions_are_not_handed_out_and_come_back_where_told(
    kafka_broker: KafkaBroker,
) -> None:
    topic = create_topic(kafka_broker.address, unique("removed"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 300)
    first: dict[TopicPartition, int] = {}
    tp = TopicPartition(topic, 0)
    with fetching(kafka_broker, first) as (data, eater):
        assign(data, topic, 0)
        wait_until(lambda: eater.count() > 0, PATIENCE_S, "records")
        with data.lock:
            data.remove([tp])
            seen = eater.count()
        assert data.assigned() == set() and data.position(tp) is None
        assign(data, topic, 0, offset=290)
        wait_until(lambda: eater.taken[tp][-1] == 299, PATIENCE_S, "the rest")
    assert eater.taken[tp] == list(range(seen)) + list(range(290, 300)) or eater.taken[tp][
        -10:
    ] == list(range(290, 300))
    assert eater.count() <= seen + 60


def test_what_leaves_before_its_first_fetch_is_not_fetched(kafka_broker: KafkaBroker) -> None:
    topic = create_topic(kafka_broker.address, unique("brief"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 2)
    first: dict[TopicPartition, int] = {}
    with fetching(kafka_broker, first) as (data, eater):
        with data.lock:
            assign(data, topic, 0, 1)
            data.remove([TopicPartition(topic, 0)])
        wait_until(lambda: eater.count() == 2, PATIENCE_S, "the other's records")
        long_poll_out(data)
    assert set(first) == {TopicPartition(topic, 1)} and not data.fetcher._unseen


def test_held_partitions_stay_but_give_nothing(kafka_broker: KafkaBroker) -> None:
    """Also while others come, which would end a hold in kafka-python."""
    topic = create_topic(kafka_broker.address, unique("held"), 2)
    first: dict[TopicPartition, int] = {}
    held = TopicPartition(topic, 0)
    with fetching(kafka_broker, first, fetch_max_wait_ms=500) as (data, eater):
        assign(data, topic, 0)
        data.hold([held])
        assign(data, topic, 1)
        produce_numbered(kafka_broker.address, topic, 2, 3)
        wait_until(lambda: eater.count() == 3, PATIENCE_S, "the other's records")
        assert held not in eater.taken and held in data.assigned()
        data.hold([held], held=False)
        data.wakeup.set()
        wait_until(lambda: eater.count() == 6, PATIENCE_S, "the held records")


def test_a_backlog_does_not_silence_the_others(kafka_broker: KafkaBroker) -> None:
    """While one partition has hundreds of records buffered, another's new ones come within a few
    polls.
    """
    topic = create_topic(kafka_broker.address, unique("backlog"), 3)
    produce(
        kafka_broker.address,
        topic,
        {0: [b"x" * 10] * 4_000, 1: [b"x" * 10] * 4_000, 2: [b"x"] * 10},
    )
    first: dict[TopicPartition, int] = {}
    with fetching(kafka_broker, first, fetch_max_wait_ms=500) as (data, eater):
        assign(data, topic, 0, 1, 2)
        wait_until(lambda: eater.count() == 8_010, PATIENCE_S, "all records")
    turns = [n for n, batch in enumerate(eater.batches) if TopicPartition(topic, 2) in batch]
    backlog = [n for n, batch in enumerate(eater.batches) if TopicPartition(topic, 2) not in batch]
    assert turns[0] <= 4 and len(backlog) > 100
    both = [sorted(batch.values()) for batch in eater.batches[4:60]]
    assert both == [[25, 25]] * len(both), "the two backlogs get the same"
    for offsets in eater.taken.values():
        assert offsets == list(range(len(offsets)))


def test_a_backlog_that_comes_does_not_silence_those_that_stay(kafka_broker: KafkaBroker) -> None:
    """24 partitions come with 800 records each; a record of the one that stays, which arrives after
    all of them, comes within one round of turns.
    """
    topic = create_topic(kafka_broker.address, unique("newcomers"), 25)
    produce(kafka_broker.address, topic, {n: [b"x" * 10] * 800 for n in range(1, 25)})
    first: dict[TopicPartition, int] = {}
    kept = TopicPartition(topic, 0)
    with fetching(kafka_broker, first) as (data, eater):
        assign(data, topic, 0)
        long_poll_out(data)
        with data.lock:
            eater.gate.clear()
        assign(data, topic, *range(1, 25))
        wait_until(lambda: len(arrived(data)) == 24, PATIENCE_S, "the first responses of all")
        produce(kafka_broker.address, topic, {0: [b"now"]})
        wait_until(lambda: kept in arrived(data), PATIENCE_S, "the response with the record")
        eater.gate.set()
        wait_until(lambda: eater.count() == 19_201, PATIENCE_S, "all records")
    turn = next(n for n, batch in enumerate(eater.batches) if kept in batch)
    before = sum(sum(batch.values()) for batch in eater.batches[:turn])
    assert before <= 24 * 25, f"{before} of 19200 records came before it"


def test_a_backlog_does_not_wait_for_the_long_poll_that_was_sent_without_it(
    kafka_broker: KafkaBroker,
) -> None:
    """One partition is idle; its long poll is out while the other's records, more than one response
    holds, are handed out. Also after a seek, and after a pause.
    """
    topic = create_topic(kafka_broker.address, unique("idle"), 2)
    produce(kafka_broker.address, topic, {1: [b"x" * 5_000] * 500})
    first: dict[TopicPartition, int] = {}
    busy = TopicPartition(topic, 1)
    with fetching(kafka_broker, first) as (data, eater):
        eater.gate.clear()
        assign(data, topic, 0, 1)

        def sent_without_it() -> bool:
            data.fetcher.send_fetches()
            return data.fetcher.waiting_for_broker and not any(
                busy in asked for asked in data.fetcher._main.values()
            )

        wait_until(sent_without_it, PATIENCE_S, "enough of the backlog, and a long poll without it")
        assert eater.count() == 0
        eater.gate.set()
        data.wakeup.set()
        wait_until(
            lambda: eater.count() == 500, LONG_POLL_MS / 1000 / 2, "all records of the backlog"
        )
        assert data.fetcher.waiting_for_broker
        data.seek(busy, 490)
        data.wakeup.set()
        wait_until(lambda: eater.count() == 510, LONG_POLL_MS / 1000 / 2, "records after a seek")
        with data.lock:
            data.subscription.pause(busy)
            data.seek(busy, 495)
        data.wakeup.set()
        with data.lock:
            data.subscription.resume(busy)
        data.wakeup.set()
        wait_until(lambda: eater.count() == 515, LONG_POLL_MS / 1000 / 2, "records after a pause")
    assert eater.taken == {busy: [*range(500), *range(490, 500), *range(495, 500)]}


def test_what_is_fetched_ahead_stays_below_the_limit(kafka_broker: KafkaBroker) -> None:
    """An application that takes ten records at a time, from four partitions with half a megabyte
    each.
    """
    topic = create_topic(kafka_broker.address, unique("limit"), 4)
    produce(kafka_broker.address, topic, {n: [b"x" * 5_000] * 100 for n in range(4)})
    data = FetchClient(
        check({"bootstrap_servers": kafka_broker.address}).kafka_configs(kafka_broker.address)
    )
    limit = data.fetcher.max_buffered_bytes = 400_000
    taken: dict[TopicPartition, list[int]] = {}
    largest = 0

    def step() -> bool:
        nonlocal largest
        with data.lock:
            data.fetcher._take_in()
            largest = max(largest, data.fetcher._buffers.size)
            for tp, found in data.fetcher.take(10)[0].items():
                taken.setdefault(tp, []).extend(r.offset for r in found)
            most, least = (
                f([len(taken.get(TopicPartition(topic, n), ())) for n in range(4)])
                for f in (max, min)
            )
        data.fetcher.send_fetches()
        return least == 100 and most == 100

    try:
        assign(data, topic, 0, 1, 2, 3)
        wait_until(step, PATIENCE_S, "all records")
    finally:
        data.close()
    assert limit / 4 < largest <= limit and all(
        offsets == list(range(100)) for offsets in taken.values()
    )


@pytest.mark.parametrize("iterating", [False, True], ids=["poll", "iteration"])
def test_both_forms_of_reading_are_fair(kafka_broker: KafkaBroker, iterating: bool) -> None:
    """300 records over three partitions with a thousand each: 100 of each."""
    topic = create_topic(kafka_broker.address, unique("fair"), 3)
    produce(kafka_broker.address, topic, {n: [b"x" * 10] * 1_000 for n in range(3)})
    with KafkaConsumer(
        bootstrap_servers=kafka_broker.address,
        auto_offset_reset="earliest",
        max_poll_records=300,
        consumer_timeout_ms=PATIENCE_S * 1_000,
    ) as consumer:
        consumer.assign([TopicPartition(topic, n) for n in range(3)])
        wait_until(lambda: consumer.poll(100, max_records=1), PATIENCE_S, "the first record")
        wait_until(lambda: len(arrived(consumer._data)) == 3, PATIENCE_S, "all responses")
        for _ in range(3):
            if iterating:
                found = Counter(next(consumer).partition for _ in range(300))
            else:
                found = Counter(
                    {
                        tp.partition: len(records)
                        for tp, records in consumer.poll(PATIENCE_S * 1_000).items()
                    }
                )
            assert sum(found.values()) == 300 and max(found.values()) - min(found.values()) <= 1
        positions = {n: consumer.position(TopicPartition(topic, n)) for n in range(3)}
        assert (
            sum(positions.values()) == 901
            and max(positions.values()) - min(positions.values()) <= 1
        ), "as many as were handed out"


def test_what_is_buffered_is_not_fetched_again(kafka_broker: KafkaBroker) -> None:
    """A partition is fetched again when less than its share of a poll is left, and then from the
    end of that.
    """
    topic = create_topic(kafka_broker.address, unique("buffered"), 2)
    produce(kafka_broker.address, topic, {0: [b"x" * 10] * 299, 1: [b"x" * 10] * 400})
    data = FetchClient(
        check({"bootstrap_servers": kafka_broker.address}).kafka_configs(kafka_broker.address)
    )
    try:
        assign(data, topic, 0, 1)
        wait_until(lambda: len(data.fetcher._completed_fetches) == 2, PATIENCE_S, "both responses")
        with data.lock:
            for wanted in ({}, {0: 299}):
                found, _ = data.fetcher.take(50)
                assert {tp.partition: len(records) for tp, records in found.items()} == {
                    0: 25,
                    1: 25,
                }
                assert {
                    tp.partition: at.offset for tp, at in data.fetcher._wanted()[0].items()
                } == wanted, "249 are left, of a share of 250"
    finally:
        data.close()


def test_topics_that_do_not_exist_are_asked_for_without_noise_or_creation(
    kafka_broker: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = unique("ghost")
    first: dict[TopicPartition, int] = {}
    with caplog.at_level(logging.WARNING), fetching(kafka_broker, first) as (data, eater):
        data.prepare([topic])
        wait_until(lambda: data.fetcher._manager.cluster.brokers(), PATIENCE_S, "metadata")
        found: list[dict[TopicPartition, int]] = []
        data.resolve([TopicPartition(topic, 0)], found.append)
        wait_until(lambda: found, PATIENCE_S, "an answer")
        assert found == [{}] and topic not in data.kafka.topics()
        create_topic(kafka_broker.address, topic, 1)
        produce_numbered(kafka_broker.address, topic, 1, 1)
        assign(data, topic, 0)
        wait_until(lambda: eater.count() == 1, PATIENCE_S, "the record of the new topic")
    assert not [r for r in caplog.records if topic in r.getMessage()]


def test_what_left_and_came_back_is_found_after_metadata_was_refreshed(
    kafka_broker: KafkaBroker,
) -> None:
    """Its leader was known when it came back, so nobody had to ask for it; the refreshes that
    follow must not forget it.
    """
    topic = create_topic(kafka_broker.address, unique("back"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 3)
    first: dict[TopicPartition, int] = {}
    with fetching(kafka_broker, first, fetch_max_wait_ms=100, metadata_max_age_ms=200) as (
        data,
        eater,
    ):
        assign(data, topic, 0)
        wait_until(lambda: eater.count() == 3, PATIENCE_S, "the first records")
        data.remove([TopicPartition(topic, 0)])
        assign(data, topic, 0, offset=3)
        cluster = data.kafka._cluster
        for _ in range(2):
            before = cluster._last_successful_refresh_ms
            wait_until(
                lambda: cluster._last_successful_refresh_ms > before, PATIENCE_S, "a refresh"
            )
        produce_numbered(kafka_broker.address, topic, 1, 2, 3)
        wait_until(lambda: eater.count() == 5, PATIENCE_S, "what was written later")


def test_partitions_added_to_a_known_topic_are_found(kafka_broker: KafkaBroker) -> None:
    topic = create_topic(kafka_broker.address, unique("grown"), 1)
    first: dict[TopicPartition, int] = {}
    with fetching(kafka_broker, first) as (data, eater):
        assign(data, topic, 0)
        long_poll_out(data)
        add_partitions(kafka_broker.address, topic, 2)
        produce(kafka_broker.address, topic, {1: [b"x"]})
        assign(data, topic, 1)
        wait_until(lambda: eater.count() == 1, PATIENCE_S, "the record of the new partition")
        assert data.fetcher.waiting_for_broker, (
            "the old long poll is still out: neither the metadata nor the record waited for it"
        )


def test_offsets_are_looked_up_while_a_long_poll_is_out(kafka_broker: KafkaBroker) -> None:
    topic = create_topic(kafka_broker.address, unique("meanwhile"), 2)
    produce(kafka_broker.address, topic, {1: [b"x"] * 3})
    first: dict[TopicPartition, int] = {}
    with fetching(kafka_broker, first, auto_offset_reset="latest") as (data, _eater):
        assign(data, topic, 0)
        long_poll_out(data)
        found: list[dict[TopicPartition, int]] = []
        data.resolve([TopicPartition(topic, 1)], found.append)
        wait_until(lambda: found, LONG_POLL_MS / 1000 / 2, "an answer")
        assert found == [{TopicPartition(topic, 1): 3}]


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 0), ("latest", 6)])
def test_offsets_are_looked_up_without_the_application(
    kafka_broker: KafkaBroker, policy: str, expected: int
) -> None:
    topic = create_topic(kafka_broker.address, unique("lookup"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 6)
    data = FetchClient(
        check(
            {"bootstrap_servers": kafka_broker.address, "auto_offset_reset": policy}
        ).kafka_configs(kafka_broker.address)
    )
    found: list[dict[TopicPartition, int]] = []
    wanted = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert data.resolve(wanted, found.append)
    wait_until(lambda: found, PATIENCE_S, "an answer")
    data.close()
    assert found == [dict.fromkeys(wanted, expected)]


def test_without_a_policy_nothing_is_looked_up(kafka_broker: KafkaBroker) -> None:
    data = FetchClient(
        check(
            {"bootstrap_servers": kafka_broker.address, "auto_offset_reset": "none"}
        ).kafka_configs(kafka_broker.address)
    )
    assert data.resolve([TopicPartition("t", 0)], lambda found: None) is False
    data.close()


def test_an_offset_that_is_gone_follows_the_policy(kafka_broker: KafkaBroker) -> None:
    topic = create_topic(kafka_broker.address, unique("range"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 3)
    first: dict[TopicPartition, int] = {}
    with fetching(kafka_broker, first) as (data, eater):
        assign(data, topic, 0, offset=1_000)
        wait_until(lambda: eater.count() == 3, PATIENCE_S, "records from the beginning")
