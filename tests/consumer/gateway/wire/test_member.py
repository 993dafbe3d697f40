"""One wire member between a client and an agent."""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from consumer.gateway.wire.actions import WayOut, WrittenDown
from consumer.gateway.wire.requests import BeatAnswer, CommitAnswer, JoinAnswer, SyncAnswer
from tests.consumer.gateway.wire.client import TIMES, Scene, member_of, tps
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Subscription, TopicPartition

OK = WireCode.NONE


def given(scene: Scene, ticket: int) -> list[int]:
    """The partitions of an answered SyncGroup."""
    answer = scene.answers[ticket]
    assert isinstance(answer, SyncAnswer) and answer.code is OK
    return [tp.partition for tp in answer.partitions]


def test_a_client_joins_and_is_given_what_its_agent_gets() -> None:
    scene = Scene()
    assert scene.answers[scene.join()] == JoinAnswer(OK, "m-1", 1, "range")
    assert scene.told == [msg.Subscribe(Subscription({"t": 1}))]
    ticket = scene.sync()
    assert ticket not in scene.answers
    scene.says(msg.Assigned({TopicPartition("t", n): 0 for n in (0, 1)}, 1, more=True))
    assert ticket not in scene.answers, "more is to come"
    scene.assigned(2)
    assert given(scene, ticket) == [0, 1, 2], "nothing more: at once"


def test_a_member_that_is_to_get_nothing_is_told_so_when_the_group_is_balanced() -> None:
    scene = Scene()
    scene.join()
    ticket = scene.sync()
    scene.says(msg.Assigned({}))
    scene.settle()
    assert given(scene, ticket) == []


def test_a_member_without_a_word_is_answered_in_the_end() -> None:
    scene = Scene()
    scene.join()
    ticket = scene.sync()
    scene.wait(TIMES.sync_park_ms - 1)
    assert ticket not in scene.answers
    scene.wait(1)
    assert given(scene, ticket) == []
    beat = scene.beat()
    scene.assigned(4)
    assert scene.answers[beat] == BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)


def test_a_client_has_its_session_timeout_from_the_answer_to_its_sync() -> None:
    scene = Scene(session_ms=3_000)
    scene.join()
    ticket = scene.sync()
    scene.wait(2_900)
    scene.assigned(0)
    scene.settle()
    assert given(scene, ticket) == [0]
    scene.wait(2_990)
    assert not scene.gone
    scene.wait(10)
    assert scene.gone


def test_while_a_group_forms_what_moves_costs_nothing() -> None:
    scene = Scene()
    scene.join(forming=True)
    ticket = scene.sync()
    scene.assigned(0, 1, 2, 3)
    scene.wait(TIMES.forming_ms - 1)
    assert ticket not in scene.answers
    scene.revoke(7, 2, 3)
    assert scene.told[-1] == msg.Revoked(7, {}), "its client has not heard of them"
    scene.wait(TIMES.forming_ms)
    assert given(scene, ticket) == [0, 1]


def test_a_heartbeat_waits_for_news() -> None:
    scene = member_of(0, 1)
    ticket = scene.beat()
    assert ticket not in scene.answers
    scene.assigned(2)
    assert scene.answers[ticket] == BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)
    scene.join(tps(0, 1))
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0, 1, 2]
    assert scene.beat() not in scene.answers


def test_a_heartbeat_ends_before_the_client_sends_the_next() -> None:
    scene = member_of(0)
    for _ in range(3):
        ticket = scene.beat()
        scene.wait(3_000)
        assert scene.answers[ticket] == BeatAnswer(OK)
    ticket = scene.beat()
    scene.wait(int(3_000 * TIMES.heartbeat_part) - 1)
    assert ticket not in scene.answers
    scene.wait(1)
    assert scene.answers[ticket] == BeatAnswer(OK)


def test_a_heartbeat_is_never_parked_for_longer_than_a_third_of_the_session() -> None:
    scene = member_of(0, session_ms=6_000)
    ticket = scene.beat()
    scene.wait(2_000)
    assert scene.answers[ticket] == BeatAnswer(OK)


def test_a_client_that_commits_hears_well_of_its_session_in_each_interval() -> None:
    """Whenever its commits come: librdkafka gives up a session of 10 s that long after the last."""
    for commit_at_ms in range(200, 3_000, 400):
        scene = Scene()
        scene.join()
        scene.sync()
        scene.assigned(0)
        scene.settle()
        well = [scene.now]
        for _ in range(6):
            beat = scene.beat(comes_again=True)
            scene.wait(commit_at_ms)
            scene.other()
            rest_ms = 3_000 - commit_at_ms
            if scene.answers.get(beat) == BeatAnswer(WireCode.REQUEST_TIMED_OUT):
                scene.wait(100)
                beat = scene.beat(comes_again=True)
                rest_ms -= 100
            scene.wait(max(rest_ms, 1))
            assert scene.answers[beat] == BeatAnswer(WireCode.NONE)
            well.append(scene.now)
        assert max(later - at for at, later in zip(well, well[1:])) <= 3_200


def test_another_request_on_its_connection_ends_a_parked_heartbeat() -> None:
    scene = member_of(0)
    ticket = scene.beat()
    scene.other(connection=2)
    assert ticket not in scene.answers
    scene.other(connection=1)
    assert scene.answers[ticket] == BeatAnswer(OK)


def test_a_client_that_asks_again_soon_is_told_to_when_its_commit_comes() -> None:
    """Every other time: it must hear now and then that all is well."""
    scene = member_of(0)
    answers = []
    for _ in range(4):
        ticket = scene.beat(comes_again=True)
        scene.other()
        answers.append(scene.answers[ticket])
    again = BeatAnswer(WireCode.REQUEST_TIMED_OUT)
    assert answers == [again, BeatAnswer(OK)] * 2


def test_a_client_is_silent_from_when_its_parked_request_is_answered() -> None:
    """Before it could say nothing: some clients skip the heartbeat that is due meanwhile."""
    scene = member_of(0, session_ms=6_000)
    parked = scene.beat()
    scene.wait(2_000)
    assert parked in scene.answers
    scene.wait(5_999)
    assert not scene.gone
    scene.wait(1)
    assert scene.gone == "its session timeout is over"
    scene = member_of(0, session_ms=6_000)
    scene.beat()
    scene.wait(1_500)
    scene.assigned(1)
    scene.wait(5_999)
    assert not scene.gone
    scene = member_of(0, session_ms=6_000)
    scene.beat()
    scene.wait(1_000)
    scene.other()
    scene.wait(5_999)
    assert not scene.gone
    scene.wait(1)
    assert scene.gone


def test_who_waits_until_its_assignment_is_written_is_there() -> None:
    scene = Scene(session_ms=6_000)
    scene.remembers = False
    scene.join()
    sync = scene.sync()
    scene.assigned(0)
    scene.settle()
    scene.wait(12_000)
    assert not scene.gone and sync not in scene.answers
    scene.remember(WrittenDown.LATER)
    assert given(scene, sync) == [0], "it goes on without"
    scene.wait(5_999)
    assert not scene.gone
    scene.wait(1)
    assert scene.gone


def test_who_waits_until_its_assignment_is_written_is_gone_with_its_connection() -> None:
    scene = Scene()
    scene.remembers = False
    scene.join()
    scene.sync()
    scene.assigned(0)
    scene.settle()
    scene.hangs_up()
    scene.wait(TIMES.disconnect_grace_ms)
    assert scene.gone == "it is gone"


@pytest.mark.parametrize("heard", [True, False])
def test_what_was_not_written_since_it_is_no_member_is_not_told(heard: bool) -> None:
    scene = Scene()
    scene.remembers = False
    scene.join()
    sync = scene.sync()
    scene.assigned(0)
    scene.settle()
    scene.remember(WrittenDown.GONE, heard)
    assert scene.answers[sync] == SyncAnswer(WireCode.REBALANCE_IN_PROGRESS)
    assert bool(scene.wire.held) is heard, "what it has under another registration it has"
    scene.remembers = True
    scene.join(tps(0))
    sync = scene.sync()
    if not heard:
        assert given(scene, sync) == [], "it is to let go: others may have read on"
        scene.assigned(0)
        scene.join()
        sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0]


def test_a_heartbeat_of_a_client_that_fetches_only_after_its_answer_is_not_parked() -> None:
    scene = member_of(0, cooperative=False, assignor="RoundRobinAssigner")
    assert scene.answers[scene.beat()] == BeatAnswer(OK)
    scene.assigned(1)
    assert scene.answers[scene.beat()] == BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)


def test_what_was_lost_and_has_come_back_is_not_committed_before_its_client_knows() -> None:
    """Others may have stored more meanwhile."""
    scene = member_of(0, 1)
    scene.lost(0)
    scene.assigned(0, offset=9)
    ticket = scene.commit({0: 5})
    assert scene.answers[ticket] == CommitAnswer(
        OK, {TopicPartition("t", 0): WireCode.ILLEGAL_GENERATION}
    )
    assert scene.told == []


def test_what_was_lost_comes_back_to_a_client_that_names_it_after_it_has_let_go() -> None:
    """It joined for another reason, and has not heard of the loss; others may have read on."""
    scene = member_of(0, 1)
    scene.lost(0)
    scene.join(tps(0, 1))
    sync = scene.sync()
    scene.assigned(0, offset=9)
    scene.settle()
    assert given(scene, sync) == [1]
    scene.join(tps(1))
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0, 1]


def test_who_takes_an_instance_over_is_answered_when_it_is_written_down() -> None:
    """Else a gateway that goes on with it takes the one before for the later one."""
    scene = member_of(0, instance="i")
    scene.remembers = False
    scene.wire.succeeded("m-2")
    later = WireCode.COORDINATOR_NOT_AVAILABLE
    for how, code in (
        (WrittenDown.GONE, later),
        (WrittenDown.LATER, later),
        (WrittenDown.DONE, OK),
    ):
        join = scene.join()
        assert join not in scene.answers and scene.wire.member_id == "m-2"
        scene.remember(how)
        answer = scene.answers[join]
        assert isinstance(answer, JoinAnswer)
        assert (answer.code, answer.member_id) == (code, "m-2")
    assert scene.join() in scene.answers, "once"


def test_a_cooperative_client_gives_up_by_no_longer_naming_it() -> None:
    scene = member_of(0, 1, 2)
    beat = scene.beat()
    scene.revoke(5, 2)
    assert scene.answers[beat] == BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)
    scene.join(tps(0, 1, 2))
    assert scene.told == [], "it still has it"
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0, 1]
    scene.join(tps(0, 1))
    assert scene.told == [msg.Revoked(5, {})]
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0, 1]
    assert scene.beat() not in scene.answers


def test_an_eager_client_gives_up_what_is_due_and_gets_back_the_rest() -> None:
    scene = member_of(0, 1, 2, cooperative=False)
    scene.revoke(5, 2)
    assert scene.told == []
    scene.join(tps(0, 1, 2))
    assert scene.told == [msg.Revoked(5, {})]
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0, 1]


def test_of_a_revocation_in_part_what_the_client_never_had_is_free_at_once() -> None:
    scene = member_of(0, 1)
    scene.assigned(2)
    scene.revoke(5, 1, 2, in_part=True)
    assert scene.told == [msg.Revoked(5, {}, (TopicPartition("t", 1),))]
    scene.revoke(6, 1)
    scene.join(tps(0, 1))
    scene.sync()
    scene.settle()
    scene.join(tps(0))
    assert scene.told[-1] == msg.Revoked(6, {})


def test_a_revocation_that_is_withdrawn_leaves_everything_as_it_was() -> None:
    scene = member_of(0, 1)
    scene.revoke(5, 1)
    scene.resumed(1)
    assert scene.beat() not in scene.answers
    scene.join(tps(0, 1))
    assert scene.told == []


def test_what_was_given_up_and_is_resumed_after_all_is_told_to_the_client_again() -> None:
    """The agent's word comes after the answer, which it makes void: it still owns them."""
    scene = member_of(0, 1, cooperative=False)
    scene.revoke(7, 0, 1)
    scene.join()
    assert msg.Revoked(7, {}, ()) in scene.told
    sync = scene.sync()
    scene.resumed(0, 1)
    scene.settle()
    assert given(scene, sync) == [0, 1]


def test_what_is_resumed_is_where_it_stood_last() -> None:
    """However often it was given up before, and whatever was asked for in between."""
    scene = member_of(0, 1, 2, cooperative=False)
    scene.revoke(7, 0)
    scene.join()
    scene.assigned(0, offset=5)
    scene.revoke(8, 0, 1)
    scene.join()
    scene.revoke(9, 2)
    scene.join()
    scene.resumed(0, 1)
    assert scene.wire.held == {TopicPartition("t", 0): (5, ""), TopicPartition("t", 1): (0, "")}
    scene.assigned(0, offset=9)
    scene.resumed(0)
    assert scene.wire.held[TopicPartition("t", 0)] == (9, "")


def test_what_was_given_up_and_is_lost_does_not_come_back() -> None:
    scene = member_of(0, 1, cooperative=False)
    scene.revoke(7, 0, 1)
    scene.join()
    scene.lost(0)
    scene.resumed(0, 1)
    assert scene.wire.held.keys() == tps(1)


def test_what_is_lost_is_lost_for_the_client_too() -> None:
    scene = member_of(0, 1)
    beat = scene.beat()
    scene.lost(0, 1)
    assert scene.answers[beat] == BeatAnswer(WireCode.ILLEGAL_GENERATION)
    commit = scene.commit({0: 7})
    assert scene.answers[commit] == CommitAnswer(
        OK, {TopicPartition("t", 0): WireCode.REBALANCE_IN_PROGRESS}
    )
    assert scene.told == []


def test_what_was_lost_and_has_come_back_must_be_taken_anew() -> None:
    """Somebody else may have had it in between: a client that still believes to own it lets go of
    it first.
    """
    scene = member_of(0, 1)
    scene.lost(1)
    scene.assigned(1, offset=40)
    scene.join(tps(0, 1))
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0]
    scene.join(tps(0))
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0, 1]


def test_an_operators_reset_makes_the_client_take_the_partition_anew() -> None:
    scene = member_of(0, 1)
    beat = scene.beat()
    scene.seek(1, 5)
    assert scene.answers[beat] == BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)
    late = scene.commit({1: 90})
    assert scene.answers[late] == CommitAnswer(
        OK, {TopicPartition("t", 1): WireCode.REBALANCE_IN_PROGRESS}
    )
    scene.join(tps(0, 1))
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0]
    scene.join(tps(0))
    sync = scene.sync()
    scene.settle()
    assert given(scene, sync) == [0, 1]
    assert scene.wire.held[TopicPartition("t", 1)] == (5, "")


def test_a_commit_is_stored_by_the_agent_and_only_of_what_is_held() -> None:
    scene = member_of(0, 1)
    ticket = scene.commit({0: 7, 9: 3}, metadata="why")
    assert scene.told == [msg.Commit(1, dict.fromkeys(tps(0), 7), 1, dict.fromkeys(tps(0), "why"))]
    assert ticket not in scene.answers
    scene.says(msg.CommitDone(1, msg.CommitOutcome.OK))
    refused = {TopicPartition("t", 9): WireCode.ILLEGAL_GENERATION, TopicPartition("t", 0): OK}
    answer = scene.answers[ticket]
    assert isinstance(answer, CommitAnswer) and answer.code is OK
    assert {TopicPartition("t", 0): OK, **answer.others} == refused
    assert scene.wire.held[TopicPartition("t", 0)] == (7, "why")


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (msg.CommitOutcome.NOT_OWNED, WireCode.ILLEGAL_GENERATION),
        (msg.CommitOutcome.NO_LONGER_MEMBER, WireCode.UNKNOWN_MEMBER_ID),
        (msg.CommitOutcome.UNAVAILABLE, WireCode.COORDINATOR_LOAD_IN_PROGRESS),
        (msg.CommitOutcome.OVERRULED, WireCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_a_commit_that_is_not_stored_is_said_of_its_partitions(
    outcome: msg.CommitOutcome, code: WireCode
) -> None:
    scene = member_of(0, 1)
    ticket = scene.commit({0: 7, 1: 8})
    scene.says(msg.CommitDone(1, outcome, tuple(tps(1))))
    answer = scene.answers[ticket]
    assert isinstance(answer, CommitAnswer)
    overruled = outcome is msg.CommitOutcome.OVERRULED
    rest = OK if overruled else WireCode.COORDINATOR_LOAD_IN_PROGRESS
    assert {TopicPartition("t", 0): OK, **answer.others} == {
        TopicPartition("t", 0): rest,
        TopicPartition("t", 1): code,
    }, "of those that are not named it is known that they are stored only beside a reset"
    assert scene.wire.held[TopicPartition("t", 1)] == (0, ""), "nothing was stored"
    assert scene.wire.held[TopicPartition("t", 0)] == ((7, "") if overruled else (0, ""))


def test_metadata_that_is_too_long_for_a_broker_is_too_long_here() -> None:
    scene = member_of(0)
    ticket = scene.commit({0: 1}, metadata="x" * 4_097)
    assert scene.answers[ticket] == CommitAnswer(
        OK, {TopicPartition("t", 0): WireCode.OFFSET_METADATA_TOO_LARGE}
    )
    scene.commit({0: 1}, metadata="x" * 4_096)
    assert len(scene.told) == 1


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_refused_everywhere(generation: int) -> None:
    scene = member_of(0)
    refused = WireCode.ILLEGAL_GENERATION
    assert scene.answers[scene.sync(generation=generation)] == SyncAnswer(refused)
    assert scene.answers[scene.beat(generation=generation)] == BeatAnswer(refused)
    assert scene.answers[scene.commit({0: 1}, generation)] == CommitAnswer(refused)
    assert scene.told == []


def test_between_join_and_sync_a_heartbeat_says_that_there_is_something_to_do() -> None:
    scene = member_of(0)
    scene.join(tps(0))
    assert scene.answers[scene.beat()] == BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)


def test_a_second_sync_replaces_the_first() -> None:
    scene = Scene()
    scene.join()
    first = scene.sync()
    second = scene.sync()
    assert scene.answers[first] == SyncAnswer(WireCode.REBALANCE_IN_PROGRESS)
    scene.assigned(0)
    scene.settle()
    assert given(scene, second) == [0]


def test_a_silent_client_is_out_when_its_session_timeout_is_over() -> None:
    scene = member_of(0)
    scene.wait(9_900)
    assert not scene.gone
    scene.wait(200)
    assert scene.gone and scene.ending is WayOut.MISSED


def test_what_a_client_is_told_is_written_down_first() -> None:
    scene = Scene()
    scene.remembers = False
    scene.join()
    sync = scene.sync()
    scene.assigned(0)
    scene.settle()
    assert sync not in scene.answers and scene.wire.has == tps(0)
    scene.remember()
    assert given(scene, sync) == [0]


def test_who_ends_while_it_is_written_down_is_answered_once() -> None:
    scene = Scene()
    scene.remembers = False
    scene.join()
    sync = scene.sync()
    scene.assigned(0)
    scene.settle()
    scene.says(msg.Failed(msg.FailureCode.REJECTED, "why"))
    assert scene.answers[sync] == SyncAnswer(WireCode.UNKNOWN_MEMBER_ID)
    scene.remember()


def test_the_gateway_ends_and_another_one_is_to_be_asked() -> None:
    scene = member_of(0)
    beat = scene.beat()
    scene.wire.hand_over("the gateway ends")
    scene.other()
    assert scene.answers[beat] == BeatAnswer(WireCode.NOT_COORDINATOR)
    assert scene.ending is WayOut.WAITS


def test_whose_heartbeat_is_parked_is_not_silent() -> None:
    scene = member_of(0)
    for _ in range(5):
        scene.beat()
        scene.wait(5_000)
    assert not scene.gone


def test_a_client_without_a_connection_is_out_after_the_grace() -> None:
    scene = member_of(0)
    scene.beat()
    scene.hangs_up()
    scene.wait(TIMES.disconnect_grace_ms - 1)
    assert not scene.gone
    scene.wait(1)
    assert scene.gone


def test_a_client_that_comes_back_on_another_connection_has_never_been_away() -> None:
    scene = member_of(0)
    scene.hangs_up()
    scene.wait(TIMES.disconnect_grace_ms - 1)
    scene.beat(connection=2)
    scene.wait(5_000)
    assert not scene.gone
    assert scene.told == []


def test_a_static_member_is_kept_for_its_session_timeout() -> None:
    scene = member_of(0, instance="i-1")
    scene.hangs_up()
    scene.wait(9_900)
    assert not scene.gone
    scene.wait(200)
    assert scene.gone


def test_who_has_the_instance_of_another_gets_its_place() -> None:
    scene = member_of(0, 1, instance="i-1")
    beat = scene.beat()
    scene.wire.succeeded("m-2")
    scene.other()
    assert scene.answers[beat] == BeatAnswer(WireCode.FENCED_INSTANCE_ID)
    ticket = scene.join(connection=2)
    assert scene.answers[ticket] == JoinAnswer(OK, "m-2", 2, "range")
    assert scene.told == [], "nothing is given up"
    sync = scene.sync(connection=2)
    scene.settle()
    assert given(scene, sync) == [0, 1]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        # another gateway has its client, or another client its instance: that one says which
        (msg.FailureCode.FENCED_INSTANCE_ID, WireCode.NOT_COORDINATOR),
        (msg.FailureCode.REJECTED, WireCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_when_the_agent_fails_the_client_hears_it(code: msg.FailureCode, said: WireCode) -> None:
    scene = member_of(0)
    beat = scene.beat()
    commit = scene.commit({0: 1})
    scene.says(msg.Failed(code, "why"))
    assert scene.answers[beat] in (BeatAnswer(said), BeatAnswer(OK))
    assert scene.answers[commit] == CommitAnswer(said)
    assert scene.gone == "why"


def test_a_changed_subscription_is_told_once() -> None:
    scene = member_of(0)
    scene.join(tps(0), topics=("t", "u"))
    scene.join(tps(0), topics=("t", "u"))
    assert scene.told == [msg.Subscribe(Subscription({"t": 1, "u": 1}))]


def test_generations_rise_and_end_where_they_cannot() -> None:
    scene = Scene()
    scene.wire.generation = 2**31 - 2
    scene.join()
    scene.join()
    assert scene.wire.generation == 2**31 - 1


def test_a_sync_waits_for_what_others_give_up_just_now() -> None:
    scene = member_of(0, cooperative=False)
    scene.join()
    scene.wire.others_move(scene.now, scene.now + 150)
    sync = scene.sync()
    scene.wait(149)
    assert sync not in scene.answers
    scene.assigned(1)
    scene.wire.others_move(scene.now, 0)
    scene.settle()
    assert given(scene, sync) == [0, 1]
