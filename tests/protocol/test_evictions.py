"""Deadlines, orphans, leftovers: what a coordinator removes, when, and what it leaves alone."""

from __future__ import annotations

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Coordinator, Rig, tps
from tests.protocol.spy import Sent, creates, deletes, shape
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import Change, Check, Delete

T0, T1 = tps("t", 0, 1)
LEASE = {"lease_max_ms": 400, "lease_margin_ms": 200}
ORPHAN_WAIT_MS = 400 + 40 + 200


def gone(rig: Rig, path: str) -> None:
    """The node does not exist any more."""
    wait_until(lambda: rig.zk.exists(path) is None, WAIT_S, f"the end of {path}")


def evictions(c: Coordinator) -> list[Sent]:
    """Multis that delete a registration."""
    return c.spy.multis(deletes("/ids/"))


def test_an_eviction_is_one_multi(rig: Rig) -> None:
    """It deletes the overdue command, the registration and every other command of the member,
    behind the check of the epoch.
    """
    rig.topic("t", 2)
    rig.ghost("g_ghost-1-00000000", {"t": 1}, rebalance_timeout_ms=300)
    c = rig.coordinator(**LEASE)
    wait_until(lambda: c.records("evicted"), WAIT_S, "the eviction")
    (eviction,) = evictions(c)
    command = f"g_ghost-1-00000000/{c.driver.core.epoch}-1-0000000000"
    assert isinstance(eviction.ops[0], Check) and shape(eviction.ops[1:]) == [
        f"Delete {command}@-1",
        "Delete ids/g_ghost-1-00000000@-1",
    ]
    assert (
        rig.names(rig.layout.ids(GROUP)) == []
        and c.records("evicted")[0]["member"] == "g_ghost-1-00000000"
    )


def test_an_eviction_does_nothing_when_the_command_is_gone(rig: Rig) -> None:
    """The member answers just as its time is over: the multi fails as a whole, and the member
    stays.
    """
    rig.topic("t", 2)
    c = rig.coordinator(**LEASE)
    m = rig.member("m", rebalance_timeout_ms=500)
    m.resolves_to = None

    def answered_at_last() -> None:
        m.wait(lambda: m.said(msg.Resolve), "the question where to begin")
        (question,) = m.said(msg.Resolve)
        m.tell(msg.Resolved(question.token, dict.fromkeys(question.partitions, 0)))
        m.fetches(T0, T1)

    c.spy.before(deletes("/ids/"), answered_at_last)
    m.subscribe("t")
    c.wait(lambda: evictions(c) and evictions(c)[0].result is not None, "the attempt to evict")
    m.fetches(T0, T1)
    assert (
        not evictions(c)[0].happened
        and len(m.names) == 1
        and rig.names(rig.layout.ids(GROUP)) == [m.member]
        and not c.records("evicted")
    )
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1, "the group to go on")


def test_a_slow_members_partitions_wait_for_lease_and_margin_after_its_eviction(rig: Rig) -> None:
    """It hangs: evicted, its session and its owner nodes live on. They are left alone for
    lease_max_ms and the margin, counted by the coordinator, then deleted with version 1, then given
    away.
    """
    rig.topic("t", 2)
    rig.ghost("g_ghost-1-00000000", {"t": 1}, owns=(T0, T1), rebalance_timeout_ms=300)
    c = rig.coordinator(**LEASE)
    m = rig.member("m", "t")
    wait_until(lambda: evictions(c), WAIT_S, "the eviction")
    m.fetches(T0, T1)
    (eviction,), freed = evictions(c), c.spy.multis(deletes("/owners/"))
    assert freed[0].at_ms - eviction.at_ms >= ORPHAN_WAIT_MS
    assert sorted(op.path for s in freed for op in s.ops[1:]) == [
        rig.layout.owner(GROUP, tp) for tp in (T0, T1)
    ]
    assert all(op.version == 1 for s in freed for op in s.ops if isinstance(op, Delete))


def test_a_new_coordinator_counts_the_orphans_wait_again(rig: Rig) -> None:
    """It cannot know since when the registration is gone."""
    rig.topic("t", 1)
    first = rig.coordinator("first", lease_max_ms=400, lease_margin_ms=60_000)
    client = rig.client()
    rig.owner(client, T0, "g_nobody-1-00000000-0")
    m = rig.member("m", "t").joined()
    first.wait(
        lambda: (
            GROUP in first.driver.core.groups
            and first.driver.core.groups[GROUP].deadlines.gone_since
        ),
        "the first to see the orphan",
    )
    first.stop()
    second = rig.coordinator("second", **LEASE)
    began = min(s.at_ms for s in second.spy.sent)
    m.fetches(T0)
    (freed,) = second.spy.multis(deletes("/owners/"))
    assert freed.at_ms - began >= ORPHAN_WAIT_MS and first.spy.multis(deletes("/owners/")) == []


def test_orphans_wait_for_the_longest_lease_that_a_coordinator_has_published(rig: Rig) -> None:
    """A member that no command has told of the shorter one still counts on it: also when the second
    term after it has begun.
    """
    rig.topic("t", 1)
    rig.coordinator("first", lease_max_ms=2_000).stop()
    rig.coordinator("second", **LEASE).stop()
    rig.owner(rig.client(), T0, "g_nobody-1-00000000-0")
    m = rig.member("m", "t").joined()
    third = rig.coordinator("third", **LEASE)
    began = min(s.at_ms for s in third.spy.sent)
    m.fetches(T0)
    (freed,) = third.spy.multis(deletes("/owners/"))
    assert freed.at_ms - began >= 2_000 + 200 + 200
    assert third.records("term")[0]["older_lease_ms"] == 2_000


def test_an_owner_node_of_an_old_consumer_is_left_alone(rig: Rig) -> None:
    """Version 0 says that it is not ours, whatever became of its registration."""
    rig.topic("t", 2)
    rig.owner(rig.client(), T0, "old_one-0", version=0)
    c = rig.coordinator(lease_max_ms=100, lease_margin_ms=0)
    m = rig.member("m", "t").fetches(T1)
    rig.owner(rig.client(), tps("t", 7)[0], "g_nobody-1-00000000-0")
    gone(rig, rig.layout.owner(GROUP, tps("t", 7)[0]))
    assert (
        list(rig.owners("t")) == [0, 1]
        and len(c.spy.multis(deletes("/owners/"))) == 1
        and m.fetching() == [T1]
    )


def test_a_new_coordinator_deletes_the_commands_of_older_epochs(rig: Rig) -> None:
    """The first leaves a command that nobody acked; the second deletes it before it sends its
    own.
    """
    rig.topic("t", 2)
    first = rig.coordinator("first")
    rig.ghost("g_ghost-1-00000000", {"t": 1})
    (old,) = wait_until(lambda: rig.commands("g_ghost-1-00000000"), WAIT_S, "the first command")
    first.stop()
    second = rig.coordinator("second")
    new = wait_until(
        lambda: [n for n in rig.commands("g_ghost-1-00000000") if n != old],
        WAIT_S,
        "the second command",
    )
    assert rig.commands("g_ghost-1-00000000") == new and new[0].startswith(
        f"{second.driver.core.epoch}-"
    )
    below = [
        (change, path.rsplit("/", 1)[1])
        for change, path in rig.trace
        if "/channel/g_ghost-1-00000000/" in path
    ]
    assert below == [(Change.CREATED, old), (Change.DELETED, old), (Change.CREATED, new[0])]


def test_a_new_coordinator_withdraws_what_a_member_is_busy_with(rig: Rig) -> None:
    """The old command goes, the new one asks for the same: the member resumes and gives up again,
    under one owner at any time.
    """
    rig.topic("t", 2)
    first = rig.coordinator("first")
    a = rig.member("a", "t").fetches(T0, T1)
    a.answers_revokes = False
    b = rig.member("b", "t")
    a.wait(lambda: a.said(msg.Revoke), "the revocation")
    first.stop()
    rig.coordinator("second")
    a.wait(lambda: a.said(msg.Resumed) and len(a.said(msg.Revoke)) == 2, "the second revocation")
    assert b.fetching() == []
    a.ask(lambda: a.answer(a.said(msg.Revoke)[1]))
    a.wait(lambda: len(a.fetching()) == 1 and len(b.fetching()) == 1, "one partition each")


def test_commands_of_another_incarnation_are_deleted(rig: Rig) -> None:
    """The ghost changed its mind without deleting its command (as nobody of ours does): a command
    for the old incarnation is deleted, and a new one comes.
    """
    rig.topic("t", 1)
    rig.reign(epoch=5)
    client = rig.ghost("g_ghost-1-00000000", {"t": 1})
    old = rig.command(
        "g_ghost-1-00000000",
        1,
        start=(T0,),
        epoch=2**40,
        incarnation=rig.incarnation("g_ghost-1-00000000") - 1,
    )
    rig.zk.delete(rig.layout.leader)
    rig.coordinator()
    (new,) = wait_until(
        lambda: [n for n in rig.commands("g_ghost-1-00000000") if n != old],
        WAIT_S,
        "the new command",
    )
    assert rig.commands("g_ghost-1-00000000") == [new] and client.connected


def test_owner_paths_of_a_session_are_capped_and_the_excess_is_reported(rig: Rig) -> None:
    """A session's close is one transaction. Full paths count, chroot included: what does not fit
    stays unassigned.
    """
    partitions = rig.topic("t", 8)
    path_bytes = len(rig.chroot + rig.layout.owner(GROUP, T0))
    c = rig.coordinator(owner_path_bytes_max=3 * path_bytes)
    m = rig.member("m", "t")
    m.wait(lambda: len(m.fetching()) == 3, "as much as fits")
    c.wait(lambda: c.records("rebalance"), "its report")
    assert c.records("rebalance")[0]["unassigned"] == 5 and len(rig.owners("t")) == 3
    other = rig.member("other", "t")
    other.wait(lambda: len(other.fetching()) == 3, "as much as fits the second session")
    c.wait(lambda: len(c.records("rebalance")) == 2, "its second report")
    assert c.records("rebalance")[1]["unassigned"] == 2 and set(m.fetching()) | set(
        other.fetching()
    ) < set(partitions)


def test_a_channel_goes_only_when_its_registration_is_gone(rig: Rig) -> None:
    """In a multi of its own; that of a live member stays, and so does one whose registration is not
    there yet.
    """
    rig.topic("t", 2)
    c = rig.coordinator()
    early = rig.layout.channel(GROUP, "g_early-1-00000000")
    stays = rig.member("stays", "t").fetches(T0, T1)
    rig.zk.ensure_path(early)
    goes = rig.member("goes", "t")
    goes.wait(lambda: len(goes.fetching()) == 1, "its partition")
    goes.leave()
    gone(rig, rig.layout.channel(GROUP, goes.member))
    stays.fetches(T0, T1)
    (dropped,) = c.spy.multis(lambda ops: shape(ops)[-1] == f"Delete channel/{goes.member}@-1")
    assert shape(dropped.ops)[1:] == [f"Delete channel/{goes.member}@-1"]
    assert rig.names(rig.layout.channels(GROUP)) == sorted([stays.member, "g_early-1-00000000"])


def test_the_channel_of_a_member_that_a_dead_coordinator_left_behind_goes_in_the_end(
    rig: Rig,
) -> None:
    """Nobody saw its registration go: it is empty for long, so it is deleted."""
    rig.topic("t", 1)
    left = rig.layout.channel(GROUP, "g_left-1-00000000")
    rig.zk.ensure_path(left)
    rig.ghost("g_ghost-1-00000000", {"t": 1})
    c = rig.coordinator(channel_orphan_ms=300)
    gone(rig, left)
    assert rig.names(rig.layout.channels(GROUP)) == ["g_ghost-1-00000000"]
    assert len(c.spy.multis(lambda ops: isinstance(ops[-1], Delete) and ops[-1].path == left)) == 1


def test_a_partition_is_started_only_when_its_stop_was_acked(rig: Rig) -> None:
    """A member that is slow to give up delays only what it shall give up: the other partitions move
    meanwhile.
    """
    t, u = rig.topic("t", 4), rig.topic("u", 4)
    rig.coordinator()
    slow = rig.member("slow", "t").fetches(*t)
    quick = rig.member("quick", "u").fetches(*u)
    slow.answers_revokes = False
    both = rig.member("both", "t", "u")
    slow.wait(lambda: slow.said(msg.Revoke), "the revocation")
    both.wait(lambda: any(tp.topic == "u" for tp in both.fetching()), "the other member's part")
    (moving,) = slow.said(msg.Revoke)[0].partitions
    assert rig.owners("t")[moving.partition][1] == slow.sessions[-1] and not any(
        str(moving) in str(m.offsets) for m in both.said(msg.Assigned)
    )
    slow.ask(lambda: slow.answer(slow.said(msg.Revoke)[0]))
    both.wait(lambda: moving in both.fetching(), "the stopped partition")
    assert isinstance(moving, TopicPartition) and quick.said(msg.Lost) == []


def test_no_command_is_sent_while_one_is_outstanding(rig: Rig) -> None:
    """At most one command per member, whatever happens meanwhile."""
    rig.topic("t", 1)
    c = rig.coordinator()
    rig.ghost("g_ghost-1-00000000", {"t": 1})
    wait_until(lambda: rig.commands("g_ghost-1-00000000"), WAIT_S, "the first command")
    for partitions in (2, 3):
        rig.topic("t", partitions)
        c.wait(lambda: len(c.driver.core.groups[GROUP].view.target) == partitions, "a new target")
    rig.member("m", "t").joined()
    c.wait(
        lambda: (
            len({thread.member for thread in c.driver.core.groups[GROUP].view.target.values()}) == 2
        ),
        "a target of two members",
    )
    assert (
        len(rig.commands("g_ghost-1-00000000")) == 1
        and len(c.spy.multis(creates("/channel/g_ghost-1-00000000/"))) == 1
    )
