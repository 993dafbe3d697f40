"""The pins of groups (`znodes/classic/pin.py`) as they are now: read whole, then each again when it
changes. For a coordinator and for gateways; on the loop of the port that they watch by.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from zkcoord.core.model import Malformed
from zkcoord.zk.port import Children, GetChildren, GetData, Node, Port, ReadDone, ReadResult
from zkcoord.znodes import names
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import PINS_MAX, Machine, Pin, decode_pin

PINS_PER_READ = 100
"""A node may hold a megabyte, whatever it should be: so many fit into an answer."""


class Pins:
    """See the module. `strange` hears of what cannot be read; such a pin says nothing. `told` hears
    of each group whose pin was read, or is gone.
    """

    def __init__(self, paths: ClassicPaths, strange: Callable[[Malformed], None]) -> None:
        self._paths = paths
        self._strange = strange
        self._port: Port | None = None
        self._pins: dict[str, Pin] = {}
        self.are_known = False
        self.told: Callable[[str], None] = lambda group: None

    def of(self, group: str) -> Machine | None:
        """Who is to run a group; None: nobody has said that."""
        pin = self._pins.get(group)
        return None if pin is None else pin.machine

    def read_all(self, port: Port, then: Callable[[], None] = lambda: None) -> None:
        """From now on this port is asked. `then`: they are known; it is not called when the
        connection is lost.
        """
        self._port = port

        def listed(result: ReadResult) -> None:
            if isinstance(result, ReadDone) and port is self._port:
                (answer,) = result.answers
                found = answer.names if isinstance(answer, Children) else ()
                # of too many the same ones for all who read them
                groups = sorted(name for name in found if names.is_group(name))[:PINS_MAX]
                gone = self._pins.keys() - set(groups)
                for name in gone:
                    self._found(name, None)
                self._read(port, groups, then)

        port.read([GetChildren(self._paths.pins)], listed)

    def _read(self, port: Port, groups: list[str], then: Callable[[], None]) -> None:
        now, later = groups[:PINS_PER_READ], groups[PINS_PER_READ:]
        if not now:
            self.are_known = True
            return then()

        def read(result: ReadResult) -> None:
            if isinstance(result, ReadDone) and port is self._port:
                for group, node in zip(now, result.answers, strict=True):
                    self._found(group, node)
                self._read(port, later, then)

        return port.read([GetData(self._paths.pin(group)) for group in now], read)

    def changed(self, group: str) -> None:
        """A pin came, changed or went."""
        if self._port is not None:
            path = self._paths.pin(group)
            self._port.read([GetData(path)], partial(self._again, self._port, group))

    def _again(self, port: Port, group: str, result: ReadResult) -> None:
        if isinstance(result, ReadDone) and port is self._port:
            self._found(group, result.answers[0])

    def _found(self, group: str, answer: object) -> None:
        pin = decode_pin(group, answer.data) if isinstance(answer, Node) else None
        if isinstance(pin, Malformed):
            self._strange(pin)
        if isinstance(pin, Pin):
            self._pins[group] = pin
        else:
            self._pins.pop(group, None)
        self.told(group)
