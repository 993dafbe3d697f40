"""A session that holds very many owner nodes, killed with -9, on three servers: why a session's
owner paths are capped.

A session's end is ONE transaction that names all its ephemeral nodes, and every server must be able
to read it: from the leader, from its own log, and from a follower that catches up. `python -m
tests.protocol.heavy_session --nodes 40000 --topic-chars 40` shows what happens without the cap (it
makes an ensemble of its own, 2.9 MB of paths stop it for good, and says so); `--nodes 0`, the
default, takes as many as the cap admits.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from tests.harness.wait import wait_until
from tests.harness.zookeeper import Ensemble, connect, disconnect
from zkcoord.core.assignment import ASSIGNORS, OWNER_PATH_BYTES_MAX, AssignmentInput
from zkcoord.errors import ZkcoordError
from zkcoord.stack.java import find_java
from zkcoord.znodes.paths import Layout, parents

SESSION_S = 6.0  # of the holder: it must outlast a pause of the machine, and its end is waited for
WAIT_S = 120.0
NODES_PER_MULTI = 500
GROUP = "g"
HOLD = (
    "import sys; from tests.protocol.heavy_session import hold; hold(sys.argv[1], sys.argv[2],"
    " int(sys.argv[3]))"
)


def nodes_within_the_cap(topic: str = "t") -> int:
    """How many partitions of one topic one member gets at most. Short names are the worst case:
    each path adds the same to the transaction.
    """
    fixed = Layout.DRAFT.owner_fixed_bytes(GROUP)
    given = AssignmentInput(
        {"m": {topic: 1}}, {topic: tuple(range(100_000))}, {}, OWNER_PATH_BYTES_MAX, fixed
    )
    return len(ASSIGNORS["sticky"](given).targets)


def hold(hosts: str, owners: str, nodes: int) -> None:
    """Make that many owner nodes below one in one session, say so, and keep them until killed."""
    client = connect(hosts, SESSION_S)
    for path in (*parents(owners), owners):
        client.ensure_path(path)
    for first in range(0, nodes, NODES_PER_MULTI):
        transaction = client.transaction()
        for number in range(first, min(first + NODES_PER_MULTI, nodes)):
            transaction.create(f"{owners}/{number}", b"g_m-0", ephemeral=True)
        results = transaction.commit()
        assert all(isinstance(result, str) for result in results), results[:3]
    print("ready", flush=True)
    sys.stdin.read()


def kill_a_holder(hosts: str, owners: str, nodes: int) -> None:
    """Let a process hold that many owner nodes, and kill it with -9."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, hosts, owners, str(nodes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n", (
                "the holder could not make its nodes"
            )
        finally:
            process.kill()


def held(client: KazooClient, owners: str) -> int:
    """How many owner nodes there are."""
    stat = client.retry(client.exists, owners)
    return stat.children_count if stat is not None else 0


def survives(ensemble: Ensemble, nodes: int, topic: str = "t") -> None:
    """Kill a holder of so many nodes; then all nodes must go, every server must serve, each must
    come back after a restart with its data, and a write must be taken. AssertionError or an error
    of the client or of the servers says what did not.
    """
    owners = Layout.DRAFT.owner_topic(GROUP, topic)
    look = connect(ensemble.hosts)
    try:
        kill_a_holder(ensemble.hosts, owners, nodes)
        wait_until(lambda: held(look, owners) == 0, WAIT_S, "the end of the holder's nodes")
        for number, member in ensemble.members.items():
            wait_until(
                lambda member=member: member.mode() is not None,
                WAIT_S,
                f"an answer of server {number}",
            )
        for number in ensemble.members:
            ensemble.kill(number)
            ensemble.restart(number)
            one = connect(ensemble.members[number].address)
            assert held(one, owners) == 0 and one.retry(one.exists, owners) is not None, (
                f"what server {number} has loaded"
            )
            one.retry(one.set, owners, b"%d" % number)
            disconnect(one)
    finally:
        disconnect(look)


def main(argv: list[str]) -> int:
    """Say whether an ensemble survives."""
    parser = argparse.ArgumentParser(
        description=(
            "Does an ensemble of three servers survive the end of a session with many ephemeral"
            " nodes?"
        )
    )
    parser.add_argument(
        "--nodes", type=int, default=0, help="how many; 0: as many as the cap admits"
    )
    parser.add_argument(
        "--topic-chars",
        type=int,
        default=1,
        help="how long the topic's name is, which is in every path",
    )
    options = parser.parse_args(argv)
    topic = "t" * options.topic_chars
    nodes = options.nodes or nodes_within_the_cap(topic)
    with tempfile.TemporaryDirectory() as home, Ensemble(Path(home), find_java()) as ensemble:
        try:
            survives(ensemble, nodes, topic)
        except (AssertionError, KazooException, ZkcoordError) as error:
            print(
                f"{nodes} owner nodes in one session: the ensemble did not survive:"
                f" {type(error).__name__}: {error}"
            )
            return 1
    print(f"{nodes} owner nodes in one session: the ensemble survived")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
