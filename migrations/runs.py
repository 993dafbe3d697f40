"""The folders of the runs: which there are, and which one is gone on with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from migrations.journal import JOURNAL, JournalTold, told_in
from zkcoord.errors import ConfigurationError


@dataclass(frozen=True)
class Run:
    """One run. `told` is what its journal tells."""

    folder: Path
    told: JournalTold

    @property
    def what(self) -> dict[str, Any]:
        """What it was for, as `same_purpose` compares it."""
        return {name: self.told.run.get(name) for name in ("migration", "way", "zookeeper")}


def runs_folder(given: str | None, environment: Mapping[str, str]) -> Path:
    """As given, else where state of a user's programs belongs. Raises `ConfigurationError`."""
    state = environment.get("XDG_STATE_HOME", "")
    try:
        if given:
            return Path(given).expanduser()
        return (
            (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state")
            / "zkcoord"
            / "migrations"
        )
    except RuntimeError as error:  # this user has no home
        raise ConfigurationError(
            "the folder for backups cannot be told, because this user has no home: give --dir with"
            " an absolute path"
        ) from error


def runs_in(folder: Path) -> list[Run]:
    """All runs, the oldest first; one that was killed before its first line was whole has done
    nothing. Raises `ConfigurationError`.
    """
    try:
        found = sorted(path.parent for path in folder.glob(f"*/{JOURNAL}"))
    except OSError as error:
        raise ConfigurationError(
            f"the folder {folder} cannot be read ({error.strerror}): give another one with --dir"
        ) from error
    runs = [Run(path, told_in(path)) for path in found]
    return [run for run in runs if run.told.run]


def unfinished(folder: Path, what: Mapping[str, Any]) -> Run | None:
    """The newest run on this ensemble, if it was for the same and has not ended. An older one is
    not gone on with: what came after it may have undone it.
    """
    here = [run for run in runs_in(folder) if run.told.run.get("zookeeper") == what["zookeeper"]]
    return here[-1] if here and here[-1].what == dict(what) and not here[-1].told.ended else None


def new_run(folder: Path, what: Mapping[str, Any], wall_ms: int) -> Path:
    """The folder of a new run: named so that the newest is the last."""
    at = datetime.fromtimestamp(wall_ms / 1000, timezone.utc).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return folder / f"{at}-{what['migration']}-{what['way']}"
