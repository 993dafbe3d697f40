"""Members on their way out: their clients have left, or are at another gateway, and their sessions
are not over yet.
"""

from __future__ import annotations

from collections.abc import Callable

from consumer.core import messages as msg
from consumer.gateway.members.memory import Memory
from consumer.gateway.members.wire_group import ServedMember
from consumer.gateway.wire.actions import WayOut, WireTimes
from consumer.gateway.wire.drain import Drain

Telling = Callable[[ServedMember, msg.FromFetcher], None]


class Leaving:
    """See the module. `tell` tells a member's agent, soon; `touched` is called when one is due at
    another time.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        times: WireTimes,
        memory: Memory | None,
        tell: Telling,
        touched: Callable[[ServedMember], None],
    ) -> None:
        self._clock = clock
        self._times = times
        self._memory = memory
        self._tell = tell
        self._touched = touched
        self._members: dict[int, ServedMember] = {}
        self._looked_for: dict[int, ServedMember] = {}

    def __len__(self) -> int:
        return len(self._members)

    def is_any_of(self, group: str) -> bool:
        """Whether there are members of a group."""
        return any(one.group == group for one in self._members.values())

    def begin(self, served: ServedMember, ending: WayOut) -> None:
        """One more."""
        served.closing = True
        self._members[id(served)] = served
        if ending is WayOut.OVER:
            return
        if ending is WayOut.WAITS or served.wishes.instance is None:
            return self._tell(served, msg.Close({}, 0))
        memory, key = self._memory, (served.group, served.to_remember().node, served.agent.name)
        if memory is None or not served.remembered:
            return self._drain(served)
        if ending is WayOut.LEAVES:
            memory.forget(*key)
            return self._drain(served)

        def released(is_elsewhere: bool) -> None:
            if self._looked_for.pop(id(served), None) is None:
                return
            if is_elsewhere:
                self._tell(served, msg.Close({}, 0))
            else:
                self._drain(served)
                self._touched(served)

        self._looked_for[id(served)] = served
        return memory.release(*key, released)

    def _drain(self, served: ServedMember) -> None:
        held = set(served.wire.held) - served.wire.due
        served.drain = Drain(self._times, self._clock(), held)
        for message in served.drain.begin(served.wire.revocations):
            self._tell(served, message)

    def cut_short(self) -> None:
        """The gateway ends."""
        for served in self._members.values():
            if served.drain is not None and not served.drain.over:
                served.drain.over = True
                self._tell(served, msg.Close({}, 0))
        for served in self._looked_for.values():
            self._tell(served, msg.Close({}, 0))
        self._looked_for.clear()

    def ended(self, served: ServedMember) -> None:
        """The session of one is over."""
        self._members.pop(id(served), None)
        self._looked_for.pop(id(served), None)
