"""An operator's word about who runs a group, whatever its clients list: its leader, a client, or
the coordinator. Where there is no such node it is what its first member wants.
"""

from __future__ import annotations

import enum

from zkcoord.core.classic.state import WORDS_CHARS_MAX
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.znodes.classic.documents import VERSION
from zkcoord.znodes.names import printable
from zkcoord.znodes.strict_json import JsonObject, UnfitField, integer, reading, string, to_bytes

PINS_MAX = 5_000
AUTO = "auto"


class Machine(enum.Enum):
    """Who runs a group."""

    CLIENT_LED = "client-led"
    COORDINATED = "coordinated"


@value
class Pin:
    """See the module. `by`: whose word it is."""

    machine: Machine
    by: str = ""


def encode_pin(pin: Pin) -> bytes:
    """The node's data."""
    by = printable(pin.by, WORDS_CHARS_MAX)
    return to_bytes({"version": VERSION, "machine": pin.machine.value, "by": by})


_MACHINES = {machine.value: machine for machine in Machine}


def decode_pin(group: str, data: bytes) -> Pin | Malformed:
    """What is said of a group. Never raises."""

    def read(document: JsonObject) -> Pin:
        integer(document, "version", VERSION, VERSION)
        machine = _MACHINES.get(string(document, "machine", WORDS_CHARS_MAX))
        if machine is None:
            raise UnfitField(f"machine is not one of {', '.join(_MACHINES)}")
        return Pin(machine, string(document, "by", WORDS_CHARS_MAX, ""))

    return reading("pin of a group", group, data, read)
