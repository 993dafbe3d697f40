"""Names and documents of staged batches, pure: the manifest that lists a batch's files, and where
everything lies below a sink's directory. The intent, a node that names the manifest:
`zkcoord.znodes.publication`.

    part-....parquet                                      what readers see: [incarnation]-[n]-[name
                                                          that Spark gave], in the folders that
                                                          partitionBy makes
    _zkcoord/[group]/staging/[incarnation]/[n]-[nonce]/   one attempt of one batch: its files as
                                                          Spark wrote them, and `_manifest.json`; of
                                                          a batch without ranges [incarnation] is
                                                          query-[query]
    _zkcoord/[group]/batches/[query]-[n]                  a batch without ranges that was published:
                                                          its offsets cannot say so

Spark reads no name that begins with an underscore, so nothing is visible before it is moved out.
Paths are relative to the sink's directory, with `/`. What is read back was written by somebody
else, so it is believed only where it says what a writer of that batch would have said: the manifest
lies in an attempt of that batch, in the staging folder of its own group (`attempt_of`), and moves
files of that attempt to the very names that they get (`why_unfit`). Nothing else is ever touched.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import quote

from consumer.spark.sink.fence import Batch
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.znodes import names
from zkcoord.znodes.publication import is_czxid, path_below
from zkcoord.znodes.strict_json import (
    JsonObject,
    UnfitField,
    integer,
    reading,
    required,
    string,
    to_bytes,
)

ROOT = "_zkcoord"
MANIFEST = "_manifest.json"
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
MARKER = "_marker"
FOLDER_CHARS_MAX = 200
FOLDER_CHARS_KEPT = 150
DIGITS_KEPT = 32

_NONCE = re.compile(r"[0-9a-f]{1,32}", re.ASCII)


@value
class Manifest:
    """A staged batch."""

    # The name of its publication.
    batch: str
    # (topic, partition, start, end), for people and audits.
    ranges: tuple[tuple[str, int, int, int], ...]
    # Where each file lies, and where it goes.
    files: tuple[tuple[str, str], ...]


def staging(group: str) -> str:
    """The folder of a group's staged batches."""
    return f"{ROOT}/{folder_of(group)}/staging"


def folder_of(group: str) -> str:
    """The name of a group's folder. File systems take fewer names than Kafka does: other characters
    than letters, digits and `_.-~` are written as `%` and two digits for each byte, and what is too
    long ends in a digest.
    """
    name = quote(group, safe="")
    if len(name) <= FOLDER_CHARS_MAX:
        return name
    return f"{name[:FOLDER_CHARS_KEPT]}%~{digest(group.encode())[:DIGITS_KEPT]}"


def attempt(batch: Batch, nonce: str) -> str:
    """The folder of one attempt to write a batch."""
    return f"{staging(batch.group)}/{batch.folder}/{batch.number}-{nonce}"


def marker(batch: Batch) -> str:
    """What says that a batch without ranges was published."""
    return _marker(batch.group, batch.node)


def _marker(group: str, node: str) -> str:
    return f"{ROOT}/{folder_of(group)}/batches/{node}"


def attempt_of(group: str, node: str, path: str) -> str | None:
    """The folder of the attempt that an intent names by its manifest's path; None: there is none of
    that batch in that group's staging folder.
    """
    writer, _, number = node.rpartition("-")
    before = f"{staging(group)}/{writer if is_czxid(writer) else f'query-{writer}'}/{number}-"
    nonce = path.removeprefix(before).removesuffix(f"/{MANIFEST}")
    fits = path == f"{before}{nonce}/{MANIFEST}" and _NONCE.fullmatch(nonce) is not None
    return f"{before}{nonce}" if fits and writer and names.is_number(number) else None


def why_unfit(manifest: Manifest | Malformed, group: str, node: str, folder: str) -> str | None:
    """What a manifest says that no writer of this batch says; None: nothing, it is a `Manifest`."""
    if isinstance(manifest, Malformed):
        return f"it cannot be read ({manifest.reason})"
    if manifest.batch != node:
        return f"it is the manifest of {names.shown(manifest.batch)}"
    if len(set(manifest.files)) != len(manifest.files):
        return "it names a file twice"
    for source, target in manifest.files:
        staged = source.removeprefix(f"{folder}/")
        if source != f"{folder}/{staged}":
            return f"it moves {names.shown(source)}, which is not staged in {names.shown(folder)}"
        is_marker = staged == MARKER and not manifest.ranges
        if target != (_marker(group, node) if is_marker else _published(node, staged)) or (
            not is_marker and any(map(is_hidden, staged.split("/")))
        ):
            return f"it moves a file to {names.shown(target)}, which is not a name of this batch"
    return None


def is_hidden(name: str) -> bool:
    """Whether Spark leaves out a file or folder of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def manifest_of(batch: Batch, folder: str, staged: tuple[str, ...]) -> Manifest:
    """The manifest of what Spark wrote into `folder` (paths relative to it)."""
    moves = tuple((f"{folder}/{path}", _published(batch.node, path)) for path in sorted(staged))
    ranges = tuple((r.topic, r.partition, r.start, r.end) for r in sorted(batch.ranges))
    return Manifest(batch.node, ranges, moves)


def _published(node: str, staged: str) -> str:
    """Where a staged file goes."""
    parent, slash, name = staged.rpartition("/")
    return f"{parent}{slash}{node}-{name}"


def encode_manifest(manifest: Manifest) -> bytes:
    """A manifest's bytes."""
    return to_bytes(
        {
            "version": 1,
            "batch": manifest.batch,
            "ranges": [list(r) for r in manifest.ranges],
            "files": [list(move) for move in manifest.files],
        }
    )


def decode_manifest(name: str, data: bytes) -> Manifest | Malformed:
    """The manifest `name`. Never raises."""
    return reading("manifest", name, data, _manifest, MANIFEST_BYTES_MAX)


def digest(data: bytes) -> str:
    """What a publication says of its manifest's bytes."""
    return hashlib.sha256(data).hexdigest()


def _manifest(document: JsonObject) -> Manifest:
    integer(document, "version", 1, 1)
    ranges = tuple(
        (str(topic), _number(partition), _number(start), _number(end))
        for topic, partition, start, end in _rows(document, "ranges", 4)
    )
    files = tuple(
        (path_below(source), path_below(target)) for source, target in _rows(document, "files", 2)
    )
    return Manifest(string(document, "batch", names.NODE_CHARS_MAX), ranges, files)


def _rows(document: JsonObject, key: str, size: int) -> list[list[Any]]:
    """A field that must be a list of lists of this size."""
    value = required(document, key)
    if type(value) is not list or any(type(row) is not list or len(row) != size for row in value):
        raise UnfitField(f"{key} is not a list of lists of {size}")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise UnfitField("a range holds what is no offset")
    return value
