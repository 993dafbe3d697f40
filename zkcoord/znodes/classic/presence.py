"""What a gateway says of a member that it serves, for people, in the node that says that it does:
which library its client is, and where the gateway is. An earlier release says nothing.
"""

from __future__ import annotations

from zkcoord.core.classic.state import WORDS_CHARS_MAX
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.znodes.classic.documents import VERSION
from zkcoord.znodes.strict_json import JsonObject, free_text, integer, reading, to_bytes


@value
class ServedBy:
    """Names as they are told ("": not known)."""

    library: str = ""
    gateway: str = ""


def encode_presence(served: ServedBy) -> bytes:
    """The node's data."""
    library, gateway = served.library[:WORDS_CHARS_MAX], served.gateway[:WORDS_CHARS_MAX]
    return to_bytes({"version": VERSION, "library": library, "gateway": gateway})


def decode_presence(node: str, data: bytes) -> ServedBy | Malformed:
    """What is said of a member. Never raises."""

    def read(document: JsonObject) -> ServedBy:
        integer(document, "version", VERSION, VERSION)
        return ServedBy(
            free_text(document, "library", WORDS_CHARS_MAX),
            free_text(document, "gateway", WORDS_CHARS_MAX),
        )

    return reading("presence of a client", node, data, read) if data else ServedBy()
