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
SESSION_CHARS_MAX = 20

_KINDS = {kind.value: kind for kind in RequestKind}


def decode_request(node: str, data: bytes) -> Request | Malformed:
    """The request in the node `node`. Never raises."""
    return reading("request", node, data, _request)


def encode_request(request: Request) -> bytes:
    """A request's data."""
    evicts = request.kind is RequestKind.EVICT
    return to_bytes(
        {
            "version": 1,
            "request": request.kind.value,
            "fresh": request.fresh,
            "by": names.printable(request.by, BY_CHARS_MAX),
            **({"member": request.member, "session": str(request.session)} if evicts else {}),
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
    by = string(document, "by", BY_CHARS_MAX)
    if kind is not RequestKind.EVICT:
        return Request(kind, fresh, by)
    member = string(document, "member", names.MEMBER_CHARS_MAX)
    if not names.is_member(member):
        raise UnfitField(f"{names.shown(member)} is not a member's name")
    session = string(document, "session", SESSION_CHARS_MAX)
    if not session.removeprefix("-").isdecimal() or not session.isascii():
        raise UnfitField("session is not a session's number")
    return Request(kind, fresh, by, member, int(session))
