"""The coordinator's driver: what outlives a connection."""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.core.model import Topic
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.mirror.mirror import Mirror
from zkcoord.zk.mirror.pending_reads import Want
from zkcoord.zk.port import Children, Ensemble, Port, PortEvent, ReadDone, Suspended
from zkcoord.znodes.paths import Layout


class NoEnsemble(Ensemble):
    """Nothing is opened here."""

    def open(self, on_event: Callable[[PortEvent], None]) -> Port:
        raise AssertionError("no session is needed")


def topic(name: str) -> Topic:
    return Topic(name, "5", (0,), 5)


def test_a_topic_that_only_a_broken_off_reading_saw_is_told_to_be_gone() -> None:
    """The first mirror knew `a`; the second told the core of `b` and lost its connection before the
    groups were read; meanwhile both are deleted. The third has to say so of both.
    """
    told: list[object] = []
    driver = CoordinatorDriver(
        NoEnsemble(), Layout.DRAFT, CoordinatorOptions(), lambda: 0, lambda: 0, lambda record: None
    )

    def mirror(*topics: str, begun: bool) -> Mirror:
        made = Mirror(
            None, Layout.DRAFT, 7, lambda: 0, told.append, lambda *what: (), driver.world._previous
        )  # type: ignore[arg-type]
        made.topics.update({name: topic(name) for name in topics})
        made.begun = begun
        return made

    driver.world.mirror = mirror("a", begun=True)
    driver._suspended(Suspended())
    driver.world.mirror = mirror("b", begun=False)
    driver._suspended(Suspended())
    third = mirror(begun=False)
    third._continue = lambda: None  # type: ignore[method-assign]
    third._answered([Want("topics")], ReadDone((Children(()),)))
    assert [sorted(event.topics.items()) for event in told] == [[("a", None), ("b", None)]]  # type: ignore[attr-defined]
