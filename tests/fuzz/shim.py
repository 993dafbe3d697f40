"""The extension in C under messages of a script: compiled with AddressSanitizer where gcc has it,
with `shim.c` in the place of librdkafka.

A message is four bytes (what it has; lengths of key and value, how far its offset is behind the one
before), key, value, and headers, each a name and a content, of lengths that stand before them.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import shutil
import struct
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from consumer.spark.decode import engine_c
from consumer.spark.decode.arrays import Fields
from consumer.spark.decode.engine_base import Queued
from consumer.spark.plan import PlannedRange

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "consumer" / "spark" / "decode" / "_rdk.c"
SANITIZED = "ZKCOORD_FUZZ_SANITIZED"
"""Set where Python was started with libasan before everything else."""

FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-shared", "-fPIC")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer")
COMPILE_S = 120.0
KEY, VALUE, HEADERS, NONE_THERE = 1, 2, 4, 8
END_OF_PARTITION = -191
KINDS = {0: 0, 1: 1, 2: -1}


class ScriptedMessage(NamedTuple):
    """A record, or where a partition ends (`is_end`). `time_kind` is librdkafka's."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int
    time_kind: int
    is_end: bool


class BuiltShim(NamedTuple):
    """`extension` is the module; `told` the library that has the script."""

    extension: Any
    told: ctypes.CDLL


def library(name: str) -> str | None:
    """Where gcc has one of its own; None: nowhere."""
    if shutil.which("gcc") is None:
        return None
    asked = ["gcc", f"-print-file-name={name}"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    found = said.stdout.strip()
    return found if os.path.isabs(found) else None


def preloaded() -> str | None:
    """What Python must be started with for a sanitized extension; None: gcc has none here."""
    found = [library("libasan.so"), library("libubsan.so")]
    return " ".join(filter(None, found)) if all(found) else None


@cache
def built() -> BuiltShim | None:
    """Compiled, once a process; None without gcc or Python's headers."""
    headers = Path(sysconfig.get_paths()["include"])
    if shutil.which("gcc") is None or not (headers / "Python.h").is_file():
        return None
    folder = Path(tempfile.mkdtemp(prefix="zkcoord-shim-"))
    flags = [*FLAGS, *(SANITIZERS if os.environ.get(SANITIZED) else ())]
    for source, name in ((SOURCE, "_rdk.so"), (HERE / "shim.c", "shim.so")):
        command = ["gcc", *flags, f"-I{headers}", str(source), "-o", str(folder / name)]
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        subprocess.run(command, env=environment, timeout=COMPILE_S, check=True)
    loader = importlib.machinery.ExtensionFileLoader("_rdk", str(folder / "_rdk.so"))
    spec = importlib.util.spec_from_loader("_rdk", loader)
    assert spec is not None
    extension = importlib.util.module_from_spec(spec)
    loader.exec_module(extension)
    extension.load(str(folder / "shim.so"))
    told = ctypes.CDLL(str(folder / "shim.so"))
    told.shim_begin.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    told.shim_alive.restype = ctypes.c_size_t
    shutil.rmtree(folder)
    return BuiltShim(extension, told)


def messages(data: bytes) -> Iterator[ScriptedMessage]:
    """What some bytes script; what is cut off is left out."""
    at, offset = 0, -1
    while at + 4 <= len(data):
        has, key_size, value_size, gap = data[at : at + 4]
        at += 4
        offset += 1 + gap % 10
        key, at = _part(data, at, key_size % 40, has & 1)
        value, at = _part(data, at, value_size % 60, has & 2)
        headers = []
        count = data[at] % 4 if has & 4 and at < len(data) else 0
        at += 1 if has & 4 else 0
        for _ in range(count):
            if at + 2 > len(data):
                break
            name_size, content_size = data[at] % 20, data[at + 1]
            name, at = _part(data, at + 2, name_size, 1)
            content, at = _part(data, at, content_size % 30, content_size)
            text = (name or b"").split(b"\0")[0].decode("utf-8", "replace")
            headers.append((text, content))
        time = int.from_bytes(bytes([has]) * 8, "big", signed=True) if has & 128 else has * 1_000
        kind = has >> 4 & 3
        yield ScriptedMessage(offset, key, value, headers, time, kind % 3, bool(has & NONE_THERE))


def _part(data: bytes, at: int, size: int, there: int) -> tuple[bytes | None, int]:
    return (data[at : at + size], at + size) if there else (None, at)


def script(given: Sequence[ScriptedMessage]) -> bytes:
    """As `shim.c` reads it."""
    found = []
    for one in given:
        error = END_OF_PARTITION if one.is_end else 0
        head = struct.pack("=iii", error, one.time_kind, len(one.headers))
        found.append(head + struct.pack("=qq", one.offset, one.timestamp))
        parts: list[bytes | None] = [one.key, one.value]
        for name, content in one.headers:
            parts += [name.encode(), content]
        found += [
            struct.pack("=i", -1) if part is None else struct.pack("=i", len(part)) + part
            for part in parts
        ]
    return b"".join(found)


Rows = tuple[Mapping[str, list[Any]], int, bool]
"""Columns, where the next record begins, and whether the range has ended."""


def read_by_c(
    shim: BuiltShim,
    given: Sequence[ScriptedMessage],
    want: int,
    rows_max: int,
    bytes_max: int,
    end: int,
) -> Rows:
    """Everything that the extension gives, `rows_max` rows at a time."""
    told = script(given)
    shim.told.shim_begin(told, len(told))
    client = shim.extension.Client({})
    wanted = PlannedRange("t", 0, 0, end)
    channel = engine_c.CChannel(
        shim.extension, client.open("t", 0, 0, end), wanted, 0, columns_of(want)
    )
    before = engine_c.ROWS_MAX, engine_c.BATCH_BYTES
    engine_c.ROWS_MAX, engine_c.BATCH_BYTES = rows_max, bytes_max
    try:
        chunks = []
        while (chunk := channel.take(0.0)) is not None:
            chunks.append(chunk)
            assert chunk.rows <= rows_max, "more rows than were asked for"
            if chunk.ended:
                break
    finally:
        engine_c.ROWS_MAX, engine_c.BATCH_BYTES = before
        channel.close()
        client.close()
    assert shim.told.shim_alive() == 0, "messages that nobody lets go of"
    return together(chunks, channel.position, want)


def read_by_python(given: Sequence[ScriptedMessage], want: int, end: int) -> Rows:
    """The same by the engine's queue in Python."""
    fields = Fields(
        key=lambda records: map(attrgetter("key"), records),
        value=lambda records: map(attrgetter("value"), records),
        offset=lambda records: map(attrgetter("offset"), records),
        time=lambda records: ((one.time_kind, one.timestamp) for one in records),
        kinds={0: -1, 1: 0, 2: 1},
        headers=lambda records: map(attrgetter("headers"), records),
    )
    left = iter(given)
    queued: Queued

    def pump(seconds: float) -> None:
        for one in left:
            if one.is_end:
                queued.seen(one.offset)
            else:
                queued.add([one])
            return

    wanted = PlannedRange("t", 0, 0, end)
    queued = Queued(wanted, 0, columns_of(want), fields, pump, lambda: None)
    chunks = []
    for _ in range(2 * len(given) + 2):
        chunk = queued.take(0.0)
        if chunk is not None:
            chunks.append(chunk)
            if chunk.ended:
                break
        pump(0.0)
    return together(chunks, queued.position, want)


def columns_of(want: int) -> tuple[str, ...]:
    named = (("key", KEY), ("value", VALUE), ("headers", HEADERS))
    wanted = tuple(name for name, flag in named if want & flag)
    return ("offset", "timestamp", "timestampType", *wanted)


def together(chunks: Sequence[Any], position: int, want: int) -> Rows:
    columns: dict[str, list[Any]] = {name: [] for name in columns_of(want)}
    for chunk in chunks:
        for name, column in columns.items():
            if chunk.rows:
                array = chunk.columns[name]
                array.validate(full=True)
                is_time = pa.types.is_timestamp(array.type)
                column.extend((array.view(pa.int64()) if is_time else array).to_pylist())
    return columns, position, bool(chunks) and bool(chunks[-1].ended)
