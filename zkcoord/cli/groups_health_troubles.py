"""What `groups health` says of trouble: it reads each group once, and the last hour of the journals
of this machine.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zkcoord.admin.group_problems import judged
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import journal_dir
from zkcoord.config.sources import resolve
from zkcoord.coordinator.journal import Reading, Record, journal_files
from zkcoord.errors import ConfigurationError, UnavailableError, UnknownGroupError
from zkcoord.health.evidence_of import evidence_of
from zkcoord.health.rules import GroupHealth, HealthVerdict
from zkcoord.health.trouble.evidence import HOUR_MS, KINDS, RECORDS_MAX
from zkcoord.health.trouble.kinds import Trouble
from zkcoord.health.trouble.rules import troubles_of
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.led_groups import describe_any_group
from zkcoord.znodes.paths import Layout

GROUPS_READ_MAX = 500
"""Groups that one look reads as a whole; of more, the worst."""

NO_JOURNAL = (
    "no coordinator of this user keeps a journal on this machine, so what only the past hour shows"
    " (members that come and go, storms, ...) was not looked at: run this where one is, or name its"
    " folder with --journal-dir"
)

Found = Mapping[str, Sequence[Trouble]]


class TroubleFinder:
    """For one thread. `notes` are sentences of what could not be looked at."""

    def __init__(self, reader: SyncClient, layout: Layout, folders: Sequence[str] | None) -> None:
        self._reader = reader
        self._layout = layout
        self._named = frozenset(map(Path, folders or ()))
        self._readings = [(folder, _begun(folder)) for folder in _folders(folders)]
        self._records: dict[str, deque[Record]] = {}
        self.notes: list[str] = []

    def of(self, groups: Sequence[GroupHealth]) -> Found:
        """By group, those that have some."""
        self.notes = []
        there = [one for one in groups if one.verdict is not HealthVerdict.NOTFOUND]
        self._read_journals({one.group for one in there})
        there.sort(key=lambda one: (-one.verdict.rank, one.group))
        if len(there) > GROUPS_READ_MAX:
            self.notes.append(
                f"the {GROUPS_READ_MAX} worst of {len(there)} groups were looked at for trouble:"
                " name the groups to look at others"
            )
        found = {}
        for one in there[:GROUPS_READ_MAX]:
            troubles = self._of_group(one)
            if troubles:
                found[one.group] = troubles
        return found

    def _of_group(self, one: GroupHealth) -> list[Trouble]:
        records = self._records.get(one.group, ())
        snapshot = None
        try:
            snapshot = judged(
                self._reader, describe_any_group(self._reader, self._layout, one.group)
            )
        except UnknownGroupError:
            pass  # one of Kafka's alone
        except UnavailableError as error:
            self.notes.append(f"{one.group} was not looked at for trouble as a whole: {error}")
        return troubles_of(evidence_of(one.group, records, snapshot, one))

    def _read_journals(self, wanted: set[str]) -> None:
        if not self._named and not any(_is_kept_in(folder) for folder, _ in self._readings):
            self.notes.append(NO_JOURNAL)
        for folder, reading in self._readings:
            if folder in self._named and not folder.is_dir():
                self.notes.append(f"there is no journal in {folder}: correct --journal-dir")
            try:
                for record in reading.records(folder):
                    group = record.get("group")
                    if record["kind"] in KINDS and isinstance(group, str) and group in wanted:
                        kept = self._records.setdefault(group, deque(maxlen=RECORDS_MAX))
                        kept.append(record)
            except OSError as error:
                self.notes.append(f"the journal in {folder} cannot be read ({error.strerror})")


def _folders(given: Sequence[str] | None) -> list[Path]:
    if given:
        return [Path(folder) for folder in dict.fromkeys(given)]
    try:
        return [journal_dir(resolve(Use.JOURNAL, {}, os.environ), os.environ)]
    except ConfigurationError:
        return []  # a user without a home, who named none


def _is_kept_in(folder: Path) -> bool:
    """Whether somebody has a journal there; one that cannot be read is said when it is read."""
    try:
        return bool(journal_files(folder))
    except OSError:
        return True


def _begun(folder: Path) -> Reading:
    """Of the files that somebody wrote to within the hour."""
    reading = Reading()
    try:
        for path in journal_files(folder):
            stat = path.stat()
            if stat.st_mtime * 1000 < wall_ms() - HOUR_MS:
                reading.consumed[path.name] = stat.st_size
    except OSError:
        return Reading()  # it is said when it is read
    return reading


def trouble_lines(found: Found) -> Iterator[str]:
    """For people: what, the evidence, what to do and where to read on."""
    for group, troubles in found.items():
        for one in troubles:
            about = f" of {one.subject}" if one.subject else ""
            yield f"{group}: {one.kind.value}{about}: {one.evidence}."
            yield f"  what to do: {one.remedy} ({one.link})."


def trouble_json(one: Trouble) -> dict[str, Any]:
    """The same for programs."""
    tp = one.partition
    return {
        "kind": one.kind.value,
        "member": one.member or None,
        "partition": None if tp is None else [tp.topic, tp.partition],
        "since_ms": one.since_ms,
        "evidence": one.evidence,
        "remedy": one.remedy,
        "link": one.link,
    }
