"""Whole pages: hostile texts, their weight, and what they cost."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from tests.console.pictures import (
    HOSTILE,
    LONGEST,
    ToldPages,
    journal_file,
    line,
    picture,
    rebalance,
    snapshot,
)
from zkcoord.check.rules import CheckFinding
from zkcoord.console.checking import Checked, GroupOnItsWay
from zkcoord.console.ensemble import ServerSeen
from zkcoord.console.pages import NotThereError, link
from zkcoord.core.model import GroupMetadata, GroupState, TopicPartition
from zkcoord.errors import UnavailableError
from zkcoord.health.rules import HealthVerdict
from zkcoord.zk.clock import wall_ms

WEIGHT_MAX = 200 * 1024
ALLOWED_SCRIPTS = ["static/console.js"]


class Seen(HTMLParser):
    """A page as a browser takes it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        if tag == "script":
            self.scripts.append(found.get("src"))
        self.handlers += [name for name in found if name.startswith("on") or name == "style"]
        self.links += [found["href"] or ""] if "href" in found else []

    def handle_data(self, data: str) -> None:
        self.text += data


def harmless(page: str) -> Seen:
    """Nothing that somebody has named runs, or changes how others look."""
    seen = Seen(page)
    assert seen.scripts == ALLOWED_SCRIPTS and not seen.handlers and "img" not in seen.tags
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x1b]", page)
    assert not [one for one in seen.links if one.lower().startswith(("javascript", "//", "http"))]
    assert len(page.encode()) < WEIGHT_MAX, len(page.encode())
    return seen


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:10])
def test_names_of_groups_and_members_are_texts(name: str, tmp_path: Path) -> None:
    journal_file(tmp_path)
    now = wall_ms()
    member = name.replace("/", "_")
    records = [
        rebalance(
            now - 5_000 + n,
            {member: {name: "0-3"}},
            group=name,
            trigger=name,
            cause=name,
            assignor=name,
            waited_for=[{"member": name + "\u202e", "ms": 5}],
        )
        for n in range(2)
    ]
    failed = GroupMetadata(3, GroupState.QUARANTINED, name[:60], failure=name, problems=(name,))
    told = ToldPages(
        [line(name, HealthVerdict.STALL, topics=(name,))],
        [snapshot(name, {member: {"orders": [0, 1]}}, host=name, metadata=failed)],
        [*records, {"t": now, "kind": name, "event": name}],
        tmp_path,
    )
    if "/" not in name:
        seen = harmless(told.pages.whole("group", {"name": name, "topic": "", "span": "10m"}))
        assert name in seen.text and "g7*7" not in seen.text
        at = f"{now - 4_999}-3"
        story = harmless(told.pages.whole("rebalance", {"name": name, "at": at}))
        assert "took longest to answer" in story.text
    seen = harmless(told.pages.whole("", {"find": name}))
    assert name in seen.text and "1 group" in seen.text
    told.servers = [ServerSeen(name, *[name] * 6), ServerSeen(name, problem=name)]
    told.happenings.take(
        [{"t": now, "kind": "term", "event": "resigned", "epoch": 7, "reason": name}]
    )
    harmless(told.pages.whole("coordinator", {"sort": name}))
    for query in ({"name": name}, {"name": "orders", "x": name}):
        try:
            harmless(told.pages.whole("topic", query))
        except NotThereError as error:
            harmless(told.pages.trouble("Not there", str(error), ""))


@pytest.mark.parametrize("odd", ["\u202e", "a\u202eb", "a\x1b[2J", "..", "a/b", "", "x" * 9_999])
def test_names_that_no_group_has_are_one_sentence(odd: str) -> None:
    told = ToldPages()
    for page in ("group", "rebalance", "topic"):
        with pytest.raises(NotThereError) as error:
            told.pages.whole(page, {"name": odd})
        harmless(told.pages.trouble("Not there", str(error.value), ""))
        parts = told.pages.parts(page, {"name": odd})
        assert list(parts) == ["notice"] and "\u202e" not in parts["notice"]


ODD: list[Any] = [
    None,
    True,
    -1,
    10**18,
    1.5,
    "\u202e<b>",
    [],
    {},
    [{"member": {}, "ms": 5}],
    "x" * 9_000,
]
FIELDS = ("t", "kind", "generation", "owned", "waited_for", "duration_ms", "cause", "out", "moved")


@pytest.mark.parametrize("field", FIELDS)
def test_journal_records_of_wrong_types(field: str, tmp_path: Path) -> None:
    journal_file(tmp_path)
    now = wall_ms()
    keeps = {"t": lambda odd: type(odd) is int, "kind": lambda odd: isinstance(odd, str)}
    records = [
        rebalance(now - 1_000, {"m": {"a": "0-3"}}) | {"kind": kind} | {field: odd}
        for odd in ODD
        if keeps.get(field, lambda odd: True)(odd)
        for kind in (
            "rebalance",
            "client-led rebalance",
            "evicted",
            "malformed",
            "assignor",
            "mode",
        )
    ]
    told = ToldPages([line("billing")], [snapshot("billing", {"m": {"a": [0]}})], records, tmp_path)
    told.happenings.take([{**record, "group": 7} for record in records])
    page = told.pages.whole("group", {"name": "billing"})
    seen = harmless(page)
    harmless(told.pages.whole("coordinator", {}))
    for address in {one for one in seen.links if one.startswith("rebalance?")}:
        at = re.search(r"at=([-0-9]+)", address)
        assert at is not None, address
        harmless(told.pages.whole("rebalance", {"name": "billing", "at": at[1]}))


def test_what_is_not_known_is_said() -> None:
    told = ToldPages()
    assert "there is no group" in told.pages.whole("", {})
    with pytest.raises(NotThereError, match="there is no group billing"):
        told.pages.whole("group", {"name": "billing"})
    told.asker.error = UnavailableError("no server answers")
    page = told.pages.whole("group", {"name": "billing"})
    assert "no server answers" in page and "That is not known now." in page
    assert "no journal" in page.lower()
    with pytest.raises(NotThereError, match="no such rebalance"):
        told.pages.whole("rebalance", {"name": "billing", "at": "1-1"})


def test_a_paused_group_is_marked_in_the_list(tmp_path: Path) -> None:
    paused = line("billing")
    paused = replace(paused, listed=replace(paused.listed, paused="ann <by> zkcoord@h"))
    page = ToldPages([paused, line("audit")], folder=tmp_path).pages.whole("", {})
    assert page.count(">paused</span>") == 1 and "by ann &lt;by&gt; zkcoord@h" in page


def test_how_old_it_is_and_why() -> None:
    told = ToldPages([line("billing")])
    assert "data-stale" not in told.pages.whole("", {})
    told.picture = type(told.picture)(
        2, wall_ms() - 65_000, told.picture.lines, problem="<no server>", no_lag="no broker"
    )
    page = told.pages.whole("", {})
    assert "What is shown is 1 min old: &lt;no server&gt;." in page
    assert "No lag and no verdicts: no broker." in page and "No coordinator leads." in page
    told.picture = type(told.picture)(0, 0, problem="no server answers")
    assert "no server answers" in told.pages.whole("", {})


def test_parts_are_what_the_page_has() -> None:
    told = ToldPages([line("billing")], [snapshot("billing", {"m": {"a": [0]}})])
    for page in ("", "group", "topic", "coordinator"):
        query = {"name": "billing"}
        whole, parts = told.pages.whole(page, query), told.pages.parts(page, query)
        assert parts["notice"] == ""
        for name, text in parts.items():
            assert f'data-part="{name}"' in whole and text in whole


def test_links_are_relative_and_hold_any_name() -> None:
    assert (
        link("", find="") == "." and link("group", name="a b&c=#%") == "group?name=a+b%26c%3D%23%25"
    )
    assert link("rebalance", at=0, name=None or "") == "rebalance?at=0"


def test_ten_thousand_groups_weigh_little() -> None:
    told = ToldPages(
        line(f"group-of-some-service-{n:05}", list(HealthVerdict)[n % 5], lag=n)
        for n in range(10_000)
    )
    now = wall_ms()
    told.happenings.take(
        rebalance(now - n, group=f"group-of-some-service-{n:05}") for n in range(10_000)
    )
    page = harmless(told.pages.whole("", {"sort": "rebalances"}))
    assert "page 1 of 100" in page.text
    harmless(told.pages.whole("topic", {"name": "orders"}))
    harmless(told.pages.whole("", {"find": "service", "page": "57", "sort": "name"}))


@pytest.mark.parametrize("of", ["usual", "long"])
def test_a_timeline_of_100_partitions_and_400_marks_weighs_little(of: str, tmp_path: Path) -> None:
    journal_file(tmp_path)
    now = wall_ms()
    group = {"usual": "billing", "long": LONGEST}[of]
    members = [f"{group}_host{n}-1700000000000-0123abcd" for n in range(12)]
    topic = {"usual": "orders", "long": "t" * 249}[of]
    records = [
        rebalance(
            now - 3_000_000 + at * 7_000,
            {m: {topic: ",".join(str(p) for p in range(n, 100, 12))} for n, m in
             enumerate(members[at % 12:] + members[: at % 12])},
            group=group, trigger=members[0], generation=at,
            waited_for=[{"member": m, "ms": 5} for m in members[:8]],
        )
        for at in range(400)
    ]  # fmt: skip
    free = [TopicPartition(topic, n) for n in range(300)]
    owns = {m: {topic: list(range(n, 100, 12))} for n, m in enumerate(members)}
    groups = [snapshot(group, owns, free=free)]
    told = ToldPages([line(group, lag=5, topics=(topic,))], groups, records, tmp_path)
    page = told.pages.whole("group", {"name": group, "span": "1h"})
    if of == "long":
        assert len(page.encode()) < 2 * WEIGHT_MAX, len(page.encode())
        return
    seen = harmless(page)
    assert page.count("<title>") > 200 and "older events are not drawn" in seen.text
    harmless(told.pages.whole("rebalance", {"name": group, "at": f"{records[-1]['t']}-399"}))


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:10])
def test_what_is_found_and_groups_with_old_consumers_are_texts(name: str) -> None:
    told = ToldPages()
    finding = CheckFinding("offset-no-number", name, f"/consumers/{name}/offsets", name)
    old = GroupOnItsWay(name, 1, 0, "mixed", (name,), "replace its 1 old consumers one by one")
    told.checked = Checked(1_700_000_000_000, (finding,), 0, (old,))
    for page in ("check", "legacy"):
        text = told.pages.whole(page, {})
        assert "<script>alert" not in text and "<img" not in text
        assert str(Markup.escape(name))[:20] in text
    assert "offset-no-number" in told.pages.whole("check", {})
    assert "one by one" in told.pages.whole("legacy", {})


def test_a_thousand_findings_weigh_little() -> None:
    told = ToldPages()
    findings = [
        CheckFinding("offset-no-number", f"g{n}", f"/consumers/g{n}/offsets/t", "x" * 5_000)
        for n in range(1_000)
    ]
    legacy = [GroupOnItsWay(f"g{n}", 1, 1, "mixed", ("y" * 5_000,) * 9, "z") for n in range(200)]
    told.checked = Checked(1, tuple(findings), 7, tuple(legacy), 9)
    assert "7 more that are not shown" in told.pages.whole("check", {})
    assert "9 more groups" in told.pages.whole("legacy", {})
    for page in ("check", "legacy"):
        assert len(told.pages.whole(page, {})) <= 200_000, page


def test_an_examination_that_failed_or_is_under_way_is_said() -> None:
    told = ToldPages()
    told.checked = Checked(is_running=True)
    assert "for the first time" in told.pages.whole("check", {})
    told.checked = Checked(problem="ZooKeeper does not answer")
    assert "ZooKeeper does not answer" in told.pages.whole("legacy", {})


def test_the_coordinators_page(tmp_path: Path) -> None:
    """Terms with their takeovers, servers, how long rebalances took, and what needs somebody."""
    now = wall_ms()
    terms = [
        {"t": now - 9_000, "kind": "term", "event": "elected", "epoch": 6},
        {"t": now - 8_000, "kind": "term", "event": "resigned", "epoch": 6, "reason": "stopped"},
        {"t": now - 7_700, "kind": "term", "event": "elected", "epoch": 7},
        {"t": now - 7_500, "kind": "term", "event": "ready", "epoch": 7},
    ]
    told = ToldPages(
        [line("slow", HealthVerdict.STOP), line("well")],
        records=[*terms, rebalance(now - 1_000, duration_ms=110), rebalance(now, duration_ms=90)],
        folder=tmp_path,
    )
    told.servers = [
        ServerSeen("zk1:2181", "follower", "3.9.3", "0/0.4/17", "12", "0", "4051"),
        ServerSeen("zk2:2181", problem="Connection refused"),
    ]
    page = told.pages.whole("coordinator", {})
    for text in ("0/0.4/17", "Connection refused", "200 ms", "500 ms", "stopped", "110 ms"):
        assert text in page, text
    assert ">1 group not well<" in page and "verdict=not+well" in page
    told.picture = picture([line("well")], coordinator=None)
    assert "nobody leads" in told.pages.whole("coordinator", {})
