"""How long a member says that it stood still before its session was over."""

from __future__ import annotations

from consumer.core.group_member import GroupMember
from consumer.core.options import MemberOptions
from tests.consumer.core.script import World


def member(*lines: str) -> World:
    """After these lines of a script: registered, and with a lease, at 500 ms."""
    world = World()
    for line in ("tick 500", "subscribe t", "opened m", "registered 1", "channel", *lines):
        world.run(line)
    return world


def due_ms(core: GroupMember) -> int:
    found = core.next_wake_ms()
    assert found is not None
    return found


def test_a_step_that_comes_late_says_how_long_it_stood_still() -> None:
    world = member()
    late = due_ms(world.member) + 9_000
    world.run(f"tick {late - 500}")
    assert world.member.session.stood_still_ms == 9_000
    world.run("over")
    ended = world.member.state.ended
    assert ended is not None and str(ended) == "session 9000"
    world.run("opened m2")
    world.run("registered 2")
    assert world.member.state.ended is None, "the next one has begun"


def test_what_was_before_the_latest_proof_does_not_count() -> None:
    world = member("command 5-1 start t-0", "read t-0=free:100@0", "ok t-0@1")
    late = due_ms(world.member) + 5_000
    world.run(f"tick {late - 500}")
    world.run("ok")
    assert world.member.session.proof_ms == late, "it was proved by what was sent then"
    world.run("over")
    assert str(world.member.state.ended) == "session 0"


def test_who_is_not_polled_says_for_how_long() -> None:
    world = member("polled")
    limit_ms = world.member.sessions.poll_deadline_ms()
    assert limit_ms is not None
    world.run(f"tick {limit_ms - 500 + 30}")
    assert str(world.member.state.ended) == f"poll-interval {limit_ms - 500 + 30}"


def test_a_new_member_has_none() -> None:
    assert GroupMember(MemberOptions(group="g")).state.ended is None
