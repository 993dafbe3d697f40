"""A coordinator's look at its brokers before it begins, and a gateway's: are they of the cluster
whose groups it is to serve?
"""

from __future__ import annotations

import logging

from zkcoord.config.settings import ClusterOptions
from zkcoord.errors import RefusedError, UnavailableError
from zkcoord.topics.asking import ClusterAsker
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import GetData, data_of
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.cluster_identity import IDENTITY_NODES, another_cluster

log = logging.getLogger(__name__)


def look_at_cluster(
    zk: ZkOptions, cluster: ClusterOptions, option: str = "bootstrap_servers"
) -> None:
    """Nothing where no broker is named, by `option`. One that does not answer keeps nobody from
    beginning: it is asked again, and not believed then either. Raises `RefusedError` where one of
    another cluster answers, `UnavailableError` where ZooKeeper does not answer,
    `ConfigurationError` for options of security that cannot be used.
    """
    if not cluster.servers:
        return
    asker = ClusterAsker(cluster.servers, cluster.security)
    try:
        said = asker.ask(frozenset()).cluster_id
    except UnavailableError as error:
        log.warning("brokers cannot be asked yet: %s", error)
        return
    finally:
        asker.close()
    with SyncClient(zk) as client:
        client.sync()
        nodes = [data_of(answer) for answer in client.read([*map(GetData, IDENTITY_NODES)])]
    if why := another_cluster(cluster.servers, said, zk.address, nodes, option):
        raise RefusedError(why)
