"""The faults that every demo can be given (`--break`), and how its verdict names each."""

from __future__ import annotations

import pytest

each_fault = pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("lost", " lost"),
        ("duplicate", " duplicated"),
        ("two-owners", " owned twice"),
        ("offset-back", " offset went back"),
    ],
)
