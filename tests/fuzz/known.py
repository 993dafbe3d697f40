"""Findings that are not mended yet: each with the smallest input that shows it, and what is wrong.

`test_found.py` expects each to fail, strictly: whoever mends one has to take its row away, and the
file stays.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFinding:
    """`file`, below `found/`, begins with the parser's name; a * of `signature` is any text."""

    file: str
    signature: str
    reason: str


KNOWN: tuple[KnownFinding, ...] = ()
