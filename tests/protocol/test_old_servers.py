"""A group on a ZooKeeper server of 3.4: what is decided and proved is the same, only what is asked
of the server differs. (`make old-zookeeper` runs all of this folder there.)
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.core import messages as msg
from tests.harness.zookeeper import fresh_chroot
from tests.protocol.rig import GROUP, Member, Rig, rigged, tps
from tests.protocol.test_takeover import balanced, closed, settled
from zkcoord.core.model import GroupState
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.znodes.paths import Layout


@pytest.fixture(params=[Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def old_rig(old_zk_server: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[Rig]:
    with rigged(fresh_chroot(old_zk_server.address), request.param) as made:
        yield made


def test_a_group_lives_there(old_rig: Rig) -> None:
    """Four members; one leaves, its offsets stored; the coordinator goes, and its successor sends
    nothing; another member comes; a commit stands.
    """
    first, second, members = balanced(old_rig, 4, closed)
    leaving, staying = members[0], members[1:]
    one, other = leaving.fetching()
    leaving.leave({one: 7, other: 9})
    first.wait(
        lambda: sorted(tp for m in staying for tp in m.fetching()) == sorted(tps("t", *range(8))),
        "all partitions at those who stay",
    )
    first.wait(
        lambda: (
            first.driver.core.groups[GROUP].state is GroupState.STABLE
            and not first.driver.core.writing
        ),
        "a stable group",
    )
    assert {m.positions[tp] for m in staying for tp in (one, other) if tp in m.fetching()} == {7, 9}
    heard = changes(staying)
    closed(first)
    settled(second, 3)
    assert changes(staying) == heard and all(m.said(msg.Lost) == [] for m in staying)
    late = old_rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 2, "its partitions")
    mine = late.fetching()[0]
    assert late.commit({mine: 11}).outcome is msg.CommitOutcome.OK
    stored = old_rig.offset(mine)
    assert stored is not None and stored[0] == 11


def changes(members: list[Member]) -> int:
    """How often they were told to begin or to end."""
    return sum(len(m.said(msg.Assigned)) + len(m.said(msg.Revoke)) for m in members)
