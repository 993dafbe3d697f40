"""Files: recordings, journals, records of runs, configurations, what operators give and programs
kept for later.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from migrations.journal import JOURNAL, damage, told_in
from tests.fuzz.harness import Harness, Work, equal, holds, one_sentence, text_of
from tests.fuzz.parsers.nodes import STRANGE
from zkcoord.admin.offsets import reset_plan, time_spec
from zkcoord.admin.offsets.untold import AboutToBeWritten, Untold
from zkcoord.config.option_spec import Use
from zkcoord.config.sources import read_table, resolve
from zkcoord.console.acting.readers import tokens_of
from zkcoord.console.happenings import Happenings
from zkcoord.console.replaying import _began, _steps
from zkcoord.coordinator.input_recorder import FORMAT_VERSION
from zkcoord.coordinator.journal import Reading
from zkcoord.core import events as ev
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core_encoding import ForeignEncoding, codec
from zkcoord.errors import ConfigurationError, RefusedError, ReplayError
from zkcoord.replay.replay import Recording, Replay
from zkcoord.replay.what_if import WhatIf, parse
from zkcoord.verdict import engine, lines
from zkcoord.znodes.owner_offset_epoch import OFFSET_MAX

EVENTS = codec(ev.Event)
FOLDER = "zkcoord-fuzz-"


@cache
def folder() -> Path:
    """Of this process, below the machine's folder for what is gone tomorrow."""
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix=FOLDER, dir=base))


def file(name: str, data: bytes) -> Path:
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def recording(data: bytes) -> None:
    """A recording's inputs through a fresh core, to the end or to one sentence."""
    try:
        Replay(Recording("a", data.splitlines(keepends=True))).run()
    except ReplayError as error:
        one_sentence(error)


def encoded(data: bytes) -> None:
    """What an event or its options are read from, they are written as, or something equal."""
    for kind in (EVENTS, codec(CoordinatorOptions)):
        try:
            value = kind.decode(json.loads(data))
        except (ForeignEncoding, json.JSONDecodeError, UnicodeDecodeError):
            continue
        except (RecursionError, ValueError) as error:
            # of `json.loads`: whoever calls it looks after that
            holds("Exceeds" in str(error) or isinstance(error, RecursionError), error)
            continue
        with suppress(TypeError):  # of unhashable parts: `Recording` says of those what they are
            equal(kind.decode(kind.encode(value)), value)


def what_if(data: bytes) -> None:
    try:
        found = parse(CoordinatorOptions(), text_of(data).split("\n"))
    except ConfigurationError as error:
        one_sentence(error)
        return
    holds(isinstance(found, WhatIf), found)


def journal(data: bytes) -> None:
    """Records with a time and a kind; the console keeps what it can write."""
    file("journal/coordinator-1-1.1.jsonl", data)
    reading = Reading()
    records = list(reading.records(folder() / "journal"))
    holds(all(type(one["t"]) is int and isinstance(one["kind"], str) for one in records))
    holds(len(records) + reading.unreadable <= data.count(b"\n"), records)
    kept = Happenings([], lambda groups: None)
    kept.take(records)
    for name in {str(one.get("group")) for one in records} | {""}:
        holds(len(kept.of(name)) <= len(records))
        kept.per_hour(name)


def facts(role: int, data: bytes) -> None:
    """Each line is facts, or counted."""
    parser = (lines.consumer, lines.producer, lines.coordinator, lines.scenario)[role]
    unreadable = engine.Unreadable()
    path = file("facts.jsonl", data)
    found = list(engine.facts_of(path, "m", parser, unreadable))
    engine.judge(engine.in_order(iter(found)))


def verdict(data: bytes) -> None:
    facts(data[0] % 4 if data else 0, data[1:])


def configuration(data: bytes) -> None:
    """A table, or one sentence; and of the table options, or one sentence."""
    path = str(file("c.json" if data[:1] == b"{" else "c.toml", data))
    try:
        found = read_table(path)
        holds(isinstance(found, dict), found)
        resolve(Use.COORDINATOR, {"config": path}, {})
    except ConfigurationError as error:
        one_sentence(error)


def tokens(data: bytes) -> None:
    try:
        found = tokens_of(str(file("tokens", data)))
    except ConfigurationError as error:
        one_sentence(error)
        return
    holds(all(name.isprintable() and token.isascii() for name, token in found.items()), found)


def offsets_file(data: bytes) -> None:
    """What is read is written, and read again as the same."""
    try:
        found = reset_plan.parse_file(text_of(data), "g", "offsets.csv")
    except ConfigurationError as error:
        one_sentence(error)
        return
    holds(all(0 <= offset <= OFFSET_MAX for offset in found.values()), found)
    equal(reset_plan.parse_file(reset_plan.export(found.items()), "g", "again"), found)


def times(data: bytes) -> None:
    """A time is shown as it was meant; a duration is none below zero."""
    text = text_of(data)
    with suppress(ConfigurationError):
        ms, _ = time_spec.parse_datetime(text)
        holds(ms >= 0)
        if ms < 253_402_300_800_000:
            equal(time_spec.parse_datetime(time_spec.shown_time(ms)), (ms, True))
    with suppress(ConfigurationError):
        holds(time_spec.parse_duration(text) >= 0)


def topics(data: bytes) -> None:
    given = text_of(data).split("\n")
    try:
        found = reset_plan.parse_topics(given)
    except ConfigurationError as error:
        one_sentence(error)
        return
    for numbers in found.values():
        holds(numbers is None or list(numbers) == sorted(set(numbers)), numbers)


def migration(data: bytes) -> None:
    """A run's journal is told, or it is damaged; and whether it can be put back is said."""
    for name, text in (("zookeeper-offsets.txt", b""), ("kafka-offsets.csv", b"")):
        file(f"run/{name}", text)
    path = file(f"run/{JOURNAL}", data)
    try:
        damage(path.parent, told_in(path.parent))
    except (ConfigurationError, RefusedError) as error:
        one_sentence(error)


def untold(data: bytes) -> None:
    """Rows as they were written; what is none of them is left out."""
    outcome = Untold(folder(), "p")
    outcome._path = file("untold", data)
    aim, rows = outcome.found()
    holds(isinstance(aim, str) and all(isinstance(row, AboutToBeWritten) for row in rows), rows)


def steps(data: bytes) -> None:
    """What a replay prints, as the console shows it; and when a recording began."""
    for told in _steps(text_of(data), 7):
        for text in (*told.decided, *told.because):
            holds(len(text) <= 600 * 10, text)  # each may be escaped
    began = _began(file("inputs-1.jsonl", data))
    holds(began is None or type(began) is int, began)


HEADER = {"version": FORMAT_VERSION, "epoch": 7, "t": 1, "options": {}, "knows": []}


@cache
def recorded() -> bytes:
    """A term of one group, as a coordinator's recorder has written it."""
    from tests.replay.incidents import of_transcript

    return b"".join(of_transcript("join_and_leave"))


def recordings() -> Iterable[bytes]:
    head = json.dumps(HEADER).encode() + b"\n"
    yield head
    yield head + b'{"event":{"Tick":{"now_ms":5}},"actions":[]}\n{"end":"over"}\n'
    with suppress(Exception):  # where the simulator's transcripts are not there
        yield recorded()[:4_000]


def events() -> Iterable[bytes]:
    yield json.dumps(codec(CoordinatorOptions).encode(CoordinatorOptions())).encode()
    yield b'{"Tick":{"now_ms":5}}'
    for line in list(recordings())[-1].splitlines()[1:8]:
        with suppress(ValueError, KeyError):
            yield json.dumps(json.loads(line)["event"]).encode()


def of_lines(*given: Any) -> Callable[[], Iterable[bytes]]:
    return lambda: ["".join(json.dumps(one) + "\n" for one in given).encode(), *STRANGE]


RECORD = {"t": 5, "kind": "rebalance", "group": "g", "cause": "join", "trigger": "m"}
CONSUMED = (
    {"event": "assigned", "t": 1, "offsets": {"t-0": 0}},
    {"event": "records", "t": 2, "ranges": {"t-0": [[0, 4]]}, "orders": {"t-0": 1}},
    {"event": "committed", "t": 3, "offsets": {"t-0": 5}},
    {"event": "revoked", "t": 4, "positions": {"t-0": 5}},
)
BEGAN = {
    "kind": "began",
    "group": "g",
    "zookeeper": {"t": {"0": 1}},
    "kafka": {"t": {"0": 1}},
    "notes": {"t": "7"},
    "changes": [["kafka", "t", 0, None, 5], ["note", "t", "7", "8", 1]],
}
RUN = ({"kind": "run", "time_ms": 1}, BEGAN, {"kind": "done", "group": "g"}, {"kind": "ended"})
STEP = {"ms": 5, "group": "g", "because": ["x", {"ms_before": 1}], "decided": ["y"]}
TELLING = (b'"t":', b"1e999", b"Infinity", b'"event":', b'"kind":', b"t-0", b"\n", b"[" * 2_000)
CONFIG = b'zookeeper = "h:1/c"\nsession_timeout_ms = 9_000\n'
HARNESSES = (
    Harness(
        "recording",
        ("zkcoord.replay.replay:Recording.steps",),
        recording,
        recordings,
        (b'{"event":{', b'"actions":[]', b'"now_ms":', b'"end":', b"\n"),
    ),
    Harness(
        "core-encoding",
        ("zkcoord.core_encoding:_dict",),
        encoded,
        events,
        (b'{"Tick":', b'"now_ms":', b'{"GroupChanged":', b"null", b"[[", b"]]"),
    ),
    Harness(
        "what-if",
        ("zkcoord.replay.what_if:parse",),
        what_if,
        lambda: [b"debounce_ms=0", b"assignor=range\ndebounce-ms=5", b"default_assignor=x"],
        (b"=", b"\n", b"[" * 1_200, b"1e5", b"true", b"assignor"),
    ),
    Harness(
        "journal",
        (
            "zkcoord.coordinator.journal:Reading.records",
            "zkcoord.console.happenings:Happenings.take",
        ),
        journal,
        of_lines(RECORD, {"t": 6, "kind": "lost", "records": 5}, {**RECORD, "duration_ms": 5}),
        TELLING,
    ),
    Harness(
        "verdict-lines",
        (
            "zkcoord.verdict.engine:facts_of",
            "zkcoord.verdict.lines:consumer",
            "zkcoord.verdict.lines:producer",
            "zkcoord.verdict.lines:coordinator",
            "zkcoord.verdict.lines:scenario",
        ),
        verdict,
        lambda: [
            *(b"\0" + one for one in of_lines(*CONSUMED)()),
            b"\1" + json.dumps({"event": "produced", "t": 1, "ends": {"t-0": 5}}).encode() + b"\n",
            b"\2" + json.dumps({**RECORD, "duration_ms": 1, "moved": 2}).encode() + b"\n",
            b"\3" + json.dumps({"event": "stored", "t": 1, "offsets": {"t-0": 5}}).encode() + b"\n",
        ],
        TELLING,
    ),
    Harness(
        "configuration",
        ("zkcoord.config.sources:read_table", "zkcoord.config.sources:resolve"),
        configuration,
        lambda: [CONFIG, b'{"zookeeper":"h:1","journal":true}', b"[a]\nb = 1\n", *STRANGE],
        (
            b" = ",
            b'"""',
            b"[[",
            b"1979-05-27",
            b"inf",
            b"nan",
            b"true",
            b"0x",
            b"session_timeout_ms",
        ),
    ),
    Harness(
        "token-file",
        ("zkcoord.console.acting.readers:tokens_of",),
        tokens,
        lambda: [b"# readers\nme " + b"ab" * 32 + b"\nyou " + b"cd" * 32 + b"\n"],
        (b"\n", b" ", b"#", "\u2028".encode(), b"\x85", b"ef" * 32),
    ),
    Harness(
        "offsets-file",
        ("zkcoord.admin.offsets.reset_plan:parse_file",),
        offsets_file,
        lambda: [b"t,0,5\nt,1,6\n", b"g,t,0,5\n", b'"t",0,"7"\r\n\n'],
        (b'"', b",", b"\n", b"\r", "٣".encode(), b"9223372036854775807"),
        bytes_max=400,
    ),
    Harness(
        "times",
        (
            "zkcoord.admin.offsets.time_spec:parse_datetime",
            "zkcoord.admin.offsets.time_spec:parse_duration",
        ),
        times,
        lambda: [b"2026-01-31T10:00:00.123Z", b"9999-12-31 23:59+02:00", b"P1DT2H3M4.5S"],
        (b"-23:59", b"+", b"Z", b"T", b"PT", b"0001", b"24:00", b"60"),
        bytes_max=80,
    ),
    Harness(
        "topics-option",
        ("zkcoord.admin.offsets.reset_plan:parse_topics",),
        topics,
        lambda: [b"orders", b"orders:0,2\nothers\norders:5"],
        bytes_max=300,
    ),
    Harness(
        "migration-journal",
        ("migrations.journal:told_in", "migrations.journal:damage"),
        migration,
        of_lines(*RUN),
        (b'"kind":', b'"began"', b'"changes":[[', b'"note"', b'"zookeeper"', b"\n", b"[" * 2_000),
    ),
    Harness(
        "untold-outcome",
        ("zkcoord.admin.offsets.untold:Untold.found",),
        untold,
        of_lines({"aim": "a", "t": 5, "rows": [["t", 0, None, 5, 1]]}),
        TELLING,
        Work(memory=70_000_000),  # a buffer of 64 MiB, for a file of any size
    ),
    Harness(
        "replay-told",
        ("zkcoord.console.replaying:_steps", "zkcoord.console.replaying:_began"),
        steps,
        of_lines(STEP, {"t": 5}),
        TELLING,
    ),
)
