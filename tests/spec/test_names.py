"""What docs/spec/README.md says of the modules is true of them: functions, switches, steps."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.spec.configurations import CONFIGURATIONS, REMOVED
from tests.spec.tlc import SPEC

README = (SPEC / "README.md").read_text()
MAPPING = README.partition("## Which step is which function")[2]
FUNCTIONS = sorted(set(re.findall(r"`((?:zkcoord|consumer)\.[\w.]+)`", MAPPING)))
STEP_ROW = re.compile(r"^\| ((?:[A-Z]\w+(?:, )?)+) \|", re.MULTILINE)
SWITCH_ROW = re.compile(r"^\| `(\w+)`", re.MULTILINE)
OWN = ("Coordination", "ClientLed")


def found(name: str) -> object:
    """The object of a dotted name. Raises AttributeError or ModuleNotFoundError."""
    module, _, rest = name.partition(".")
    thing: object = importlib.import_module(module)
    path = module
    for part in rest.split("."):
        path = f"{path}.{part}"
        if not hasattr(thing, part):
            importlib.import_module(path)
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_names_a_function_that_exists(name: str) -> None:
    assert callable(found(name))


def test_a_name_that_is_not_there_is_noticed() -> None:
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        found("zkcoord.zk.term.election.Election.no_such_step")


def test_each_step_that_is_named_is_in_a_module() -> None:
    texts = "\n".join((SPEC / f"{module}.tla").read_text() for module in OWN)
    steps = {step for row in STEP_ROW.findall(MAPPING) for step in row.split(", ")}
    assert len(steps) > 40
    assert [s for s in sorted(steps) if not re.search(rf"^{s}(\(\w|\s*==)", texts, re.M)] == []


def test_each_step_of_the_modules_is_named_or_a_fault() -> None:
    faults = re.compile(
        r"Crash|Pause|Restart|Arrive$|ProofAges|Edit|RenewByRead|CoordinatorSession"
    )
    for module, last in zip(OWN, ("Trouble", "Next"), strict=True):
        text = (SPEC / f"{module}.tla").read_text()
        acts = text.partition("All together.")[2].partition("Spec ==")[0]
        steps = set(re.findall(r"\b([A-Z]\w+)\([\w, ]+\)", acts)) - {
            "MemberActs",
            "CoordinatorActs",
        }
        assert last in text
        missing = {s for s in steps if s not in MAPPING and not faults.search(s)}
        assert missing == set(), module


def test_each_switch_is_taken_out_and_told() -> None:
    told = sorted(SWITCH_ROW.findall(README.partition("## Rules, each taken out")[2]))
    assert told == sorted(rule.rule for rule in REMOVED)
    for module, base in (("Coordination", "none"), ("ClientLed", "led-none")):
        text = (SPEC / f"{base}.cfg").read_text()
        switches = set(re.findall(r"^ +(\w+) = TRUE$", text, re.MULTILINE))
        assert switches == {rule.rule for rule in REMOVED if rule.module == module}


def test_each_configuration_has_all_rules_in_force() -> None:
    names = {one.name for one in CONFIGURATIONS} | {"none", "led-none"}
    assert names == {path.stem for path in SPEC.glob("*.cfg")}
    for name in names:
        off = set(re.findall(r"(\w+) = FALSE", (SPEC / f"{name}.cfg").read_text()))
        assert off <= {"Sticky"}, f"{name}: how targets are chosen is no rule, all else is"
