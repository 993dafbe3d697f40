"""A null in a run's journal, as a whole line or in a field: one sentence, not a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from migrations.journal import JOURNAL, told_in
from zkcoord.errors import RefusedError

RUN = {"kind": "run", "time_ms": 1, "migration": "m", "way": "up", "zookeeper": "zk"}
BEGAN = {
    "kind": "began",
    "group": "g",
    "zookeeper": {"t": {"0": 5}},
    "kafka": {},
    "notes": {"t": "7"},
    "changes": [
        ["zookeeper", "t", 0, 5, 6, 1],
        ["note", "t", "7", "8", None],
        ["kafka", "t", 0, None, 6],
    ],
}


def journal(folder: Path, *records: Any) -> Path:
    (folder / JOURNAL).write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return folder


def test_one_that_is_whole(tmp_path: Path) -> None:
    told = told_in(journal(tmp_path, RUN, BEGAN, {"kind": "done", "group": "g"}))
    assert told.done == {"g"} and len(told.first["g"].changes) == 3


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {**RUN, "time_ms": None},
        *({**BEGAN, name: None} for name in BEGAN if name != "kind"),
        {**BEGAN, "zookeeper": {"t": {"0": None}}},
        {**BEGAN, "zookeeper": {"t": None}},
        {**BEGAN, "notes": {"t": None}},
        {**BEGAN, "changes": [None]},
        {**BEGAN, "changes": [["zookeeper", None, 0, 5, 6, 1]]},
        {**BEGAN, "changes": [["zookeeper", "t", None, 5, 6, 1]]},
        {**BEGAN, "changes": [["zookeeper", "t", 0]]},
        {**BEGAN, "changes": [["note", "t", None, "8", 1]]},
        {"kind": "done", "group": None},
        {"kind": "done"},
    ],
)
def test_null_is_a_damage_that_is_said(tmp_path: Path, record: Any) -> None:
    with pytest.raises(RefusedError, match=r"is damaged \(.*restore by hand"):
        told_in(journal(tmp_path, RUN, record))
