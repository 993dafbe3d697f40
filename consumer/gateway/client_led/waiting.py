"""Requests that wait until what was decided of their group has been read. Pure. Bounded: so many,
and so long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from consumer.gateway.client_led.group import LedGroup, WaitingLed
from consumer.gateway.wire.requests import Caller, Request
from zkcoord.zk.wakes import Wakes

SEEN_MS = 5_000
WAITING_MAX = 20_000


class WaitingForGroups:
    """See the module."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._late: Wakes[LedGroup] = Wakes()
        self._groups: dict[str, LedGroup] = {}
        self._count = 0

    def add(self, group: LedGroup, ticket: int, caller: Caller, request: Request) -> bool:
        """One more, if there is room."""
        if self._count >= WAITING_MAX:
            return False
        until_ms = self._clock() + SEEN_MS
        group.waiting.append(WaitingLed(ticket, caller, request, until_ms))
        self._groups[group.name] = group
        self._count += 1
        self._note(group)
        return True

    def next_of(self, group: LedGroup) -> WaitingLed:
        """The first of a group's, which waits no more."""
        self._count -= 1
        first = group.waiting.popleft()
        self._note(group)
        return first

    def all_of(self, group: LedGroup) -> Iterator[WaitingLed]:
        """All of a group's, which wait no more."""
        while group.waiting:
            yield self.next_of(group)

    def gone(self, connection: int) -> list[tuple[LedGroup, WaitingLed]]:
        """Those of a connection, which wait no more."""
        found = [
            (group, one)
            for group in self._groups.values()
            for one in group.waiting
            if one.caller.connection == connection
        ]
        for group, one in found:
            group.waiting.remove(one)
            self._count -= 1
            self._note(group)
        return found

    def _note(self, group: LedGroup) -> None:
        if group.waiting:
            self._late.note(group, group.waiting[0].until_ms)
        else:
            self._groups.pop(group.name, None)
            self._late.note(group, None)

    def next_wake_ms(self) -> int | None:
        """When the first one has waited for too long."""
        return self._late.next_ms()

    def late(self) -> LedGroup | None:
        """A group of which one has waited for too long."""
        return self._late.pop(self._clock())
