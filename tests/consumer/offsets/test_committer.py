"""Commits: answers by name, retries while ZooKeeper is away, limits, and automatic ones."""

from __future__ import annotations

import threading
from io import BytesIO
from typing import Any

import pytest
from kafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
)
from kafka.protocol.schemas.fields.codecs.types import String
from kafka.structs import OffsetAndMetadata

from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
from consumer.errors import CommitRefusedError, CommitUnavailableError, NotOwnedError
from consumer.offsets.committer import Committer, needs_group, numbers_of
from tests.consumer.fakes import Bench, model, tp
from tests.harness.wait import wait_until
from zkcoord.zk.clock import boot_ms


class Answering:
    """A bench whose member answers every commit with the next outcome, on another thread."""

    def __init__(
        self, *outcomes: CommitOutcome, interval_ms: int | None = None, timeout_ms: int = 5_000
    ) -> None:
        self.bench = Bench()
        self.outcomes = list(outcomes)
        self.commits: list[msg.Commit] = []
        self.calls: list[tuple[Any, Any]] = []
        self.committer = Committer(
            self.bench.state,
            lambda offsets, answer: self.calls.append((offsets, answer)),
            interval_ms,
            timeout_ms,
        )
        self.bench.state.send = self._tell

    def _tell(self, message: msg.FromFetcher) -> None:
        if isinstance(message, msg.Commit):
            self.commits.append(message)
            if self.outcomes:
                done = msg.CommitDone(message.token, self.outcomes.pop(0), tuple(message.offsets))
                threading.Thread(target=lambda: self.committer.answered(done), daemon=True).start()


def test_a_commit_that_was_stored_is_known() -> None:
    a = Answering(CommitOutcome.OK)
    a.committer.wait({tp(0): 5}, None)
    assert a.commits[0].offsets == {model(0)[0]: 5} and a.bench.stored() == {0: 5}


def test_a_commit_for_partitions_of_others_names_them() -> None:
    a = Answering(CommitOutcome.NOT_OWNED)
    with pytest.raises(NotOwnedError) as caught:
        a.committer.wait({tp(3): 5}, None)
    assert (
        isinstance(caught.value, CommitFailedError)
        and caught.value.partitions == (("t", 3),)
        and "t-3" in str(caught.value)
    )


def test_a_commit_of_nobody_is_refused() -> None:
    with pytest.raises(CommitFailedError):
        Answering(CommitOutcome.NO_LONGER_MEMBER).committer.wait({tp(3): 5}, None)


def test_a_commit_is_tried_again_while_zookeeper_is_away() -> None:
    a = Answering(CommitOutcome.UNAVAILABLE, CommitOutcome.UNAVAILABLE, CommitOutcome.OK)
    a.committer.wait({tp(0): 5}, None)
    assert len(a.commits) == 3


@pytest.mark.parametrize("outcomes", [(), (CommitOutcome.UNAVAILABLE,) * 50])
def test_a_commit_ends_within_its_limit(outcomes: tuple[CommitOutcome, ...]) -> None:
    a = Answering(*outcomes)
    with pytest.raises(CommitUnavailableError) as caught:
        a.committer.wait({tp(0): 5}, 150)
    assert (
        isinstance(caught.value, KafkaTimeoutError)
        and caught.value.retriable
        and not a.committer._pending
    )


def test_committing_nothing_asks_nobody() -> None:
    a = Answering()
    a.committer.wait({}, None)
    assert not a.commits


def test_a_callback_runs_on_the_application_thread() -> None:
    a = Answering(CommitOutcome.OK, CommitOutcome.NOT_OWNED)
    got: list[Any] = []
    offsets = {tp(0): OffsetAndMetadata(5, "", -1)}
    futures = [a.committer.start(offsets, lambda o, answer: got.append(answer)) for _ in range(2)]
    wait_until(lambda: all(f.is_done for f in futures), 10, "both answers")
    assert not got, "not on the member's thread"
    a.committer.run_callbacks()
    assert [type(answer).__name__ for answer in sorted(got, key=str)] == [
        "NoneType",
        "NotOwnedError",
    ]
    assert {f.succeeded() for f in futures} == {True, False}


def test_what_a_commit_gives_is_what_kafka_python_gives() -> None:
    """None to the future and to every callback, also of commits of nothing and automatic ones."""
    a = Answering(CommitOutcome.OK, CommitOutcome.OK, interval_ms=1)
    got: list[Any] = []
    futures = [
        a.committer.start(offsets, lambda o, answer: got.append((o, answer)))
        for offsets in ({tp(0): 5}, {})
    ]
    a.bench.assign(1)
    a.bench.hand_out(1, 5)
    a.committer.automatic(boot_ms() + 1_000)
    wait_until(lambda: a.bench.stored() == {0: 5, 1: 15}, 10, "both commits")
    a.committer.run_callbacks()
    assert [f.value for f in futures] == [None, None] and all(f.succeeded() for f in futures)
    assert sorted(got, key=str) == [({tp(0): 5}, None), ({}, None)]
    assert [answer for _, answer in a.calls] == [None]


def test_metadata_goes_with_its_offset() -> None:
    a = Answering(CommitOutcome.OK)
    given = {
        tp(0): OffsetAndMetadata(5, "why", 3),
        tp(1): OffsetAndMetadata(6, None, -1),
        tp(2): 7,
        tp(3): OffsetAndMetadata(8, 9, -1),
    }
    a.committer.wait(given, None)
    (zero, three) = model(0, 3)
    assert a.commits[0].metadata == {zero: "why", three: "9"}
    assert a.bench.state.ledger.committed[tp(0)] == OffsetAndMetadata(5, "why", -1)
    assert a.bench.state.ledger.committed[tp(1)] == OffsetAndMetadata(6, "", -1)


def test_metadata_that_a_broker_would_not_take_is_refused_as_it_does() -> None:
    a = Answering(CommitOutcome.OK)
    large = {tp(0): OffsetAndMetadata(5, "x" * 4_097, -1)}
    with pytest.raises(OffsetMetadataTooLargeError, match="4096"):
        a.committer.wait(large, None)
    assert isinstance(a.committer.start(large, None).exception, OffsetMetadataTooLargeError)
    assert not a.commits
    a.committer.wait({tp(0): OffsetAndMetadata(5, "x" * 4_096, -1)}, None)


@pytest.mark.parametrize(
    "given", ["text", 5, [tp(0)], (), [], {"t": 1}, {tp(0): "5"}, {tp(0): True}]
)
def test_what_is_no_offsets_is_refused_at_once(given: Any) -> None:
    a = Answering()
    for commit in (
        lambda: a.committer.wait(given, None),
        lambda: a.committer.start(given, None),
    ):
        with pytest.raises(TypeError, match="OffsetAndMetadata"):
            commit()
    assert not a.commits


@pytest.mark.parametrize("offset", [-1, -5, 1 << 63])
def test_what_can_be_no_offset_is_refused_at_once(offset: int) -> None:
    """Before the member's thread could stumble over it."""
    a = Answering()
    for given in (offset, OffsetAndMetadata(offset, "", -1)):
        with pytest.raises(ValueError, match="2\\^63-1"):
            a.committer.wait({tp(0): given}, None)
    assert not a.commits


def test_the_end_of_the_agent_ends_every_wait() -> None:
    a = Answering()
    future = a.committer.start({tp(0): OffsetAndMetadata(5, "", -1)}, None)
    a.committer.abandon()
    assert isinstance(future.exception, CommitUnavailableError)


def test_automatic_commits_store_what_was_processed_when_it_is_time() -> None:
    a = Answering(CommitOutcome.OK, CommitOutcome.OK, interval_ms=1_000)
    a.bench.assign(0, 1)
    now = boot_ms()
    a.bench.hand_out(0, 5)
    a.committer.automatic(now + 500)
    assert not a.commits, "not yet"
    a.committer.automatic(now + 1_100)
    assert a.commits[0].offsets == {model(0)[0]: 15}, "only what changed"
    wait_until(lambda: a.bench.stored()[0] == 15, 10, "the answer")
    a.committer.automatic(now + 2_200)
    assert len(a.commits) == 1, "nothing new"
    a.committer.run_callbacks()
    assert len(a.calls) == 1


def test_one_automatic_commit_at_a_time() -> None:
    a = Answering(interval_ms=1_000)
    a.bench.assign(0)
    now = boot_ms()
    for n in range(1, 4):
        a.bench.hand_out(0, 1)
        a.committer.automatic(now + 1_100 * n)
    assert len(a.commits) == 1


def test_without_automatic_commits_nothing_is_committed() -> None:
    a = Answering()
    a.bench.assign(0)
    a.bench.hand_out(0, 5)
    a.committer.automatic(boot_ms() + 10**9)
    assert not a.commits


def test_committing_everything_commits_what_is_still_owned() -> None:
    """A partition that leaves while a commit of all positions is under way is no error of the
    application.
    """
    a = Answering(CommitOutcome.NOT_OWNED, CommitOutcome.OK)
    a.bench.assign(0, 1)
    answer = a._tell

    def leaves_first(message: msg.FromFetcher) -> None:
        if isinstance(message, msg.Commit) and len(message.offsets) == 2:
            a.bench.data.remove([tp(1)])
        answer(message)

    a.bench.state.send = leaves_first
    a.committer.wait(None, None)
    assert [len(c.offsets) for c in a.commits] == [2, 1]


def test_commits_name_the_era_that_they_speak_of() -> None:
    a = Answering(CommitOutcome.OK, CommitOutcome.OK)
    a.bench.assign(0, epoch=4)
    a.bench.state.receive(msg.Assigned(dict.fromkeys(model(1), 0), 7))
    a.committer.wait({tp(0): 5}, None)
    a.committer.wait(None, None)
    assert [c.assignment_epoch for c in a.commits] == [
        4,
        7,
    ], "the application's own choice is as old as what it was told; positions are of now"


def test_offsets_are_checked() -> None:
    assert numbers_of({tp(0): OffsetAndMetadata(5, "note", -1), tp(1): 6}) == {tp(0): 5, tp(1): 6}
    for wrong in ({tp(0): "5"}, {tp(0): True}, {"t": 5}, {("t", 0): 5}):
        with pytest.raises(TypeError):
            numbers_of(wrong)
    with pytest.raises(ValueError):
        numbers_of({tp(0): -1})
    with pytest.raises(IllegalStateError):
        needs_group(None)


@pytest.mark.parametrize("naming", [True, False])
def test_a_commit_of_records_whose_partition_was_lost_says_why(naming: bool) -> None:
    """Also one of everything, which would otherwise store nothing and be content; until the
    application polls again.
    """
    a = Answering(CommitOutcome.NO_LONGER_MEMBER, CommitOutcome.NO_LONGER_MEMBER)
    a.bench.assign(0, 1)
    a.bench.hand_out(0, 5)
    a.bench.state.receive(msg.Lost(model(0, 1), "nobody polled for 5 ms", 2))
    given = {tp(0): OffsetAndMetadata(15, "", -1)} if naming else None
    with pytest.raises(NotOwnedError, match="t-0.*nobody polled for 5 ms") as caught:
        a.committer.wait(given, None)
    assert caught.value.partitions == (("t", 0),)
    future = a.committer.start(given, None)
    wait_until(lambda: future.is_done, 10, "the answer")
    assert isinstance(future.exception, NotOwnedError) and "nobody polled" in str(future.exception)
    a.bench.state.processed()
    a.committer.wait(None, None)


def test_a_loss_of_what_is_not_being_processed_is_no_error_of_a_commit() -> None:
    a = Answering(CommitOutcome.OK)
    a.bench.assign(0, 1)
    a.bench.hand_out(0, 5)
    a.bench.state.receive(msg.Lost(model(1), "another member owns it", 2))
    a.committer.wait(None, None)
    assert a.commits[0].offsets == {model(0)[0]: 15}


def test_automatic_commits_that_fail_are_said_once_and_so_is_their_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    a = Answering(*(CommitOutcome.UNAVAILABLE,) * 3, CommitOutcome.OK, interval_ms=1_000)
    a.bench.assign(0)
    a.bench.hand_out(0, 5)
    now = boot_ms()
    with caplog.at_level("INFO", "consumer.offsets.committer"):
        for turn in range(1, 5):
            a.committer.automatic(now + turn * 1_100)
            wait_until(
                lambda turn=turn: (
                    len(a.commits) == turn
                    and not a.committer._pending
                    and len(a.committer._finished) == turn
                ),
                10,
                "the answer",
            )
    assert [(r.levelname, "not stored" in r.getMessage()) for r in caplog.records] == [
        ("WARNING", True),
        ("INFO", False),
    ]


def test_metadata_is_counted_in_the_unit_that_is_compared() -> None:
    """As brokers count, in units of UTF-16."""
    a = Answering()
    with pytest.raises(OffsetMetadataTooLargeError, match="has 4098 units of UTF-16.* 4096 are"):
        a.committer.wait({tp(0): OffsetAndMetadata(5, "\U0001f600" * 2_049, -1)}, None)
    assert not a.commits


def test_metadata_that_nobody_could_write_is_refused_in_one_sentence() -> None:
    a = Answering()
    offsets = {tp(0): OffsetAndMetadata(5, "\ud800", -1)}
    with pytest.raises(CommitRefusedError, match="^.*t-0: the metadata has half a character"):
        a.committer.wait(offsets, None)
    future = a.committer.start(offsets, None)
    assert isinstance(future.exception, CommitRefusedError) and not a.commits
    assert not future.exception.retriable


def test_metadata_that_is_no_text_is_what_kafka_python_writes() -> None:
    a = Answering(CommitOutcome.OK, CommitOutcome.OK)
    for given in (b"x", 5):
        a.committer.wait({tp(0): OffsetAndMetadata(5, given, -1)}, None)
        kafkas = String().encode(given)
        assert String().decode(BytesIO(kafkas)) == a.commits[-1].metadata[model(0)[0]]
