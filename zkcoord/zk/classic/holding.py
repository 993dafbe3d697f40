"""JoinGroups that wait until nobody is registered any more in their group whom the coordinator
assigns: its last members are on their way out, or it changes to one that clients lead. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.znodes.classic.documents import ClassicAsk

LOOK_EVERY_MS = 20
"""How often it is looked whether they may go on: registrations end one by one."""


class HeldJoins:
    """See the module. Of each group in order, by the names of the requests. A group is looked at
    once, however many of it wait.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, tuple[int, ClassicAsk]]] = {}
        self._group_of: dict[str, str] = {}
        self._look_at_ms: int | None = None

    def hold(self, now_ms: int, name: str, ticket: int, ask: ClassicAsk) -> None:
        """One more."""
        self._held.setdefault(ask.group, {})[name] = (ticket, ask)
        self._group_of[name] = ask.group
        if self._look_at_ms is None:
            self._look_at_ms = now_ms + LOOK_EVERY_MS

    def forget(self, name: str) -> int | None:
        """Its client waits no more: the ticket, if it was held."""
        group = self._group_of.pop(name, None)
        if group is None:
            return None
        ticket, _ = self._held[group].pop(name)
        if not self._held[group]:
            del self._held[group]
        return ticket

    def next_wake_ms(self) -> int | None:
        """When to look at them."""
        return self._look_at_ms if self._held else None

    def due(self, now_ms: int, waits: Callable[[str], bool]) -> list[tuple[int, ClassicAsk]]:
        """When it is time, those of which the group does not wait any more."""
        if self._look_at_ms is None or now_ms < self._look_at_ms:
            return []
        found: list[tuple[int, ClassicAsk]] = []
        for group in [one for one in self._held if not waits(one)]:
            held = self._held.pop(group)
            found.extend(held.values())
            for name in held:
                del self._group_of[name]
        self._look_at_ms = now_ms + LOOK_EVERY_MS if self._held else None
        return found
