"""The scenarios, played against the machine; and that they cover its table of transitions."""

from __future__ import annotations

import pytest

from tests.core.classic.machine_side import MachineSide, options_of
from tests.core.classic.scenario import OPTIONS, Play, Scenario, all_scenarios
from zkcoord.core.classic import machine
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.classic.table import TRANSITIONS, Trigger, judged

SCENARIOS = all_scenarios()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_the_machine_answers_so(scenario: Scenario) -> None:
    Play(MachineSide(options_of(scenario))).run(scenario)


def test_there_are_scenarios() -> None:
    names = [one.name for one in SCENARIOS]
    assert len(names) == len(set(names))
    assert len(names) >= 120
    assert sum(not one.only_machine for one in SCENARIOS) >= 120


def test_what_changes_options_is_played_against_the_machine_only() -> None:
    assert all(one.only_machine for one in SCENARIOS if options_of(one) != OPTIONS)


def test_every_transition_of_the_table_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[ClassicPhase, Trigger, ClassicPhase]] = set()

    def watched(before: ClassicPhase, trigger: Trigger, after: ClassicPhase) -> None:
        judged(before, trigger, after)
        seen.add((before, trigger, after))

    monkeypatch.setattr(machine, "judged", watched)
    for scenario in SCENARIOS:
        Play(MachineSide(options_of(scenario))).run(scenario)
    known = {(*key, after) for key, states in TRANSITIONS.items() for after in states}
    missing = sorted(f"{b.value}, {t.value}: {a.value}" for b, t, a in known - seen)
    assert not missing, "\n" + "\n".join(missing)
