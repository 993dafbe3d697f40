"""Fields of documents about groups whose leader is a client. Each raises `UnfitField`, which says
what is wrong.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from zkcoord.core.classic.requests import BlobRef, Opaque, Protocols
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.strict_json import JsonObject, UnfitField, free_text, required

BLOB_BYTES_MAX = 900_000
"""Of one member's metadata for one protocol, or of its assignment: what a node holds."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


def text(document: JsonObject, key: str, chars_max: int) -> str:
    required(document, key)
    return free_text(document, key, chars_max)


def maybe(document: JsonObject, key: str, chars_max: int) -> str | None:
    return None if required(document, key) is None else free_text(document, key, chars_max)


def flag(document: JsonObject, key: str) -> bool:
    value = required(document, key)
    if type(value) is not bool:
        raise UnfitField(f"{key} is not true or false")
    return value


def listed(document: JsonObject, key: str, most: int) -> list[object]:
    value = required(document, key)
    if type(value) is not list or len(value) > most:
        raise UnfitField(f"{key} is not a list of at most {most}")
    return value


def pairs(
    document: JsonObject, key: str, most: int, chars_max: int, read: Callable[[object], Opaque]
) -> Protocols:
    found = []
    for entry in listed(document, key, most):
        match entry:
            case [str(name), *rest] if len(name) <= chars_max:
                found.append((name, read(rest)))
            case _:
                raise UnfitField(f"{key} holds an entry that has no name")
    return tuple(found)


def at_most(pairs: Protocols, key: str, bytes_max: int) -> None:
    if sum(len(data) for _, data in pairs) > bytes_max:
        raise UnfitField(f"{key} are more than {bytes_max} bytes")


def to_base64(data: Opaque) -> str:
    assert isinstance(data, bytes), "a request holds the bytes themselves"
    return base64.b64encode(data).decode("ascii")


def from_base64(rest: object) -> bytes:
    match rest:
        case [str(text)]:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise UnfitField("bytes are not base64") from error
        case _:
            raise UnfitField("bytes are not base64")


def of_ref(data: Opaque) -> list[object]:
    if isinstance(data, BlobRef):
        return [data.digest, data.size]
    assert not data, "bytes that are answered, or decided, are blobs"
    return []


def ref(rest: object) -> Opaque:
    match rest:
        case []:
            return b""
        case [str(digest), int(size)] if (
            _DIGEST.fullmatch(digest) and type(size) is int and 0 < size <= BLOB_BYTES_MAX
        ):
            return BlobRef(digest, size)
    raise UnfitField("what names bytes is no digest and size")


def code_in(value: object) -> WireCode:
    if type(value) is not int or value not in _CODES:
        raise UnfitField("a code that is none")
    return _CODES[value]


_CODES = {int(code): code for code in WireCode}
