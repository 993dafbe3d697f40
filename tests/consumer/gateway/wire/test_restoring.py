"""A client that comes from another gateway: it hears nothing of the change."""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from consumer.gateway.wire.actions import WayOut
from consumer.gateway.wire.requests import BeatAnswer, CommitAnswer, SyncAnswer
from tests.consumer.gateway.wire.client import TIMES, TOPIC, Scene, tps
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Subscription, TopicPartition
from zkcoord.znodes.gateway_nodes import RememberedClient

BUSY = BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)


def restored(*numbers: int, generation: int = 7, cooperative: bool = True) -> Scene:
    """A client that has been told these partitions elsewhere."""
    scene = Scene(cooperative)
    scene.wire.restore(
        scene.now,
        RememberedClient(
            "m-1",
            None,
            generation,
            "range",
            ("range",),
            (TOPIC,),
            tps(*numbers),
            10_000,
            60_000,
            "me",
            "host",
        ),
    )
    scene.other()
    return scene


def test_its_agent_wants_what_it_wanted() -> None:
    scene = restored(0)
    assert scene.told == [msg.Subscribe(Subscription({TOPIC: 1}))]
    assert (scene.wire.generation, scene.wire.client_id, scene.wire.host) == (7, "me", "host")


def test_heartbeats_say_nothing_of_it() -> None:
    scene = restored(0, 1)
    beat = scene.beat()
    scene.wait(TIMES.returned_beat_ms // 2)
    assert beat not in scene.answers
    scene.assigned(0, 1)
    scene.wait(TIMES.heartbeat_first_ms)
    assert scene.answers[beat] == BeatAnswer(WireCode.NONE)
    again = scene.beat()
    scene.wait(TIMES.restore_ms - 8_000)
    assert scene.answers[again] == BeatAnswer(WireCode.NONE)
    assert scene.told == [msg.Subscribe(Subscription({TOPIC: 1}))], "nothing is given up"


def test_commits_wait_until_it_can_be_said_whose_the_partitions_are() -> None:
    scene = restored(0, 1)
    scene.told.clear()
    commit = scene.commit({0: 5})
    assert scene.told == [] and commit not in scene.answers
    scene.assigned(0, 1)
    (message,) = scene.told
    assert isinstance(message, msg.Commit) and message.offsets == {TopicPartition(TOPIC, 0): 5}
    scene.says(msg.CommitDone(message.token, msg.CommitOutcome.OK))
    assert scene.answers[commit] == CommitAnswer(WireCode.NONE)


def test_a_commit_that_waits_does_not_hold_up_what_is_asked_after_it() -> None:
    """Answers come in the order of the requests, so a heartbeat's would come after the commit's."""
    scene = restored(0)
    commit = scene.commit({0: 5})
    scene.other(connection=2)
    assert commit not in scene.answers
    scene.other()
    assert scene.answers[commit] == CommitAnswer(WireCode.COORDINATOR_LOAD_IN_PROGRESS)
    scene.told.clear()
    scene.assigned(0)
    assert scene.told == []


def test_what_does_not_come_back_with_the_rest_is_said_to_be_gone() -> None:
    scene = restored(0, 1)
    beat = scene.beat()
    commit = scene.commit({1: 5})
    scene.assigned(0)
    scene.wait(TIMES.restore_rest_ms - 1)
    assert beat not in scene.answers and commit not in scene.answers
    scene.wait(1)
    assert scene.answers[beat] in (BUSY, BeatAnswer(WireCode.NONE))
    assert scene.answers[commit] == CommitAnswer(
        WireCode.NONE, {TopicPartition(TOPIC, 1): WireCode.REBALANCE_IN_PROGRESS}
    )
    assert scene.answers[scene.beat()] == BUSY


def test_a_commit_does_not_undo_what_others_have_stored_meanwhile() -> None:
    """It was away for longer than it is waited for, and reads on where it stands."""
    scene = restored(0, 1)
    waiting = scene.commit({0: 5})
    scene.assigned(0, 1, offset=9)
    behind = CommitAnswer(WireCode.NONE, {TopicPartition(TOPIC, 0): WireCode.REBALANCE_IN_PROGRESS})
    assert scene.answers[waiting] == behind
    assert scene.answers[scene.beat()] == BUSY
    scene.told.clear()
    scene.commit({1: 9})
    (message,) = scene.told
    assert isinstance(message, msg.Commit) and message.offsets == {TopicPartition(TOPIC, 1): 9}
    scene.told.clear()
    scene.commit({1: 2})
    assert scene.told, "it has been as far, and may go back"


@pytest.mark.parametrize("cooperative", [True, False])
def test_who_asks_again_where_a_partition_begins_may_go_back_from_there(cooperative: bool) -> None:
    scene = restored(0, cooperative=cooperative)
    scene.assigned(0, offset=9)
    scene.commit({0: 5})
    for owned in (tps(0), tps()):
        scene.join(owned=owned)
        sync = scene.sync()
        scene.settle()
    assert scene.answers[sync] == SyncAnswer(WireCode.NONE, tuple(tps(0)), "range")
    scene.told.clear()
    scene.commit({0: 5})
    assert scene.told


def test_nothing_comes_back() -> None:
    scene = restored(0)
    beats = [scene.beat()]
    for _ in range(TIMES.restore_ms // 2_000):
        scene.wait(2_000)
        beats.append(scene.beat())
    assert scene.answers[beats[-1]] == BUSY
    assert all(scene.answers[beat] == BeatAnswer(WireCode.NONE) for beat in beats[:-2])


def test_that_nothing_is_left_for_it_is_not_what_comes_back() -> None:
    """So an agent says while the owner nodes of the gateway before are still there."""
    scene = restored(0)
    beat = scene.beat()
    scene.says(msg.Assigned({}))
    scene.wait(TIMES.restore_rest_ms + 1)
    assert beat not in scene.answers
    scene.wait(5_000)
    assert scene.answers[beat] == BeatAnswer(WireCode.NONE)
    scene.assigned(0)
    assert scene.beat() not in scene.answers, "it has nothing to do"


def test_who_has_nothing_is_there_at_once() -> None:
    scene = restored()
    scene.assigned(3)
    assert scene.answers[scene.beat()] == BUSY


def test_one_that_had_joined_again_is_given_its_assignment_here() -> None:
    scene = restored(0, 1)
    sync = scene.sync(generation=8)
    scene.wait(1_000)
    assert sync not in scene.answers
    scene.assigned(0, 1)
    scene.settle()
    assert scene.answers[sync] == SyncAnswer(WireCode.NONE, tuple(sorted(tps(0, 1))), "range")
    assert scene.wire.generation == 8


def test_one_that_has_joined_again_and_was_told_nothing_hears_that_there_is_something() -> None:
    scene = restored(0)
    beat = scene.beat(generation=8)
    scene.assigned(0)
    assert scene.answers[beat] == BUSY


def test_an_earlier_generation_is_refused() -> None:
    scene = restored(0)
    beat = scene.beat(generation=6)
    assert scene.answers[beat] == BeatAnswer(WireCode.ILLEGAL_GENERATION)
    sync = scene.sync(generation=6)
    assert scene.answers[sync] == SyncAnswer(WireCode.ILLEGAL_GENERATION)


def test_only_one_later_generation_is_believed() -> None:
    scene = restored(0)
    scene.beat(generation=8)
    assert scene.answers[scene.beat(generation=9)] == BeatAnswer(WireCode.ILLEGAL_GENERATION)


def test_a_cooperative_client_that_joins_keeps_what_is_on_its_way_back() -> None:
    scene = restored(0, 1)
    scene.join(owned=tps(0, 1))
    sync = scene.sync()
    scene.assigned(0, 1)
    scene.settle()
    assert scene.answers[sync] == SyncAnswer(WireCode.NONE, tuple(sorted(tps(0, 1))), "range")


def test_who_leaves_at_once_is_answered() -> None:
    scene = restored(0)
    commit = scene.commit({0: 5})
    scene.wire.leave("left")
    scene.other()
    assert scene.answers[commit] == CommitAnswer(WireCode.UNKNOWN_MEMBER_ID)
    assert scene.ending is WayOut.LEAVES


def test_who_never_comes_is_out_as_ever() -> None:
    scene = restored(0)
    scene.wait(10_100)
    assert scene.gone


def test_a_commit_of_a_connection_that_is_gone_makes_nobody_there() -> None:
    scene = restored(0)
    commit = scene.commit({0: 5})
    scene.hangs_up()
    assert scene.answers[commit] == CommitAnswer(WireCode.COORDINATOR_LOAD_IN_PROGRESS)
    scene.assigned(0)
    scene.wait(TIMES.disconnect_grace_ms)
    assert scene.gone, "nobody has come back"


@pytest.mark.parametrize("cooperative", [True, False])
def test_what_a_client_was_told_that_was_not_written_is_given_up_only_when_it_joins(
    cooperative: bool,
) -> None:
    """A later generation than was written says that it may have been told anything."""
    scene = restored(0, cooperative=cooperative)
    scene.beat(generation=8)
    scene.assigned(0, 1)
    scene.told.clear()
    scene.revoke(5, 1, in_part=True)
    assert scene.told == []
    scene.join(tps(0, 1))
    if cooperative:
        assert scene.told == []
        sync = scene.sync()
        scene.settle()
        answer = scene.answers[sync]
        assert isinstance(answer, SyncAnswer) and answer.partitions == tuple(tps(0))
        scene.join(tps(0))
    assert scene.told == [msg.Revoked(5, {})]


def test_nor_is_it_committed_behind_what_others_have_stored_meanwhile() -> None:
    scene = restored(0)
    waiting = scene.commit({0: 9, 1: 5}, generation=8)
    scene.assigned(0, 1, offset=9)
    behind = CommitAnswer(WireCode.NONE, {TopicPartition(TOPIC, 1): WireCode.REBALANCE_IN_PROGRESS})
    (told,) = [message for message in scene.told if isinstance(message, msg.Commit)]
    assert told.offsets == {TopicPartition(TOPIC, 0): 9}
    scene.says(msg.CommitDone(told.token, msg.CommitOutcome.OK))
    assert scene.answers[waiting] == behind


def test_its_first_heartbeat_is_answered_well_and_soon() -> None:
    """Since when it has had no answer that keeps its session alive only the gateway before knew: a
    client of librdkafka gives its session up while its heartbeat is parked.
    """
    scene = restored(0)
    scene.assigned(0)
    first = scene.beat()
    scene.wait(TIMES.returned_beat_ms - 1)
    assert first not in scene.answers, "what changes just now is heard at once"
    scene.wait(1)
    assert scene.answers[first] == BeatAnswer(WireCode.NONE)
    scene.wait(2_500)
    second = scene.beat()
    scene.wait(TIMES.returned_beat_ms + 1)
    assert second not in scene.answers, "as ever"


def test_while_its_partitions_are_away_too() -> None:
    scene = restored(0)
    first = scene.beat()
    scene.wait(TIMES.returned_beat_ms)
    assert scene.answers[first] == BeatAnswer(WireCode.NONE)


def test_a_commit_behind_its_first_heartbeat_does_not_have_it_come_again() -> None:
    """REQUEST_TIMED_OUT keeps no session alive, and the next one would be parked."""
    scene = restored(0)
    scene.assigned(0)
    codes = []
    for _ in range(3):
        beat = scene.beat(comes_again=True)
        scene.other()
        answer = scene.answers[beat]
        assert isinstance(answer, BeatAnswer)
        codes.append(answer.code)
    assert codes == [WireCode.NONE, WireCode.REQUEST_TIMED_OUT, WireCode.NONE]


def test_what_it_has_lost_is_said_with_its_first_heartbeat() -> None:
    scene = restored(0)
    scene.assigned(0)
    beat = scene.beat()
    scene.lost(0)
    assert scene.answers[beat] == BeatAnswer(WireCode.ILLEGAL_GENERATION)
