"""Events and actions as plain values that JSON can say, and back, for every dataclass of the core
alike.

Nothing is listed here: a type's fields and their hints say how it is written, so a new kind of
event or a new field is covered by being defined. The rules:

* a dataclass is an object of its fields; a field that equals its default is left out, so a
  recording of before the field existed still reads;
* a value of a union of several kinds is {"Kind": value}; with one kind beside None and plain values
  it stands alone;
* a NamedTuple and a tuple are arrays; a frozenset is a sorted array; an enum is its value;
* a mapping is an object where its keys are texts, else an array of [key, value]; its order is kept,
  because the core may look at it.

Strict: a kind, a field or a form that is not known here raises `ForeignEncoding`, one sentence;
what has been written is never guessed at.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from zkcoord.core.value_type import value

UNION_FORMS = (Union, UnionType)
PRIMITIVES = (str, int, bool, float)
ANOTHER_VERSION = "it was written by another version of zkcoord"


class ForeignEncoding(ValueError):
    """Plain values that do not stand for what was asked for; the message is one sentence."""


@value
class Codec:
    """Both ways for one type. `encode` trusts its argument, `decode` raises `ForeignEncoding`."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


@cache
def codec(hint: Any) -> Codec:
    """The codec of a type hint, made once. Raises `TypeError` for a hint that the core does not
    use.
    """
    origin, given = get_origin(hint), get_args(hint)
    if hint is object or hint is Any:
        return Codec(_plain, _same)
    if hint in PRIMITIVES:
        return Codec(_same, _checked(hint))
    if hint is type(None):
        return Codec(_same, _nothing)
    if origin in UNION_FORMS:
        return _union(given)
    if origin is tuple:
        return (
            _sequence(codec(given[0]), tuple)
            if given[-1] is Ellipsis
            else _fixed(tuple(given), lambda *parts: parts)
        )
    if origin is frozenset:
        return _set(codec(given[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(given[0] is str, codec(given[0]), codec(given[1]))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Codec(lambda value: value.value, _enum(hint))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _fixed(tuple(get_type_hints(hint).values()), hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    raise TypeError(f"{hint!r} has no encoding")


def whole(value: Any) -> dict[str, Any]:
    """A dataclass with all its fields, those that equal their defaults too: for what must mean the
    same when a default has changed.
    """
    hints = get_type_hints(type(value))
    return {f.name: codec(hints[f.name]).encode(getattr(value, f.name)) for f in fields(value)}


def _foreign(what: str) -> ForeignEncoding:
    return ForeignEncoding(f"{what}: {ANOTHER_VERSION}")


def _same(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """What a record's detail may hold, as JSON would give it back."""
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, PRIMITIVES):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise _foreign(f"{_short(value)} stands where there should be nothing")


def _checked(kind: type) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if type(value) is not kind:
            raise _foreign(f"{_short(value)} is not of type {kind.__name__}")
        return value

    return decode


def _enum(kind: type[enum.Enum]) -> Callable[[Any], Any]:
    members = {member.value: member for member in kind}

    def decode(value: Any) -> Any:
        if not isinstance(value, (str, int)) or value not in members:
            raise _foreign(f"{_short(value)} is no {kind.__name__}")
        return members[value]

    return decode


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _foreign(f"{_short(value)} is not a list")
    return value


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _foreign(f"{_short(value)} is not an object")
    return value


def _sequence(item: Codec, make: Callable[[Any], Any]) -> Codec:
    return Codec(
        lambda value: [item.encode(one) for one in value],
        lambda value: make([item.decode(one) for one in _list(value)]),
    )


def _set(item: Codec) -> Codec:
    return Codec(
        lambda value: sorted((item.encode(one) for one in value), key=repr),
        lambda value: frozenset([item.decode(one) for one in _list(value)]),
    )


def _fixed(hints: tuple[Any, ...], make: Callable[..., Any]) -> Codec:
    parts = [codec(hint) for hint in hints]

    def decode(value: Any) -> Any:
        if len(_list(value)) != len(parts):
            raise _foreign(f"{_short(value)} has not {len(parts)} parts")
        return make(*[part.decode(one) for part, one in zip(parts, value, strict=False)])

    return Codec(
        lambda value: [part.encode(one) for part, one in zip(parts, value, strict=False)], decode
    )


def _mapping(by_text: bool, key: Codec, value: Codec) -> Codec:
    if by_text:
        return Codec(
            lambda found: {name: value.encode(one) for name, one in found.items()},
            lambda found: {
                key.decode(name): value.decode(one) for name, one in _dict(found).items()
            },
        )

    def decode(found: Any) -> dict[Any, Any]:
        pairs = _list(found)
        if any(not isinstance(pair, list) or len(pair) != 2 for pair in pairs):
            raise _foreign(f"{_short(found)} is not a list of pairs")
        return {key.decode(name): value.decode(one) for name, one in pairs}

    return Codec(
        lambda found: [[key.encode(name), value.encode(one)] for name, one in found.items()], decode
    )


def _union(hints: tuple[Any, ...]) -> Codec:
    """None and plain values stand alone; of the rest, one kind stands alone and several are
    named.
    """
    bare = frozenset(hint for hint in hints if hint in (*PRIMITIVES, type(None)))
    kinds = {hint.__name__: hint for hint in hints if hint not in bare}
    if len(kinds) == 1:
        (alone,) = kinds.values()
        inner = codec(alone)
        return Codec(
            lambda value: value if type(value) in bare else inner.encode(value),
            lambda value: value if type(value) in bare else inner.decode(value),
        )

    def encode(value: Any) -> Any:
        kind: Any = type(value)
        return value if kind in bare else {kind.__name__: codec(kind).encode(value)}

    def decode(value: Any) -> Any:
        if type(value) in bare:
            return value
        named = list(_dict(value).items())
        if len(named) != 1 or named[0][0] not in kinds:
            raise _foreign(f"{_short(list(value))} names no kind of {' or '.join(sorted(kinds))}")
        return codec(kinds[named[0][0]]).decode(named[0][1])

    return Codec(encode, decode)


def _record(kind: type[Any]) -> Codec:
    hints = get_type_hints(kind)
    parts = [
        (
            f.name,
            codec(hints[f.name]),
            f.default if f.default_factory is MISSING else f.default_factory(),
        )
        for f in fields(kind)
    ]
    codecs = {name: part for name, part, _ in parts}
    needed = [name for name, _, default in parts if default is MISSING]

    def encode(value: Any) -> dict[str, Any]:
        found = {}
        for name, part, default in parts:
            inner = getattr(value, name)
            if default is MISSING or inner != default:
                found[name] = part.encode(inner)
        return found

    def decode(value: Any) -> Any:
        given = _dict(value)
        try:
            known = {name: codecs[name].decode(inner) for name, inner in given.items()}
        except KeyError as error:
            raise _foreign(f"{kind.__name__} has no field {_short(error.args[0])}") from error
        missing = [name for name in needed if name not in known]
        if missing:
            raise _foreign(f"the field {missing[0]} of {kind.__name__} is missing")
        return kind(**known)

    return Codec(encode, decode)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:80] + "..."
