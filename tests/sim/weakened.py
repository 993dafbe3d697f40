"""What a weakened system is: one that lacks a rule, because a hook of the production code is
replaced for as long as it is applied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.sim.invariants import Violation
from tests.sim.mixes import DEFAULT


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
    mix: str = DEFAULT  # where it is caught
    by: tuple[str, ...] = ()  # the invariants that must catch it (none named: any)

    def caught(self, violations: Sequence[Violation]) -> bool:
        """Whether these violations are what this variant must be caught by. That something raises
        (I10) says only that the variant does not fit the code any more.
        """
        return any(v.invariant in self.by if self.by else v.invariant != "I10" for v in violations)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The rule is gone inside this block."""
        originals = [vars(p.owner)[p.name] for p in self.patches]
        for patch, original in zip(self.patches, originals):
            setattr(patch.owner, patch.name, patch.make(original))
        try:
            yield
        finally:
            for patch, original in zip(self.patches, originals):
                setattr(patch.owner, patch.name, original)
