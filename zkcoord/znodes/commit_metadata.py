"""What was committed beside an offset: the text of kafka-python's `OffsetAndMetadata`.

An offset node holds a number, which old consumers read and write, so the text has a node of its
own, made, overwritten or deleted in the multi that stores its offset. It names that offset: beside
another one it says nothing, which is so where somebody who knows of no such node (an old consumer,
an operator's tool, a member of an earlier release) has stored an offset since.
"""

from __future__ import annotations

from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.znodes.strict_json import JsonObject, free_text, integer, reading, to_bytes

# As a broker counts, in units of UTF-16 (its offset.metadata.max.bytes).
COMMIT_METADATA_CHARS_MAX = 4_096


@value
class CommitMetadata:
    """The text beside the offset `offset`."""

    offset: int
    text: str

    def beside(self, offset: object) -> str:
        """The text, if it stands beside this offset, else nothing."""
        return self.text if self.offset == offset else ""


def fits(text: str) -> bool:
    """Whether a broker would take this text. Raises `UnicodeEncodeError` for half a character."""
    return len(text.encode("utf-16-le")) <= 2 * COMMIT_METADATA_CHARS_MAX


def decode_commit_metadata(name: str, data: bytes) -> CommitMetadata | Malformed:
    """What stands beside the offset of the partition `name`. Never raises."""
    return reading("commit metadata", name, data, _commit_metadata)


def encode_commit_metadata(metadata: CommitMetadata) -> bytes:
    """The node's data."""
    return to_bytes({"version": 1, "offset": metadata.offset, "metadata": metadata.text})


def _commit_metadata(document: JsonObject) -> CommitMetadata:
    integer(document, "version", 1, 1)
    text = free_text(document, "metadata", COMMIT_METADATA_CHARS_MAX)
    return CommitMetadata(integer(document, "offset"), text)
