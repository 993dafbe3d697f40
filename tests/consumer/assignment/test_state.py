"""The assignment between the member's thread and the application's: what takes effect at once, what
waits, and what cancels out.
"""

from __future__ import annotations

from types import SimpleNamespace

import kafka.errors
import pytest

from consumer.core import messages as msg
from consumer.errors import (
    ConsumerRebalanceFailedException,
    ListenerError,
    MembershipError,
    NoStoredOffsetError,
    RejectedError,
    StartRefusedError,
)
from tests.consumer.fakes import Bench, Recorder, model, tp


def positions(answer: msg.Revoked) -> dict[int, int]:
    return {p.partition: o for p, o in answer.positions.items()}


def test_a_revocation_of_what_was_not_handed_out_is_answered_at_once() -> None:
    bench = Bench()
    bench.assign(0, 1)
    bench.hand_out(0, 5)
    bench.state.receive(msg.Revoke(1, model(1)))
    assert [positions(a) for a in bench.answers()] == [{1: 10}]
    assert bench.state.announced() == {tp(0)}


def test_a_revocation_of_what_is_being_processed_waits_for_the_next_poll() -> None:
    bench = Bench()
    bench.assign(0, 1)
    bench.hand_out(0, 5)
    bench.state.receive(msg.Revoke(1, model(0)))
    assert not bench.answers() and bench.data.held == {tp(0)}, "held at once, answered later"
    bench.state.processed()
    bench.state.run_callbacks()
    assert [positions(a) for a in bench.answers()] == [{0: 15}]
    assert bench.data.assigned() == {tp(1)}


def test_what_is_asked_for_as_a_whole_is_given_up_as_a_whole() -> None:
    bench = Bench()
    bench.assign(0, 1)
    bench.hand_out(0, 5)
    bench.state.receive(msg.Revoke(1, model(0, 1)))
    assert not bench.answers()
    bench.state.processed()
    bench.state.run_callbacks()
    assert [(positions(a), a.busy) for a in bench.answers()] == [({0: 15, 1: 10}, ())]


@pytest.mark.parametrize("polled", [False, True])
def test_what_is_being_processed_holds_up_nothing_else(polled: bool) -> None:
    """The others are given up at once; it goes on until it is asked for again, alone. Whether the
    application polls in between changes nothing.
    """
    bench = Bench()
    bench.assign(0, 1, 2)
    bench.hand_out(0, 5)
    bench.state.receive(msg.Revoke(1, model(0, 1, 2), True))
    assert [(positions(a), a.busy) for a in bench.answers()] == [({1: 10, 2: 10}, model(0))]
    assert (
        bench.data.assigned() == {tp(0)}
        and bench.data.held == {tp(0)}
        and not bench.state.due_callbacks
    ), "nothing more is handed out of it"
    if polled:
        bench.state.processed()
        bench.state.run_callbacks()
    bench.data.wakeup.clear()
    bench.state.receive(msg.Resumed(model(0)))
    assert bench.data.held == set() and bench.data.wakeup.is_set()
    bench.state.receive(msg.Revoke(2, model(0), True))
    assert len(bench.answers()) == 1 + polled, "never an answer that gives nothing up"
    bench.state.processed()
    bench.state.run_callbacks()
    assert [(positions(a), a.token, a.busy) for a in bench.answers()[1:]] == [({0: 15}, 2, ())]
    assert not bench.data.assigned()


def test_a_listener_hears_of_all_that_is_revoked_at_once() -> None:
    """It is called before anything is given up, on the thread that processes: so all of it
    waits.
    """
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0, 1)
    bench.hand_out(0, 5)
    bench.state.receive(msg.Revoke(1, model(0, 1), True))
    assert not bench.answers()
    bench.state.processed()
    bench.state.run_callbacks()
    assert listener.calls[1:] == [("revoked", (0, 1))] and [
        positions(a) for a in bench.answers()
    ] == [{0: 15, 1: 10}]


def test_without_automatic_commits_an_answer_carries_no_positions() -> None:
    bench = Bench(auto_commit=False)
    bench.assign(0)
    bench.state.receive(msg.Revoke(1, model(0)))
    assert [positions(a) for a in bench.answers()] == [{}]


def test_a_listener_is_called_on_the_application_thread_before_the_answer() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0, 1)
    assert listener.calls == [("assigned", (0, 1))]
    seen: list[int] = []
    listener.act = lambda name: seen.append(len(bench.answers()))
    bench.state.receive(msg.Revoke(1, model(0)))
    assert listener.calls == [("assigned", (0, 1))] and bench.data.wakeup.is_set(), (
        "the application's thread is woken, nothing is called on this one"
    )
    bench.state.run_callbacks()
    assert listener.calls[1:] == [("revoked", (0,))] and seen == [0]
    assert [positions(a) for a in bench.answers()] == [{0: 10}]


def test_what_came_and_went_unnoticed_is_never_told() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.state.receive(msg.Assigned(dict.fromkeys(model(0, 1, 2), 0), 1))
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.receive(msg.Lost(model(1), "evicted"))
    assert [positions(a) for a in bench.answers()] == [{0: 0}], (
        "nobody was told of it, so nobody has to be asked"
    )
    assert bench.state.ledger.unannounced == {tp(2)}
    bench.state.run_callbacks()
    assert listener.calls == [("assigned", (2,))]


def test_what_went_unnoticed_and_comes_back_is_told() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.state.receive(msg.Assigned(dict.fromkeys(model(0), 6), 1))
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.receive(msg.Resumed(model(0)))
    bench.state.run_callbacks()
    assert (
        listener.calls == [("assigned", (0,))]
        and bench.state.announced() == {tp(0)}
        and bench.data.at == {tp(0): 6}
    )


def test_partitions_are_assigned_for_the_application_once_it_was_told() -> None:
    bench = Bench(Recorder())
    bench.state.receive(msg.Assigned(dict.fromkeys(model(0), 0), 1))
    assert bench.state.announced() == set() and bench.data.assigned() == {tp(0)}
    bench.state.run_callbacks()
    assert bench.state.announced() == {tp(0)}


def test_a_withdrawn_revocation_goes_on_where_it_stood() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0, 1)
    bench.hand_out(0, 3)
    bench.state.processed()
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.run_callbacks()
    bench.state.receive(msg.Resumed(model(0)))
    assert bench.data.at[tp(0)] == 13
    bench.state.run_callbacks()
    assert listener.calls == [("assigned", (0, 1)), ("revoked", (0,)), ("assigned", (0,))]


def test_a_revocation_withdrawn_before_the_callback_ran_is_not_noticed() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0)
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.receive(msg.Resumed(model(0)))
    bench.state.run_callbacks()
    assert listener.calls == [("assigned", (0,))]
    assert bench.data.assigned() == {tp(0)} and not bench.data.held
    assert [positions(a) for a in bench.answers()] == [{}], (
        "the question is still answered, void as the answer is"
    )


def test_a_revocation_withdrawn_while_the_callback_runs_is_announced_again() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0)
    listener.act = lambda name: (
        bench.state.receive(msg.Resumed(model(0))) if name == "revoked" else None
    )
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.run_callbacks()
    assert listener.calls == [("assigned", (0,)), ("revoked", (0,)), ("assigned", (0,))]
    assert bench.data.assigned() == {tp(0)}


def test_lost_partitions_are_gone_at_once_and_the_application_hears_of_it() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0, 1)
    bench.hand_out(0, 3)
    bench.state.lease_seen_ms = 10**12
    bench.state.receive(msg.Lost(model(0, 1), "evicted"))
    assert not bench.data.assigned() and bench.state.lease_seen_ms == 0
    bench.state.run_callbacks()
    assert listener.calls[1:] == [("lost", (0, 1))]


def test_partitions_lost_while_they_were_being_given_up_are_not_told_twice() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0)
    listener.act = lambda name: (
        bench.state.receive(msg.Lost(model(0), "evicted")) if name == "revoked" else None
    )
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.run_callbacks()
    assert listener.calls == [("assigned", (0,)), ("revoked", (0,))]
    assert [positions(a) for a in bench.answers()] == [{}]


def test_a_lost_partition_may_be_assigned_again() -> None:
    bench = Bench()
    bench.assign(0)
    bench.state.receive(msg.Lost(model(0), "evicted"))
    bench.assign(0, offset=42, epoch=2)
    assert bench.data.at == {tp(0): 42} and bench.state.assignment_epoch == 2


def test_the_application_has_heard_no_more_than_it_was_told() -> None:
    bench = Bench(Recorder())
    bench.assign(0, epoch=1)
    bench.state.receive(msg.Lost(model(0), "evicted", 2))
    bench.state.receive(msg.Assigned(dict.fromkeys(model(0), 50), 3))
    eras: list[int] = []
    bench.listener.listener.act = lambda name: eras.append(bench.state.seen_assignment_epoch)
    assert bench.state.seen_assignment_epoch == 1 and bench.state.positions()[1] == 3
    bench.state.run_callbacks()
    assert eras == [2, 3]


def test_an_error_in_a_callback_does_not_stop_the_hand_over() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0)

    def fail(name: str) -> None:
        raise ValueError("the application's own")

    listener.act = fail
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.run_callbacks()
    assert len(bench.answers()) == 1
    with pytest.raises(ListenerError) as caught:
        bench.listener.raise_error()
    assert isinstance(caught.value.__cause__, ValueError)
    bench.listener.raise_error()


def test_an_operators_reset_moves_the_position_and_drops_what_was_buffered() -> None:
    bench = Bench()
    bench.assign(0)
    bench.state.receive(msg.Seek(model(0)[0], 3))
    assert bench.data.at == {tp(0): 3} and bench.stored() == {0: 3}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (msg.FailureCode.RESET_POLICY, StartRefusedError),
        (msg.FailureCode.REJECTED, RejectedError),
    ],
)
def test_a_failure_takes_everything_away_and_is_kept(
    code: msg.FailureCode, error: type[Exception]
) -> None:
    bench = Bench()
    bench.assign(0)
    bench.state.receive(msg.Failed(code, "why"))
    assert (
        isinstance(bench.state.failure, error)
        and not bench.data.assigned()
        and bench.data.wakeup.is_set()
    )


def test_leaving_tells_the_application_and_gives_the_last_positions() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.assign(0, 1)
    bench.hand_out(1, 4)
    assert bench.state.leave() == ({tp(0): 10, tp(1): 14}, 1)
    assert listener.calls[1:] == [("revoked", (0, 1))]
    bench.state.receive(msg.Assigned({model(3)[0]: 0}, 1))
    assert not bench.data.assigned(), "nothing is taken after the end"


def test_leaving_answers_what_was_asked_before() -> None:
    bench = Bench()
    bench.assign(0, 1)
    bench.hand_out(0, 2)
    bench.state.receive(msg.Revoke(9, model(0)))
    assert bench.state.leave()[0] == {tp(1): 10}
    assert [positions(a) for a in bench.answers()] == [{0: 12}]


@pytest.mark.parametrize(
    ("rejection", "error"),
    [
        ("INCONSISTENT_GROUP_PROTOCOL", kafka.errors.InconsistentGroupProtocolError),
        ("GROUP_MAX_SIZE_REACHED", kafka.errors.GroupMaxSizeReachedError),
        ("FENCED_INSTANCE_ID", kafka.errors.FencedInstanceIdError),
        ("SOMETHING_LATER", RejectedError),
    ],
)
def test_a_rejection_is_the_error_that_kafka_python_has_for_its_code(
    rejection: str, error: type[Exception]
) -> None:
    bench = Bench()
    bench.state.receive(msg.Failed(msg.FailureCode.REJECTED, f"{rejection}: so it is", rejection))
    with pytest.raises(error, match=rejection) as caught:
        bench.state.raise_error()
    assert isinstance(caught.value, MembershipError)


def test_a_group_that_cannot_be_rebalanced_is_raised_once_where_it_is_wanted() -> None:
    failed, over = (
        msg.Notice(msg.NoticeKind.REBALANCE_FAILED, {"message": "three evictions in a row"}),
        msg.Notice(msg.NoticeKind.REBALANCE_OVER),
    )
    quiet, loud = Bench(), Bench(raises=True)
    for bench in (quiet, loud):
        bench.assign(0)
        bench.data.wakeup.clear()
        bench.state.receive(failed)
        assert (
            bench.state.rebalance_failure == "three evictions in a row"
            and bench.data.assigned() == {tp(0)}
        )
    assert loud.data.wakeup.is_set()
    quiet.state.raise_error()
    with pytest.raises(ConsumerRebalanceFailedException, match="three evictions"):
        loud.state.raise_error()
    loud.state.raise_error()
    loud.state.receive(failed)
    loud.state.receive(over)
    loud.state.raise_error()  # over before anybody looked
    assert loud.state.rebalance_failure == ""


def test_what_an_assignor_says_is_there_when_the_application_hears_of_its_partitions() -> None:
    seen = []
    listener = Recorder()
    bench = Bench(listener)
    listener.act = lambda name: seen.append((name, bench.state.user_data))
    bench.state.receive(msg.UserData("rack-1"))
    bench.assign(0)
    assert seen == [("assigned", "rack-1")]


def unset(bench: Bench, *numbers: int, epoch: int = 1) -> None:
    """The member assigns partitions of which nothing says where they begin."""
    bench.state.receive(msg.Assigned({}, epoch, unset=model(*numbers)))


def test_a_partition_that_does_not_know_where_it_begins_stays_assigned_until_a_seek() -> None:
    """Each poll raises it; nothing ends, and nobody else hears of it."""
    bench = Bench()
    bench.assign(0)
    unset(bench, 1, epoch=2)
    for _ in range(3):
        with pytest.raises(NoStoredOffsetError, match="t-1, and auto_offset_reset") as caught:
            bench.state.raise_unset()
        assert isinstance(caught.value, kafka.errors.NoOffsetForPartitionError)
        assert not isinstance(caught.value, MembershipError)
        assert caught.value.partitions == (("t", 1),)
    assert bench.state.announced() == {tp(0), tp(1)} and bench.state.failure is None
    bench.data.seek(tp(1), 5)
    bench.state.raise_unset()
    assert bench.state.positions()[0].keys() == {tp(0), tp(1)}


def test_a_seek_in_the_callback_comes_before_the_error() -> None:
    listener = Recorder()
    bench = Bench(listener)
    unset(bench, 0, 1)
    bench.state.raise_unset()
    assert listener.calls == []
    listener.act = lambda name: bench.data.seek(tp(0), 3)
    bench.state.run_callbacks()
    with pytest.raises(NoStoredOffsetError, match="t-1, and"):
        bench.state.raise_unset()
    assert listener.calls == [("assigned", (0, 1))]


def test_what_does_not_know_where_it_begins_is_given_up_and_comes_back_like_the_rest() -> None:
    bench = Bench()
    unset(bench, 0)
    bench.state.receive(msg.Revoke(1, model(0)))
    assert [positions(a) for a in bench.answers()] == [{}] and not bench.data.assigned()
    bench.state.raise_unset()
    bench.state.receive(msg.Resumed(model(0)))
    with pytest.raises(NoStoredOffsetError):
        bench.state.raise_unset()
    bench.state.receive(msg.Lost(model(0), "gone", 2))
    bench.state.raise_unset()
    assert not bench.data.assigned()


def test_what_was_being_looked_up_when_it_was_given_up_goes_on_where_it_is_stored() -> None:
    bench = Bench()
    bench.assign(0)
    bench.data.unplaced.add(tp(0))
    del bench.data.at[tp(0)]
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.receive(msg.Resumed(model(0)))
    assert bench.data.at == {tp(0): 10}


def test_nothing_is_handed_out_of_a_topic_that_is_not_wanted_any_more() -> None:
    """Whoever leads: from the moment of the subscription, also of what comes or comes back later;
    what iteration has taken was not consumed.
    """
    bench = Bench()
    bench.assign(0, 1)
    bench.records.fill({tp(0): [SimpleNamespace(offset=10), SimpleNamespace(offset=11)]})
    bench.data.at[tp(0)] = 12
    bench.state.want(lambda topic: topic != "t")
    assert bench.data.held == {tp(0), tp(1)} and bench.records.next() is None
    assert bench.data.at[tp(0)] == 10
    bench.state.receive(msg.Assigned(dict.fromkeys(model(2), 0), 2))
    assert tp(2) in bench.data.held
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.receive(msg.Resumed(model(0)))
    assert bench.data.held == {tp(0), tp(1), tp(2)}
    bench.hand_out(1, 0)
    bench.state.receive(msg.Revoke(2, model(1)))
    bench.state.want(lambda topic: True)
    assert bench.data.held == {tp(1)}, "but for what is to be given up"
    bench.state.receive(msg.Resumed(model(1)))
    assert bench.data.held == set()


def test_a_member_that_gets_nothing_hears_so() -> None:
    listener = Recorder()
    bench = Bench(listener)
    bench.state.receive(msg.Assigned({}, 1))
    bench.state.run_callbacks()
    assert listener.calls == [("assigned", ())]
    bench.assign(0, epoch=2)
    assert listener.calls[1:] == [("assigned", (0,))]
    bench.state.receive(msg.Revoke(1, model(0)))
    bench.state.receive(msg.Resumed(model(0)))
    bench.state.run_callbacks()
    assert listener.calls[2:] == [], "what was withdrawn leaves no empty call behind"


def test_in_the_eager_form_the_first_assignment_follows_a_revocation_of_nothing() -> None:
    """As kafka-python calls it before each rebalance in which everything stops."""
    listener = Recorder()
    bench = Bench(listener, eager=True)
    bench.assign(0)
    bench.assign(1, epoch=2)
    assert listener.calls == [("revoked", ()), ("assigned", (0,)), ("assigned", (1,))]


def test_a_quarantine_is_called_by_its_name_once() -> None:
    bench = Bench(raises=True)
    bench.state.receive(
        msg.Notice(
            msg.NoticeKind.REBALANCE_FAILED,
            {"message": "ConsumerRebalanceFailedException: 5 failures"},
        )
    )
    with pytest.raises(ConsumerRebalanceFailedException) as caught:
        bench.state.raise_error()
    assert str(caught.value) == "5 failures"
