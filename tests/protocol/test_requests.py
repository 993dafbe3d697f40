"""What a change of membership costs, in requests that the server counts: at most 20 and 8 for each
member whose partitions move.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.zookeeper import fresh_chroot, since_3_6, srvr_stats
from tests.protocol.rig import Coordinator, Member, Rig, rigged
from zkcoord.core.model import GroupState
from zkcoord.stack.servers import ZooKeeperServer

LONG_SESSION_MS = 60_000  # pings and proofs of membership are far apart


@pytest.fixture
def rig(own_zk_server: ZooKeeperServer) -> Iterator[Rig]:
    """On a server of its own: its counters count nobody else."""
    with rigged(fresh_chroot(own_zk_server.address)) as made:
        yield made


def at_rest(c: Coordinator, members: list[Member], partitions: int) -> None:
    """Balanced, written down, nothing under way."""

    def done() -> bool:
        counts = [len(m.fetching()) for m in members]
        group = c.driver.core.groups.get("g")
        return (
            group is not None
            and sum(counts) == partitions
            and max(counts) - min(counts) <= 1
            and group.state is GroupState.STABLE
            and not c.driver.core.writing
            and group.deadlines.assign_at_ms is None
            and group.metadata is not None
            and group.metadata.state is GroupState.STABLE
            and group.metadata.members == len(members)
        )

    c.wait(done, "a balanced group at rest")


@since_3_6("each node is read, and its watch is set, by a request of its own")
@pytest.mark.parametrize("count", [4, 12])
def test_a_join_and_a_leave_cost_few_requests(
    rig: Rig, own_zk_server: ZooKeeperServer, count: int
) -> None:
    """Members 1 to n are there with 24 partitions; one more joins, then leaves cleanly. Who moves
    is counted by what the members heard. (The test's own two questions are subtracted.)
    """
    rig.topic("t", 24)
    c = rig.coordinator(session_ms=LONG_SESSION_MS, lease_max_ms=60_000, channel_departed_ms=0)
    members = [rig.member(f"m{n:02d}", "t", session_ms=LONG_SESSION_MS) for n in range(count)]
    at_rest(c, members, 24)
    late = rig.member("late", session_ms=LONG_SESSION_MS)
    for change, after in ((lambda: late.subscribe("t"), [*members, late]), (late.leave, members)):
        heard = [len(m.heard) for m in members]
        before = srvr_stats(own_zk_server.port).received
        change()
        at_rest(c, after, 24)
        received = srvr_stats(own_zk_server.port).received - before - 1
        moved = 1 + sum(len(m.heard) > n for m, n in zip(members, heard))
        assert received <= 20 + 8 * moved, (
            f"{received} requests, {moved} members whose partitions moved"
        )
