"""Requests of one connection reach their members in the order in which they came, also where the
broker is asked first whether they may: one that could go at once waits for those before it. Else a
commit would overtake an earlier one, and be overwritten by it. For the same reason what is not a
member's and blocks is done one after the other (`alone`), and after the commits that came before it
(`settled`): who commits and asks at once what is stored hears of the commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from consumer.gateway.frames import Head
from consumer.gateway.wire.requests import Request

Permission = asyncio.Future[frozenset[str]]


@dataclass(slots=True)
class WaitingTurn:
    """A request, whether its group may be used, and which of the topics that it
    stores offsets of."""

    head: Head
    body: Any
    request: Request
    may: Permission
    topics: Permission | None = None

    @property
    def is_settled(self) -> bool:
        """Whether all that was asked is answered."""
        return self.may.done() and (self.topics is None or self.topics.done())


class Turns:
    """Those of one connection that wait."""

    def __init__(self) -> None:
        self.alone = asyncio.Lock()
        self._commits: set[int] = set()  # by their heads
        self._answered = asyncio.Event()
        self._waiting: deque[WaitingTurn] = deque()
        self._followed = False
        self.is_over = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(
        self,
        head: Head,
        body: Any,
        request: Request,
        ask: Callable[[], Awaitable[frozenset[str]]],
        ask_topics: Callable[[], Awaitable[frozenset[str]]] | None = None,
    ) -> bool:
        """One more; whether it is the first, so that somebody has to `serve`. What another one
        waits for is not asked again: the answer could come after that one is served, and parked.
        """
        same = (one.may for one in self._waiting if one.request.group == request.group)
        may = next(same, None) or asyncio.ensure_future(ask())
        topics = asyncio.ensure_future(ask_topics()) if ask_topics is not None else None
        self._waiting.append(WaitingTurn(head, body, request, may, topics))
        return len(self._waiting) == 1

    def commits(self, head: Head) -> None:
        """A member's commit has come."""
        self._commits.add(id(head))

    def answered(self, head: Head) -> None:
        """A request was answered, or will not be."""
        self._commits.discard(id(head))
        self._answered.set()

    def close(self) -> None:
        """The connection is gone: nothing is waited for."""
        self.is_over = True
        self._commits.clear()
        self._answered.set()

    async def settled(self) -> None:
        """Until those commits are answered that have come so far."""
        before = set(self._commits)
        while before & self._commits:
            self._answered.clear()
            await self._answered.wait()

    def followed(self) -> None:
        """Something else has come, which may wait for an answer of the broker."""
        self._followed = bool(self._waiting)

    async def serve(
        self,
        permitted: Callable[[WaitingTurn, frozenset[str]], None],
        refused: Callable[[WaitingTurn], None],
        another: Callable[[], None],
    ) -> None:
        """All that wait, and those that come meanwhile; `permitted` is given the topics that may be
        used. `another`: what the one before is parked for stands in the way of an answer that the
        next one waits for.
        """
        while self._waiting:
            one = self._waiting[0]
            if await one.may:
                permitted(one, await one.topics if one.topics is not None else frozenset())
            else:
                refused(one)
            self._waiting.popleft()
            behind = not self._waiting[0].is_settled if self._waiting else self._followed
            if behind:
                self._followed = False
                another()
