"""Weakened systems: each takes exactly one rule out of the production code, to show that the rule is needed and that the checkers see it.

A variant replaces one named hook of the production code for as long as it is applied. It says which rule it removes in the words of docs/protocol.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Patch:
    """Replace attribute `name` of `owner` by what `make` makes of the original."""

    owner: Any
    name: str
    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """A system without one rule."""

    name: str
    removes: str
    patches: tuple[Patch, ...]

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The rule is gone inside this block."""
        originals = [getattr(p.owner, p.name) for p in self.patches]
        for patch, original in zip(self.patches, originals):
            setattr(patch.owner, patch.name, patch.make(original))
        try:
            yield
        finally:
            for patch, original in zip(self.patches, originals):
                setattr(patch.owner, patch.name, original)


VARIANTS: dict[str, Variant] = {}
