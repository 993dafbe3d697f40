"""Recordings that somebody has changed: whatever stands in them, `zkcoord replay` ends with a
verdict or with one sentence, in each of its forms.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.replay.incidents import of_transcript, written
from zkcoord.cli.main import main

SEED = 34
CHANGES = 300
TRANSCRIPTS = ("join_and_leave", "shared_group", "custom_assignor", "eviction")
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    10**12,
    10**18,
    1.5,
    "",
    "x",
    "g",
    "\ud800",
    "/",
    [],
    {},
    [None],
    [[]],
    {"x": None},
)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there is something in a document, as keys from the top down."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    found = [(*above, key) for key in keys]
    return found + [one for key in keys for one in places(value[key], (*above, key))]


def changed_value(line: bytes, draw: random.Random) -> bytes:
    """The line with one value in it another one, gone, twice, or under another name."""
    document = json.loads(line)
    place = draw.choice(places(document))
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    how, last = draw.randrange(6), place[-1]
    if how == 0:
        del holder[last]
    elif how == 1 and isinstance(holder, list):
        holder.append(holder[last])
    elif how == 2 and isinstance(holder, dict):
        holder[draw.choice(("x", "g", "a", ""))] = holder.pop(last)
    elif how == 3 and type(holder[last]) is int:
        holder[last] += draw.choice((-1, 1, 1_000))
    else:
        holder[last] = draw.choice(VALUES)
    return json.dumps(document).encode() + b"\n"


def changed_bytes(line: bytes, draw: random.Random) -> bytes:
    """The line with a few bytes of it others, or a piece gone."""
    found, at = bytearray(line), draw.randrange(len(line))
    if draw.randrange(2):
        del found[at : at + draw.randrange(1, 9)]
    else:
        found[at] = draw.randrange(256)
    return bytes(found)


def changed(lines: list[bytes], draw: random.Random) -> list[bytes]:
    """The recording with something changed in one or two of its lines, or its lines in disorder."""
    lines = list(lines)
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(lines))
        how = draw.randrange(10)
        if how < 7:
            lines[at] = changed_value(lines[at], draw)
        elif how < 8:
            return [*lines[:at], changed_bytes(lines[at], draw), *lines[at + 1 :]]
        elif how < 9:
            del lines[at]
        else:
            lines.insert(draw.randrange(len(lines)), lines[at])
    return lines


@pytest.mark.parametrize("number", range(len(TRANSCRIPTS)))
def test_a_recording_with_anything_changed_ends_with_a_verdict_or_a_sentence(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(SEED + number)
    lines = of_transcript(TRANSCRIPTS[number])
    statuses = set()
    forms: tuple[tuple[str, ...], ...] = (
        (),
        ("--json",),
        ("--group", "g"),
        ("--with", "debounce_ms=0"),
        ("--with", "assignor=range", "--json"),
        ("--to-script", str(tmp_path / "out.txt")),
        ("--to-script", str(tmp_path / "out.txt"), "--group", "g"),
    )
    for at in range(CHANGES // len(TRANSCRIPTS)):
        path = str(written(tmp_path, changed(lines, draw)))
        for form in forms:
            status = main(["replay", path, *form])
            said = capsys.readouterr()
            assert status in (0, 1), (at, form, said.err)
            assert said.err.count("\n") <= 1, (at, form, said.err)
            assert not said.err or status == 1, (at, form, said.err)
            statuses.add((status, bool(said.err)))
    assert {(0, False), (1, True)} <= statuses, "some are read, and some are refused"
