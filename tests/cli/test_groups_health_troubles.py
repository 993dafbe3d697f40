"""What `groups health` says of trouble: what it reads, what it says, and what it could not see."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.admin.world import world
from tests.console.test_troubles import comings
from zkcoord.cli import groups_health_troubles as module
from zkcoord.cli.groups_health_text import health_json
from zkcoord.cli.groups_health_troubles import NO_JOURNAL, TroubleFinder, trouble_lines
from zkcoord.core.model import TopicPartition
from zkcoord.health.rules import GroupHealth, HealthVerdict
from zkcoord.health.trouble.kinds import Trouble, TroubleKind
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout


def health(*names: str, verdict: HealthVerdict = HealthVerdict.OK) -> list[GroupHealth]:
    return [GroupHealth(name, verdict, "") for name in names]


def journal(folder: Path, records: list[dict[str, Any]], number: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"1700000000000-1.{number:06}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_it_reads_the_journals_last_hour_and_each_group(zk_hosts: str, tmp_path: Path) -> None:
    path = journal(tmp_path, comings("restless", client="app") + comings("other"))
    with world(zk_hosts) as here, SyncClient(ZkOptions(zk_hosts)) as reader:
        for name in ("restless", "well", "broken"):
            here.group(name)
        here.client.create(
            here.layout.registration("broken", "x"), b"{}", ephemeral=True, makepath=True
        )
        finder = TroubleFinder(reader, Layout.DRAFT, [str(tmp_path)])
        groups = health("restless", "well", "broken", "kafkas-alone")
        for _ in range(2):
            found = finder.of(groups)
            assert {name: [one.kind.value for one in of] for name, of in found.items()} == {
                "restless": ["poll-interval"],
                "broken": ["malformed-registration"],
            }
        assert finder.notes == []
        assert finder.of(health("restless", verdict=HealthVerdict.NOTFOUND)) == {}
        long_ago_s = wall_ms() / 1000 - 3_700
        os.utime(path, (long_ago_s, long_ago_s))
        finder = TroubleFinder(reader, Layout.DRAFT, [str(tmp_path)])
        assert set(finder.of(groups)) == {"broken"}, "nobody wrote to it within the hour"


def test_a_journal_that_is_named_and_not_there_is_said(tmp_path: Path) -> None:
    nobody: Any = None
    none = tmp_path / "none"
    finder = TroubleFinder(nobody, Layout.DRAFT, [str(none)])
    assert finder.of([]) == {}
    assert finder.notes == [f"there is no journal in {none}: correct --journal-dir"]


def test_that_no_journal_is_here_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody: Any = None
    monkeypatch.setenv("ZKCOORD_JOURNAL_DIR", str(tmp_path / "none"))
    assert TroubleFinder(nobody, Layout.DRAFT, None).of([]) == {}
    finder = TroubleFinder(nobody, Layout.DRAFT, None)
    for _ in range(2):
        finder.of([])
        assert finder.notes == [NO_JOURNAL]
    monkeypatch.setenv("ZKCOORD_JOURNAL_DIR", str(tmp_path))
    journal(tmp_path, [])
    finder = TroubleFinder(nobody, Layout.DRAFT, None)
    finder.of([])
    assert finder.notes == []


def test_what_could_not_be_seen_is_said(
    zk_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    journal(blocked, [])
    monkeypatch.setattr(module, "GROUPS_READ_MAX", 1)
    with world(zk_hosts) as here, SyncClient(ZkOptions(zk_hosts)) as reader:
        here.group("a")
        finder = TroubleFinder(reader, Layout.DRAFT, [str(blocked), str(tmp_path / "none")])
        monkeypatch.setattr(module.Reading, "records", refused)
        assert finder.of(health("a", "b")) == {}
    assert finder.notes[0] == f"the journal in {blocked} cannot be read (Permission denied)"
    assert "the 1 worst of 2 groups" in finder.notes[-1]


def refused(self: object, folder: Path) -> Any:
    raise PermissionError(13, "Permission denied")


def test_a_user_without_a_home_has_no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    nobody: Any = None
    assert TroubleFinder(nobody, Layout.DRAFT, None).of([]) == {}


TROUBLE = Trouble(
    TroubleKind.POISON_RECORD, "g", "it stands", "Pass it", 5, partition=TopicPartition("t", 3)
)


def test_what_people_and_programs_are_told() -> None:
    assert list(trouble_lines({"g": [TROUBLE]})) == [
        "g: poison-record of t-3: it stands.",
        "  what to do: Pass it (docs/operations.md#trouble-poison-record).",
    ]
    (group,) = health_json(health("g"), 1, False, {"g": [TROUBLE]})["groups"]
    assert group["troubles"] == [
        {
            "kind": "poison-record",
            "member": None,
            "partition": ["t", 3],
            "since_ms": 5,
            "evidence": "it stands",
            "remedy": "Pass it",
            "link": "docs/operations.md#trouble-poison-record",
        }
    ]
    (well,) = health_json(health("h"), 1, False)["groups"]
    assert well["troubles"] == []
