"""Where topics and brokers are as nodes of our own (`zkcoord.topics`), in Kafka's own formats."""

from __future__ import annotations

from collections.abc import Sequence

from zkcoord.core.value_type import value
from zkcoord.znodes.paths import BROKERS, GATEWAYS_ABOVE, TOPICS, parents


@value
class ClusterTree:
    """Below which node they are."""

    root: str

    @property
    def source(self) -> str:
        """The node that says of which cluster they are, once they are complete."""
        return f"{self.root}/source"

    def topic(self, name: str) -> str:
        """A topic."""
        return f"{self.topics}/{name}"

    def broker(self, broker_id: int) -> str:
        """A broker."""
        return f"{self.brokers}/{broker_id}"

    @property
    def topics(self) -> str:
        """The parent of topics."""
        return f"{self.root}/topics"

    @property
    def brokers(self) -> str:
        """The parent of brokers."""
        return f"{self.root}/brokers"

    def above(self) -> tuple[str, ...]:
        """The nodes that hold others, from the root down."""
        return (*parents(self.root), self.root, self.topics, self.brokers)

    def of(self, path: str) -> str:
        """The node that stands for one of Kafka's; "" where it is none of those."""
        return _moved(path, ((TOPICS, self.topics), (BROKERS, self.brokers)))

    def instead_of(self, path: str) -> str:
        """The node of Kafka's for which one of ours stands; "" where it is none of those."""
        return _moved(path, ((self.topics, TOPICS), (self.brokers, BROKERS)))


def _moved(path: str, roots: Sequence[tuple[str, str]]) -> str:
    for before, after in roots:
        if path == before or path.startswith(f"{before}/"):
            return after + path[len(before) :]
    return ""


CLUSTER_TREE = ClusterTree(f"{GATEWAYS_ABOVE}/cluster")
