"""What happens to a cluster's brokers, and to the cluster as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind
from tests.sim.sources.cluster import SimBroker, SimCluster

if TYPE_CHECKING:
    from tests.sim.world import World


def _cluster(world: World) -> SimCluster:
    assert world.cluster is not None
    return world.cluster


def _migrate(world: World) -> str | None:
    """The next of Kafka's steps; others follow at once sometimes."""
    cluster, kernel = _cluster(world), world.kernel
    what = cluster.migrate(kernel.between(100, 3_000))
    if what is not None and kernel.chance(0.5):
        world.later(kernel.between(0, 3_000), lambda: cluster.migrate(kernel.between(100, 1_000)))
    return what


def _well(world: World) -> list[SimBroker]:
    return [one for one in _cluster(world).brokers if one.up and one.heard_ms is None]


def _behind(world: World) -> str | None:
    """A broker says for a while what was so before. Of two that are behind a third one would have
    to be believed, which nobody can know.
    """
    cluster, well, kernel = _cluster(world), _well(world), world.kernel
    if len(well) < 2 or len(well) < len(cluster.brokers):
        return None
    broker, duration = kernel.rng.choice(well), kernel.between(300, 8_000)
    broker.heard_ms = kernel.now - kernel.between(0, 1_000)

    def hears() -> None:
        broker.heard_ms = None

    world.later(duration, hears)
    return f"broker {broker.number} for {duration} ms"


def _stop(world: World) -> str | None:
    """A broker is down for a while. Who is behind is not left alone: it would be believed."""
    cluster, well, kernel = _cluster(world), _well(world), world.kernel
    if not well or any(one.up and one.heard_ms is not None for one in cluster.brokers):
        return None
    broker, duration = kernel.rng.choice(well), kernel.between(300, 6_000)
    cluster.stop(broker)
    world.later(duration, lambda: cluster.start(broker))
    return f"broker {broker.number} for {duration} ms"


SOURCE_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("migrate_cluster", _migrate),
    FaultKind("broker_behind", _behind),
    FaultKind("broker_down", _stop),
)
