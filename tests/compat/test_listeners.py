"""Rebalances as a listener sees them, and what it may do inside its callbacks."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from tests.compat.both import PATIENCE_S, Listener, Side, drain, fresh, settle, take, turn
from tests.harness.kafka import add_partitions, create_topic, produce_numbered
from tests.harness.wait import wait_until

pytestmark = pytest.mark.kafka


def listening(side: Side, topic: str, listener: Listener, **configs: Any) -> Any:
    """A member with a listener."""
    c = side.member(topic, **configs)
    c.subscribe([topic], listener=listener)
    return c


def test_join_leave_and_close(side: Side) -> None:
    """Only what moves is told: assigned all; revoked what the second member gets; assigned when it
    is back; revoked all on close.
    """
    topic = create_topic(side.broker, fresh("order"), 4)
    produce_numbered(side.broker, topic, 4, 5)
    listener = Listener()
    one = listening(side, topic, listener)
    taken = drain([one], 20)
    assert listener.calls == [("assigned", (0, 1, 2, 3))]
    two = side.member(topic, topic)
    settle([one, two], 4, taken)
    wait_until(
        lambda: take(one, taken) >= 0 and len(listener.calls) >= 2, PATIENCE_S, "the revocation"
    )
    (name, moved), kept = listener.calls[1], one.assignment()
    assert name == "revoked" and len(moved) == 2 and len(listener.calls) == 2
    assert kept == {
        TopicPartition(topic, n) for n in range(4) if n not in moved
    } and two.assignment() == {TopicPartition(topic, n) for n in moved}
    two.close()
    wait_until(lambda: take(one, taken) >= 0 and len(listener.calls) == 3, PATIENCE_S, "the return")
    assert listener.calls[2] == ("assigned", moved)
    one.close()
    assert listener.calls[3:] == [("revoked", (0, 1, 2, 3))]
    assert {tp: sorted(offsets) for tp, offsets in taken.items()} == {
        TopicPartition(topic, n): [0, 1, 2, 3, 4] for n in range(4)
    }


def test_assigned_comes_before_any_record_and_may_seek(side: Side) -> None:
    topic = create_topic(side.broker, fresh("seekin"), 2)
    produce_numbered(side.broker, topic, 2, 10)
    listener = Listener()
    c = side.member(topic)
    seen: list[str] = []

    def act(name: str, partitions: set[TopicPartition]) -> None:
        seen.append(name)
        if name == "assigned":
            for tp in partitions:
                c.seek(tp, 6)

    listener.act = act
    c.subscribe([topic], listener=listener)
    assert drain([c], 8) == {TopicPartition(topic, n): [6, 7, 8, 9] for n in range(2)} and seen == [
        "assigned"
    ]


def test_seek_to_the_beginning_inside_assigned(side: Side) -> None:
    topic = create_topic(side.broker, fresh("rewind"), 1)
    produce_numbered(side.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    with side.member(topic, topic) as first:
        drain([first], 5)
    listener = Listener()
    c = side.member(topic)
    listener.act = lambda name, partitions: (
        c.seek_to_beginning(*partitions) if name == "assigned" else None
    )
    c.subscribe([topic], listener=listener)
    assert drain([c], 5) == {tp: [0, 1, 2, 3, 4]}


def test_the_thread_of_callbacks_and_what_may_block_there(side: Side) -> None:
    """A commit inside on_partitions_revoked, the documented use of it."""
    topic = create_topic(side.broker, fresh("commitin"), 2)
    produce_numbered(side.broker, topic, 2, 5)
    listener = Listener()
    one = side.member(topic, enable_auto_commit=False)
    threads: set[threading.Thread] = set()
    errors: list[Exception] = []

    def act(name: str, partitions: set[TopicPartition]) -> None:
        threads.add(threading.current_thread())
        if name == "revoked" and not errors:
            try:
                one.commit()
            except RuntimeError as e:
                errors.append(e)

    listener.act = act
    one.subscribe([topic], listener=listener)
    taken = drain([one], 10)
    two = side.member(topic, topic, enable_auto_commit=False)
    settle([one, two], 2, taken)
    wait_until(
        lambda: take(one, taken) >= 0 and "revoked" in listener.names(),
        PATIENCE_S,
        "the revocation",
    )
    if side.differs("the thread of callbacks"):
        assert threads == {threading.current_thread()} and errors == []
        assert taken == {TopicPartition(topic, n): [0, 1, 2, 3, 4] for n in range(2)}, (
            "what was committed inside is not delivered again"
        )
    else:
        assert threading.current_thread() not in threads and "IO thread" in str(errors[0])


def test_pause_stays_over_a_rebalance_for_what_stays(side: Side) -> None:
    topic = create_topic(side.broker, fresh("pause"), 2)
    one = side.member(topic, topic)
    settle([one], 2)
    one.pause(*one.assignment())
    two = side.member(topic, topic)
    settle([one, two], 2)
    (kept,) = one.assignment()
    assert one.paused() == {kept}
    produce_numbered(side.broker, topic, 2, 3)
    taken: dict[TopicPartition, list[int]] = {}
    drain([two], 3, taken)
    assert take(one, taken, 500) == 0 and kept not in taken
    two.close()
    settle([one], 2)
    assert one.paused() == {kept}, "what came back is not paused"


def test_unsubscribing_and_a_new_subscription(side: Side) -> None:
    topic = create_topic(side.broker, fresh("unsub"), 1)
    listener = Listener()
    c = listening(side, topic, listener)
    settle([c], 1)
    c.unsubscribe()
    assert c.assignment() == set() and c.subscription() is None
    assert listener.names() == (
        ["assigned", "revoked"] if side.differs("callbacks of `unsubscribe`") else ["assigned"]
    )
    assert c.poll(10) == {}
    again = Listener()
    c.subscribe([topic], listener=again)
    settle([c], 1)
    assert again.names() == ["assigned"]


def test_another_subscription_replaces_the_first(side: Side) -> None:
    stay, go, come = (create_topic(side.broker, fresh(name), 1) for name in ("stay", "go", "come"))
    first, second = Listener(), Listener()
    c = side.member(fresh("replace"))
    c.subscribe([stay, go], listener=first)
    settle([c], 2)
    c.subscribe([stay, come], listener=second)
    assert c.subscription() == {stay, come}
    wait_until(
        lambda: (
            take(c, {}) >= 0
            and c.assignment() == {TopicPartition(stay, 0), TopicPartition(come, 0)}
        ),
        PATIENCE_S,
        "the other topic",
    )
    assert first.names() == ["assigned"], "a new listener replaces the old one at once"
    assert sorted(second.names()) == ["assigned", "revoked"]


def test_new_partitions_and_topics_of_a_pattern(side: Side) -> None:
    stem = fresh("pattern")
    create_topic(side.broker, f"{stem}-a", 1)
    produce_numbered(side.broker, f"{stem}-a", 1, 1)
    c = side.member(stem, metadata_max_age_ms=500)
    c.subscribe(pattern=f"{stem}-.*")
    taken = drain([c], 1)
    create_topic(side.broker, f"{stem}-b", 1)
    add_partitions(side.broker, f"{stem}-a", 2)
    produce_numbered(side.broker, f"{stem}-b", 1, 1)
    produce_numbered(side.broker, f"{stem}-a", 2, 1, 1)
    drain([c], 4, taken)
    assert (
        c.subscription() == {f"{stem}-a", f"{stem}-b"}
        and set(taken) == c.assignment()
        and len(taken) == 3
    )


def test_the_names_that_a_pattern_covers(side: Side) -> None:
    stem = fresh("names")
    for name in (stem, f"{stem}-more"):
        create_topic(side.broker, name, 1)
    c = side.member(stem)
    c.subscribe(pattern=stem)
    settle([c], 1 if side.differs("names that a pattern covers") else 2)


@pytest.mark.parametrize("callback", ["revoked", "assigned"])
def test_an_error_in_a_callback(side: Side, callback: str) -> None:
    """It is raised out of a poll as KafkaError with its cause, and the rebalance goes on."""
    topic = create_topic(side.broker, fresh("raises"), 2)
    produce_numbered(side.broker, topic, 2, 3)
    listener = Listener()
    one = side.member(topic)

    def act(name: str, partitions: set[TopicPartition]) -> None:
        if name == callback and listener.names().count(callback) == 1:
            raise ZeroDivisionError("mine")

    listener.act = act
    one.subscribe([topic], listener=listener)
    caught: list[KafkaError] = []
    taken: dict[TopicPartition, list[int]] = {}
    members = [one]

    def again() -> bool:
        try:
            turn(members, taken)
        except KafkaError as e:
            caught.append(e)
        if callback == "revoked" and one.assignment() and len(members) == 1:
            members.append(side.member(topic, topic))
        return bool(caught) and sum(map(len, taken.values())) >= 6

    wait_until(again, PATIENCE_S, "the error, and the records all the same")
    assert (
        len(caught) == 1
        and isinstance(caught[0].__cause__, ZeroDivisionError)
        and "callback" in str(caught[0])
    )


@pytest.mark.parametrize("inside", ["unsubscribe", "close"])
def test_leaving_inside_a_callback(ours: Side, inside: str) -> None:
    """Neither hangs nor leaves anything behind (kafka-python raises there, and does not
    recover).
    """
    topic = create_topic(ours.broker, fresh("inside"), 1)
    produce_numbered(ours.broker, topic, 1, 3)
    listener = Listener()
    c = ours.member(topic)
    listener.act = lambda name, partitions: getattr(c, inside)() if name == "assigned" else None
    c.subscribe([topic], listener=listener)
    if inside == "unsubscribe":
        wait_until(lambda: c.poll(100) == {} and listener.calls, PATIENCE_S, "the callback")
        assert c.assignment() == set() and c.subscription() is None and c.poll(10) == {}
    else:
        assert c.poll(PATIENCE_S * 1_000) == {} and list(c) == []
    assert listener.names() == ["assigned", "revoked"]
    drain([ours.member(topic, topic)], 3)


def test_group_metadata(side: Side) -> None:
    topic = create_topic(side.broker, fresh("snapshot"), 1)
    c = side.member(topic, topic, group_instance_id="one")
    before = c.group_metadata()
    assert (
        before.group_id == topic
        and before.group_instance_id == "one"
        and before.state != "<stable>"
    )
    settle([c], 1)
    now = c.group_metadata()
    assert (
        now.state == "<stable>"
        and now.generation_id >= 1
        and now.member_id
        and now._fields == before._fields
    )


def test_the_return_of_a_static_member_is_not_noticed(side: Side) -> None:
    """A restart within the session timeout: the same partitions, and no callback for the others."""
    topic = create_topic(side.broker, fresh("static"), 4)
    listener = Listener()
    stays = side.member(topic, group_instance_id="stays")
    stays.subscribe([topic], listener=listener)
    goes = side.member(topic, topic, group_instance_id="goes")
    settle([stays, goes], 4)
    calls, had = list(listener.calls), goes.assignment()
    goes.close()
    back = side.member(topic, topic, group_instance_id="goes")
    settle([stays, back], 4)
    assert back.assignment() == had
    assert listener.calls == calls


def eager(side: Side) -> dict[str, Any]:
    """Options with which everything stops in each rebalance: kafka-python's default."""
    if side.ours:
        return {"rebalance_protocol": "eager"}
    return {"partition_assignment_strategy": (RangePartitionAssignor,)}


def test_a_member_that_gets_nothing_hears_so(side: Side) -> None:
    """A standby says from `on_partitions_assigned` that it is ready; before its first assignment
    everything, that is nothing, is revoked.
    """
    topic = create_topic(side.broker, fresh("standby"), 1)
    calls: list[tuple[str, int]] = []

    class Every(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            calls.append(("revoked", len(revoked)))

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            calls.append(("assigned", len(assigned)))

    owner = side.member(topic, topic, **eager(side))
    settle([owner], 1)
    standby = side.member(topic, **eager(side))
    standby.subscribe([topic], listener=Every())
    members = [owner, standby]

    def told() -> bool:
        turn(members, {})
        return ("assigned", 0) in calls or ("assigned", 1) in calls

    wait_until(told, PATIENCE_S, "its first assignment")
    if ("assigned", 1) in calls:  # kafka-python's range gives it to whoever sorts first
        assert calls[:2] == [("revoked", 0), ("assigned", 1)] and not side.ours
    else:
        assert calls[:2] == [("revoked", 0), ("assigned", 0)] and standby.assignment() == set()
        del calls[:]
        owner.close()
        settle([standby], 1)
        before = [] if side.differs("callbacks of nothing") else [("revoked", 0)]
        assert calls == [*before, ("assigned", 1)]


def test_a_standby_of_the_cooperative_form(side: Side) -> None:
    """kafka-python says nothing of nothing there."""
    topic = create_topic(side.broker, fresh("coopstandby"), 1)
    owner = side.member(topic, topic)
    settle([owner], 1)
    calls: list[set[TopicPartition]] = []

    class Ready(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            assert revoked, "nothing is revoked"

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            calls.append(assigned)

    standby = side.member(topic)
    standby.subscribe([topic], listener=Ready())
    members = [owner, standby]
    told = [set()] if side.differs("callbacks of nothing") else []

    def joined() -> bool:
        turn(members, {})
        if side.ours:
            return len(calls) >= len(told)
        return standby.group_metadata().state == "<stable>"

    wait_until(joined, PATIENCE_S, "its place in the group")
    assert calls == told
    owner.close()
    settle([standby], 1)
    assert calls == [*told, {TopicPartition(topic, 0)}]


def test_nothing_is_handed_out_of_a_topic_that_was_given_up(side: Side) -> None:
    """Of a backlog that is buffered: its records were not consumed, so they come when the topic is
    subscribed to again.
    """
    old, new = (create_topic(side.broker, fresh(name), 1) for name in ("old", "new"))
    produce_numbered(side.broker, old, 1, 300)
    produce_numbered(side.broker, new, 1, 3)
    tp = TopicPartition(old, 0)
    c = side.member(old, old, enable_auto_commit=False, max_poll_records=10)
    taken = drain([c], 10)
    c.commit()
    c.subscribe([new])
    after = drain([c], 3)
    assert after == {TopicPartition(new, 0): [0, 1, 2]}, "nothing more of the other"
    assert c.poll(500) == {} and len(taken[tp]) < 300
    c.subscribe([old, new])
    again = drain([c], 300 - len(taken[tp]))
    assert again == {tp: list(range(len(taken[tp]), 300))}


def test_nothing_is_handed_out_of_a_topic_that_was_given_up_without_a_group(ours: Side) -> None:
    old, new = (create_topic(ours.broker, fresh(name), 1) for name in ("oldalone", "newalone"))
    produce_numbered(ours.broker, old, 1, 300)
    produce_numbered(ours.broker, new, 1, 3)
    c = ours.bare(max_poll_records=10)
    c.subscribe([old])
    drain([c], 10)
    c.subscribe([new])
    assert drain([c], 3) == {TopicPartition(new, 0): [0, 1, 2]}
