"""The pins of groups (`znodes/classic/pin.py`) as they are now: read whole, then each again when it
changes. For a coordinator and for gateways; on the loop of the port that they watch by.

They are operators' words: with roles one counts only where nobody but coordinators can have made
it, or what is above it; else it is named, and says nothing (`zkcoord acl apply` mends that).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zkcoord.core.model import Malformed
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import (
    AclsDone,
    AclsResult,
    Children,
    GetChildren,
    GetData,
    Missing,
    Node,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
)
from zkcoord.znodes import names
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import PINS_MAX, Machine, Pin, decode_pin

PINS_PER_READ = 100
"""A node may hold a megabyte, whatever it should be: so many fit into an answer."""


class Pins:
    """See the module. `strange` hears of what cannot be read; such a pin says nothing. `told` hears
    of each group whose pin was read, or is gone.
    """

    def __init__(
        self,
        paths: ClassicPaths,
        strange: Callable[[Malformed], None],
        roles: Roles | None = None,
    ) -> None:
        self._paths = paths
        self._strange = strange
        self.roles = roles
        self._changes: dict[str, int] = {}
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
        self._changes.clear()

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
                self._judge(port, now, result.answers, judged)

        def judged(answers: Sequence[ReadAnswer]) -> None:
            for group, node in zip(now, answers, strict=True):
                self._found(group, node)
            self._read(port, later, then)

        return port.read([GetData(self._paths.pin(group)) for group in now], read)

    def changed(self, group: str) -> None:
        """A pin came, changed or went."""
        if self._port is not None:
            number = self._changes[group] = self._changes.get(group, 0) + 1
            path = self._paths.pin(group)
            self._port.read([GetData(path)], partial(self._again, self._port, group, number))

    def _again(self, port: Port, group: str, number: int, result: ReadResult) -> None:
        def judged(answers: Sequence[ReadAnswer]) -> None:
            if self._changes.get(group) == number:  # else it is read once more
                del self._changes[group]
                self._found(group, answers[0])

        if isinstance(result, ReadDone) and port is self._port:
            self._judge(port, [group], result.answers, judged)

    def _judge(
        self,
        port: Port,
        groups: Sequence[str],
        answers: Sequence[ReadAnswer],
        then: Callable[[Sequence[ReadAnswer]], None],
    ) -> None:
        """Have `then` hear the answers: without pins that others can have made."""
        said = [g for g, answer in zip(groups, answers, strict=True) if isinstance(answer, Node)]
        roles, above = self.roles, (self._paths.layout.epoch, *self._paths.above_pins())
        if roles is None or not said:
            return then(answers)

        def answered(result: AclsResult) -> None:
            if not isinstance(result, AclsDone) or port is not self._port:
                return
            belief, found = Belief(roles, result.answers[0], True), iter(result.answers)
            wrong = next(filter(None, [belief.closed(path, next(found)) for path in above]), "")
            own = {g: wrong or belief.closed(self._paths.pin(g), next(found)) for g in said}
            for group in filter(own.get, own):
                why = f"not only coordinators can have made it: {own[group]}"
                self._strange(Malformed("pin of a group", group, why))
            pairs = zip(groups, answers, strict=True)
            then([Missing() if own.get(group) else answer for group, answer in pairs])

        return port.acls([*above, *map(self._paths.pin, said)], answered)

    def _found(self, group: str, answer: object) -> None:
        pin = decode_pin(group, answer.data) if isinstance(answer, Node) else None
        if isinstance(pin, Malformed):
            self._strange(pin)
        if isinstance(pin, Pin):
            self._pins[group] = pin
        else:
            self._pins.pop(group, None)
        self.told(group)
