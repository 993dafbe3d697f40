"""What a tool says, as fields that can be compared. Pure.

A table is read by its heading: a field is the name of a column, with the partition or client that
the row is about. What is no table is a list of lines. What must differ is made the same before:
names of groups, ids that are drawn, ports, times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
LOG = re.compile(r"^(\[?\d{4}-\d\d-\d\d|SLF4J|log4j|WARNING: |OpenJDK)")
TRACE = re.compile(r"^(\s+at |Caused by: |java\.)")
SENTENCES = ("Error:", "Consumer", "Warning:", "*")
MAY_BE_EMPTY = ("GROUP-INSTANCE-ID", "ASSIGNMENT-STRATEGY")
LINE = "text"

Fields = dict[str, str]


def plain(said: str, names: Mapping[str, str]) -> list[str]:
    """Lines in which what must differ is the same. `names`: what stands for what."""
    for name, word in names.items():
        said = said.replace(name, word)
    said = PORT.sub("PORT", UUID.sub("UUID", said))
    return [
        line.rstrip()
        for line in said.splitlines()
        if line.strip() and not LOG.match(line) and not TRACE.match(line)
    ]


def fields(lines: Sequence[str], group: str, heads: Sequence[str] = ("GROUP", "TOPIC")) -> Fields:
    """Of the tool: tables, and the rest as lines. What is said of groups that are not of the
    comparison is left out.
    """
    found: Fields = {}
    heading: list[str] = []
    rest: list[str] = []
    for line in lines:
        words = line.split()
        if words[0] in heads and line == line.upper():
            heading = line.replace("COORDINATOR (ID)", "COORDINATOR-(ID)").split()
        elif heading and (words[0] == group or heading[0] == "TOPIC"):
            found |= {"columns": " ".join(heading), **row(heading, line)}
        elif heading and heading[0] == "GROUP" and words[0] not in SENTENCES:
            continue
        elif "group '" not in line or "'GROUP-" in line:
            rest.append(line)
    for number, line in enumerate(sorted(rest)):
        found[f"{LINE} {number}" if number else LINE] = line
    return found


def row(heading: Sequence[str], line: str) -> Fields:
    """One row. The coordinator and its id are two words; some columns may be empty."""
    words = re.sub(r"(\S+:PORT)\s+\(", r"\1(", line)
    cells = words.split()
    if len(cells) == len(heading) - 1:
        for name in MAY_BE_EMPTY:
            if name in heading:
                cells.insert(heading.index(name), "")
    named = dict(zip(heading, cells))
    about = [f"{named[key]}" for key in ("TOPIC", "PARTITION") if key in named]
    if not about and "CLIENT-ID" in named:
        about = [named["CLIENT-ID"]]
    of = f" of {' '.join(about)}" if about else ""
    cells_of = {f"{name}{of}": value for name, value in named.items()}
    if len(cells) > len(heading):
        cells_of[f"more{of}"] = " ".join(cells[len(heading) :])
    return cells_of


def listed(lines: Sequence[str], group: str) -> Fields:
    """Of --list: whether the group is there, and what stands beside it."""
    found: Fields = {}
    for line in lines:
        words = line.split()
        if words[0] == "GROUP":
            found["columns"] = " ".join(words)
        elif words[0] == group:
            found["row"] = " ".join(words)
        elif "rror" in line or "xception" in line:
            found[LINE] = line
    return found


def settings(lines: Sequence[str]) -> Fields:
    """Of an admin client: name=value; what is none is a line."""
    found: Fields = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if equals:
            found[name] = value
        else:
            found[LINE] = " ".join(filter(None, (found.get(LINE), line)))
    return found


def different(here: Fields, there: Fields) -> dict[str, tuple[str, str]]:
    """Field -> what is said of Kafka's own group, and of a coordinated one; "-" is nothing."""
    names = [*there, *(name for name in here if name not in there)]
    return {
        name: (there.get(name, "-"), here.get(name, "-"))
        for name in names
        if here.get(name, "-") != there.get(name, "-")
    }
