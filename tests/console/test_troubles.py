"""Trouble in the console: on a group's page, in the list, and what a look at all groups costs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_digest_acl

from tests.admin.world import world
from tests.console.pictures import ToldPages, journal_file, line, snapshot
from tests.console.test_pages import harmless
from zkcoord.console import troubles as module
from zkcoord.console.happenings import Happenings
from zkcoord.console.troubles import Troubles
from zkcoord.core.model import GroupMetadata, GroupState, TopicPartition
from zkcoord.errors import UnknownGroupError
from zkcoord.health.rules import HealthVerdict, of_group
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

EVIL = "<script>alert(1)</script>"


def comings(group: str, ends: str = "poll-interval 9000", client: str = EVIL) -> list[Any]:
    """A member that comes again and again, and says why."""
    now, found = wall_ms(), []
    for number in range(4):
        one = {
            "member": f"m{number}",
            "host": "h",
            "client": client,
            "ended": ends if number else "",
        }
        at_ms = now - 60_000 + number * 10_000
        record = {"t": at_ms, "kind": "members", "group": group, "joined": [one], "left": []}
        found.append(record)
        if number < 3:
            gone = {"t": at_ms + 5_000, "joined": [], "left": [f"m{number}"]}
            found.append({**record, **gone})
    return found


def test_a_groups_page_says_what_to_do_above_all_else(tmp_path: Path) -> None:
    journal_file(tmp_path)
    rested = GroupMetadata(3, GroupState.STABLE, "range", since_ms=wall_ms() - 90_000)
    group = snapshot("billing", {"m3": {"t": [0]}, "idle": {}}, metadata=rested)
    told = ToldPages([line("billing")], [group], comings("billing"), tmp_path)
    page = told.pages.whole("group", {"name": "billing"})
    seen = harmless(page)
    assert f"({EVIL} at h) left 3 times" in seen.text and "poll-interval of m3, since" in seen.text
    assert "docs/operations.md#trouble-poll-interval" in seen.text
    assert "1 member of 2 has no partition" in seen.text
    places = [
        page.index(text) for text in ("What to do", "poll-interval", "idle-members", "Verdict")
    ]
    assert places == sorted(places), "the worst first, and before the facts"
    assert "What to do" in told.pages.parts("group", {"name": "billing"})["trouble"]


def test_a_group_that_is_well_has_no_such_part(tmp_path: Path) -> None:
    told = ToldPages([line("billing")], [snapshot("billing", {"m": {"t": [0]}})], (), tmp_path)
    assert told.pages.parts("group", {"name": "billing"})["trouble"].strip() == ""
    assert "What to do" not in told.pages.whole("group", {"name": "billing"})


def test_what_it_weighs_with_all_that_may_be_wrong(tmp_path: Path) -> None:
    records = [
        {**record, "joined": [{**one, "client": f"{number}" * 120} for one in record["joined"]]}
        for number in range(100)
        for record in comings("billing")
    ]
    told = ToldPages([line("billing")], [], records, tmp_path)
    part = told.pages.parts("group", {"name": "billing"})["trouble"]
    assert len(part) < 30_000 and len(re.findall("<li>", part)) <= 11


def test_a_look_finds_them_by_journals_commits_and_nodes(zk_hosts: str) -> None:
    happenings = Happenings([], lambda groups: troubles.heard(groups))
    troubles = Troubles(happenings, Layout.DRAFT)
    with world(zk_hosts) as here, SyncClient(ZkOptions(zk_hosts)) as reader:
        here.leader()
        here.topic("orders", 1)
        for name in ("well", "broken", "restless"):
            here.group(name)
        here.client.create(
            here.layout.registration("broken", "x"), b"{}", ephemeral=True, makepath=True
        )
        names = ["broken", "restless", "well"]
        assert set(troubles.look(reader, names, [])) == {"broken"}
        happenings.take(comings("restless"))
        found = troubles.look(reader, names, [])
        assert {name: [one.kind.value for one in of] for name, of in found.items()} == {
            "broken": ["malformed-registration"],
            "restless": ["poll-interval"],
        }
        assert set(troubles.look(reader, ["restless", "well"], [])) == {"restless"}, "it has gone"


def test_a_look_that_has_no_time_goes_on_where_the_last_one_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "READ_MS_MAX", 0)
    monkeypatch.setattr(module, "JUDGED_MS_MAX", 0)
    read: list[str] = []
    monkeypatch.setattr(
        module,
        "describe_any_group",
        lambda reader, layout, name: read.append(name) or snapshot(name, {}),
    )
    happenings = Happenings([], lambda groups: troubles.heard(groups))
    troubles = Troubles(happenings, Layout.DRAFT)
    for name in ("a", "b"):
        happenings.take(comings(name))
    nobody: Any = None
    counts = [len(troubles.look(nobody, ["a", "b", "c"], [])) for _ in range(4)]
    assert read == ["a", "b", "c", "a"] and counts == [1, 2, 2, 2]


def test_a_group_that_may_not_be_read_takes_nothing_from_the_others(zk_hosts: str) -> None:
    """A member makes its registration with an ACL of its own."""
    troubles = Troubles(Happenings([], lambda _: None), Layout.DRAFT)
    with world(zk_hosts) as here, SyncClient(ZkOptions(zk_hosts)) as reader:
        here.leader()
        for name in ("broken", "closed", "late"):
            here.group(name)
        hidden = [make_digest_acl("member", "secret", all=True)]
        for name, acl in (("broken", None), ("closed", hidden), ("late", None)):
            path = here.layout.registration(name, "x")
            here.client.ensure_path(here.layout.ids(name))
            here.client.create(path, b"{}", acl, ephemeral=True)
        names = ["broken", "closed", "late"]
        assert set(troubles.look(reader, names, [])) == {"broken", "late"}


def test_groups_that_are_gone_take_no_more_time_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "READ_MS_MAX", 0)
    read: list[str] = []

    def gone(reader: Any, layout: Layout, name: str) -> Any:
        read.append(name)
        raise UnknownGroupError(name)

    monkeypatch.setattr(module, "describe_any_group", gone)
    troubles = Troubles(Happenings([], lambda _: None), Layout.DRAFT)
    nobody: Any = None
    for _ in range(2):
        assert troubles.look(nobody, ["a", "b", "c"], []) == {}
    assert read == ["a", "b"]


def test_a_verdict_alone_makes_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "describe_any_group", lambda reader, layout, name: snapshot(name, {})
    )
    troubles = Troubles(Happenings([], lambda _: None), Layout.DRAFT)
    bad = line("a", HealthVerdict.STOP, lag=5).health
    assert bad is not None and TopicPartition("orders", 0) == bad.partitions[0].tp
    nobody: Any = None
    assert troubles.look(nobody, ["a"], [of_group("a", "Stable", "", bad.partitions)]) == {}
