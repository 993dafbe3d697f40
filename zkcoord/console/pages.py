"""The pages: for each an address, what it shows, and the parts of it that are sent again when they
change. A page is the same whether its reader runs scripts or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from zkcoord import __version__
from zkcoord.cli.groups_text import coordinator_name, group_json
from zkcoord.cli.journal import row as journal_row
from zkcoord.console.acting.actions import OF_GROUPS
from zkcoord.console.asking import GroupAsker
from zkcoord.console.checking import Checker
from zkcoord.console.ensemble import ServersAsker
from zkcoord.console.happenings import OF_NO_GROUP, Happenings
from zkcoord.console.http.live import Parts
from zkcoord.console.picture import GroupLine, Picture
from zkcoord.console.replaying import Replayer
from zkcoord.console.views import coordinator as coordinator_page
from zkcoord.console.views import group as group_page
from zkcoord.console.views import texts
from zkcoord.console.views.drawing import drawn, spark
from zkcoord.console.views.overview import ANY_TROUBLE, NOT_WELL, overview, wanted
from zkcoord.console.views.rebalance import rebalance_story
from zkcoord.console.views.timeline import MARKS_MAX, timeline
from zkcoord.core.assignment import ASSIGNORS
from zkcoord.errors import InvalidGroupError, RefusedError, UnavailableError, UnknownGroupError
from zkcoord.health.evidence_of import evidence_of
from zkcoord.health.trouble.rules import foremost, troubles_of
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.sync.group_snapshot import GroupSnapshot
from zkcoord.znodes.names import is_topic, validate_group

SPANS = {
    "10m": 600_000,
    "1h": 3_600_000,
    "6h": 21_600_000,
    "24h": 86_400_000,
    "7d": 604_800_000,
}
SPAN = "1h"
STALE_MS = 15_000
NAME_CHARS_MAX = 1_000
OPTION = re.compile(r"[a-z_]+=[A-Za-z0-9_.:-]+")
OPTION_CHARS_MAX = 200
GROUPS_SHOWN = 100
MARK_BYTES, MARKS_BYTES = 300, 64 * 1024
Query = Mapping[str, str]


class NotThereError(Exception):
    """There is nothing at this address; the text says what to do."""


@dataclass(frozen=True)
class Page:
    """`template` is the whole page, `parts` its pieces that live; `context` what they show."""

    template: str
    parts: tuple[str, ...]
    context: Mapping[str, Any]


class Pages:
    """See the module. `picture` gives the newest; `may_act`: whether actions are linked. Any
    thread.
    """

    def __init__(
        self,
        picture: Callable[[], Picture],
        happenings: Happenings,
        asker: GroupAsker,
        checker: Checker,
        place: str,
        may_act: bool = False,
        replayer: Replayer | None = None,
        ensemble: ServersAsker | None = None,
    ) -> None:
        self._ensemble = ensemble
        self._picture = picture
        self._happenings = happenings
        self._asker = asker
        self._checker = checker
        self._place = place
        self._replayer = replayer
        self._templates = Environment(
            loader=PackageLoader("zkcoord.console"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=texts.plain,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            utc=texts.utc,
            iso=texts.iso,
            duration=texts.duration,
            number=texts.number,
            short=texts.short,
            printed=texts.printed,
        )
        self._templates.globals.update(
            version=__version__,
            place=place,
            link=link,
            spark=spark,
            cells=journal_row,
            address=group_page.of_record,
            coordinator_name=coordinator_name,
            actions=OF_GROUPS if may_act else (),
        )
        self.of: dict[str, Callable[[Query], Page]] = {
            "": self._overview,
            "group": self._group,
            "rebalance": self._rebalance,
            "why": self._why,
            "topic": self._topic,
            "coordinator": self._coordinator,
            "check": self._check,
            "legacy": self._legacy,
        }

    def whole(self, name: str, query: Query) -> str:
        """A page. Raises `NotThereError`."""
        page = self.of[name](query)
        return self._templates.get_template(page.template).render(page.context)

    def parts(self, name: str, query: Query) -> Parts:
        """Its parts that live, by their names."""
        try:
            page = self.of[name](query)
        except NotThereError as error:
            return {"notice": str(Markup.escape(texts.plain(str(error))))}
        return {"notice": ""} | {
            part: self._templates.get_template(f"parts/{part}.html").render(page.context)
            for part in page.parts
        }

    def rendered(self, template: str, context: Mapping[str, Any]) -> str:
        """One that is for one reader alone, and does not live."""
        return self._templates.get_template(template).render({**context, "page": None})

    def trouble(self, title: str, sentence: str, up: str) -> str:
        """The page of an error; `up` leads from it to where the others are."""
        context = {"title": title, "sentence": sentence, "up": up, "page": None}
        return self._templates.get_template("trouble.html").render(context)

    def _common(self, name: str, query: Query) -> dict[str, Any]:
        picture, now = self._picture(), wall_ms()
        text = urlencode(query)
        age_ms = now - picture.at_ms if picture.at_ms else None
        late = max(STALE_MS, 5 * picture.took_ms)
        return {
            "picture": picture,
            "now_ms": now,
            "age_ms": age_ms,
            "is_stale": bool(picture.problem) or (age_ms is not None and age_ms > late),
            "page": name,
            "live": f"live/{name or 'overview'}" + (f"?{text}" if text else ""),
            "has_journal": self._happenings.exist,
            "folders": ", ".join(map(str, self._happenings.folders)),
        }

    def _overview(self, query: Query) -> Page:
        asked = wanted(query)
        common = self._common("", query)
        found = overview(common["picture"], asked, self._happenings.per_hour)
        rates = {line.name: self._happenings.rates(line.name) for line, _ in found.rows}
        context = {**common, "found": found, "rates": rates, "NOT_WELL": NOT_WELL}
        return Page("overview.html", ("status", "groups"), context)

    def _group(self, query: Query) -> Page:
        name, topic = _name(query), query.get("topic", "")[:NAME_CHARS_MAX]
        span = query.get("span", SPAN)
        span = span if span in SPANS else SPAN
        common = self._common("group", query)
        line: GroupLine | None = common["picture"].lines.get(name)
        found, problem, is_unknown = self._seen(name)
        records = self._happenings.of(name)
        if is_unknown and line is None and not records:
            raise NotThereError(problem)
        document = group_json(found, {}) if found is not None else None
        blockers = list(group_page.blockers(found, common["now_ms"])) if found is not None else []
        now = common["now_ms"]
        health = line.health if line is not None else None
        troubles = troubles_of(evidence_of(name, records, found, health, now))
        chart = timeline(records, now - SPANS[span], now, topic, _marks_max(name))
        rows = group_page.partition_rows(found, line) if found is not None else []
        rows = [row for row in rows if not topic or row.tp.topic == topic]
        context = {
            **common,
            "name": name,
            "topic": topic,
            "span": span,
            "spans": list(SPANS),
            "line": line,
            "troubles": foremost(troubles, group_page.TROUBLES_SHOWN),
            "troubles_left": max(0, len(troubles) - group_page.TROUBLES_SHOWN),
            "group": found,
            "problem": problem,
            "document": document,
            "rows": rows[: group_page.PARTITIONS_SHOWN],
            "rows_left": max(0, len(rows) - group_page.PARTITIONS_SHOWN),
            "topics": sorted({row.tp.topic for row in rows}),
            "members": group_page.members_of(found, document) if found and document else [],
            "members_count": len(document["members"] or ()) if document is not None else 0,
            "blockers": blockers[: group_page.BLOCKERS_SHOWN],
            "blockers_left": max(0, len(blockers) - group_page.BLOCKERS_SHOWN),
            "unowned": group_page.unowned(rows, found) if found is not None else [],
            "chart": chart,
            "drawn": drawn(chart),
            "events": [r for r in records if r["kind"] in group_page.TOLD][
                : -group_page.EVENTS_SHOWN - 1 : -1
            ],
            "per_hour": self._happenings.per_hour(name),
        }
        return Page(
            "group.html",
            ("status", "trouble", "head", "chart", "partitions", "members", "events"),
            context,
        )

    def _seen(self, name: str) -> tuple[GroupSnapshot | None, str, bool]:
        """The group, or why it is not seen, and whether there is none."""
        try:
            return self._asker.group(name), "", False
        except (UnknownGroupError, InvalidGroupError) as error:
            return None, str(error), True
        except (UnavailableError, RefusedError) as error:
            return None, str(error), False

    def _rebalance(self, query: Query) -> Page:
        name = _name(query)
        story = rebalance_story(self._happenings.of(name), query.get("at", ""))
        if story is None:
            raise NotThereError(
                "there is no such rebalance in the journal (any more): look at the group's page"
            )
        context = {
            **self._common("rebalance", query),
            "name": name,
            "story": story,
            "assignors": sorted(ASSIGNORS),
            "has_replays": self._replayer is not None,
        }
        return Page("rebalance.html", ("status",), context)

    def _why(self, query: Query) -> Page:
        """Asked for by a reader, and not told anew: a replay costs."""
        name, at = _name(query), query.get("at", "")
        story = rebalance_story(self._happenings.of(name), at)
        if story is None or self._replayer is None:
            raise NotThereError(
                "there is no such rebalance in the journal (any more): look at the group's page"
            )
        option = query.get("with", "").strip()
        if option and not (OPTION.fullmatch(option) and len(option) <= OPTION_CHARS_MAX):
            raise NotThereError("a what-if is NAME=VALUE, as assignor=range: go back, and write it")
        told = (
            self._replayer.what_if(name, story.record, option)
            if option
            else self._replayer.why(name, story.record)
        )
        context = {
            **self._common("why", query),
            "name": name,
            "at": at,
            "story": story,
            "told": told,
            "option": option,
            "assignors": sorted(ASSIGNORS),
        }
        del context["live"]
        return Page("why.html", (), context)

    def _topic(self, query: Query) -> Page:
        topic = query.get("name", "")[:NAME_CHARS_MAX]
        if not is_topic(topic):
            raise NotThereError("no topic can have this name: follow a link, or correct it")
        common = self._common("topic", query)
        lines = sorted(
            common["picture"].of_topic(topic), key=lambda line: line.badness, reverse=True
        )
        left = max(0, len(lines) - GROUPS_SHOWN)
        context = {**common, "topic": topic, "lines": lines[:GROUPS_SHOWN], "lines_left": left}
        return Page("topic.html", ("status", "topic_groups"), context)

    def _coordinator(self, query: Query) -> Page:
        records = self._happenings.of(OF_NO_GROUP)
        common, terms = self._common("coordinator", query), coordinator_page.terms_of(records)
        context = {
            **common,
            "problems": coordinator_page.problems_of(common["picture"].lines.values()),
            "took": coordinator_page.took(self._happenings.durations()),
            "servers": self._ensemble.newest() if self._ensemble is not None else (),
            "terms": terms[: coordinator_page.TERMS_SHOWN],
            "terms_left": max(0, len(terms) - coordinator_page.TERMS_SHOWN),
            "events": records[: -3 * group_page.EVENTS_SHOWN - 1 : -1],
            "NOT_WELL": NOT_WELL,
            "ANY_TROUBLE": ANY_TROUBLE,
        }
        return Page("coordinator.html", ("status", "leads", "ensemble", "terms"), context)

    def _check(self, query: Query) -> Page:
        context = {**self._common("check", query), "checked": self._checker.newest()}
        return Page("check.html", ("status", "findings"), context)

    def _legacy(self, query: Query) -> Page:
        context = {**self._common("legacy", query), "checked": self._checker.newest()}
        return Page("legacy.html", ("status", "legacy_groups"), context)


def _name(query: Query) -> str:
    name = query.get("name", "")[:NAME_CHARS_MAX]
    try:
        validate_group(name)
    except InvalidGroupError as error:
        raise NotThereError(str(error)) from None
    return name


def _marks_max(name: str) -> int:
    """Each mark has its group's name in an address: where that is long there are fewer."""
    return min(MARKS_MAX, MARKS_BYTES // (MARK_BYTES + len(link("", name=name))))


def link(page: str, **query: str | int) -> str:
    """A relative address: pages stand beside each other, behind whatever prefix."""
    found = urlencode({name: value for name, value in query.items() if value not in ("", None)})
    return (page or ".") + (f"?{found}" if found else "")
