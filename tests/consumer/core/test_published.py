"""What a member publishes for other threads at the end of each step: lease and snapshot."""

from __future__ import annotations

from consumer.core.group_member import GroupMember
from consumer.core.in_progress import InFlightKind
from consumer.core.lease import NO_LEASE, Lease
from consumer.core.options import MemberOptions
from consumer.core.phases import Phase
from tests.consumer.core.script import World

JOINED = ("subscribe t", "opened m", "registered 1", "channel")
STARTED = (
    "command 5-1 start t-0,t-1",
    "read t-0=free:100@0 t-1=free:200@3",
    "ok t-0@1 t-1@4",
)


def member(*lines: str) -> World:
    """After these lines of a script."""
    world = World()
    for line in lines:
        world.run(line)
    return world


def test_a_new_member_has_nothing() -> None:
    new = GroupMember(MemberOptions(group="g"))
    assert new.lease is NO_LEASE and new.options.group == "g"
    seen = new.snapshot
    assert (seen.phase, seen.generation, seen.epoch) == (Phase.IDLE, 0, 0)
    assert seen.proof_ms is None and not seen.busy


def test_the_snapshot_follows_each_step() -> None:
    world = member("tick 500", *JOINED)
    seen = world.member.snapshot
    assert (seen.phase, seen.epoch, seen.proof_ms, seen.busy) == (Phase.MEMBER, 5, 500, False)
    assert world.member.lease == Lease(12_500, 0), "nothing was lost yet"
    world.run(STARTED[0])
    assert world.member.snapshot.busy, "a start is being carried out"
    world.run("command 5-2 stop t-0")
    world.run(STARTED[1])
    world.run("tick 1000")
    world.run("ok t-0@1 t-1@4")
    seen = world.member.snapshot
    assert (seen.generation, seen.proof_ms) == (1, 1_500) and seen.busy, "the stop is next"
    world.run("revoked t-0=103")
    world.run("ok")
    assert not world.member.snapshot.busy
    world.run("command 7-3 stop t-1")
    assert world.member.snapshot.epoch == 7, "a later coordinator was heard of"
    world.run("over")
    seen = world.member.snapshot
    assert (seen.phase, seen.proof_ms, seen.busy) == (Phase.OPENING, None, False)
    assert world.member.lease.until_ms == 0


def test_what_waits_behind_a_read_is_work_too() -> None:
    world = member(*JOINED, "suspended", "command 5-1 start t-0")
    assert world.member.snapshot.busy


def test_commands_are_for_members_alone() -> None:
    """Anybody who may write to a channel can name the incarnation of who has none yet; and what is
    read of a registration that is gone is for nobody any more.
    """
    for lines in (("subscribe t", "opened m"), (*JOINED, "touched", "read gone")):
        world = member(*lines, "command 9-1 start t-0 inc=" + ("1" if "touched" in lines else "0"))
        seen = world.member.snapshot
        assert seen.phase is not Phase.MEMBER
        assert not seen.busy and seen.epoch < 9, lines


def test_a_proof_that_is_older_than_the_last_shortens_no_lease() -> None:
    world = member(*JOINED, *STARTED, "commit 1 t-0=101", "tick 3000", "ok t-0@2")
    until = world.member.lease.until_ms
    for line in ("commit 2 t-0=102", "ok ago=3000 t-0@3"):
        world.run(line)
    assert world.member.lease.until_ms == until == 15_000


def test_without_a_word_of_the_coordinator_the_default_limits_the_lease() -> None:
    world = member("subscribe t", "opened m timeout=600000", "registered 1 lease=0")
    options = world.member.options
    assert world.member.lease.until_ms == options.lease_default_ms < 400_000


def test_messages_of_the_application_are_numbered_apart() -> None:
    """An answer to one question is none to another."""
    world = member(*JOINED, "command 5-1 start t-0,t-1", "read t-0=free t-1=free")
    first = world.resolve
    for line in ("resolved t-0=0", "tick 1000"):
        world.run(line)
    assert world.resolve > first
    assert world.run("old resolved t-1=5") == ["nothing"]
    assert world.run("resolved t-1=5")
    for line in ("ok t-0@0 t-1@0", "command 5-2 stop t-0"):
        world.run(line)
    first = world.revoke
    for line in ("revoked t-0=3", "ok", "command 5-3 stop t-1"):
        world.run(line)
    assert world.revoke > first


def test_the_coordinator_limits_the_lease_from_the_first_moment() -> None:
    assert (
        member("subscribe t", "opened m", "registered 1 lease=3000").member.lease.until_ms == 3_000
    )


def test_a_new_subscription_is_due_once_however_often_it_changes() -> None:
    """A gateway's clients subscribe as often as they like, also while ZooKeeper is away."""
    world = member(*JOINED, "suspended")
    for _ in range(100):
        for line in ("subscribe u", "subscribe t,u"):
            world.run(line)
    assert len(world.member.session.intents) == 1
    world.run("resumed")
    world.run("read")
    world.run("channel")
    assert world.member.session.is_in_flight(InFlightKind.RESUBSCRIBE)
    for line in ("subscribe u", "subscribe t,u", "subscribe v") * 10:
        world.run(line)
    assert len(world.member.session.intents) == 1
