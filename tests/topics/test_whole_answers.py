"""Answers of all topics, read by the one before, say what kafka-python's own decoder says."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataResponse

from zkcoord.core.model import Malformed
from zkcoord.topics.whole_answers import NEWEST, OLDEST, WholeAnswers, WholeReading

KINDS = ("create", "delete", "grow", "move", "again", "error", "order", "broker")
Topic = MetadataResponse.MetadataResponseTopic
Partition = Topic.MetadataResponsePartition
TAIL_BYTES = 3  # of the newest version: an error, no other fields
versions = st.integers(OLDEST, NEWEST)


@dataclass(frozen=True)
class One:
    """A topic."""

    id: uuid.UUID
    partitions: int
    epoch: int = 0
    error: int = 0

    def encoded(self, name: str) -> Any:
        """As kafka-python has it."""
        return Topic(
            error_code=self.error,
            name=name,
            topic_id=self.id,
            is_internal=False,
            partitions=[
                Partition(
                    error_code=0,
                    partition_index=n,
                    leader_id=(n + self.epoch) % 3,
                    leader_epoch=self.epoch,
                    replica_nodes=[0, 1, 2] * (1 + 60 * (self.epoch == 7)),
                    isr_nodes=[n % 3] * (self.epoch % 4),
                    offline_replicas=[],
                )
                for n in range(self.partitions)
            ],
        )


class Said:
    """A cluster of which answers say everything, in any order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.brokers = 3
        self.topics: dict[str, One] = {}
        self.count = 0
        for _ in range(self.random.choice((0, 1, 5, 30))):
            self.change("create")

    def change(self, what: str) -> None:
        """One thing of it."""
        name = self.random.choice(list(self.topics)) if self.topics else ""
        if what == "create" or not name:
            self.count += 1
            long = self.random.choice((1, 1, 1, 130, 200))
            partitions = self.random.choice((1, 3, 5, 5, 5, 130))
            self.topics[f"{'t' * long}{self.count}"] = One(self._id(), partitions)
        elif what == "delete":
            del self.topics[name]
        elif what == "order":
            named = list(self.topics.items())
            self.random.shuffle(named)
            self.topics = dict(named)
        elif what == "broker":
            self.brokers = self.random.randrange(1, 5)
        else:
            one = self.topics[name]
            self.topics[name] = {
                "grow": replace(one, partitions=one.partitions + 1),
                "move": replace(one, epoch=one.epoch + 1),
                "again": replace(one, id=self._id()),
                "error": replace(one, error=5 - one.error),
            }[what]

    def _id(self) -> uuid.UUID:
        return uuid.UUID(int=self.random.getrandbits(128))

    def answer(self, version: int, at: int = 0, *more: Any) -> bytes:
        """Of all topics; `more` stand at that place."""
        topics = [one.encoded(name) for name, one in self.topics.items()]
        topics[at:at] = more
        broker = MetadataResponse.MetadataResponseBroker
        brokers = [
            broker(node_id=n, host=f"host-{n}", port=9092, rack=f"r{n}" if n else None)
            for n in range(self.brokers)
        ]
        response = MetadataResponse(
            throttle_time_ms=0,
            brokers=brokers,
            cluster_id="c",
            controller_id=1,
            topics=topics,
        )
        return bytes(response.encode(version=version))


class Reader:
    """Takes readings together, as who asks does."""

    def __init__(self) -> None:
        self.answers = WholeAnswers()
        self.topics: dict[str, object] = {}
        self.last: WholeReading | None = None

    def reads(self, version: int, data: bytes) -> bool:
        """Whether it can be read; it says what kafka-python says then, or nothing has happened."""
        reading = self.answers.read(version, data)
        if isinstance(reading, Malformed):
            return False
        for name in reading.gone:
            del self.topics[name]
        self.topics |= {
            one.name: (one.error_code, one.topic_id, reading.partitions[one.name])
            for one in reading.response.topics
        }
        whole = MetadataResponse.decode(data, version=version)
        assert self.topics == looked_at(whole)
        assert reading.response.brokers == whole.brokers
        assert reading.response.cluster_id == whole.cluster_id
        self.last = reading
        return True


def looked_at(response: Any) -> dict[str, object]:
    """What is looked at of topics."""
    return {
        one.name: (one.error_code, one.topic_id, len(one.partitions)) for one in response.topics
    }


@given(st.integers(), st.lists(st.lists(st.sampled_from(KINDS), max_size=3)), st.data())
def test_what_is_read_by_the_one_before_is_what_is_said(
    seed: int, steps: list[list[str]], data: st.DataObject
) -> None:
    said, reader = Said(seed), Reader()
    version = data.draw(versions)
    assert reader.reads(version, said.answer(version))
    for step in steps:
        for what in step:
            said.change(what)
        if data.draw(st.integers(0, 5)) == 0:
            version = data.draw(versions)  # of a broker of another release
        assert reader.reads(version, said.answer(version))


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_only_what_is_not_as_before_is_decoded(version: int) -> None:
    said, reader = Said(0), Reader()
    for _ in range(50):
        said.change("create")
    names = list(said.topics)
    assert reader.reads(version, said.answer(version))
    assert reader.last is not None and len(reader.last.response.topics) == len(said.topics)
    said.change("order")
    for name in names:
        said.topics[name] = replace(said.topics[name], epoch=3)
    assert reader.reads(version, said.answer(version))
    assert not reader.last.response.topics, "only leaders are others"
    said.brokers = 1
    assert reader.reads(version, said.answer(version))
    assert not reader.last.response.topics, "all of them stand elsewhere"
    said.change("order")
    assert reader.reads(version, said.answer(version))
    assert not reader.last.response.topics
    said.topics[names[7]] = replace(said.topics[names[7]], partitions=9)
    del said.topics[names[0]], said.topics[names[20]]
    said.topics["new"] = One(uuid.uuid4(), 1)
    assert reader.reads(version, said.answer(version))
    assert {one.name for one in reader.last.response.topics} == {names[7], "new"}
    assert reader.last.gone == {names[0], names[20]}


@given(st.integers(), versions)
def test_an_answer_that_is_cut_off_is_refused_and_loses_nothing(seed: int, version: int) -> None:
    said, reader = Said(seed), Reader()
    assert reader.reads(version, said.answer(version))
    for what in KINDS:
        said.change(what)
    whole = said.answer(version)
    for size in said.random.sample(range(len(whole)), min(30, len(whole))):
        assert not reader.reads(version, whole[:size])
    assert not reader.reads(version, whole + b"\0")
    assert reader.reads(version, whole)


@given(st.integers(), versions)
def test_of_an_answer_with_other_bytes_nothing_else_is_said(seed: int, version: int) -> None:
    """It is refused, or it says what kafka-python says of it."""
    said, reader = Said(seed), Reader()
    assert reader.reads(version, said.answer(version))
    for what in KINDS:
        said.change(what)
    whole = said.answer(version)
    for _ in range(30):
        other = bytearray(whole)
        for _ in range(said.random.choice((1, 1, 3))):
            other[said.random.randrange(len(other))] = said.random.choice((0, 1, 2, 127, 128, 255))
        reader.reads(version, bytes(other))
    assert reader.reads(version, whole)


def test_a_topic_that_is_named_twice() -> None:
    said, reader = Said(0), Reader()
    for _ in range(5):
        said.change("create")
    assert reader.reads(NEWEST, said.answer(NEWEST))
    for again in list(said.topics)[0], list(said.topics)[-1]:
        for at in range(len(said.topics) + 1):
            twice = said.topics[again].encoded(again)
            assert not reader.reads(NEWEST, said.answer(NEWEST, at, twice))
    assert reader.reads(NEWEST, said.answer(NEWEST))

    twice = One(uuid.uuid4(), 1).encoded("twice")
    assert not reader.reads(NEWEST, said.answer(NEWEST, 2, twice, twice))
    assert not Reader().reads(NEWEST, said.answer(NEWEST, 2, twice, twice))


def test_topics_are_as_many_as_it_says() -> None:
    said, reader = Said(0), Reader()
    for _ in range(5):
        said.change("create")
    whole = said.answer(NEWEST)
    assert reader.reads(NEWEST, whole)
    said.brokers = 0
    empty = said.answer(NEWEST)
    at = 4 + 1 + 2 + 4  # behind how many brokers there are, the cluster's id and the controller
    assert reader.reads(NEWEST, empty) and empty[at] == len(said.topics) + 1
    for count in set(range(len(said.topics) + 4)) - {empty[at]}:
        assert not reader.reads(NEWEST, empty[:at] + bytes([count]) + empty[at + 1 :])
    assert reader.reads(NEWEST, whole)


def test_what_ends_as_before_may_not_be_the_same() -> None:
    """The last topic's bytes stand in a field of another one, of which nobody knows anything."""
    said, reader = Said(0), Reader()
    for _ in range(5):
        said.change("create")
    said.brokers = 0
    last = "small"
    said.topics[last] = One(uuid.uuid4(), 1)
    one = said.answer(NEWEST)
    assert reader.reads(NEWEST, one)
    del said.topics[last]
    other = said.answer(NEWEST)
    rest = one[len(other) - TAIL_BYTES :]  # the last topic, and the end of the answer
    topic = rest[:-TAIL_BYTES]
    assert len(topic) < 128
    crafted = other[: -TAIL_BYTES - 1] + bytes([1, 5, len(topic)]) + rest
    assert reader.reads(NEWEST, crafted) and last not in reader.topics


def test_brokers_of_two_releases_differ_in_how_they_say_it() -> None:
    said, reader = Said(0), Reader()
    for _ in range(5):
        said.change("create")
    for version in (9, NEWEST, 9):
        assert reader.reads(version, said.answer(version))
        said.change("delete")
        said.change("create")


def test_partitions_are_counted_and_not_made() -> None:
    """One topic of 4,500,000 was 48 s of work and 1.8 GB."""
    said, reader = Said(0), Reader()
    said.topics["many"] = One(uuid.uuid4(), 300)
    for version in range(OLDEST, NEWEST + 1):
        reader = Reader()
        assert reader.reads(version, said.answer(version)) and reader.last is not None
        assert reader.last.partitions["many"] == 300
        assert not any(one.partitions for one in reader.last.response.topics)


def test_why_it_is_refused_is_one_sentence() -> None:
    said = Said(0)
    said.change("create")
    whole = said.answer(NEWEST)
    found = WholeAnswers().read(NEWEST, whole[:-3])
    assert isinstance(found, Malformed) and found.what == "answer" and found.reason
    assert isinstance(WholeAnswers().read(NEWEST, b""), Malformed)
    for name in ("", None):
        nameless = One(uuid.uuid4(), 1).encoded("")
        nameless.name = name
        refused = WholeAnswers().read(NEWEST, said.answer(NEWEST, 0, nameless))
        assert isinstance(refused, Malformed) and "without a name" in refused.reason
