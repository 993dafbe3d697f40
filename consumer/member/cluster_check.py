"""Brokers that the application names have to be those of the cluster whose groups are in ZooKeeper:
it would consume one cluster, and store its offsets for a group of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.errors import OtherClusterError
from zkcoord.zk.port import GetData, ReadAnswer, data_of
from zkcoord.znodes.cluster_identity import expected_cluster, of_another_cluster
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID

CLUSTER_READS = (GetData(CLUSTER_TREE.source), GetData(CLUSTER_ID))


@dataclass(frozen=True)
class NamedBrokers:
    """Those at `servers`; none where the application has named none, and so went to those in
    ZooKeeper. `said`: of which cluster they are (""), `groups`: where the groups are.
    """

    servers: tuple[str, ...]
    said: Callable[[], str]
    groups: str

    def refused(self, answers: Sequence[ReadAnswer]) -> OtherClusterError | None:
        """What is wrong, by the answers to `CLUSTER_READS`. Where one of both has no id (brokers
        before 0.10.1), or it may not be read, nothing is.
        """
        expected, node = expected_cluster(*map(data_of, answers))
        said = self.said()
        if not (self.servers and said and expected) or said == expected:
            return None
        return OtherClusterError(
            of_another_cluster(self.servers, said, self.groups, expected, node)
        )
