"""The overview: which groups are shown, in which order. Pure.

One page holds `ROWS` groups, however many there are; what is looked for, filtered and sorted is all
of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from zkcoord.console.picture import GroupLine, Picture
from zkcoord.core.model import GroupState
from zkcoord.health.rules import HealthVerdict
from zkcoord.health.trouble.kinds import TroubleKind
from zkcoord.zk.sync.led_seen import NOT_KNOWN

ROWS = 100
TEXT_CHARS_MAX = 200
PAGES_MAX = 1_000_000
NOT_WELL = "not well"
ANY_TROUBLE = "any"
TROUBLES = (ANY_TROUBLE, *(kind.value for kind in TroubleKind))
SORTS: dict[str, Callable[[GroupLine, int], Any]] = {
    "name": lambda line, _: line.name,
    "state": lambda line, _: line.listed.shown,
    "members": lambda line, _: line.listed.members,
    "lag": lambda line, _: -1 if line.lag is None else line.lag,
    "seconds": lambda line, _: -1.0 if line.seconds is None else line.seconds,
    "verdict": lambda line, _: line.badness,
    "rebalances": lambda _, rebalances: rebalances,
    "troubles": lambda line, _: len(line.troubles),
}
ORDERS = ("up", "down")
VERDICTS = (NOT_WELL, *(verdict.value for verdict in HealthVerdict))
STATES = (*(state.value for state in GroupState), NOT_KNOWN)
WORST_FIRST = ("members", "lag", "seconds", "verdict", "rebalances", "troubles")


@dataclass(frozen=True)
class Wanted:
    """What a reader has asked to see. `find` is a part of a group's or topic's name."""

    find: str = ""
    verdict: str = ""
    state: str = ""
    sort: str = "verdict"
    down: bool = True
    page: int = 1
    trouble: str = ""

    @property
    def query(self) -> str:
        """As in the address; what is as usual is left out."""
        usual = Wanted()
        found = {
            "find": self.find,
            "verdict": self.verdict,
            "state": self.state,
            "trouble": self.trouble,
            "sort": self.sort,
            "order": "down" if self.down else "up",
            "page": str(self.page),
        }
        left_out = {
            "sort": usual.sort,
            "order": "down" if self.sort in WORST_FIRST else "up",
            "page": "1",
        }
        return urlencode({k: v for k, v in found.items() if v and left_out.get(k) != v})

    def sorted_by(self, column: str) -> Wanted:
        """What a click on a column's head asks for: again on the same, the other way round."""
        usual = column in WORST_FIRST
        down = not self.down if column == self.sort else usual
        return replace(self, sort=column, down=down, page=1)

    def at(self, page: int) -> Wanted:
        """Another page of the same."""
        return replace(self, page=page)


def wanted(query: Mapping[str, str]) -> Wanted:
    """Of an address; what is no word of ours counts as usual."""
    verdict, state, order, trouble = (
        query.get(name, "") for name in ("verdict", "state", "order", "trouble")
    )
    sort = query.get("sort", "verdict")
    sort = sort if sort in SORTS else "verdict"
    page = query.get("page", "1")
    down = order == "down" if order in ORDERS else sort in WORST_FIRST
    return Wanted(
        query.get("find", "")[:TEXT_CHARS_MAX],
        verdict if verdict in VERDICTS else "",
        state if state in STATES else "",
        sort,
        down,
        min(int(page), PAGES_MAX) if page.isascii() and page.isdigit() and len(page) < 8 else 1,
        trouble if trouble in TROUBLES else "",
    )


@dataclass(frozen=True)
class Overview:
    """The rows of a page, and what is said of all groups."""

    wanted: Wanted
    rows: list[tuple[GroupLine, int]]
    found: int
    pages: int
    verdicts: dict[str, int]
    states: dict[str, int]
    troubles: dict[str, int]


def overview(picture: Picture, asked: Wanted, per_hour: Callable[[str], int]) -> Overview:
    """What is to be seen. `per_hour`: how often a group was rebalanced in the last hour."""
    lines = list(picture.lines.values())
    rated = ordered(picture, asked, per_hour)
    pages = max(1, -(-len(rated) // ROWS))
    page = max(1, min(asked.page, pages))
    return Overview(
        asked.at(page),
        rated[(page - 1) * ROWS : page * ROWS],
        len(rated),
        pages,
        _counted(line.verdict.value for line in lines),
        _counted(line.listed.shown for line in lines),
        _counted(kind for line in lines for kind in {one.kind.value for one in line.troubles}),
    )


def ordered(
    picture: Picture, asked: Wanted, per_hour: Callable[[str], int]
) -> list[tuple[GroupLine, int]]:
    """All groups that are wanted, with their rebalances in the last hour, as they are sorted."""
    rated = [
        (line, per_hour(line.name)) for line in picture.lines.values() if _is_wanted(line, asked)
    ]
    key = SORTS[asked.sort]
    rated.sort(key=lambda one: one[0].name)
    rated.sort(key=lambda one: key(*one), reverse=asked.down)
    return rated


def _is_wanted(line: GroupLine, asked: Wanted) -> bool:
    part = asked.find.lower()
    if (
        part
        and part not in line.name.lower()
        and not any(part in topic.lower() for topic in line.listed.topics)
    ):
        return False
    if asked.trouble and not any(
        asked.trouble in (ANY_TROUBLE, one.kind.value) for one in line.troubles
    ):
        return False
    if asked.state and line.listed.shown != asked.state:
        return False
    if asked.verdict == NOT_WELL:
        return not line.is_well
    return not asked.verdict or line.verdict.value == asked.verdict


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))
