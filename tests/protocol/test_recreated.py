"""A topic that is deleted and made again is another topic: what a group stored for the first
neither counts for the second nor is written over what is stored for it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.security import make_digest_acl

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Member, Rig, tps
from tests.protocol.spy import Sent, creates, deletes, shape, starts, stores
from zkcoord.core.model import Command, Option, Thread, TopicPartition
from zkcoord.zk.port import Check, Rejected, ZkError
from zkcoord.znodes import codec
from zkcoord.znodes.codec import OffsetsOf

T0, T1 = tps("t", 0, 1)


def incarnation(rig: Rig) -> str:
    """The topic as it is now."""
    node = rig.node(rig.layout.topic("t"))
    assert node is not None
    return str(node[1].czxid)


def said(rig: Rig) -> OffsetsOf | str:
    """Whose the stored offsets are."""
    node = rig.node(rig.layout.offset_topic(GROUP, "t"))
    assert node is not None
    value = codec.decode_incarnation("t", node[0])
    return value if isinstance(value, OffsetsOf) else type(value).__name__


def say(rig: Rig, data: bytes) -> None:
    """What somebody wrote there."""
    rig.zk.ensure_path(rig.layout.offset_topic(GROUP, "t"))
    rig.zk.set(rig.layout.offset_topic(GROUP, "t"), data)


def made_again(rig: Rig, partitions: int = 2) -> str:
    """Delete the topic and make it anew."""
    rig.zk.delete(rig.layout.topic("t"))
    rig.topic("t", partitions)
    return incarnation(rig)


def start(rig: Rig, m: Member, seq: int, topic: str, *partitions: TopicPartition) -> None:
    """A start by hand that says which topic is meant."""
    threads = {tp: Thread(m.member, 0) for tp in partitions}
    command = Command(
        m.member,
        rig.incarnation(m.member),
        Option.START,
        5,
        seq,
        1,
        threads,
        incarnations={"t": topic} if topic else {},
    )
    rig.zk.create(
        rig.layout.command_prefix(GROUP, m.member, 5, seq),
        codec.encode_command(command),
        sequence=True,
    )


def last_start(m: Member) -> Sent:
    """Its latest start ack that happened."""
    m.wait(lambda: any(s.happened for s in m.spy.multis(starts)), "a start ack")
    return [s for s in m.spy.multis(starts) if s.happened][-1]


def test_the_first_start_says_whose_the_offsets_are_that_nobody_has_spoken_for(rig: Rig) -> None:
    """As after an upgrade, or with an old consumer's offsets: they count."""
    rig.topic("t", 2)
    rig.reign()
    rig.put_offset(T0, 40)
    m = rig.member("m", "t", auto_commit=False).joined()
    assert said(rig) == "Vacant"
    start(rig, m, 1, incarnation(rig), T0)
    m.fetches(T0)
    assert (
        m.positions == {T0: 40}
        and said(rig) == OffsetsOf(incarnation(rig))
        and shape(last_start(m).ops)[2] == "SetData offsets/t@0"
    )
    start(rig, m, 2, incarnation(rig), T1)
    m.fetches(T0, T1)
    assert not any("offsets/t@" in op for op in shape(last_start(m).ops)), (
        "once said it is not said again"
    )
    assert m.notices(msg.NoticeKind.TOPIC_RECREATED) == []


def test_offsets_of_the_topic_before_do_not_count_whatever_the_policy(rig: Rig) -> None:
    """The scripted fetching side has another answer for partitions that shall begin at their first
    record. One multi says whose the offsets are and writes them, at the versions read.
    """
    rig.topic("t", 2)
    rig.reign()
    rig.put_offset(T0, 520)
    say(rig, codec.encode_incarnation(OffsetsOf(incarnation(rig))))
    now = made_again(rig)
    m = rig.member("m", "t").joined()
    m.resolves_to = None
    start(rig, m, 1, now, T0, T1)
    m.wait(lambda: m.said(msg.Resolve), "the question where to begin")
    (ask,) = m.said(msg.Resolve)
    assert ask.partitions == ask.earliest == (T0, T1)
    m.tell(msg.Resolved(ask.token, {T0: 0, T1: 3}))
    m.fetches(T0, T1)
    assert (
        m.positions == {T0: 0, T1: 3}
        and rig.offset(T0) == (0, 1)
        and rig.offset(T1) == (3, 0)
        and said(rig) == OffsetsOf(now, newer_only=True)
    )
    (notice,) = m.notices(msg.NoticeKind.TOPIC_RECREATED)
    assert (
        notice.detail["topic"] == "t"
        and notice.detail["now"] == now
        and notice.detail["ignored"] == "t-0=520"
    )
    m.leave({T0: 7, T1: 9})
    again = rig.member("again", "t").joined()
    start(rig, again, 2, now, T0, T1)
    again.fetches(T0, T1)
    assert again.positions == {T0: 7, T1: 9} and again.notices(msg.NoticeKind.TOPIC_RECREATED) == []


def test_what_is_not_meant_any_more_is_left_out_of_the_ack(rig: Rig) -> None:
    rig.topic("t", 2)
    rig.reign()
    rig.put_offset(T0, 520)
    was = incarnation(rig)
    m = rig.member("m", "t").joined()
    now = made_again(rig)
    start(rig, m, 1, was, T0, T1)
    m.wait(lambda: any(s.happened for s in m.spy.multis(deletes("/channel/"))), "an ack")
    assert (
        m.spy.multis(starts) == []
        and rig.owners("t") == {}
        and rig.offset(T0) == (520, 0)
        and said(rig) == "Vacant"
    )
    start(rig, m, 2, now, T0, T1)
    m.fetches(T0, T1)
    assert len(m.said(msg.Assigned)) == 1 and m.said(msg.Lost) == []


def test_a_topic_made_again_between_look_and_ack_is_given_back_before_anything_is_stored(
    rig: Rig,
) -> None:
    """The owner nodes are younger than the topic. What the application commits at once would be
    written over the new topic's offsets; the other topic is not disturbed.
    """
    rig.topic("t", 2)
    rig.topic("u", 1)
    rig.reign()
    was = incarnation(rig)
    (u0,) = tps("u", 0)
    m = rig.member("m", "t", "u", auto_commit=False).joined()
    m.spy.before(starts, lambda: made_again(rig))
    hear = m.driver.to_fetcher

    def commit_at_once(message: msg.ToFetcher) -> None:
        hear(message)
        if isinstance(message, msg.Assigned):
            m.loop.post(
                lambda: m.driver.receive(
                    msg.Commit(99, {T0: 530, T1: 30}, message.assignment_epoch)
                )
            )

    m.driver.to_fetcher = commit_at_once
    start(rig, m, 1, was, T0, T1, u0)
    m.wait(lambda: 99 in m.done, "the answer to the commit")
    m.fetches(u0)
    m.wait(
        lambda: rig.owners("t") == {} and len(rig.owners("u")) == 1, "the owner nodes given back"
    )
    (lost,) = m.said(msg.Lost)
    assert lost.partitions == (T0, T1) and m.done[99].outcome is msg.CommitOutcome.NOT_OWNED
    assert (
        m.spy.multis(stores("/offsets/")) == []
        and rig.offset(T0) == rig.offset(T1) == (0, 0)
        and said(rig) == OffsetsOf(was)
    )


def test_a_coordinator_that_has_not_seen_it_gets_what_was_started_for_the_topic_before(
    rig: Rig,
) -> None:
    """The first coordinator is gone before the topic is made again, the second sees a topic that is
    older than its owners.
    """
    rig.topic("t", 2)
    first = rig.coordinator("first")
    rig.put_offset(T0, 520)
    say(rig, codec.encode_incarnation(OffsetsOf(incarnation(rig))))
    m = rig.member("m")

    def meanwhile() -> None:
        first.stop()
        made_again(rig)

    m.spy.before(starts, meanwhile)
    m.subscribe("t")
    m.wait(lambda: m.said(msg.Lost), "what it must give back")
    assert {tp: offset for a in m.said(msg.Assigned) for tp, offset in a.offsets.items()} == {
        T0: 520,
        T1: 0,
    }
    rig.coordinator("second")
    m.fetches(T0, T1)
    assert m.positions == {T0: 0, T1: 0} and said(rig) == OffsetsOf(
        incarnation(rig), newer_only=True
    )


def test_two_members_find_it_at_once(rig: Rig) -> None:
    """The second's multi fails as a whole at the version; it looks again, and only what was stored
    since counts.
    """
    rig.topic("t", 2)
    rig.reign()
    for tp in (T0, T1):
        rig.put_offset(tp, 520)
    say(rig, codec.encode_incarnation(OffsetsOf(incarnation(rig))))
    now = made_again(rig)
    a, b = rig.member("a", "t").joined(), rig.member("b", "t").joined()

    def first() -> None:
        start(rig, a, 1, now, T0)
        a.fetches(T0)

    b.spy.before(starts, first)
    start(rig, b, 2, now, T1)
    b.fetches(T1)
    failed, done = b.spy.multis(starts)
    assert (
        isinstance(failed.result, Rejected)
        and failed.result.error is ZkError.BAD_VERSION
        and failed.ops[failed.result.index].path == rig.layout.offset_topic(GROUP, "t")
    )
    assert done.happened and not any("offsets/t@" in op for op in shape(done.ops))
    assert (a.positions, b.positions) == ({T0: 0}, {T1: 0}) and said(rig) == OffsetsOf(
        now, newer_only=True
    )
    assert rig.offset(T0) == rig.offset(T1) == (0, 1)


def test_an_operator_who_accepts_the_stored_offsets_is_believed(rig: Rig) -> None:
    rig.topic("t", 2)
    rig.reign()
    rig.put_offset(T0, 520)
    now = made_again(rig)
    say(rig, codec.encode_incarnation(OffsetsOf(now)))
    m = rig.member("m", "t").joined()
    start(rig, m, 1, now, T0)
    m.fetches(T0)
    assert m.positions == {T0: 520} and m.notices(msg.NoticeKind.TOPIC_RECREATED) == []


def test_without_a_word_of_the_coordinator_or_with_a_spoilt_note_nothing_is_thrown_away(
    rig: Rig,
) -> None:
    rig.topic("t", 2)
    rig.reign()
    for tp in (T0, T1):
        rig.put_offset(tp, 520)
    say(rig, codec.encode_incarnation(OffsetsOf("70")))
    m = rig.member("m", "t").joined()
    start(rig, m, 1, "", T0)
    m.fetches(T0)
    say(rig, b"\xff what?")
    start(rig, m, 2, incarnation(rig), T1)
    m.fetches(T0, T1)
    assert (
        m.positions == {T0: 520, T1: 520}
        and said(rig) == "Malformed"
        and [n.detail["what"] for n in m.notices(msg.NoticeKind.MALFORMED)] == ["offsets"]
    )


def test_a_group_goes_over_to_the_new_topic_by_itself(rig: Rig) -> None:
    """With the real coordinator: everything is stopped and started anew; the stop ack still stores
    where the old topic stood, and it is not consumed from.
    """
    rig.topic("t", 2)
    rig.coordinator()
    a, b = rig.member("a", "t"), rig.member("b", "t")
    both: Callable[[], bool] = lambda: len(a.fetching()) == len(b.fetching()) == 1
    a.wait(both, "one partition each")
    for m in (a, b):
        (tp,) = m.fetching()
        m.positions[tp] = 100
        assert m.commit({tp: 100}).outcome is msg.CommitOutcome.OK
    now = made_again(rig)
    for m in (a, b):
        m.wait(
            lambda m=m: len(m.said(msg.Assigned)) >= 2 and len(m.fetching()) == 1,
            "its partition of the new topic",
        )  # type: ignore[misc]
    assert {**a.positions, **b.positions} == {T0: 0, T1: 0} and said(rig) == OffsetsOf(
        now, newer_only=True
    )
    wait_until(
        lambda: [rig.offset(tp) is not None and rig.offset(tp)[0] for tp in (T0, T1)] == [0, 0],
        WAIT_S,
        "the stored offsets",
    )  # type: ignore[index]
    for m in (a, b):
        (tp,) = m.fetching()
        assert m.commit({tp: 5}).outcome is msg.CommitOutcome.OK
        m.leave({tp: 5})
    late = rig.member("late", "t").fetches(T0, T1)
    assert late.positions == {T0: 5, T1: 5}


@pytest.fixture
def unset(rig: Rig) -> Member:
    """A member that fetches both partitions, of which nothing is stored."""
    rig.topic("t", 2)
    rig.reign()
    m = rig.member("m", "t", auto_commit=False).joined()
    m.resolves_to = None
    start(rig, m, 1, incarnation(rig), T0, T1)
    m.wait(lambda: m.said(msg.Resolve), "the question where to begin")
    m.tell(msg.Resolved(m.said(msg.Resolve)[-1].token, {}, (T0, T1)))
    return m.fetches(T0, T1)


def test_the_first_offset_names_what_is_said_of_its_topic(rig: Rig, unset: Member) -> None:
    """And only the first: from then on its own version is the fence."""
    assert unset.commit({T0: 5}).outcome is msg.CommitOutcome.OK
    assert unset.commit({T0: 6}).outcome is msg.CommitOutcome.OK
    (first,) = unset.spy.multis(
        lambda ops: isinstance(ops[0], Check) and creates("/offsets/")(ops) and not starts(ops)
    )
    (second,) = unset.spy.multis(stores("/offsets/"))
    assert first.ops[1] == Check(rig.layout.offset_topic(GROUP, "t"), 1)
    assert not any(isinstance(op, Check) for op in second.ops[1:])


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made again, empty"])
def test_who_holds_a_partition_without_an_offset_begins_anew_after_all_was_deleted(
    rig: Rig, unset: Member, again: bool
) -> None:
    """An operator deletes what is stored of the whole topic: a first offset below a node that says
    nothing would count for the next topic of that name.
    """
    rig.zk.delete(rig.layout.offset_topic(GROUP, "t"))
    if again:
        rig.zk.create(rig.layout.offset_topic(GROUP, "t"), b"")
    done = unset.commit({T0: 120})
    assert (done.outcome, done.partitions) == (msg.CommitOutcome.NOT_OWNED, (T0,))
    unset.wait(lambda: not rig.owners("t"), "the end of both owner nodes")
    assert rig.offset(T0) is None is rig.offset(T1)
    start(rig, unset, 2, incarnation(rig), T0)
    unset.wait(lambda: len(unset.said(msg.Resolve)) == 2, "the question where to begin")
    unset.tell(msg.Resolved(unset.said(msg.Resolve)[-1].token, {T0: 3}))
    unset.fetches(T0)
    assert rig.offset(T0) == (3, 0) and said(rig) == OffsetsOf(incarnation(rig))


def test_a_note_that_is_spoilt_keeps_nobody_from_storing(rig: Rig, unset: Member) -> None:
    say(rig, b"\xff")
    assert unset.commit({T0: 5}).outcome is msg.CommitOutcome.OK
    assert rig.offset(T0) == (5, 0) and rig.owners("t").keys() == {0, 1}


def test_an_offset_that_is_hidden_while_it_is_held_is_given_back(rig: Rig, unset: Member) -> None:
    """Nobody knows what the next write must name."""
    assert unset.commit({T0: 5}).outcome is msg.CommitOutcome.OK
    path = rig.layout.offset(GROUP, T0)

    def hide() -> None:
        rig.zk.set(path, b"7")
        rig.zk.set_acls(path, [make_digest_acl("nobody", "x", all=True)])

    unset.spy.before(stores("/offsets/"), hide)
    done = unset.commit({T0: 9})
    assert (done.outcome, done.partitions) == (msg.CommitOutcome.NOT_OWNED, (T0,))
    unset.fetches(T1)
    unset.wait(lambda: list(rig.owners("t")) == [1], "the end of its owner node")
