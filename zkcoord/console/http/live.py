"""What open pages are told: the parts of a page that changed, as server-sent events.

Each page is a list of parts. An open page is sent every part whose text is not what it was sent
last, when something was seen that may concern it, and a comment now and then so that both sides
notice when the other has gone. Parts are rendered once for all who look at the same page; who
takes no more is not waited for by others, and gets the newest when it does.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from hashlib import blake2b
from threading import RLock

import orjson
from starlette.concurrency import run_in_threadpool

Parts = Mapping[str, str]
Render = Callable[[], Parts]

COMMENT_S = 5.0
"""What a page says of its age is as old as this at most, also where nothing new is seen."""

GATHER_S = 0.1
"""News that come together are sent together."""

FRESH_S = COMMENT_S / 2
PAGES_KEPT = 64
RETRY_MS = 2_000


class Newsroom:
    """Tells waiting pages that something is new. `tell` may be called on any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self.number = 0
        self._lock = RLock()  # a signal's handler may tell while its thread does
        self._rendered: OrderedDict[str, tuple[int, float, Parts]] = OrderedDict()
        self._rendering: dict[str, asyncio.Lock] = {}

    def open(self) -> None:
        """From within the event loop."""
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Something is new."""
        with self._lock:
            self.number += 1
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        if changed is not None:
            changed.set()

    async def wait(self, seen: int, timeout_s: float) -> int:
        """Until there is news, or the time is over; the number of the newest."""
        if self.number == seen and self._changed is not None:
            try:
                await asyncio.wait_for(self._changed.wait(), timeout_s)
            except asyncio.TimeoutError:
                return self.number
        await asyncio.sleep(GATHER_S)
        return self.number

    async def parts(self, key: str, render: Render) -> Parts:
        """What a page is now; rendered once for all who ask for the same."""
        lock = self._rendering.setdefault(key, asyncio.Lock())
        wanted, clock = self.number, asyncio.get_running_loop().time
        try:
            async with lock:
                known = self._rendered.get(key)
                # what began to be rendered when nothing newer was known to who asks will do
                if known is not None and known[0] >= wanted and clock() - known[1] < FRESH_S:
                    return known[2]
                number, began = self.number, clock()
                found = await run_in_threadpool(render)
                self._rendered[key] = (number, began, found)
                self._rendered.move_to_end(key)
                while len(self._rendered) > PAGES_KEPT:
                    self._rendered.popitem(last=False)
                return found
        finally:
            if not lock.locked():
                self._rendering.pop(key, None)


async def events(
    newsroom: Newsroom, key: str, render: Render, over: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """An open page's stream, until it is over."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    sent: dict[str, bytes] = {}
    while not over():
        number = newsroom.number
        parts = await newsroom.parts(key, render)
        news = {}
        for name, text in parts.items():
            digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
            if sent.get(name) != digest:
                sent[name] = digest
                news[name] = text
        yield b"data: " + orjson.dumps(news) + b"\n\n" if news else b": still here\n\n"
        await newsroom.wait(number, COMMENT_S)
