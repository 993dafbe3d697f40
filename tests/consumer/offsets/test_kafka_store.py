"""Offsets in Kafka alone: what the member permits is committed there, in order, while the lease
holds; a partition is given up after the commits before it.
"""

from __future__ import annotations

import logging
from typing import Any

import kafka.errors
import pytest
from kafka.structs import OffsetAndMetadata

from consumer.core import messages as msg
from consumer.core.messages import CommitDone, CommitOutcome
from consumer.errors import CommitRefusedError, CommitUnavailableError, NotOwnedError
from consumer.offsets.committer import Committer
from consumer.offsets.kafka_store import KafkaOffsetStore
from consumer.offsets.store import OffsetStoreLinks
from tests.consumer.fakes import Bench, model, tp
from tests.consumer.offsets.test_dual_store import FakeOffsets


class Side:
    """A storage between a fetching side with positions, the test as the member, and a fake Kafka
    whose tasks run when `go` says so.
    """

    def __init__(self, auto_commit: bool = True) -> None:
        self.bench = Bench(auto_commit=auto_commit)
        self.kafka: Any = FakeOffsets()
        self.leased = True
        self.member: list[msg.FromFetcher] = []
        self.storage = KafkaOffsetStore(
            OffsetStoreLinks(
                self.kafka,
                self.bench.state,
                lambda: self.leased,
                self.member.append,
                self._deliver,
            )
        )
        self.bench.state.send = self.storage.send
        self.committer = Committer(self.bench.state, lambda offsets, answer: None, None, 1_000)
        self.storage.receive(msg.Assigned(dict.fromkeys(model(0, 1), 10), 1))
        self.bench.state.run_callbacks()
        self.bench.state.seen_assignment_epoch = 1

    def _deliver(self, message: msg.ToFetcher) -> None:
        if isinstance(message, CommitDone):
            self.committer.answered(message)
        else:
            assert not isinstance(message, (msg.Resolve, msg.Stored))
            self.bench.state.receive(message)

    def commit(self, **offsets: int) -> Any:
        """The application commits without waiting; the member has been asked by then."""
        return self.committer.start(
            {tp(int(name[1:])): offset for name, offset in offsets.items()}, None
        )

    def permit(self, outcome: CommitOutcome = CommitOutcome.OK) -> None:
        """The member answers the commit that it was asked for last."""
        asked = [m for m in self.member if isinstance(m, msg.Commit)][-1]
        self.storage.receive(
            CommitDone(
                asked.token, outcome, () if outcome is CommitOutcome.OK else tuple(asked.offsets)
            )
        )

    def go(self) -> list[dict[int, int]]:
        """Let the IO thread run for a while; what was stored by then."""
        return [stored for _ in range(5) for stored in self.kafka.step()]


def test_a_commit_is_permitted_stored_and_then_answered() -> None:
    side = Side()
    future = side.commit(p0=12)
    assert not side.go() and not future.is_done, "nothing before the member's word"
    side.permit()
    assert not future.is_done
    assert side.go() == [{0: 12}] and future.succeeded() and side.bench.stored()[0] == 12


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (kafka.errors.NotCoordinatorError(), CommitUnavailableError),
        (kafka.errors.CommitFailedError("live members"), CommitRefusedError),
    ],
)
def test_what_kafka_says_is_what_the_application_hears(
    answer: Exception, error: type[Exception]
) -> None:
    side = Side()
    side.kafka.error = answer
    future = side.commit(p0=12)
    side.permit()
    side.go()
    assert (
        isinstance(future.exception, error)
        and type(answer).__name__ in str(future.exception)
        and side.bench.stored()[0] == 10
    )


def test_what_the_agent_refuses_never_reaches_kafka() -> None:
    side = Side()
    future = side.commit(p0=12)
    side.permit(CommitOutcome.NOT_OWNED)
    assert not side.go() and isinstance(future.exception, NotOwnedError)


@pytest.mark.parametrize("how", ["lease", "lost"])
def test_a_commit_that_waited_is_looked_at_again_when_it_leaves(how: str) -> None:
    """A process that was stopped in between."""
    side = Side()
    future = side.commit(p0=12, p1=13)
    side.permit()
    if how == "lease":
        side.leased = False
    else:
        side.storage.receive(msg.Lost(model(1), "gone", 2))
    assert not side.go()
    assert isinstance(future.exception, CommitUnavailableError if how == "lease" else NotOwnedError)
    if how == "lost":
        side.storage.receive(msg.Assigned(dict.fromkeys(model(1), 10), 3))
        side.bench.state.run_callbacks()
        side.bench.state.seen_assignment_epoch = 3
        side.commit(p1=13)
        side.permit()
        assert side.go() == [{1: 13}], "it came back, and this is another commit"


def test_a_partition_is_given_up_after_the_commits_before_it_and_at_its_position() -> None:
    side = Side()
    side.bench.data.at[tp(0)] = 15
    side.commit(p0=12)
    side.permit()
    side.storage.receive(msg.Revoke(9, model(0, 1)))
    assert not any(isinstance(m, msg.Revoked) for m in side.member)
    assert side.go() == [{0: 12}, {0: 15, 1: 10}], "where it stands"
    assert [m.token for m in side.member if isinstance(m, msg.Revoked)] == [9]


def test_with_manual_commits_giving_up_commits_nothing() -> None:
    side = Side(auto_commit=False)
    side.bench.data.at[tp(0)] = 15
    side.storage.receive(msg.Revoke(9, model(0)))
    assert side.go() == [] and [m.token for m in side.member if isinstance(m, msg.Revoked)] == [9]


def test_what_cannot_be_stored_is_given_up_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    side = Side()
    side.bench.data.at[tp(0)] = 15
    side.kafka.error = kafka.errors.GroupAuthorizationFailedError()
    with caplog.at_level(logging.WARNING, "consumer"):
        side.storage.receive(msg.Revoke(9, model(0)))
        side.go()
    assert [m.token for m in side.member if isinstance(m, msg.Revoked)] == [
        9
    ] and "delivered again" in caplog.text
    side.leased, side.kafka.error = False, None
    side.bench.data.at[tp(1)] = 16
    side.storage.receive(msg.Revoke(10, model(1)))
    assert side.go() == [] and [m.token for m in side.member if isinstance(m, msg.Revoked)] == [
        9,
        10,
    ]


def test_a_passing_failure_is_tried_again_before_the_partition_is_given_up() -> None:
    side = Side()
    side.bench.data.at[tp(0)] = 15
    side.kafka.error = kafka.errors.CoordinatorLoadInProgressError()
    side.storage.receive(msg.Revoke(9, model(0)))
    assert side.go() == [] and not any(isinstance(m, msg.Revoked) for m in side.member)
    side.kafka.error = None
    assert side.go() == [{0: 15}] and any(isinstance(m, msg.Revoked) for m in side.member)


def test_what_is_owned_is_committed_again_before_kafka_forgets_it() -> None:
    """Each with what was asked for last, also where the answer was lost, or with what was committed
    when it began; nothing that was not committed, nothing of what went.
    """
    side = Side()
    side.kafka.seen = {tp(n): OffsetAndMetadata(8, "kept", -1) for n in (2, 3, 4)}
    side.storage.receive(msg.Assigned(dict.fromkeys(model(2, 3), 8), 1))
    side.storage.receive(msg.Assigned(dict.fromkeys(model(4), 9), 1))
    side.storage.receive(msg.Lost(model(3), "gone", 1))
    side.commit(p0=12)
    side.permit()
    side.kafka.error = kafka.errors.RequestTimedOutError()
    side.go()
    side.kafka.error = None
    side.storage.begin()
    side.kafka.step()
    hour, side.kafka.running = side.kafka.running, None
    hour.send(None)
    hour.close()
    assert side.go() == [{0: 12, 2: 8}] and side.kafka.beside[-1] == {0: "", 2: "kept"}
