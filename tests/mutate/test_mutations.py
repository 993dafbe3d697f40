"""What is changed, under which name, and that a change reaches what is loaded."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.mutate.mutations import Mutant, mutants
from tests.mutate.running import Verdict, in_child, replace_code

SOURCE = '''"""For a test."""

from __future__ import annotations

import functools
import logging

log = logging.getLogger(__name__)
LIMIT = 5


@functools.lru_cache
def least(values: tuple[int, ...]) -> int:
    return min(values)


class Box:
    def __init__(self) -> None:
        self.full = False
        self.names: list[str] = []

    def put(self, name: str, size: int = 1) -> bool:
        """Whether it fits."""
        assert size >= 0
        if self.full or (size > LIMIT and name != "x"):
            return False
        log.info("put %s", name)
        self.names.append(name)
        return True

    def later(self) -> list[int]:
        def one(n: int) -> int:
            return n + 1

        return [one(n) for n in range(3) if n]
'''


@pytest.fixture
def loaded(tmp_path: Path) -> Any:
    """The module, and `root`, where it lies."""
    (tmp_path / "box.py").write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("box", tmp_path / "box.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.root = tmp_path
    return module


def test_every_kind_of_change_once(loaded: Any) -> None:
    """Functions only; no text, no log line, no assertion, no default."""
    assert [m.key for m in mutants("box.py", loaded.root)] == [
        "box.py::least: min(values) -> max(values)",
        "box.py::Box.__init__: without: self.full = False",
        "box.py::Box.__init__: False -> True",
        "box.py::Box.put: self.full or (size > LIMIT and name != 'x') -> size > LIMIT and name"
        " != 'x'",
        "box.py::Box.put: self.full or (size > LIMIT and name != 'x') -> self.full",
        "box.py::Box.put: size > LIMIT and name != 'x' -> name != 'x'",
        "box.py::Box.put: size > LIMIT and name != 'x' -> size > LIMIT",
        "box.py::Box.put: size > LIMIT -> size >= LIMIT",
        "box.py::Box.put: name != 'x' -> name == 'x'",
        "box.py::Box.put: False -> True",
        "box.py::Box.put: without: self.names.append(name)",
        "box.py::Box.put: True -> False",
        "box.py::Box.later: n + 1 -> n - 1",
        "box.py::Box.later: 1 -> 2",
        "box.py::Box.later: n -> not n",
        "box.py::Box.later: 3 -> 4",
    ]


def chosen(loaded: Any, end: str) -> Mutant:
    (found,) = (m for m in mutants("box.py", loaded.root) if m.key.endswith(end))
    return found


def test_a_change_reaches_objects_that_are_there_and_forgets_what_was_remembered(
    loaded: Any,
) -> None:
    box, least = loaded.Box(), loaded.least
    assert least((1, 2)) == 1 and box.later() == [2, 3]
    assert replace_code(chosen(loaded, "min(values) -> max(values)"), loaded.root)
    assert replace_code(chosen(loaded, "n + 1 -> n - 1"), loaded.root)
    assert least((1, 2)) == 2 and box.later() == [0, 1]


def test_a_branch_is_left_out_and_a_statement(loaded: Any) -> None:
    box = loaded.Box()
    assert not box.put("big", 6) and box.put("x", 6) and box.names == ["x"]
    assert replace_code(chosen(loaded, "-> self.full"), loaded.root)
    assert box.put("big", 6)
    assert replace_code(chosen(loaded, "without: self.names.append(name)"), loaded.root)
    assert box.put("x") and box.names == ["x", "big"]


def test_keys_of_equal_changes_differ(loaded: Any) -> None:
    path = loaded.root / "box.py"
    path.write_text(SOURCE.replace("range(3)", "range(3, 3)"))
    keys = [m.key for m in mutants("box.py", loaded.root)]
    assert len(set(keys)) == len(keys) and "box.py::Box.later: 3 -> 4 (2)" in keys


def test_what_a_child_does_stays_there(tmp_path: Path) -> None:
    here: list[int] = []

    def work() -> bytes:
        here.append(1)
        return Verdict.CAUGHT.name.encode()

    assert in_child(work, 60) == b"CAUGHT" and not here
    assert in_child(lambda: os.kill(os.getpid(), signal.SIGKILL) or b"", 60) is None


def test_a_child_that_does_not_end_is_ended() -> None:
    def endless() -> bytes:
        while True:
            pass

    assert in_child(endless, 0.2) is None
