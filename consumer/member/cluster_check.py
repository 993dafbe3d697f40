"""Brokers that the application names have to be those of the cluster whose groups are in ZooKeeper:
it would consume one cluster, and store its offsets for a group of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.errors import OtherClusterError
from consumer.member.thread import MemberThread
from zkcoord.zk.port import GetData, ReadAnswer, ReadDone, ReadResult, data_of
from zkcoord.znodes.cluster_identity import IDENTITY_NODES, another_cluster

CLUSTER_READS = tuple(map(GetData, IDENTITY_NODES))


@dataclass(frozen=True)
class NamedBrokers:
    """Those that the application has `given` (`bootstrap_servers`); None: it went to those in
    ZooKeeper. `said`: of which cluster they are ("": not known), `groups`: where the groups are.
    """

    given: str | Sequence[str] | None
    said: Callable[[], str]
    groups: str

    @property
    def servers(self) -> Sequence[str]:
        """One by one."""
        given = self.given or ()
        return given.split(",") if isinstance(given, str) else given

    def look(self, thread: MemberThread, fail: Callable[[OtherClusterError], None]) -> None:
        """Compare them with the present session, in the background: `fail` gets what is wrong, on
        the member's thread.
        """

        def read(result: ReadResult) -> None:
            error = self.refused(result.answers) if isinstance(result, ReadDone) else None
            if error is not None:
                fail(error)

        if self.servers:
            thread.with_port(lambda port: port.read(CLUSTER_READS, read))

    def refused(self, answers: Sequence[ReadAnswer]) -> OtherClusterError | None:
        """What is wrong, by the answers to `CLUSTER_READS`; nothing where they may not be read."""
        nodes = [*map(data_of, answers)]
        why = another_cluster(self.servers, self.said(), self.groups, nodes)
        return OtherClusterError(why) if why else None
