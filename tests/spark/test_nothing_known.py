"""Nothing known is never the same as nothing to do: a query that shall read what is there now ends
in success when it has read that, waits for its group, and says what it cannot learn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from consumer.errors import StartRefusedError
from consumer.spark.decode.errors import NoBrokerError, TopicUnknownError
from consumer.spark.progress import aim, arrived
from tests.harness.kafka import produce_numbered
from tests.harness.wait import wait_until
from tests.spark.conftest import PARTITIONS, Start
from tests.spark.engine import PATIENCE_S, Checkpoint, Crash, Query, Sink
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka
EACH = 25


def every(topic: str, each: int = EACH) -> Sink:
    """Each record once."""
    return Sink({(topic, n, offset): 1 for n in range(PARTITIONS) for offset in range(each)})


def test_once_reads_all_that_is_there_in_its_one_batch_also_of_a_new_group(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    """Trigger.Once asks for all that is available, once: by then the member has not even joined."""
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink = Sink()
    query = start(Checkpoint(), sink, maxOffsetsPerTrigger="10")
    query.limit = ReadAllAvailable()
    assert query.trigger() == PARTITIONS * EACH and sink == every(topic)


def test_sparks_other_triggers_never_ask_for_all_that_is_available(start: Start) -> None:
    """So that is Trigger.Once."""
    query = start(Checkpoint(), Sink())
    assert not isinstance(query.reader.getDefaultReadLimit(), ReadAllAvailable)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "no-topic-of-that-name"}, "there is no topic no-topic-of-that-name"),
        ({"subscribe": "", "subscribePattern": "no-topic.*"}, "subscribePattern ('no-topic.*')"),
    ],
    ids=["subscribe", "pattern"],
)
def test_an_unknown_topic_is_an_error_where_a_query_reads_what_is_there_now(
    start: Start, given: Mapping[str, str], said: str
) -> None:
    query = start(Checkpoint(), Sink(), **given)
    with pytest.raises(TopicUnknownError) as raised:
        query.reader.prepareForTriggerAvailableNow()
    assert said in str(raised.value)
    once = start(Checkpoint(), Sink(), **given)
    once.limit = ReadAllAvailable()
    with pytest.raises(TopicUnknownError):
        once.trigger()


def test_brokers_that_do_not_say_where_logs_end_are_an_error(
    start: Start, kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition without an answer is enough, and its neighbours' answers do not hide it."""
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    member = start(Checkpoint(), Sink()).reader._membership()
    ask, mute = member.ends.ask, TopicPartition(topic, 2)
    monkeypatch.setattr(
        member.ends,
        "ask",
        lambda specs: {tp: end for tp, end in ask(specs).items() if tp != mute},
    )
    with pytest.raises(NoBrokerError) as raised:
        aim(member, 1.0)
    assert f"where the logs of {mute} end" in str(raised.value)


def test_a_query_whose_partitions_are_nobodys_has_not_arrived(
    start: Start, kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was this query's when it began may be given up and not be anybody else's yet."""
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    query = start(Checkpoint(), Sink())
    query.reader.prepareForTriggerAvailableNow()
    member = query.reader._membership()
    lacking = TopicPartition(topic, 1)
    with member.assignment.lock:
        del member.assignment.owned[lacking]
    read = member.session.read_owners
    monkeypatch.setattr(
        member.session,
        "read_owners",
        lambda partitions: {tp: o for tp, o in read(partitions).items() if tp != lacking},
    )
    assert query.trigger() == (PARTITIONS - 1) * EACH
    member.commit_written(query.reader._parsed(query.start))
    assert not arrived(member, 1.0)


def test_the_lag_of_a_progress_is_that_behind_the_batch_that_it_reports(
    start: Start, kafka_broker: KafkaBroker, group: str, topic: str
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    query = start(Checkpoint(), Sink())
    planned: list[Query] = []

    def whole() -> bool:
        steps = query.steps()
        if next(steps, None) is Crash.PLANNED:
            said = query.reader.reportLatestOffset()
            ranges = query.reader._membership().planner.running
            assert ranges is not None
            ends = {str(r.tp): r.end for r in ranges.ranges}
            for tp, behind in said["lagByPartition"].items():
                assert behind == EACH - ends.get(tp, 0)
            assert said["metrics"]["maxOffsetsBehindLatest"] == max(said["lagByPartition"].values())
            list(steps)
            planned.append(query)
        return sum(query.sink.values()) == PARTITIONS * EACH

    wait_until(whole, PATIENCE_S, "everything")
    assert planned
    said = query.reader.reportLatestOffset()
    assert said["description"] == f"zkcoord[group {group}: {topic}]"
    assert (said["lag"], said["lagUnknown"]) == (0, 0)


def test_an_offset_behind_the_end_of_a_log_is_refused_as_what_it_is(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    far = json.dumps({topic: {"0": 1_000}})
    query = start(Checkpoint(), Sink(), startingOffsets=far)
    with pytest.raises(StartRefusedError) as raised:
        wait_until(lambda: query.trigger() < 0, PATIENCE_S, "the refusal")
    assert f"startingOffsets begins {topic}-0 at 1000, and its log ends at {EACH}" in str(
        raised.value
    )
    query.stop()
    sink = Sink()
    tolerant = start(Checkpoint(), sink, startingOffsets=far, failOnDataLoss="false")
    wait_until(
        lambda: tolerant.trigger() >= 0 and len(sink) == (PARTITIONS - 1) * EACH,
        PATIENCE_S,
        "the others, from their first record",
    )
    assert not any(partition == 0 for _, partition, _ in sink)
