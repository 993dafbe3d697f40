"""The folder of a run: what was there before, and how far it has come. Written before anything is
written anywhere else.

    journal.jsonl            `run`; for each group `began` (what both stores held, and what is to be
                             written) and `done`, or `refused`; `ended`
    zookeeper-offsets.txt    what ZooKeeper held, as the old tools write it:
                             kafka.tools.ImportZkOffsets puts it back
    kafka-offsets.csv        what Kafka held, as kafka-consumer-groups.sh --reset-offsets
                             --from-file takes it for more than one group

A line is whole or it does not count: what a crash cut off is left out when the journal is read, and
taken away before it is written on. One process at a time writes (`flock`). The backups are written
before the journal, and the report after it, so a journal that tells less than they do is damaged
(`damage`), and what it does not tell cannot be put back by it.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from migrations.model import Change, GroupNow, KafkaOffset, ZkNote, ZkOffset
from zkcoord.admin.common import some
from zkcoord.core.model import TopicPartition
from zkcoord.errors import ConfigurationError, RefusedError
from zkcoord.private_files import private, private_folder
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout

JOURNAL, ZOOKEEPER_BACKUP, KAFKA_BACKUP = (
    "journal.jsonl",
    "zookeeper-offsets.txt",
    "kafka-offsets.csv",
)

REPORT = "report.json"

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True)
class Began:
    """A group as it was when its turn came, and what was to be written."""

    group: str
    zookeeper: Offsets
    kafka: Offsets
    notes: Mapping[str, str]
    changes: tuple[Change, ...]


@dataclass
class JournalTold:
    """What a journal tells. `began` has the first record of a group and the latest: the first knows
    what was there before the run, the latest what is still to be done.
    """

    run: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Began] = field(default_factory=dict)
    latest: dict[str, Began] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    ended: bool = False


class RunJournal:
    """A run's folder, to write on. Any thread. Raises `RefusedError` where another process writes
    it, `ConfigurationError` where it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        try:
            private_folder(folder)
            self._files = {
                name: _append(folder / name) for name in (JOURNAL, ZOOKEEPER_BACKUP, KAFKA_BACKUP)
            }
            fcntl.flock(self._files[JOURNAL], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(
                f"another process is at work with {folder}: wait until it has ended"
            ) from error
        except OSError as error:
            raise ConfigurationError(
                f"the folder {folder} cannot be written ({error.strerror}): give another one with"
                " --dir"
            ) from error

    def __enter__(self) -> RunJournal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            file.close()

    def begin(self, run: Mapping[str, Any]) -> None:
        """The run itself."""
        self._write([(JOURNAL, json.dumps({"kind": "run", **run}))])

    def began(self, groups: Sequence[tuple[GroupNow, Sequence[Change]]]) -> None:
        """Some groups' turn: on the disk, with what the old tools need, before this returns."""
        lines: list[tuple[str, str]] = []
        for now, changes in groups:
            zookeeper = {
                tp: stored.offset
                for tp, stored in sorted(now.stored.items())
                if stored.offset is not None
            }
            lines += [
                (ZOOKEEPER_BACKUP, f"{Layout.DRAFT.offset(now.name, tp)}:{offset}")
                for tp, offset in zookeeper.items()
            ]
            lines += [
                (KAFKA_BACKUP, f"{now.name},{tp.topic},{tp.partition},{offset}")
                for tp, offset in sorted(now.kafka.items())
            ]
            notes = {
                topic: encode_incarnation(beside.value).decode()
                for topic, beside in sorted(now.beside.items())
                if isinstance(beside.value, OffsetsOf)
            }
            record = {
                "kind": "began",
                "group": now.name,
                "zookeeper": _nested(zookeeper),
                "kafka": _nested(now.kafka),
                "notes": notes,
                "changes": [_change(change) for change in changes],
            }
            lines.append((JOURNAL, json.dumps(record)))
        self._write(lines)

    def done(self, groups: Sequence[str]) -> None:
        """Some groups are written, and were read again."""
        self._write([(JOURNAL, json.dumps({"kind": "done", "group": group})) for group in groups])

    def ended(self, figures: Mapping[str, Any]) -> None:
        """Every group had its turn."""
        self._write([(JOURNAL, json.dumps({"kind": "ended", **figures}))])

    def _write(self, lines: Sequence[tuple[str, str]]) -> None:
        with self._lock:
            # the journal last: what it tells of is in the others
            for name in (ZOOKEEPER_BACKUP, KAFKA_BACKUP, JOURNAL):
                text = "".join(line + "\n" for file, line in lines if file == name)
                if text:
                    self._files[name].write(text.encode())
                    self._files[name].flush()
                    os.fsync(self._files[name].fileno())


def _append(path: Path) -> IO[bytes]:
    """Opened for appending; without what a crash left of a last line."""
    file = open(path, "a+b", opener=private)  # noqa: SIM115  open as long as the run
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    whole = size
    if size:
        data = file.read()
        whole = data.rfind(b"\n") + 1
    if whole < size:
        file.truncate(whole)
    return file


def read_journal(folder: Path) -> JournalTold:
    """What a run's journal tells. Raises `ConfigurationError` where there is none."""
    told = told_in(folder)
    if not told.run:
        raise ConfigurationError(
            f"{folder} is no run of a migration: zkcoord migrate list shows those that there are"
        )
    return told


def told_in(folder: Path) -> JournalTold:
    """The same; `JournalTold.run` is empty where a crash left no whole line."""
    told = JournalTold()
    try:
        _tell(told, folder / JOURNAL)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged(folder / JOURNAL, f"{type(error).__name__}: {error}") from error
    return told


def _tell(told: JournalTold, journal: Path) -> None:
    for record in _records(journal):
        kind = record.get("kind")
        if kind == "run":
            _of(record["time_ms"], int)
            told.run = record
        elif kind == "began":
            began = Began(
                _of(record["group"], str),
                _flat(record["zookeeper"]),
                _flat(record["kafka"]),
                {topic: _of(note, str) for topic, note in record["notes"].items()},
                tuple(_changed(raw) for raw in record["changes"]),
            )
            told.first.setdefault(began.group, began)
            told.latest[began.group] = began
            told.done.discard(began.group)
        elif kind == "done":
            told.done.add(_of(record["group"], str))
        elif kind == "ended":
            told.ended = True


def _damaged(journal: Path, why: object) -> RefusedError:
    return RefusedError(
        f"{journal} is damaged ({why}): restore by hand from {ZOOKEEPER_BACKUP} and {KAFKA_BACKUP}"
        " beside it"
    )


def damage(folder: Path, told: JournalTold) -> str:
    """Why a run cannot be put back by its journal alone: one sentence; "" where it can. A crash may
    leave a backup without its line in the journal, until the same command is run again.
    """
    by_hand = (
        f"by hand from {ZOOKEEPER_BACKUP} and {KAFKA_BACKUP} there, and the others with --only"
    )
    missing = sorted(_backed_up(folder) - told.first.keys())
    if missing:
        return (
            f"the journal in {folder} is cut off: its backup holds offsets of {some(missing)}, of"
            " which it tells nothing; run the command that it is of again if that was killed, or"
            f" put these back {by_hand}"
        )
    contradicted = unsaid(folder, told)
    return f"{contradicted}; put these back {by_hand}" if contradicted else ""


def unsaid(folder: Path, told: JournalTold) -> str:
    """What the run's report says was written and the journal does not: one sentence; "" where
    nothing is. No crash does that: the report is written last.
    """
    missing = sorted(_reported(folder) - told.done)
    if not missing:
        return ""
    return (
        f"the journal in {folder} is cut off: by the run's report {some(missing)} were written, and"
        " it does not say so"
    )


def _backed_up(folder: Path) -> set[str]:
    """The groups in the backups. Raises `RefusedError` where one is gone."""
    found: set[str] = set()
    for name, separator, at in ((ZOOKEEPER_BACKUP, "/", 2), (KAFKA_BACKUP, ",", 0)):
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            whole = text[: text.rfind("\n") + 1]
            found.update(line.split(separator)[at] for line in whole.splitlines())
        except (OSError, IndexError) as error:
            raise RefusedError(
                f"the backup {folder / name} is gone or damaged: put the run's folder back as it"
                " was; nothing was written"
            ) from error
    return found


def _reported(folder: Path) -> set[str]:
    """The groups that the run's report calls done, where there is one."""
    try:
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        return {each["group"] for each in report["groups"] if each["state"] == "done"}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise RefusedError(
            f"the report {folder / REPORT} is damaged: take it away if the rest of the run's folder"
            " is as it was; nothing was written"
        ) from error


def _records(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error.strerror}): zkcoord migrate list shows the runs that"
            " there are"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from error


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): _of(offset, int)
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def _change(change: Change) -> list[Any]:
    if isinstance(change, ZkOffset):
        return [
            "zookeeper",
            change.tp.topic,
            change.tp.partition,
            change.before,
            change.after,
            change.version,
        ]
    if isinstance(change, ZkNote):
        return ["note", change.topic, change.before, change.after, change.version]
    return ["kafka", change.tp.topic, change.tp.partition, change.before, change.after]


def _of(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise TypeError(f"{shown(str(value))} stands where it cannot be")
    return value


def _changed(raw: Sequence[Any]) -> Change:
    numbers = raw[3:] if raw[0] != "note" else raw[4:]
    for value in numbers:
        _of(value, int, type(None))
    for value in raw[1:2] if raw[0] != "note" else raw[1:4]:
        _of(value, str)
    _of(raw[2], str if raw[0] == "note" else int)
    if raw[0] == "zookeeper":
        return ZkOffset(TopicPartition(raw[1], raw[2]), raw[3], raw[4], raw[5])
    return (
        ZkNote(raw[1], raw[2], raw[3], raw[4])
        if raw[0] == "note"
        else KafkaOffset(TopicPartition(raw[1], raw[2]), raw[3], raw[4])
    )
