"""A coordinator and members whose sessions are all on an observer, beside three servers that vote:
docs/scale.md advises observers where there are very many sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.scale_rig import Rig
from tests.bench.scale_unit_changes import Owner, balanced, counting
from zkcoord.stack.java import find_java
from zkcoord.stack.ports import HOST, free_ports
from zkcoord.stack.servers import ZooKeeperOptions, ZooKeeperServer

pytestmark = [pytest.mark.ensemble, pytest.mark.slow]
VOTERS, OBSERVER = (1, 2, 3), 4
TOPIC, PARTITIONS = "orders", 12
WAIT_S = 60.0


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[int, ZooKeeperServer]]:
    """All four, by number; they serve."""
    numbers = (*VOTERS, OBSERVER)
    ports = free_ports(3 * len(numbers))
    peers = dict(zip(numbers, zip(ports[4:8], ports[8:])))
    quorum, election = peers[OBSERVER]
    config = {f"server.{OBSERVER}": f"{HOST}:{quorum}:{election}:observer"}
    java = find_java()
    found = {
        number: ZooKeeperServer(
            tmp_path / f"zookeeper-{number}",
            ports[number - 1],
            java,
            True,
            ZooKeeperOptions(
                config=config | ({"peerType": "observer"} if number == OBSERVER else {})
            ),
            number,
            peers,
        )
        for number in numbers
    }
    for server in found.values():
        server.launch()
    try:
        for server in found.values():
            server.wait_serving()
        yield found
    finally:
        for server in found.values():
            if server.alive():
                server.kill()


def test_everybody_on_an_observer(servers: dict[int, ZooKeeperServer], tmp_path: Path) -> None:
    assert servers[OBSERVER].mode() == "observer"
    rig = Rig(tmp_path / "run", lambda text: None)
    rig.server = servers[OBSERVER]
    with counting(rig, 30_000) as (hub, seeder), rig.coordinator(hub, "--counts"):
        seeder.topic(TOPIC, PARTITIONS)
        members = [Owner(hub, "group", TOPIC) for _ in range(3)]
        hub.run_until(lambda: balanced(members, PARTITIONS), WAIT_S, "a group at rest")
        newcomer = Owner(hub, "group", TOPIC)
        hub.run_until(lambda: balanced([*members, newcomer], PARTITIONS), WAIT_S, "a join")
        newcomer.commit(5)
        hub.run_until(lambda: newcomer.stored, WAIT_S, "a commit")
        newcomer.leave()
        hub.run_until(lambda: newcomer.gone and balanced(members, PARTITIONS), WAIT_S, "a leave")
        follower = next(n for n in VOTERS if servers[n].mode() == "follower")
        servers[follower].kill()
        members.append(Owner(hub, "group", TOPIC))
        hub.run_until(lambda: balanced(members, PARTITIONS), WAIT_S, "a join without that voter")
    assert servers[OBSERVER].mode() == "observer"
