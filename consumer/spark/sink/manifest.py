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
else, so it is checked before anything is moved by it: no path leads out of the sink's directory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from consumer.spark.sink.fence import Batch
from zkcoord.core.model import Malformed
from zkcoord.znodes import names
from zkcoord.znodes.publication import path_below
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


@dataclass(frozen=True, slots=True)
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
    return f"{ROOT}/{group}/staging"


def attempt(batch: Batch, nonce: str) -> str:
    """The folder of one attempt to write a batch."""
    return f"{staging(batch.group)}/{batch.folder}/{batch.number}-{nonce}"


def marker(batch: Batch) -> str:
    """What says that a batch without ranges was published."""
    return f"{ROOT}/{batch.group}/batches/{batch.query}-{batch.number}"


def manifest_of(batch: Batch, folder: str, staged: tuple[str, ...]) -> Manifest:
    """The manifest of what Spark wrote into `folder` (paths relative to it)."""
    moves = []
    for path in sorted(staged):
        parent, slash, name = path.rpartition("/")
        moves.append((f"{folder}/{path}", f"{parent}{slash}{batch.node}-{name}"))
    ranges = tuple((r.topic, r.partition, r.start, r.end) for r in sorted(batch.ranges))
    return Manifest(batch.node, ranges, tuple(moves))


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
