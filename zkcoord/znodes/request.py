"""An operator's request to the coordinator: a persistent sequential node below the group, which the
coordinator deletes when it has taken it up.
"""

from __future__ import annotations

from zkcoord.core.model import Malformed, Request, RequestKind
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

BY_CHARS_MAX = 255

_KINDS = {kind.value: kind for kind in RequestKind}


def decode_request(node: str, data: bytes) -> Request | Malformed:
    """The request in the node `node`. Never raises."""
    return reading("request", node, data, _request)


def encode_request(request: Request) -> bytes:
    """A request's data."""
    return to_bytes(
        {
            "version": 1,
            "request": request.kind.value,
            "fresh": request.fresh,
            "by": names.printable(request.by, BY_CHARS_MAX),
        }
    )


def _request(document: JsonObject) -> Request:
    integer(document, "version", 1, 1)
    kind = _KINDS.get(string(document, "request", BY_CHARS_MAX))
    if kind is None:
        raise UnfitField(f"request is not one of {', '.join(_KINDS)}")
    fresh = required(document, "fresh")
    if type(fresh) is not bool:
        raise UnfitField("fresh is not true or false")
    return Request(kind, fresh, string(document, "by", BY_CHARS_MAX))
