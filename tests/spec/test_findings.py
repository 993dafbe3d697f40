"""What the specification has shown of the code, as runs of the simulator."""

from __future__ import annotations

import pytest

from tests.sim.plan import Plan
from tests.sim.tree import Tree, Txn
from tests.sim.world import World
from zkcoord.zk.port import SetData

CUT_MS = 300
EDITED_AFTER_MS = 50
PATIENCE_MS = 60_000
NEXT = b'{"version":1,"epoch":1800000000000,"protocol":1,"lease_max_ms":3000}'


@pytest.mark.parametrize("edited", (b"", NEXT))
def test_the_epoch_is_edited_while_a_winner_has_not_heard_that_it_won(edited: bytes) -> None:
    """`LeavesOwnSeat`: the leader's node is its own and the epoch is not the one that it wrote."""
    world = World(3, plan=Plan(coordinators=2, consumers=2, topics=1, partitions_max=3, faults=()))
    won: list[str] = []

    def edit() -> None:
        world.zk.commit([SetData(world.places.root, edited, -1)], 0, "operator")

    def saw(txn: Txn, _tree: Tree) -> None:
        made = [path for path, before, _ in txn.changes if before is None]
        if not won and world.places.leader in made:
            won.append(txn.host)
            process = next(c for c in world.coordinators if c.host.name == txn.host)
            world.zk.cut_link(process.host, CUT_MS)
            world.kernel.after(EDITED_AFTER_MS, edit)

    world.zk.observers.append(saw)
    world._populate()
    world.kernel.run_until(PATIENCE_MS)
    assert world.unsettled() == ""
