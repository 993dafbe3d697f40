"""Where a member begins that has nothing stored in ZooKeeper: what Kafka says, what the policy
says, and that no error passes for "nothing".
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import kafka.errors
import pytest
from kafka.structs import TopicPartition

from consumer.core import messages as msg
from consumer.core.messages import FailureCode
from consumer.offsets.initial_offsets import InitialOffsets, unset_because
from tests.consumer.fakes import Bench, model, tp


class FakeOffsets:
    """A group in Kafka: what each question is answered with, in turn (the last answer stays)."""

    group = "g"

    def __init__(self, live: Any = ((),), committed: Any = ({},)) -> None:
        self.live = list(live)
        self.committed = list(committed)
        self.asked: list[str] = []
        self.naps = 0
        self.on_nap: Callable[[], None] = lambda: None
        self.on_question: Callable[[], None] = lambda: None

    def start(self, task: Callable[..., Awaitable[Any]], *arguments: Any) -> FakeOffsets:
        coroutine: Any = task(*arguments)
        with pytest.raises(StopIteration):
            coroutine.send(None)
        return self

    def add_errback(self, _then: object) -> None:
        pass

    async def sleep(self, _seconds: float) -> None:
        self.naps += 1
        self.on_nap()

    def _next(self, what: str, answers: list[Any]) -> Any:
        self.asked.append(what)
        self.on_question()
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def live_members_async(self) -> tuple[str, ...]:
        return self._next("live", self.live)

    async def committed_async(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        found = self._next("committed", self.committed)
        return {p: o for p, o in found.items() if p in partitions}


def begin(
    offsets: FakeOffsets, initial: str = "kafka", policy: bool = True
) -> tuple[Bench, InitialOffsets]:
    bench = Bench(policy=policy)
    kafka_side: Any = offsets
    return bench, InitialOffsets(bench.state, bench.state.data, kafka_side, initial)


def asked(
    begun: tuple[Bench, InitialOffsets], *numbers: int, earliest: tuple[int, ...] = ()
) -> list[Any]:
    """The answers to one question of the member."""
    bench, initial = begun
    bench.told.clear()
    initial.resolve(msg.Resolve(5, model(*numbers), model(*earliest)))
    return list(bench.told)


def test_what_the_group_committed_in_kafka_is_adopted_and_the_rest_is_reset() -> None:
    begun = begin(FakeOffsets(committed=({tp(0): 41},)))
    assert asked(begun, 0, 1) == [
        msg.Resolved(5, {**dict.fromkeys(model(0), 41), **dict.fromkeys(model(1), 7)})
    ]


def test_without_a_policy_what_is_committed_in_kafka_is_enough() -> None:
    begun = begin(FakeOffsets(committed=({tp(0): 41},)), policy=False)
    assert asked(begun, 0) == [msg.Resolved(5, dict.fromkeys(model(0), 41))]
    assert asked(begun, 0, 1) == [msg.Resolved(5, dict.fromkeys(model(0), 41), model(1))], (
        "the others are owned without an offset"
    )
    assert asked(begun, 1, 2, earliest=(2,)) == [
        msg.Resolved(5, dict.fromkeys(model(2), 0), model(1))
    ]


def test_a_member_without_an_application_that_could_seek_gives_up() -> None:
    bench, offsets = Bench(policy=False), FakeOffsets(committed=({tp(0): 41},))
    kafka_side: Any = offsets
    begun = (
        bench,
        InitialOffsets(bench.state, bench.state.data, kafka_side, "kafka", begins_unset=False),
    )
    [answer] = asked(begun, 0, 1)
    assert (
        isinstance(answer, msg.GiveUp)
        and answer.code is FailureCode.RESET_POLICY
        and "t-1, and auto_offset_reset is 'none'" in answer.message
        and "t-0" not in answer.message
    )


def test_a_topic_made_again_adopts_nothing() -> None:
    offsets = FakeOffsets(committed=({tp(0): 41, tp(1): 42},))
    begun = begin(offsets)
    assert asked(begun, 0, 1, earliest=(0,)) == [
        msg.Resolved(5, {**dict.fromkeys(model(0), 0), **dict.fromkeys(model(1), 42)})
    ]
    offsets.asked.clear()
    assert (
        asked(begun, 0, earliest=(0,)) == [msg.Resolved(5, dict.fromkeys(model(0), 0))]
        and not offsets.asked
    )


@pytest.mark.parametrize(
    "error",
    [
        kafka.errors.CoordinatorNotAvailableError(),
        kafka.errors.KafkaTimeoutError(),
        kafka.errors.UnknownError(),
        kafka.errors.UnstableOffsetCommitError(),
    ],
)
@pytest.mark.parametrize("where", ["live", "committed"])
def test_an_error_is_never_taken_for_nothing(error: Exception, where: str) -> None:
    """The agent asks again what an answer leaves out; even `auto_offset_reset` may not step in."""
    begun = begin(
        FakeOffsets(live=(error, ()))
        if where == "live"
        else FakeOffsets(committed=(error, {tp(0): 41}))
    )
    assert asked(begun, 0) == [msg.Resolved(5, {})]
    answer = asked(begun, 0)
    assert answer == [msg.Resolved(5, dict.fromkeys(model(0), 41 if where == "committed" else 7))]


def test_reset_asks_kafka_nothing() -> None:
    offsets = FakeOffsets(live=(("c on h",),), committed=({tp(0): 41},))
    begun = begin(offsets, "reset")
    assert asked(begun, 0) == [msg.Resolved(5, dict.fromkeys(model(0), 7))] and not offsets.asked


def test_refuse_says_of_nothing_where_it_begins() -> None:
    begun = begin(FakeOffsets(), "refuse")
    assert asked(begun, 0, 1, 2, earliest=(2,)) == [
        msg.Resolved(5, dict.fromkeys(model(2), 0), model(0, 1))
    ]
    assert asked(begun, 2, earliest=(2,)) == [msg.Resolved(5, dict.fromkeys(model(2), 0))]


def test_nothing_is_adopted_beside_live_members_of_kafkas_protocol() -> None:
    begun = begin(
        FakeOffsets(live=(tuple(f"c{n} on h{n}" for n in range(7)),), committed=({tp(0): 41},))
    )
    [answer] = asked(begun, 0)
    assert isinstance(answer, msg.GiveUp) and answer.code is FailureCode.KAFKA_GROUP_ACTIVE
    assert (
        "c0 on h0" in answer.message
        and "and 2 more" in answer.message
        and "c6" not in answer.message
    )


@pytest.mark.parametrize(
    "error",
    [
        kafka.errors.GroupAuthorizationFailedError("g"),
        kafka.errors.TopicAuthorizationFailedError("t"),
    ],
)
def test_what_may_not_be_read_is_refused_only_where_it_is_needed(error: Exception) -> None:
    group = isinstance(error, kafka.errors.GroupAuthorizationFailedError)
    offsets = FakeOffsets(live=(error if group else (),), committed=(error,))
    bench, beginning = begun = begin(offsets)
    beginning.check_group()
    assert not bench.told
    [answer] = asked(begun, 0)
    assert (
        isinstance(answer, msg.GiveUp)
        and answer.code is FailureCode.KAFKA_GROUP_DENIED
        and "initial_offsets='reset'" in answer.message
    )


@pytest.mark.parametrize("initial", ["kafka", "reset", "refuse"])
def test_a_group_that_is_in_use_in_kafka_is_not_joined(initial: str) -> None:
    offsets = FakeOffsets(live=(kafka.errors.NodeNotReadyError(), ("c on h",)))
    bench, beginning = begin(offsets, initial)
    beginning.check_group()
    [told] = bench.told
    assert (
        isinstance(told, msg.GiveUp)
        and told.code is FailureCode.KAFKA_GROUP_ACTIVE
        and offsets.naps == 1
    )


def test_looking_ends_when_the_consumer_is_closed_and_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    offsets = FakeOffsets(live=(kafka.errors.NodeNotReadyError("x"),))
    bench, beginning = begin(offsets)

    def nap() -> None:
        if offsets.naps == 20:
            bench.state.closed = True

    offsets.on_nap = nap
    with caplog.at_level(logging.WARNING, "consumer"):
        beginning.check_group()
    assert (
        not bench.told and len([r for r in caplog.records if "asked again" in r.getMessage()]) == 1
    )


def fail(bench: Bench) -> None:
    bench.state.receive(msg.Failed(FailureCode.REFUSED, "of its own option"))


def close(bench: Bench) -> None:
    bench.state.leave()


@pytest.mark.parametrize("end", [fail, close])
def test_a_member_that_ends_says_nothing_of_the_connections_that_close_under_it(
    end: Callable[[Bench], None], caplog: pytest.LogCaptureFixture
) -> None:
    offsets = FakeOffsets(live=(kafka.errors.KafkaConnectionError(),))
    bench, beginning = begin(offsets)
    offsets.on_question = lambda: end(bench)

    def nap() -> None:
        assert offsets.naps == 1, "it is asked again"

    offsets.on_nap = nap
    with caplog.at_level(logging.WARNING, "consumer"):
        beginning.check_group()
    assert offsets.asked == ["live"]
    offsets.asked.clear()
    bench, _ = begun = begin(offsets)
    with caplog.at_level(logging.WARNING, "consumer"):
        asked(begun, 0)
    assert offsets.asked == ["live"] and not caplog.records


def test_a_group_that_keeps_its_offsets_in_kafka_asks_there_at_each_start() -> None:
    """What is stored in ZooKeeper counts only where Kafka has nothing, as left by the group that
    kept them there; without it the policy, or nothing.
    """

    def answers(initial: str) -> list[Any]:
        offsets: Any = FakeOffsets(committed=({tp(0): 41},))
        bench = Bench()
        initial_offsets = InitialOffsets(
            bench.state, bench.state.data, offsets, initial, always=True
        )
        initial_offsets.resolve(
            msg.Resolve(5, model(0, 1, 2), stored=dict.fromkeys(model(0, 1), 30))
        )
        return list(bench.told)

    kept, reset = dict.fromkeys(model(0), 41), dict.fromkeys(model(2), 7)
    assert answers("kafka") == [msg.Resolved(5, {**kept, **dict.fromkeys(model(1), 30), **reset})]
    assert answers("reset") == [msg.Resolved(5, {**kept, **dict.fromkeys(model(1), 7), **reset})]
    assert answers("refuse") == [msg.Resolved(5, kept, model(1, 2))]
    assert "is stored in ZooKeeper" in unset_because("refuse", in_kafka=True)
