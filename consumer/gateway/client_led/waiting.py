"""Requests about client-led groups that wait. Pure. Bounded: so many, and those that wait until
what was decided of their group has been read, so long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from consumer.gateway.client_led.group import LedGroup, WaitingLed
from consumer.gateway.wire.requests import Caller, Request
from zkcoord.zk.wakes import Wakes

SEEN_MS = 5_000
WAITING_MAX = 20_000


class WaitingLine:
    """Of groups, in order; what those of a connection cost, when it closes, is theirs alone."""

    def __init__(self) -> None:
        self._of_group: dict[str, dict[int, WaitingLed]] = {}  # by their tickets
        self._groups_of: dict[int, dict[int, str]] = {}  # the same of connections
        self._count = 0

    @property
    def groups(self) -> tuple[str, ...]:
        """Of which any wait."""
        return tuple(self._of_group)

    def of(self, group: str) -> Collection[WaitingLed]:
        """Those of a group."""
        return self._of_group.get(group, {}).values()

    def add(self, group: str, one: WaitingLed) -> bool:
        """One more, if there is room."""
        if self._count >= WAITING_MAX:
            return False
        self._of_group.setdefault(group, {})[one.ticket] = one
        self._groups_of.setdefault(one.caller.connection, {})[one.ticket] = group
        self._count += 1
        return True

    def take(self, group: str, ticket: int) -> WaitingLed:
        """One that waits no more."""
        one = self._of_group[group].pop(ticket)
        connection = one.caller.connection
        del self._groups_of[connection][ticket]
        if not self._of_group[group]:
            del self._of_group[group]
        if not self._groups_of[connection]:
            del self._groups_of[connection]
        self._count -= 1
        return one

    def all_of(self, group: str) -> Iterator[WaitingLed]:
        """All of a group, which wait no more."""
        for one in tuple(self.of(group)):
            yield self.take(group, one.ticket)

    def gone(self, connection: int) -> list[tuple[str, WaitingLed]]:
        """Those of a connection, which wait no more."""
        found = tuple(self._groups_of.get(connection, {}).items())
        return [(group, self.take(group, ticket)) for ticket, group in found]


class WaitingForGroups:
    """Those that wait until their group has been read."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._late: Wakes[LedGroup] = Wakes()
        self._groups: dict[str, LedGroup] = {}
        self._requests = WaitingLine()

    def add(self, group: LedGroup, ticket: int, caller: Caller, request: Request) -> bool:
        """One more, if there is room."""
        until_ms = self._clock() + SEEN_MS
        if not self._requests.add(group.name, WaitingLed(ticket, caller, request, until_ms)):
            return False
        self._groups[group.name] = group
        self._note(group)
        return True

    def next_of(self, group: LedGroup) -> WaitingLed:
        """The first of a group's, which waits no more."""
        first = next(iter(self._requests.of(group.name)))
        self._requests.take(group.name, first.ticket)
        self._note(group)
        return first

    def all_of(self, group: LedGroup) -> Iterator[WaitingLed]:
        """All of a group's, which wait no more."""
        while group.waiting:
            yield self.next_of(group)

    def gone(self, connection: int) -> list[tuple[LedGroup, WaitingLed]]:
        """Those of a connection, which wait no more."""
        found = [(self._groups[name], one) for name, one in self._requests.gone(connection)]
        for group, _ in found:
            self._note(group)
        return found

    def _note(self, group: LedGroup) -> None:
        waiting = self._requests.of(group.name)
        group.waiting = len(waiting)
        if waiting:
            self._late.note(group, next(iter(waiting)).until_ms)
        else:
            self._groups.pop(group.name, None)
            self._late.note(group, None)

    def next_wake_ms(self) -> int | None:
        """When the first one has waited for too long."""
        return self._late.next_ms()

    def late(self) -> LedGroup | None:
        """A group of which one has waited for too long."""
        return self._late.pop(self._clock())
