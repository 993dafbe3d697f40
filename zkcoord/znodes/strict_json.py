"""JSON from anybody: one strict reader that never raises, and field readers that say what is wrong.

`json.loads` takes UTF-16, NaN, 1e999, duplicate keys (the last wins), lone surrogates (which raise
later, when printed) and nesting that ends in RecursionError. Here a document is UTF-8, an object,
of bounded size and depth, with unique keys and numbers of at most 19 digits; whatever else comes is
a `Reason`. The bounds are checked before the parser runs, in linear time, so that no document can
cost more than its size.

Nearly all documents are good, and a new coordinator reads tens of thousands. So a fast parser
(orjson) reads them first, and what it says is taken where it cannot differ; whatever is unusual
goes to the library's parser, which says what is wrong.

The field readers raise `UnfitField`, which only `reading` catches: inside this package an exception
is the shortest way out of a half-read document, outside of it there is none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, TypeVar

import orjson

from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.znodes.names import printable

DOCUMENT_BYTES_MAX = 64 * 1024
DOCUMENT_DEPTH_MAX = 8
NUMBER_CHARS_MAX = 20
REASON_CHARS_MAX = 300
USER_DATA_CHARS_MAX = 16 * 1024
INT64_MAX = 2**63 - 1

JsonObject = dict[str, Any]
T = TypeVar("T")

# The closing quote is optional so that an unterminated string matches too: the scan never starts
# over and stays linear.
_STRING = re.compile(rb'"(?:[^"\\]+|\\.)*"?', re.DOTALL)
_INNERMOST = re.compile(rb"\[\]|\{\}")
_NOT_BRACKETS = bytes(b for b in range(256) if b not in b"[]{}")


@value
class Reason:
    """Why some bytes are not a document."""

    text: str


class UnfitField(ValueError):
    """A field is not what it should be. Never leaves this package."""


def strict_json(data: bytes, bytes_max: int = DOCUMENT_BYTES_MAX) -> JsonObject | Reason:
    """The object that these bytes are, or why they are none. Never raises."""
    if len(data) > bytes_max:
        return Reason(f"{len(data)} bytes, more than the {bytes_max} allowed")
    if not data:
        return Reason("empty")
    if not _shallow(data):
        return Reason(f"brackets do not match or are nested deeper than {DOCUMENT_DEPTH_MAX}")
    usual = _usual(data)
    if usual is not None:
        return usual
    try:
        value = _DECODER.decode(data.decode("utf-8"))
        if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        return Reason("not UTF-8")
    except UnfitField as unfit:
        return Reason(str(unfit))
    except (ValueError, RecursionError):
        return Reason("not JSON")
    return value if isinstance(value, dict) else Reason("not a JSON object")


def to_bytes(document: JsonObject) -> bytes:
    """A document's bytes: compact, ASCII, keys in the order given."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


def reading(
    what: str,
    name: str,
    data: bytes,
    read: Callable[[JsonObject], T],
    bytes_max: int = DOCUMENT_BYTES_MAX,
) -> T | Malformed:
    """Parse and read a document; `what` and `name` say in a `Malformed` what it should have
    been.
    """
    document = strict_json(data, bytes_max)
    if isinstance(document, Reason):
        return Malformed(what, name, document.text)
    try:
        return read(document)
    except UnfitField as unfit:
        # it may quote a foreign key
        return Malformed(what, name, printable(str(unfit), REASON_CHARS_MAX))


def required(document: JsonObject, key: str) -> Any:
    """A field's value, whatever it is."""
    if key not in document:
        raise UnfitField(f"{key} is missing")
    return document[key]


def integer(document: JsonObject, key: str, low: int = 0, high: int = INT64_MAX) -> int:
    """A field that must be an integer within bounds; true and 1.0 are none."""
    value = document[key] if key in document else required(document, key)
    if type(value) is not int or not low <= value <= high:
        raise UnfitField(f"{key} is not an integer from {low} to {high}")
    return value


def decimal(document: JsonObject, key: str, high: int = INT64_MAX) -> int:
    """A field that must be a string of ASCII digits, at most `high`."""
    return number_in(string(document, key, NUMBER_CHARS_MAX), key, high)


def number_in(text: str, key: str, high: int = INT64_MAX) -> int:
    """The number that the text of a field must be."""
    if len(text) > NUMBER_CHARS_MAX or not (text.isascii() and text.isdigit()) or int(text) > high:
        raise UnfitField(f"{key} is not a decimal number up to {high} in a string")
    return int(text)


def string(document: JsonObject, key: str, chars_max: int, default: str | None = None) -> str:
    """A field that must be a string without control characters; `default` where it is absent,
    required without one.
    """
    value = document.get(key, default) if default is not None else required(document, key)
    if type(value) is not str or len(value) > chars_max:
        raise UnfitField(f"{key} is not a string of at most {chars_max} characters")
    if not value.isprintable():
        raise UnfitField(f"{key} contains control characters")
    return value


class Texts:
    """Several string fields, read at once: `fields` maps each to its most characters and its
    default (None: it is required).

    A new coordinator reads tens of thousands of documents; that all of them are good is found out
    with a fraction of the work that it takes to say which one is not.
    """

    def __init__(self, fields: Mapping[str, tuple[int, str | None]]) -> None:
        self._fields = dict(fields)
        self._defaults = {key: default for key, (_, default) in fields.items()}
        self._pick = itemgetter(*fields)
        self._short = min(chars_max for chars_max, _ in fields.values())

    def read(self, document: JsonObject) -> tuple[str, ...]:
        """The values, in the order of the fields. Raises what `string` raises."""
        values: tuple[str, ...]
        try:
            values = self._pick(document)
        except KeyError:
            values = self._pick({**self._defaults, **document})
        try:
            all_of_them = "".join(values)
            good = all_of_them.isprintable() and (
                len(all_of_them) <= self._short or max(map(len, values)) <= self._short
            )
        except TypeError:  # a value that is no string, or a required field that is missing
            good = False
        return (
            values
            if good
            else tuple(
                string(document, key, chars_max, default)
                for key, (chars_max, default) in self._fields.items()
            )
        )


def free_text(document: JsonObject, key: str, chars_max: int) -> str:
    """A field that may be absent and must else be a string of any characters."""
    value = document.get(key, "")
    if type(value) is not str or len(value) > chars_max:
        raise UnfitField(f"{key} is not a string of at most {chars_max} characters")
    return value


def mapping(document: JsonObject, key: str, default: JsonObject | None = None) -> JsonObject:
    """A field that must be an object."""
    value = required(document, key) if default is None else document.get(key, default)
    if type(value) is not dict:
        raise UnfitField(f"{key} is not an object")
    return value


def strings(document: JsonObject, key: str, chars_max: int) -> list[str]:
    """A field that must be a list of strings without control characters."""
    value = required(document, key)
    if type(value) is not list:
        raise UnfitField(f"{key} is not a list")
    return [
        (
            item
            if type(item) is str and len(item) <= chars_max and item.isprintable()
            else string({key: item}, key, chars_max)
        )
        for item in value
    ]


def _usual(data: bytes) -> JsonObject | None:
    """The object, if it would be written just so: then no key is there twice (the last would be
    kept), no number was rounded, and both parsers agree. None: the other one says.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if type(value) is dict and orjson.dumps(value) == data else None


def _shallow(data: bytes) -> bool:
    """Whether brackets outside of strings are nested at most `DOCUMENT_DEPTH_MAX` deep. (Brackets
    that do not match count as deep.)
    """
    if data.count(b"{") + data.count(b"[") <= DOCUMENT_DEPTH_MAX:
        return True  # most documents; whether they match is the parser's business
    brackets = _STRING.sub(b"", data).translate(None, _NOT_BRACKETS)
    for _ in range(DOCUMENT_DEPTH_MAX):
        if not brackets:
            return True
        brackets = _INNERMOST.sub(b"", brackets)
    return not brackets


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnfitField("a key appears twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise UnfitField(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise UnfitField("a number is too large")
    return value


def _bounded(text: str) -> int:
    if len(text) > NUMBER_CHARS_MAX:
        raise UnfitField("a number is too long")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_refuse_constant,
    parse_float=_finite,
    parse_int=_bounded,
)
