"""Names and documents of staged batches, pure: the manifest that lists a batch's files, the intent
that names the manifest, and where everything lies below a sink's directory.

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
INTENT_BYTES_MAX = 8 * 1024
PATH_CHARS_MAX = 4_096
DIGEST_CHARS = 64
MARKER = "_marker"


@dataclass(frozen=True, slots=True)
class Intent:
    """What a committed batch's node says: the sink's directory (as its writer calls it), the
    manifest's path in it, and the SHA-256 of its bytes.
    """

    directory: str
    manifest: str
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A staged batch. `files` maps where a file lies to where it goes; `ranges` are (topic,
    partition, start, end), for people and audits.
    """

    batch: str
    ranges: tuple[tuple[str, int, int, int], ...]
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


def encode_intent(intent: Intent) -> bytes:
    """An intent node's data."""
    return to_bytes(
        {
            "version": 1,
            "directory": intent.directory,
            "manifest": intent.manifest,
            "digest": intent.digest,
        }
    )


def decode_intent(node: str, data: bytes) -> Intent | Malformed:
    """The intent in the node `node`. Never raises."""
    return reading("intent", node, data, _intent, INTENT_BYTES_MAX)


def digest(data: bytes) -> str:
    """What an intent says of its manifest's bytes."""
    return hashlib.sha256(data).hexdigest()


def incarnation_of(node: str) -> int | None:
    """Whose an intent is, by its name; None: it is no intent's name."""
    first, dash, number = node.partition("-")
    return int(first) if dash and is_incarnation(first) and names.is_number(number) else None


def is_incarnation(text: str) -> bool:
    """Whether a folder's name is an incarnation's."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and (text == "0" or text[0] != "0")


def _manifest(document: JsonObject) -> Manifest:
    integer(document, "version", 1, 1)
    ranges = tuple(
        (str(topic), _number(partition), _number(start), _number(end))
        for topic, partition, start, end in _rows(document, "ranges", 4)
    )
    files = tuple((_path(source), _path(target)) for source, target in _rows(document, "files", 2))
    return Manifest(string(document, "batch", names.NODE_CHARS_MAX), ranges, files)


def _intent(document: JsonObject) -> Intent:
    integer(document, "version", 1, 1)
    directory = required(document, "directory")
    if type(directory) is not str or not 0 < len(directory) <= PATH_CHARS_MAX:
        raise UnfitField(f"directory is not a string of 1 to {PATH_CHARS_MAX} characters")
    return Intent(
        directory, _path(required(document, "manifest")), string(document, "digest", DIGEST_CHARS)
    )


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


def _path(path: Any) -> str:
    """A path that stays below the sink's directory."""
    if (
        type(path) is not str
        or not path
        or len(path) > PATH_CHARS_MAX
        or "\0" in path
        or any(part in ("", ".", "..") for part in path.split("/"))
    ):
        raise UnfitField("a path does not stay below the directory")
    return path
