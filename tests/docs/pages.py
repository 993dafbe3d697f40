"""What a page of docs/ has its reader do: blocks of code, each with the comment that stands before
it (`<!-- back -->`), which says what it is.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tests.packages.tools import ROOT

BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]+) -->\n)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """`mark` is "" where no comment stands before it; `line` is that of its fence's successor."""

    mark: str
    language: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """All blocks of a page, in order."""
    return [
        Block(
            found["mark"] or "",
            found["language"],
            found["text"],
            text.count("\n", 0, found.start("text")) + 1,
        )
        for found in BLOCK.finditer(text)
    ]


def page(name: str) -> str:
    """A page of docs/, by its name without .md."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def marked(name: str, mark: str) -> str:
    """The one block of a page that is marked so."""
    (found,) = (block.text for block in blocks(page(name)) if block.mark == mark)
    return found


def commands(name: str, mark: str) -> list[list[str]]:
    """The commands of such a block, as words without `zkcoord`."""
    lines = [line for line in marked(name, mark).splitlines() if not line.startswith("#")]
    words = [shlex.split(line, comments=True) for line in lines]
    assert words and all(line[0] == "zkcoord" for line in words), lines
    return [line[1:] for line in words]
