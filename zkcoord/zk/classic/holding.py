"""JoinGroups that wait until nobody is registered any more in their group whom the coordinator
assigns: its last members are on their way out, or it changes to one that clients lead. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkcoord.znodes.classic.documents import ClassicAsk

LOOK_EVERY_MS = 20
"""How often it is looked whether they may go on: registrations end one by one."""


class HeldJoins:
    """See the module. In order, by the names of the requests."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, ClassicAsk]] = {}
        self._look_at_ms: int | None = None

    def hold(self, now_ms: int, name: str, ticket: int, ask: ClassicAsk) -> None:
        """One more."""
        self._held[name] = (ticket, ask)
        if self._look_at_ms is None:
            self._look_at_ms = now_ms + LOOK_EVERY_MS

    def forget(self, name: str) -> int | None:
        """Its client waits no more: the ticket, if it was held."""
        held = self._held.pop(name, None)
        return None if held is None else held[0]

    def next_wake_ms(self) -> int | None:
        """When to look at them."""
        return self._look_at_ms if self._held else None

    def due(self, now_ms: int) -> Iterator[tuple[int, ClassicAsk]]:
        """All of them, when it is time; who has to wait on is held anew."""
        if self._look_at_ms is None or now_ms < self._look_at_ms:
            return
        held, self._held, self._look_at_ms = self._held, {}, None
        yield from held.values()
