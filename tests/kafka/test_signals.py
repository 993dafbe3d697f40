"""`close()` and `wakeup()` in a signal handler, at any instruction of real consumers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import IllegalStateError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, consumer, coordinator
from tests.kafka.signals import HANG_S, SOON_S, Case, Outcome, cases, run, wrong_with
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 3
RECORDS = 8_000
AT_A_TIME = 2


@pytest.mark.parametrize("signals", [20, pytest.param(500, marks=pytest.mark.nightly)])
def test_a_signal_at_any_moment_ends_a_consumer_in_order(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, signals: int
) -> None:
    """No process hangs, each ends as if nothing had interrupted it, and what is stored is what its
    application was given, or has committed.
    """
    topic = create_topic(kafka_broker.address, unique("signals"), PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, RECORDS)
    wrong, took, slow = [], [], []

    def judged(case: Case) -> tuple[Outcome, str]:
        outcome = run(case)
        return outcome, wrong_with(outcome, stored(kafka_zk_hosts, outcome))

    with coordinator(kafka_zk_hosts), ThreadPoolExecutor(AT_A_TIME) as running:
        for outcome, said in running.map(
            judged, cases(kafka_zk_hosts, topic, signals, seed=signals)
        ):
            case = outcome.case
            took.append(outcome.seconds)
            if outcome.seconds > SOON_S:
                slow.append(f"{outcome.seconds:.1f} s: {case.work}, {case.handler}, {case.client}")
            if said:
                wrong.append(f"{case}: {said}\n{outcome.errors}")
            if len(took) % 50 == 0:
                print(f"{len(took)} signals, {len(wrong)} wrong, slow: {slow}", flush=True)
    print(f"{signals} signals, the slowest end {max(took):.2f} s after; after {SOON_S} s: {slow}")
    assert not wrong, "\n\n".join(wrong)
    assert max(took) < HANG_S


def stored(hosts: str, outcome: Outcome) -> dict[str, int]:
    """Next offsets in ZooKeeper, by partition."""
    root = f"/consumers/{outcome.case.group}/offsets/{outcome.case.topic}"
    zookeeper = connect(hosts)
    try:
        if zookeeper.exists(root) is None:
            return {}
        return {
            partition: int(zookeeper.get(f"{root}/{partition}")[0])
            for partition in zookeeper.get_children(root)
        }
    finally:
        disconnect(zookeeper)


def test_close_of_another_thread_ends_a_poll_that_waits(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """The poll gives nothing, at once; what comes later finds it closed; iteration ends."""
    topic = create_topic(kafka_broker.address, unique("elsewhere"), 1)
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as one:
        wait_until(lambda: one.poll(20) == {} and one.assignment(), PATIENCE_S, "the assignment")
        answers: list[object] = []
        polling = threading.Thread(target=lambda: answers.append(one.poll(600_000)))
        polling.start()
        one.close()
        polling.join(PATIENCE_S)
        assert answers == [{}] and list(one) == []
        with pytest.raises(IllegalStateError, match="closed"):
            one.poll()


@pytest.mark.parametrize("way", ["poll", "iterate"])
def test_wakeup_ends_what_waits_and_the_consumer_goes_on(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, way: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("wakeup"), 1)
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as one:
        one.config["consumer_timeout_ms"] = 600_000
        wait_until(lambda: one.poll(20) == {} and one.assignment(), PATIENCE_S, "the assignment")
        for early in (True, False):
            if early:  # nothing waits yet: it counts for the next
                one.wakeup()
            else:
                threading.Timer(0.1, one.wakeup).start()
            assert (one.poll(600_000) if way == "poll" else dict(enumerate(one))) == {}
        produce_numbered(kafka_broker.address, topic, 1, 1)
        assert next(one).value == b"0:0"


def test_close_in_a_callback_closes_as_the_poll_ends(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """What the callback does after it still works: it is not closed under its feet."""
    topic = create_topic(kafka_broker.address, unique("callback"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 3)
    tp = TopicPartition(topic, 0)
    seen: list[object] = []

    class Closing(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: object) -> None:
            one.close()
            seen.append(one.position(tp))
            one.commit({tp: OffsetAndMetadata(2, "", -1)})
            seen.append(one.committed(tp))

        def on_partitions_revoked(self, revoked: object) -> None:
            seen.append(revoked)

    with coordinator(kafka_zk_hosts):
        one = consumer(kafka_zk_hosts, topic, enable_auto_commit=False)
        one.subscribe([topic], listener=Closing())
        with pytest.raises(IllegalStateError, match="closed"):
            wait_until(lambda: one.poll(200), PATIENCE_S, "an end")
        assert seen == [0, 2, {tp}]
        with consumer(kafka_zk_hosts, topic, topic) as two:
            assert next(two).value == b"0:2"
