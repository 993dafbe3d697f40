"""`close()` and `wakeup()` in a signal handler, at any instruction of real consumers."""

from __future__ import annotations

import pytest

from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import coordinator
from tests.kafka.signals import HANG_S, SOON_S, Outcome, cases, run, wrong_with
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 3
RECORDS = 8_000


@pytest.mark.parametrize("signals", [20, pytest.param(500, marks=pytest.mark.nightly)])
def test_a_signal_at_any_moment_ends_a_consumer_in_order(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, signals: int, record_testsuite_property: object
) -> None:
    """No process hangs, each ends as if nothing had interrupted it, and what is stored is what its
    application was given, or has committed.
    """
    topic = create_topic(kafka_broker.address, unique("signals"), PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, RECORDS)
    wrong, took = [], []
    with coordinator(kafka_zk_hosts):
        for case in cases(kafka_zk_hosts, topic, signals, seed=signals):
            outcome = run(case)
            took.append(outcome.seconds)
            said = wrong_with(outcome, stored(kafka_zk_hosts, outcome))
            if said:
                wrong.append(f"{case}: {said}\n{outcome.errors}")
    late = sum(seconds > SOON_S for seconds in took)
    print(f"{signals} signals, the slowest end {max(took):.2f} s after; {late} after {SOON_S} s")
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
