"""A registration as the JSON parsers of old consumers read it, which is laxer than `strict_json`:
`zkcoord check` says what they make of a node, and not what zkcoord makes of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from zkcoord.core.model import Malformed
from zkcoord.znodes import names
from zkcoord.znodes.strict_json import JsonObject, UnfitField

INT_MAX = 2**31 - 1
DIGITS_MAX = 40
QUOTED_BYTES_MAX = 200


@dataclass(frozen=True, slots=True)
class LegacyDocument:
    """A JSON object that old consumers can parse."""

    fields: JsonObject
    # The numbers in it that are no Java int, as text for people.
    large: tuple[str, ...]


def decode_legacy_document(name: str, data: bytes) -> LegacyDocument | Malformed:
    """The document in the registration `name`. Never raises."""
    if not data:
        return Malformed("registration", name, "it is empty")
    large: list[str] = []

    def integer(text: str) -> int:
        value = int(text) if len(text) < DIGITS_MAX else INT_MAX + 1
        if not -INT_MAX - 1 <= value <= INT_MAX:
            large.append(names.shown(text))
        return value

    def fraction(text: str) -> float:
        large.append(names.shown(text))
        return 0.0

    quoted = names.shown(data[:QUOTED_BYTES_MAX].decode("utf-8", "replace"))
    try:
        document = json.loads(
            data.decode("utf-8"), parse_int=integer, parse_float=fraction, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return Malformed("registration", name, f"it is not JSON: {quoted}")
    if not isinstance(document, dict):
        return Malformed("registration", name, f"it is not a JSON object: {quoted}")
    return LegacyDocument(document, tuple(large))


def _refuse(text: str) -> Any:
    raise UnfitField(f"{text} is not a number")


def kills_all(document: LegacyDocument) -> bool:
    """TODO"""
    return False
