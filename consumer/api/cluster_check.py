"""Brokers that the application names have to be those of the cluster whose groups are in ZooKeeper:
a member would consume one cluster, and store its offsets for a group of the other.
"""

from __future__ import annotations

from collections.abc import Callable

from consumer.api.setup import ConsumerSetup
from consumer.errors import MembershipError, OtherClusterError
from consumer.member.thread import MemberThread
from zkcoord.zk.port import GetData, ReadDone, ReadResult, data_of
from zkcoord.znodes.cluster_identity import expected_cluster, of_another_cluster
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID


def look_at_cluster(
    setup: ConsumerSetup, thread: MemberThread, fail: Callable[[MembershipError], None]
) -> None:
    """Compare them, in the background; `fail` gets what is wrong, on the member's thread. Where one
    of both has no id (brokers before 0.10.1), or it may not be read, nothing is.
    """
    named = setup.options.config["bootstrap_servers"]
    if named is None or setup.zk is None:
        return
    servers = named.split(",") if isinstance(named, str) else named
    groups = setup.zk.address

    def read(result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return  # the next registration looks again
        expected, node = expected_cluster(*map(data_of, result.answers))
        said = setup.data.cluster_id
        if said and expected and said != expected:
            fail(OtherClusterError(of_another_cluster(servers, said, groups, expected, node)))

    reads = [GetData(CLUSTER_TREE.source), GetData(CLUSTER_ID)]
    thread.with_port(lambda port: port.read(reads, read))
