"""The harnesses, by where the bytes come from."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from tests.fuzz.harness import Harness


def module_of(name: str) -> str:
    """The module that a harness stands in, so that a process need not load all of them."""
    for module in _modules():
        if any(harness.name == name for harness in module.HARNESSES):
            return str(module.__name__)
    raise KeyError(name)


def harness_in(module: str, name: str) -> Harness:
    """A harness of this name, of a module that `module_of` has named."""
    every: tuple[Harness, ...] = importlib.import_module(module).HARNESSES
    return next(harness for harness in every if harness.name == name)


@cache
def _modules() -> tuple[Any, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}") for name in names)


@cache
def all_harnesses() -> dict[str, Harness]:
    """By name: what each module beside this one calls `HARNESSES`."""
    found: dict[str, Harness] = {}
    for module in _modules():
        for harness in module.HARNESSES:
            assert harness.name not in found, harness.name
            found[harness.name] = harness
    return found
