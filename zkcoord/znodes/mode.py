"""A group's mode, as JSON in a node below the group: an operator writes it, the
coordinator and all members watch it. It says, too, whether the group is paused.
"""

from __future__ import annotations

from zkcoord.core.model import GroupMode, Malformed, Mode
from zkcoord.core.shared import STRATEGIES
from zkcoord.znodes import names
from zkcoord.znodes.strict_json import JsonObject, UnfitField, integer, reading, string, to_bytes

TEXT_CHARS_MAX = 255

_KINDS = {kind.value: kind for kind in GroupMode}


def decode_mode(data: bytes) -> Mode | Malformed:
    """The mode that a group's mode node says. Never raises."""
    return reading("mode", "mode", data, _mode)


def encode_mode(mode: Mode) -> bytes:
    """The node's data."""
    return to_bytes(
        {
            "version": 1,
            "mode": mode.kind.value,
            "strategy": mode.strategy,
            "by": names.printable(mode.by, TEXT_CHARS_MAX),
            **({"paused": True} if mode.paused else {}),
        }
    )


def _mode(document: JsonObject) -> Mode:
    integer(document, "version", 1, 1)
    kind = _KINDS.get(string(document, "mode", TEXT_CHARS_MAX))
    if kind is None:
        raise UnfitField(f"mode is not one of {', '.join(_KINDS)}")
    strategy = string(document, "strategy", TEXT_CHARS_MAX)
    if strategy not in STRATEGIES:
        raise UnfitField(f"strategy is not one of {', '.join(STRATEGIES)}")
    paused = document.get("paused", False)
    if type(paused) is not bool:
        raise UnfitField("paused is not true or false")
    if paused and kind is not GroupMode.COORDINATED:
        raise UnfitField("only a coordinated group can be paused")
    return Mode(kind, strategy, string(document, "by", TEXT_CHARS_MAX, ""), paused)
