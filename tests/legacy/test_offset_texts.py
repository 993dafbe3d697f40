"""Texts in offset nodes: what real old consumers begin at, or do instead, beside what we read; and
a member of ours before one that is no offset.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.structs import TopicPartition
from kazoo.client import KazooClient

from consumer.errors import UnreadableOffsetError
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import Taken, consumer, coordinator, drain, take
from tests.legacy.consumers import LegacyConsumer, LegacyProcess
from tests.legacy.jars import RELEASES, V1_1
from zkcoord.core.model import Malformed
from zkcoord.core.model import TopicPartition as Partition
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.codec import decode_offset

WAIT_S = 120.0
RECORDS = 30
TEXTS = (
    b"17",
    b"+17",
    b"0017",
    b"00000000000000000000000000000000017",
    "\u0661\u0667".encode(),
    "\uff11\uff17".encode(),
    b"-0",
    b"17\n",
    b" 17",
    b"17 ",
    b"17L",
    b"0x11",
    b"1e1",
    b"17.0",
    b"1_7",
    b"1,7",
    b"",
    b"null",
    b"NaN",
    b"+",
    b"-",
    b"--17",
    b"\xff17",
    b"\x0017",
    b"9223372036854775808",
    b'"17"',
)
pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def begins_at(member: LegacyConsumer, topic: str) -> int | None:
    """The first record that it delivered; None: it gave up."""

    def found() -> list[int] | None:
        records = member.records.get(Partition(topic, 0))
        return records[:1] if records else ([-1] if member.gave_up() else None)

    (first,) = wait_until(found, WAIT_S, f"what {member.id} does")
    return None if first < 0 else first


@pytest.mark.parametrize(
    "version",
    [V1_1, *(pytest.param(v, marks=pytest.mark.nightly) for v in RELEASES if v != V1_1)],
)
def test_old_consumers_begin_where_we_say(
    version: str,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    looking: KazooClient,
    java: Java,
    tmp_path: Path,
) -> None:
    topic = create_topic(kafka_broker.address, unique("texts"), 1)
    produce_numbered(kafka_broker.address, topic, 1, RECORDS)
    with LegacyProcess(tmp_path / "legacy", version, kafka_zk_hosts, java) as process:
        members: dict[bytes, LegacyConsumer] = {}
        for text in TEXTS:
            group = unique("group")
            looking.create(f"/consumers/{group}/offsets/{topic}/0", text, makepath=True)
            members[text] = process.consumer(
                group,
                {topic: 1},
                name="A",
                wait=False,
                rebalance_backoff_ms=200,
                auto_commit_enable="false",
            )
        real = {text: begins_at(member, topic) for text, member in members.items()}
    said = {text: decode_offset("0", text) for text in TEXTS}
    assert real == {
        text: None if isinstance(offset, Malformed) else offset for text, offset in said.items()
    }


def test_a_text_that_is_no_offset_stops_its_partition_alone(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, looking: KazooClient
) -> None:
    """Nothing is skipped and nothing overwritten: poll says which node it is, once, and goes on
    with the other partition; corrected, it is consumed from there.
    """
    topic, group = create_topic(kafka_broker.address, unique("texts"), 2), unique("group")
    produce_numbered(kafka_broker.address, topic, 2, RECORDS)
    node = f"/consumers/{group}/offsets/{topic}/0"
    looking.create(node, b"17\n", makepath=True)
    taken: Taken = {}
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, group, topic, auto_offset_reset="latest") as member,
    ):
        raised: list[UnreadableOffsetError] = []

        def polled() -> bool:
            try:
                take(member, taken)
            except UnreadableOffsetError as error:
                raised.append(error)
            return bool(raised) and bool(member.assignment())

        wait_until(polled, WAIT_S, "the error, and the other partition")
        assert raised[0].node == node and raised[0].partition == (topic, 0)
        assert node in str(raised[0]) and "zkcoord offsets reset" in str(raised[0])
        produce_numbered(kafka_broker.address, topic, 2, RECORDS)
        drain([member], taken, RECORDS)
        assert member.assignment() == {TopicPartition(topic, 1)} and len(raised) == 1
        assert looking.get(node)[0] == b"17\n"
        looking.set(node, b"+17")
        drain([member], taken, RECORDS + 2 * RECORDS - 17)
        assert taken[topic, 0] == list(range(17, 2 * RECORDS)) and len(raised) == 1
