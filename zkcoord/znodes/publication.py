"""A publication: the node of a batch that a fenced sink has committed and not made visible yet. Its
name is `<czxid of the registration that planned it>-<batch number>`; of a batch without ranges
`<query>-<batch number>`.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
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

PUBLICATION_BYTES_MAX = 8 * 1024
PATH_CHARS_MAX = 4_096
DIGEST_CHARS = 64
CZXID_CHARS_MAX = 19


@value
class Publication:
    """What a committed batch's node says."""

    # The sink's directory, as its writer calls it.
    directory: str
    # The staged manifest's path below that directory, with `/`.
    manifest: str
    # The SHA-256 of the manifest's bytes, in hexadecimal digits.
    digest: str


def decode_publication(node: str, data: bytes) -> Publication | Malformed:
    """The publication in the node `node`. Never raises."""
    return reading("publication", node, data, _publication, PUBLICATION_BYTES_MAX)


def encode_publication(publication: Publication) -> bytes:
    """A publication's data."""
    return to_bytes(
        {
            "version": 1,
            "directory": publication.directory,
            "manifest": publication.manifest,
            "digest": publication.digest,
        }
    )


def incarnation_of(node: str) -> int | None:
    """The czxid of the registration whose publication has this name; None: the name is another
    node's, or of a batch without ranges.
    """
    first, dash, number = node.partition("-")
    return int(first) if dash and is_czxid(first) and names.is_number(number) else None


def is_czxid(text: str) -> bool:
    """Whether a text is a czxid in decimal digits, without leading zeros."""
    return (
        text.isascii()
        and text.isdigit()
        and len(text) <= CZXID_CHARS_MAX
        and (text == "0" or text[0] != "0")
    )


def path_below(path: Any) -> str:
    """A path that stays below the sink's directory. Raises `UnfitField`."""
    if (
        type(path) is not str
        or not path
        or len(path) > PATH_CHARS_MAX
        or any(unicodedata.category(c) in ("Cc", "Cs") for c in path)
        or any(part in ("", ".", "..") for part in path.split("/"))
    ):
        raise UnfitField("a path does not stay below the directory")
    return path


def _publication(document: JsonObject) -> Publication:
    integer(document, "version", 1, 1)
    directory = required(document, "directory")
    if type(directory) is not str or not 0 < len(directory) <= PATH_CHARS_MAX:
        raise UnfitField(f"directory is not a string of 1 to {PATH_CHARS_MAX} characters")
    return Publication(
        directory,
        path_below(required(document, "manifest")),
        string(document, "digest", DIGEST_CHARS),
    )
