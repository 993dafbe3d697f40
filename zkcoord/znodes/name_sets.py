"""Sets of topics' names in RE2: one of some of the 65 characters that a name may have, and all
names but those that are some literals, or begin with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

DIGITS = frozenset("0123456789")
LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
LETTERS = LOWER | UPPER
PUNCTUATION = frozenset("._-")
NAME = LETTERS | DIGITS | PUNCTUATION

NOTHING = r"[^\x00-\x{10FFFF}]"
ANY = "."


def set_text(found: frozenset[str]) -> str:
    """An expression for one of these characters."""
    if found == NAME:
        return ANY
    if not found:
        return NOTHING
    return _quoted(next(iter(found))) if len(found) == 1 else f"[{_ranges(found)}]"


@dataclass(slots=True)
class Excluded:
    """Literals, as a trie. `whole`: one ends here, and the name that ends here, too, is meant;
    `begins`: every name that goes on from here is.
    """

    next: dict[str, Excluded] = field(default_factory=dict)
    whole: bool = False
    begins: bool = False

    def add(self, literal: str, whole: bool) -> None:
        """One more: the name itself (`whole`), or all that begin with it. What no name can hold
        excludes none.
        """
        if not set(literal) <= NAME:
            return
        node = self
        for c in literal:
            node = node.next.setdefault(c, Excluded())
        if whole:
            node.whole = True
        else:
            node.begins = True

    def text(self) -> str:
        """An expression for everything else, from here on."""
        if self.begins:
            return NOTHING
        known = frozenset(self.next)
        found = [] if self.whole else [""]
        found.append(f"[^{_ranges(known)}]{ANY}*" if known else f"{ANY}+")
        found += [
            f"{_quoted(c)}{self.next[c].text()}" for c in sorted(known) if not self.next[c].begins
        ]
        return f"(?:{'|'.join(found)})"


def _quoted(c: str) -> str:
    return c if c.isalnum() or c == "_" else f"\\{c}"


def _ranges(found: Iterable[str]) -> str:
    """The inside of a class of these."""
    parts: list[str] = []
    for c in sorted(found):
        if parts and ord(parts[-1][-1]) + 1 == ord(c):
            parts[-1] += c
        else:
            parts.append(c)
    return "".join(
        f"{part[0]}-{part[-1]}" if len(part) > 2 else "".join(map(_quoted, part)) for part in parts
    )
