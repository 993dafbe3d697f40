"""Values are not changed: the tests run with frozen ones, production with equal ones that cost less
to make.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import NoReturn, cast

import pytest

from zkcoord.core import value_type
from zkcoord.core.model import Owner, Thread
from zkcoord.zk.port import GetData


def test_values_are_frozen_while_the_tests_run() -> None:
    assert value_type.FREEZE
    with pytest.raises(FrozenInstanceError):
        GetData("/a").path = "/b"  # type: ignore[misc]


def test_values_are_equal_and_hashable_either_way() -> None:
    text = (
        "from zkcoord.core.model import Owner, Thread; a, b = (Owner(1, Thread('m', 0), 1) for _ in"
        " range(2)); assert a == b and len({a, b}) == 1 and not hasattr(a, '__dict__'); print(a)"
    )
    plain = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert (
        plain == str(Owner(1, Thread("m", 0), 1))
        and len({Owner(1, Thread("m", 0), 1), Owner(1, Thread("m", 0), 1)}) == 1
    )


@pytest.mark.parametrize("freeze", [True, False])
def test_a_value_has_slots_and_a_hash_either_way(
    freeze: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_type, "FREEZE", freeze)

    @value_type.value
    class Place:
        row: int

    assert not hasattr(Place(3), "__dict__")
    assert len({Place(3), Place(3), Place(4)}) == 2


def test_a_case_that_is_missing_is_an_error_that_names_it() -> None:
    with pytest.raises(AssertionError, match="no case for 'unheard of'"):
        value_type.assert_never(cast(NoReturn, "unheard of"))
