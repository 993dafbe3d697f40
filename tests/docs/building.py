"""docs/ as a site: made by Sphinx out of an environment of its own (tests/packages/site.lock), with
each warning an error, and looked at as a reader without a network would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from tests.packages.tools import ROOT, MissingToolError, PackagingError, run, tools

CONFIGURATION = ROOT / "docs" / "site"
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""What a browser asks for by itself."""
NAMED_ONLY = ("canonical", "author", "next", "prev", "search", "index")
"""Relations of a <link> that are not fetched."""
ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
OF_STYLES = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)


class Fetched(HTMLParser):
    """The addresses that a page has its browser ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        address = named.get(FETCHED.get(tag, ""))
        if address and not set((named.get("rel") or "").split()) & set(NAMED_ONLY):
            self.found.append(address)


def build(
    out: Path, source: Path = ROOT, configuration: Path = CONFIGURATION, builder: str = "html"
) -> Path:
    """The site in `out`; what it has read of the pages is kept beside it, for the next time. Raises
    `MissingToolError`, and `PackagingError` with Sphinx's warnings.
    """
    read = out.with_name(out.name + "-read")
    program = [tools("site"), "-m", "sphinx", "-q", "-b", builder, "-j", "auto"]
    places = ["-c", configuration, "-d", read, source, out]
    strict = ["-W", "--keep-going"] if builder == "html" else []
    run([*program, *strict, *places], source, good=(0,) if strict else (0, 1))
    return out


def from_elsewhere(site: Path) -> Iterator[str]:
    """What its pages and styles would have a browser fetch from another host."""
    for path in sorted(site.rglob("*.html")):
        parser = Fetched()
        parser.feed(path.read_text(encoding="utf-8"))
        for address in parser.found:
            if ELSEWHERE.match(address):
                yield f"{path.relative_to(site)} has a browser fetch {address}"
    for path in sorted(site.rglob("*.css")):
        for address in OF_STYLES.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)} has a browser fetch {address}"


def external(out: Path) -> list[str]:
    """Links to other hosts that lead nowhere, a sentence each. Raises `MissingToolError` where no
    host can be reached.
    """
    build(out, builder="linkcheck")
    lines = (out / "output.json").read_text(encoding="utf-8").splitlines()
    asked = [json.loads(line) for line in lines]
    asked = [link for link in asked if ELSEWHERE.match(link["uri"])]
    broken = [link for link in asked if link["status"] in ("broken", "timeout")]
    if asked and len(broken) == len(asked):
        raise MissingToolError(
            f"none of {len(asked)} links to other hosts can be followed from here: nothing is said"
            " of them; run it again where there is a network"
        )
    return [f"{link['filename']}:{link['lineno']} {link['uri']} {link['info']}" for link in broken]


def made(out: Path) -> str:
    """Build, and look at it; a sentence. Raises `PackagingError`."""
    site = build(out)
    found = list(from_elsewhere(site))
    if found:
        raise PackagingError("\n".join(found))
    return f"{site / 'index.html'} is there: {len(list(site.rglob('*.html')))} pages"
