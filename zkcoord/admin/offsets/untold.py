"""What a reset has written, or was about to, kept in a file until its outcome was told.

`--shift-by` done twice shifts twice. So before each transaction its partitions are in a file of
this user's state folder, on the disk, with the versions that they have before it; the file goes
when the outcome was printed, and what stays is found by the next command. A partition whose version
is another since then was shifted, or may have been: the command is refused and says so, unless
`--again` is given. Resets to a place, not by a distance, may be repeated, and ask nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zkcoord.admin.common import argument, some
from zkcoord.admin.offsets.time_spec import shown_time
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.private_files import private, private_folder
from zkcoord.words import counted

BYTES_MAX = 64 * 1024 * 1024


@value
class AboutToBeWritten:
    """One partition. `version` is that of its offset before; None: there is no node."""

    tp: TopicPartition
    old: int | None
    new: int
    version: int | None


class Untold:
    """The file of one group's resets. `problem` says why there is none, where there is none."""

    def __init__(self, folder: Path, purpose: str) -> None:
        digest = hashlib.sha256(purpose.encode()).hexdigest()[:32]
        self._path = folder / f"{digest}.jsonl"
        self.problem = ""

    def found(self) -> tuple[str, list[AboutToBeWritten]]:
        """What was asked for when, and what was about to be written; nothing where all was told."""
        try:
            with self._path.open("rb") as file:
                lines = file.read(BYTES_MAX).splitlines()
        except OSError:
            return "", []
        documents = [value for line in lines if (value := _document(line)) is not None]
        rows = [row for document in documents for row in _rows(document.get("rows"))]
        head = documents[0] if documents else {}
        at = head.get("t")
        when = f" of {shown_time(at)}" if type(at) is int else ""
        return f"{head.get('aim', 'reset')}{when}", rows

    def write(self, aim: str, wall_ms: int, rows: Sequence[AboutToBeWritten]) -> None:
        """Keep what is about to be written; on the disk when this returns. What cannot be kept is
        said in `problem`, and keeps nobody from a reset.
        """
        plain = [[*row.tp, row.old, row.new, row.version] for row in rows]
        line = json.dumps({"aim": aim, "t": wall_ms, "rows": plain}) + "\n"
        try:
            private_folder(self._path.parent)
            with open(self._path, "ab", opener=private) as file:
                file.write(line.encode("ascii"))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.problem = f"{self._path} cannot be written ({error.strerror})"

    def told(self) -> None:
        """The outcome is known to whoever asked: a repetition is meant."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            self.problem = f"{self._path} cannot be removed ({error.strerror})"


def refusal(
    group: str,
    what: str,
    rows: Sequence[AboutToBeWritten],
    versions: Mapping[TopicPartition, int | None],
) -> str:
    """What stands against shifting partitions (with these versions now) once more; "": nothing."""
    latest = {row.tp: row for row in rows}
    done = [
        f"{tp} from {row.old} to {row.new}"
        for tp, row in sorted(latest.items())
        if tp in versions and versions[tp] != row.version
    ]
    if not done:
        return ""
    rest = [tp for tp in versions if tp not in latest or versions[tp] == latest[tp].version]
    more = (
        f"; {counted(len(rest), 'other', 'was')} not: name them with --topic TOPIC:N"
        if rest
        else ""
    )
    return (
        f"an earlier command ({what}) has shifted {counted(len(done), 'partition')} of {group}"
        f" already, and what it did may not have been told ({some(done)}){more}: see zkcoord"
        f" offsets show {argument(group)}, and add --again to shift them once more"
    )


def untold_folder(environment: Mapping[str, str], home: str) -> Path:
    """Where state of a user's programs belongs."""
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path(home) / ".local" / "state"
    return base / "zkcoord" / "outcomes"


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # its end was not written
        return None
    return value if isinstance(value, dict) else None


def _rows(value: Any) -> list[AboutToBeWritten]:
    found = []
    for row in value if isinstance(value, list) else ():
        match row:
            case [str(topic), int(number), old, int(new), version] if isinstance(
                old, int | None
            ) and isinstance(version, int | None):
                found.append(AboutToBeWritten(TopicPartition(topic, number), old, new, version))
    return found
