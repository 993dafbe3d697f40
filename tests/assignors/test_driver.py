"""How the coordinator's driver asks: whose answer counts."""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.assignors.wide import AnswerTaker
from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.core.assignment import Assignment, AssignmentInput
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.events import Assign, AssignorAnswered, Event
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.port import Ensemble, Port, PortEvent
from zkcoord.znodes.paths import Layout

GIVEN = AssignmentInput({"a": {"t": 1}}, {"t": (0,)})


class NoEnsemble(Ensemble):
    """Nothing is opened here."""

    def open(self, on_event: Callable[[PortEvent], None]) -> Port:
        raise AssertionError("no session is needed")


def test_an_answer_counts_in_the_term_that_asked_only() -> None:
    """Tokens begin anew with each term, so a late answer could be taken for another question's."""
    asked: list[tuple[str, str, AssignmentInput, AnswerTaker]] = []
    fed: list[Event] = []
    driver = CoordinatorDriver(
        NoEnsemble(),
        Layout.DRAFT,
        CoordinatorOptions(external_assignors=("mine",)),
        lambda: 7,
        lambda: 0,
        lambda record: None,
        ask=lambda *what: asked.append(what),
    )
    driver._feed = fed.append  # type: ignore[method-assign]
    driver._act([Assign("g", 3, "mine", GIVEN), Assign("h", 4, "mine", GIVEN)])
    assert [(group, assignor, given) for group, assignor, given, _ in asked] == [
        ("g", "mine", GIVEN),
        ("h", "mine", GIVEN),
    ]
    asked[0][3](Assignment({}), "")
    assert fed == [AssignorAnswered(7, "g", 3, Assignment({}), "")]
    driver.core = Coordinator(driver.options)
    asked[1][3](None, "it failed")
    assert len(fed) == 1
