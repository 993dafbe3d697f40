"""Values are not changed: the tests run with frozen ones, production with equal ones that cost less
to make.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError

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
