"""Client-led groups that a coordinator may not list, or of which it may not write what is said; and
what people are told of why it serves none.
"""

from __future__ import annotations

import pytest

from tests.sim.rights import OPEN, ROLES
from tests.zk.classic.guarded import CLIENT, LED, MINUTE_MS, Guarded
from tests.zk.classic.served_side import GROUP, PATHS
from zkcoord.core.classic.requests import ClassicJoin
from zkcoord.core.error_codes import WireCode
from zkcoord.zk.acl.table import ALL, bits
from zkcoord.zk.classic.finding import LOOK_AGAIN_MS
from zkcoord.zk.port import AclEntry, Change, Create, Delete, Fired
from zkcoord.znodes.classic.documents import encode_state

JOIN = ClassicJoin("", "fresh", "connect", (("own", b"x"),), 30_000, 30_000)


def test_groups_that_cannot_be_listed_may_all_have_members_until_they_can_be() -> None:
    """None is served until then, or a group would be made where one is."""
    side = Guarded()
    side.make(GROUP)
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.close()
    side.lead(20)
    side.port.hidden.add(PATHS.groups)
    side.passes(MINUTE_MS)
    assert side.groups is not None
    assert side.groups.may_lead(GROUP) and side.groups.may_lead("another")
    assert side.groups.seen().none_is_served and not side.taken and not side.freed
    assert ["cannot be listed (NoAuth)" in str(one) for one in side.records] == [True]
    assert side.port.reads <= MINUTE_MS // LOOK_AGAIN_MS + 2
    side.groups.fired(Fired(Change.CREATED, PATHS.presence(GROUP, "m")))
    assert not side.groups._early
    side.port.hidden.clear()
    side.passes(LOOK_AGAIN_MS + 200)
    assert side.taken == [GROUP] and side.groups.may_lead(GROUP) and side.members == (CLIENT,)
    assert not side.groups.may_lead("another") and not side.groups.seen().none_is_served


def test_whoever_asks_of_one_hears_that_it_is_not_served_meanwhile() -> None:
    """Whether it asked before or after, and once they are listed it is let in."""
    side = Guarded()
    side.make(GROUP)
    side.close()
    side.lead(20)
    side.port.hidden.add(PATHS.groups)
    asked = [side.asks(JOIN)]
    side.passes(LOOK_AGAIN_MS)
    asked.append(side.asks(JOIN))
    side.passes(LOOK_AGAIN_MS)
    assert [side.told(one) for one in asked] == [WireCode.COORDINATOR_NOT_AVAILABLE] * 2
    side.port.hidden.clear()
    side.passes(LOOK_AGAIN_MS + 200)
    assert side.groups is not None and not side.groups.seen().none_is_served
    last = side.asks(JOIN)
    side.settle()
    assert side.told(last) is WireCode.MEMBER_ID_REQUIRED


def test_all_that_were_open_and_are_hidden_now_may_have_members() -> None:
    """What is said of them may have been forged in between; and the second reason is told, too."""
    side = Guarded()
    side.make(GROUP)
    side.close()
    side.may(PATHS.groups, (OPEN,))
    side.lead()
    side.passes(LOOK_AGAIN_MS)
    assert side.groups is not None and not side.groups.may_lead(GROUP)
    side.port.hidden.add(PATHS.groups)
    side.make("late")
    side.set(PATHS.state("late"), encode_state(LED))
    side.close()
    side.passes(2 * LOOK_AGAIN_MS)
    assert side.groups.seen().none_is_served
    assert side.groups.may_lead("late") and side.groups.may_lead(GROUP)
    assert any("cannot be listed (NoAuth)" in str(one) for one in side.records)
    side.freed.clear()
    side.write([Delete(path) for path in (PATHS.state(GROUP), *reversed(PATHS.parts(GROUP)))])
    side.port.hidden.clear()
    side.passes(LOOK_AGAIN_MS + 200)
    assert side.groups.may_lead("late") is False and not side.groups.may_lead(GROUP)
    assert GROUP in side.freed


def test_who_closes_a_group_by_hand_hears_why_it_is_still_not_served() -> None:
    """It is not others any more: the coordinator may not take back what they said."""
    side = Guarded()
    side.make(GROUP)
    side.set(PATHS.state(GROUP), encode_state(LED))
    side.close()
    side.may(PATHS.group(GROUP), (OPEN,))
    side.lead_fixed(PATHS.state(GROUP))
    assert [("cannot be written" in str(one)) for one in side.records] == [False]
    side.close()
    side.passes(MINUTE_MS)
    assert [("cannot be written" in str(one)) for one in side.records] == [False, True]
    assert side.groups is not None
    (why,) = side.groups._written._left_alone.values()
    assert why == f"{PATHS.state(GROUP)} cannot be written (NoAuth)"


def test_one_that_names_nobody_keeps_nobody_out_though_it_cannot_be_written() -> None:
    side = Guarded()
    side.make(GROUP)
    side.close()
    side.may(PATHS.group(GROUP), (OPEN,))
    side.lead_fixed(PATHS.state(GROUP))
    side.close()
    side.passes(MINUTE_MS)
    assert side.groups is not None and side.groups.seen().left_alone == 1
    assert not side.groups.may_lead(GROUP)


def test_what_was_deleted_is_left_alone_no_more() -> None:
    """Or whoever may make groups there makes more and more of them to be remembered."""
    side = Guarded()
    names = [f"g{number}" for number in range(10)]
    side.make(*names)
    side.close()
    side.may(PATHS.groups, (OPEN,))
    side.lead()
    for again in range(3):
        for name in names:
            gone = (PATHS.state(name), *reversed(PATHS.parts(name)))
            side.write([Delete(path) for path in gone])
        names = [f"r{again}-{number}" for number in range(10)]
        side.make(*names)
        side.passes(LOOK_AGAIN_MS + 200)
    assert side.groups is not None and side.groups.seen().left_alone == 10


@pytest.mark.parametrize("opened", [PATHS.groups, PATHS.group(GROUP)])
def test_whoever_asks_for_one_that_others_may_write_hears_that_it_is_not_served(
    opened: str,
) -> None:
    """Its gateway may have believed it before."""
    side = Guarded()
    side.make(GROUP)
    side.close()
    side.may(opened, (OPEN,))
    side.lead()
    asked = side.asks(JOIN)
    side.settle()
    assert side.told(asked) is WireCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("served", [True, False])
def test_a_state_that_no_coordinator_may_write_counts_while_its_clients_are_served(
    served: bool,
) -> None:
    """It may have been the coordinator's own, and its gateway does not look again; without clients
    it keeps nobody out.
    """
    side = Guarded()
    side.make(GROUP)
    side.set(PATHS.state(GROUP), encode_state(LED))
    if served:
        side.write([Create(PATHS.presence(GROUP, CLIENT.member_id), b"", ephemeral=True)])
    side.close()
    others = tuple(
        AclEntry(bits("r"), entry.scheme, entry.id) for entry in ROLES.acl(PATHS.state(GROUP))
    )
    side.may(PATHS.state(GROUP), (AclEntry(bits(ALL), "sim", "admin"), *others))
    side.lead_fixed(PATHS.state(GROUP))
    side.passes(2 * LOOK_AGAIN_MS)
    assert side.groups is not None and side.groups.may_lead(GROUP) is served
