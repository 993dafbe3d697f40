"""What a ZooKeeper server says of itself that is no counter of packets: how much it holds, and how
much of its heap is alive.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from tests.bench.scale_rig import Rig
from tests.bench.scale_world import LAYOUT, Seeder
from tests.harness.wait import wait_until
from tests.harness.zookeeper import srvr_stats
from zkcoord.stack.probe import four_letter
from zkcoord.zk.port import Check

TRANSACTIONS_KEPT = 600
"""More than a server keeps in memory of its latest (500), whatever their size."""
ANSWER_S = 60.0
COLLECTION_S = 120.0
OF_CLASS = re.compile(r"^ *\d+: +\d+ +(\d+) +(\S+)", re.MULTILINE)
FILLERS = ("[I", "jdk.internal.vm.FillerArray")
"""What a collector puts where it moves nothing together; ZooKeeper itself keeps hardly any."""


@dataclass(frozen=True)
class Held:
    """By one server. `heap` are the bytes of objects that are alive after a full collection, None
    where no `jcmd` is beside the `java` that runs it.
    """

    nodes: int
    data: int
    watches: int
    heap: int | None

    def since(self, before: Held) -> Held:
        """What has come since."""
        alive = None if self.heap is None or before.heap is None else self.heap - before.heap
        return Held(
            self.nodes - before.nodes,
            self.data - before.data,
            self.watches - before.watches,
            alive,
        )


def connections_gone(rig: Rig, left: int) -> None:
    """Wait until the server has no more connections than these (its own answer's among them): each
    has buffers, also one that was just dropped. AssertionError where it does not.
    """
    wait_until(
        lambda: srvr_stats(rig.server.port).connections <= left, ANSWER_S, "the end of connections"
    )


def small_transactions(seeder: Seeder) -> None:
    """So many that the server has forgotten what was written before them."""
    one = [Check(LAYOUT.groups_root, -1)]
    seeder.multis(seeder.client, iter([one] * TRANSACTIONS_KEPT))


def held(rig: Rig, heap: bool = True) -> Held:
    """Now. AssertionError where the server does not answer."""
    answer = wait_until(
        lambda: four_letter(rig.server.port, "mntr"), ANSWER_S, "the server's answer to mntr"
    )
    return Held(
        int(answer["zk_znode_count"]),
        int(answer["zk_approximate_data_size"]),
        int(answer["zk_watch_count"]),
        alive_bytes(rig) if heap else None,
    )


def alive_bytes(rig: Rig) -> int | None:
    """Of the server's heap, after a full collection that this sets off."""
    jcmd = rig.java.executable.resolve().with_name("jcmd")
    if not jcmd.is_file():
        return None
    answer = subprocess.run(
        [jcmd, str(rig.server.pid), "GC.class_histogram"],
        capture_output=True,
        text=True,
        timeout=COLLECTION_S,
        check=False,
    ).stdout
    found = [int(size) for size, name in OF_CLASS.findall(answer) if name not in FILLERS]
    return sum(found) if found else None
