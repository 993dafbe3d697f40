"""The harnesses, by where the bytes come from."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from tests.fuzz.harness import Harness


@cache
def all_harnesses() -> dict[str, Harness]:
    """By name: what each module beside this one calls `HARNESSES`."""
    found: dict[str, Harness] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        for harness in importlib.import_module(f"{__name__}.{module.name}").HARNESSES:
            assert harness.name not in found, harness.name
            found[harness.name] = harness
    return found
