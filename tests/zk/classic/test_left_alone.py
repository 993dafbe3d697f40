"""A coordinator with roles, and client-led groups of which others may write what is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core.classic.scenario import OPTIONS, Play, Scenario
from tests.sim.rights import OPEN
from tests.zk.classic.guarded import CLIENT, EMPTY, LED, MINUTE_MS, Guarded
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from zkcoord.core.classic.requests import ClassicDelete
from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.zk.classic.finding import GROUPS_PER_READ, LOOK_AGAIN_MS
from zkcoord.zk.port import (
    Change,
    Create,
    Delete,
    Fired,
    SetData,
)
from zkcoord.znodes.classic.documents import (
    decode_state,
    encode_state,
)
from zkcoord.znodes.paths import Layout


def test_one_that_was_mended_is_taken_up_once_and_others_are_looked_at_one_look_at_a_time() -> None:
    """However long a look takes: whoever is served already would have the state of long ago."""
    side = Guarded()
    names = [f"g{n:03}" for n in range(6 * GROUPS_PER_READ)]
    side.make(*names)
    side.close()
    for name in names:
        side.may(PATHS.group(name), (OPEN,))
    side.lead()
    side.wait(LOOK_AGAIN_MS // 2)
    assert side.taken == [] and side.groups is not None
    side.close(*map(PATHS.group, names[1:]))
    side.port.delay_ms = LOOK_AGAIN_MS // 3
    side.passes(MINUTE_MS)
    assert sorted(side.taken) == names[1:] and side.port.most == 1
    seen = side.groups.seen()
    assert (seen.left_alone, seen.none_is_served) == (1, False)
    assert side.groups.group(names[0]) is None


def test_a_look_at_what_is_unchanged_has_nothing_else_read() -> None:
    side = Guarded()
    names = [f"g{n}" for n in range(10)]
    side.make(*names)
    side.write([Create(PATHS.pins, b"")])
    side.write([Create(PATHS.pin(f"p{n}"), b"x") for n in range(50)])
    side.close()
    side.may(PATHS.groups, (OPEN,))
    side.lead()
    assert sorted(side.freed) == names, "members of the other kind may be assigned"
    side.port.reads = 0
    side.passes(MINUTE_MS)
    assert sorted(side.freed) == names
    looks = MINUTE_MS // LOOK_AGAIN_MS
    assert side.port.reads <= (looks + 1) * (5 * len(names) + 1)


def test_what_is_forged_where_all_is_open_is_taken_back_each_time() -> None:
    side = Guarded()
    side.make(GROUP)
    side.close()
    side.may(PATHS.groups, (OPEN,))
    side.lead()
    for _ in range(2):
        side.set(PATHS.state(GROUP), encode_state(LED))
        side.passes(2 * LOOK_AGAIN_MS)
        assert not side.members
    side.close()
    side.passes(2 * LOOK_AGAIN_MS)
    assert side.taken == [GROUP]


def test_what_members_say_while_none_is_served_is_not_kept() -> None:
    side = Guarded()
    side.close()
    side.may(PATHS.groups, (OPEN,))
    side.lead()
    assert side.groups is not None
    for number in range(1_000):
        side.groups.fired(Fired(Change.CREATED, PATHS.presence(GROUP, f"m{number}")))
    assert not side.groups._early


def test_clients_that_have_heard_of_their_generation_keep_it() -> None:
    """Another coordinator finds somebody registered beside them, who came later."""
    side = ServedSide(OPTIONS)
    player = Play(side)
    player.run(Scenario("lines", tuple(enumerate(("group a",), 1))))
    for one in side.view().state.members:
        side.write([Create(PATHS.presence(GROUP, one.member_id), b"", ephemeral=True)])
    ids = Layout.DRAFT.ids(GROUP)
    side.write([Create(path, b"") for path in (Layout.DRAFT.group(GROUP), ids)])
    side.write([Create(f"{ids}/shim", b"", ephemeral=True)])
    player.run(Scenario("lines", tuple(enumerate(("a join meta=other -> 0",), 1))))
    assert side.view().phase is ClassicPhase.COMPLETING
    side.restart()
    assert side.view().state.members


def test_until_a_state_is_taken_back_its_members_may_be_there() -> None:
    """Whoever registers meanwhile would be assigned what these still commit."""
    side = Guarded()
    side.make("g", *[f"g{n:03}" for n in range(3 * GROUPS_PER_READ)])
    side.set(PATHS.state("g"), encode_state(LED))
    side.close()
    side.may(PATHS.groups, (OPEN,))
    side.lead(20)
    assert side.groups is not None
    window_ms = 0
    for _ in range(2_000):
        state = decode_state("g", side.data(PATHS.state("g")) or b"")
        assert isinstance(state, ClassicState)
        if not state.members:
            break
        assert side.groups.may_lead("g")
        window_ms += 1
        side.kernel.run_until(side.kernel.now + 1)
    side.passes(1_000)
    assert window_ms > 20 and not side.groups.may_lead("g") and "g" in side.freed


def test_nor_are_they_nobody_while_one_that_was_forged_again_is_not_taken_back_again() -> None:
    side = Guarded()
    side.make(GROUP)
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.close()
    side.may(PATHS.group(GROUP), (OPEN,))
    side.lead()
    side.passes(LOOK_AGAIN_MS // 2)
    assert side.groups is not None
    assert not side.groups.may_lead(GROUP) and not side.members
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.freed.clear()
    side.port.write_ms = LOOK_AGAIN_MS * 3 // 4
    side.passes(LOOK_AGAIN_MS)
    assert side.members and side.groups.may_lead(GROUP) and not side.freed
    side.passes(LOOK_AGAIN_MS // 2)
    assert not side.members and not side.groups.may_lead(GROUP) and side.freed == [GROUP]


@pytest.mark.parametrize("opened", [PATHS.group(GROUP), PATHS.groups])
def test_a_state_that_cannot_be_taken_back_is_tried_again_until_it_is(opened: str) -> None:
    """Also when others may not write it any more: until then its members may be there."""
    side = Guarded()
    side.make(GROUP)
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.close()
    side.may(opened, (OPEN,))
    side.lead_fixed(PATHS.state(GROUP))
    side.close()
    side.port.tried.clear()
    side.passes(MINUTE_MS)
    assert side.groups is not None
    assert side.groups.may_lead(GROUP) and side.members and not side.taken
    looks = MINUTE_MS // LOOK_AGAIN_MS
    assert looks // 2 <= side.port.tried.count(PATHS.state(GROUP)) <= looks + 1
    assert side.answered(ClassicDelete()) is WireCode.COORDINATOR_NOT_AVAILABLE
    side.freed.clear()
    side.port.fixed.clear()
    side.passes(LOOK_AGAIN_MS + 100)
    assert not side.groups.may_lead(GROUP) and not side.members
    assert (side.taken, side.freed) == ([GROUP], [GROUP])


def test_so_is_one_whose_members_nobody_has_told_of_it() -> None:
    side = Guarded()
    side.make(GROUP)
    untold = ClassicState(ClassicPhase.COMPLETING, 7, "connect", "own", "m", (CLIENT,))
    side.set(PATHS.state(GROUP), encode_state(untold))
    ids = Layout.DRAFT.ids(GROUP)
    side.write([Create(path, b"") for path in (Layout.DRAFT.group(GROUP), ids, f"{ids}/shim")])
    side.close()
    side.lead_fixed(PATHS.state(GROUP))
    assert side.groups is not None and not side.taken
    side.passes(2 * LOOK_AGAIN_MS)
    assert side.groups.may_lead(GROUP) and not side.taken
    assert any("cannot be written (NoAuth)" in str(one) for one in side.records)
    side.port.fixed.clear()
    side.passes(LOOK_AGAIN_MS + 100)
    assert not side.groups.may_lead(GROUP) and side.taken == [GROUP] and not side.members


def test_what_a_group_says_that_was_taken_up_is_not_taken_back() -> None:
    """While others are looked at again and again."""
    side = Guarded()
    side.make(GROUP, "h")
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.set(PATHS.state("h"), encode_state(LED))
    side.close()
    side.may(PATHS.group(GROUP), (OPEN,))
    side.may(PATHS.group("h"), (OPEN,))
    side.lead_fixed(PATHS.state(GROUP), PATHS.state("h"))
    side.passes(LOOK_AGAIN_MS)
    side.port.fixed.clear()
    side.close(PATHS.group(GROUP))
    side.passes(2 * LOOK_AGAIN_MS)
    assert side.taken == [GROUP]
    lines = ("a enter -> waits", "wait first", "a gets 0", "a sync give=a:x -> 0")
    Play(side).run(Scenario("lines", tuple(enumerate(lines, 1))))
    (one,) = side.members
    side.write([Create(PATHS.presence(GROUP, one.member_id), b"", ephemeral=True)])
    said = side.view().state
    side.port.tried.clear()
    side.passes(MINUTE_MS)
    assert side.view().state == said
    assert said.generation > LED.generation and PATHS.state(GROUP) not in side.port.tried
    assert side.groups is not None and side.groups.seen().left_alone == 1


def test_what_was_written_since_it_was_read_is_read_before_it_is_taken_back() -> None:
    """What is served rests on what counts now."""
    side = Guarded()
    side.make(GROUP)
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.close()
    side.may(PATHS.group(GROUP), (OPEN,))
    side.lead()
    side.close()
    side.port.delay_ms = LOOK_AGAIN_MS // 2
    side.passes(LOOK_AGAIN_MS + 1_000)
    assert side.port.under_way
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.passes(LOOK_AGAIN_MS)
    assert side.groups is not None
    assert side.members and side.groups.may_lead(GROUP) and not side.taken
    side.passes(2 * LOOK_AGAIN_MS)
    assert not side.members and not side.groups.may_lead(GROUP) and side.taken == [GROUP]


def deleted(side: Guarded) -> None:
    side.write([Delete(PATHS.state(GROUP))])


def deleted_with_all(side: Guarded) -> None:
    side.write([Delete(path) for path in (PATHS.state(GROUP), *reversed(PATHS.parts(GROUP)))])


def shown(side: Guarded) -> None:
    side.set(PATHS.state(GROUP), EMPTY)
    side.port.hidden.clear()


@pytest.mark.parametrize("opened", [PATHS.group(GROUP), PATHS.groups])
@pytest.mark.parametrize("happens", [deleted, deleted_with_all, shown])
def test_whoever_waits_hears_once_that_a_group_has_no_members_however_that_is_found(
    happens: Callable[[Guarded], None], opened: str
) -> None:
    """Members of the other kind are not assigned anything before that."""
    side = Guarded()
    side.make(GROUP)
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.close()
    side.may(opened, (OPEN,))
    side.lead_fixed(PATHS.state(GROUP))
    assert side.groups is not None
    if happens is shown:
        side.port.hidden.add(PATHS.state(GROUP))
    side.passes(2 * LOOK_AGAIN_MS)
    assert side.groups.may_lead(GROUP)
    side.freed.clear()
    happens(side)
    side.passes(MINUTE_MS)
    assert not side.groups.may_lead(GROUP) and side.freed == [GROUP]


def test_so_it_is_where_one_is_deleted_when_a_term_begins() -> None:
    """Between the list and the reading of each, and other groups are no news."""
    side = Guarded()
    side.make(GROUP, *[f"g{n:03}" for n in range(3 * GROUPS_PER_READ)])
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.close()
    side.lead(20)
    assert side.groups is not None and side.groups.may_lead(GROUP)
    deleted(side)
    side.passes(MINUTE_MS)
    assert not side.groups.may_lead(GROUP) and side.freed == [GROUP]


def test_a_deletion_is_for_who_may_write_what_members_may_not() -> None:
    """Where somebody else who may has written there since, it is to be asked again."""
    side = Guarded()
    side.make("g")
    side.close()
    side.lead()
    proof = SetData(PATHS.proof(GROUP), b"", -1)
    assert side.answered(ClassicDelete()) is WireCode.GROUP_AUTHORIZATION_FAILED
    said = side.answered(ClassicDelete(), proof, later=True)
    assert said is WireCode.COORDINATOR_LOAD_IN_PROGRESS
    assert side.answered(ClassicDelete(), proof) is WireCode.NONE
