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
from dataclasses import dataclass
from hashlib import blake2b
from threading import RLock

import orjson
from starlette.concurrency import run_in_threadpool

from zkcoord.event_loops import run_there

Parts = Mapping[str, str]
Render = Callable[[], Parts]

COMMENT_S = 5.0
"""What a page says of its age is as old as this at most, also where nothing new is seen."""

GATHER_S = 0.1
"""News that come together are sent together."""

FRESH_S = COMMENT_S / 2
PAGES_KEPT = 64
SUBJECTS_MAX = 20_000
"""Groups of which it is known when something was said last: more are all groups."""

WORK_PART = 10
REST_S_MAX = 1.0
"""A page takes a tenth of the time at most, however much happens, where that is not longer."""

RETRY_MS = 2_000


@dataclass(frozen=True)
class _Rendered:
    """What a page was when news up to `number` were known; `began` and `took` in seconds."""

    number: int
    began: float
    took: float
    parts: Parts


class Newsroom:
    """Tells waiting pages that something is new. `tell` may be called on any thread.

    A page is about one group (its subject), or about all.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self.number = 0
        self._of_all = 0
        self._of_group: OrderedDict[str, int] = OrderedDict()
        self._lock = RLock()  # a signal's handler may tell while its thread does
        self._rendered: OrderedDict[str, _Rendered] = OrderedDict()
        self._rendering: dict[str, asyncio.Lock] = {}

    def open(self) -> None:
        """From within the event loop."""
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def tell(self, groups: frozenset[str] = frozenset()) -> None:
        """Something is new: of these groups, or, where none is named, of any."""
        with self._lock:
            self.number += 1
            if not groups:
                self._of_all = self.number
                self._of_group.clear()
            for group in groups:
                self._of_group[group] = self.number
                self._of_group.move_to_end(group)
            while len(self._of_group) > SUBJECTS_MAX:
                self._of_all = max(self._of_all, self._of_group.popitem(last=False)[1])
        loop = self._loop
        if loop is not None:
            run_there(loop, self._wake)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        if changed is not None:
            changed.set()

    def number_of(self, subject: str | None) -> int:
        """Of the newest that may concern a page."""
        with self._lock:
            if subject is None:
                return self.number
            return max(self._of_all, self._of_group.get(subject, 0))

    async def wait(self, seen: int, timeout_s: float, subject: str | None) -> None:
        """Until there is news for pages about this group (None: about all), or the time is over."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        while self.number_of(subject) == seen and self._changed is not None:
            try:
                await asyncio.wait_for(self._changed.wait(), until - clock())
            except asyncio.TimeoutError:
                return
        await asyncio.sleep(GATHER_S)

    async def rest(self, key: str) -> None:
        """Until a page may be rendered again."""
        known = self._rendered.get(key)
        if known is not None:
            due = known.began + min(WORK_PART * known.took, REST_S_MAX)
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))

    async def parts(self, key: str, render: Render, subject: str | None) -> Parts:
        """What a page is now; rendered once for all who ask for the same."""
        lock = self._rendering.setdefault(key, asyncio.Lock())
        wanted, clock = self.number_of(subject), asyncio.get_running_loop().time
        try:
            async with lock:
                known = self._rendered.get(key)
                # what began to be rendered when nothing newer was known to who asks will do
                is_new = known is None or known.number < wanted
                if known is not None and not is_new and clock() - known.began < FRESH_S:
                    return known.parts
                number, began = self.number_of(subject), clock()
                found = await run_in_threadpool(render)
                self._rendered[key] = _Rendered(number, began, clock() - began, found)
                self._rendered.move_to_end(key)
                while len(self._rendered) > PAGES_KEPT:
                    self._rendered.popitem(last=False)
                return found
        finally:
            if not lock.locked():
                self._rendering.pop(key, None)


async def events(
    newsroom: Newsroom,
    key: str,
    render: Render,
    over: Callable[[], bool],
    subject: str | None = None,
) -> AsyncIterator[bytes]:
    """The stream of an open page about this group (None: about all), until it is over."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    sent: dict[str, bytes] = {}
    while not over():
        number = newsroom.number_of(subject)
        parts = await newsroom.parts(key, render, subject)
        news = {}
        for name, text in parts.items():
            digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
            if sent.get(name) != digest:
                sent[name] = digest
                news[name] = text
        yield b"data: " + orjson.dumps(news) + b"\n\n" if news else b": still here\n\n"
        await newsroom.wait(number, COMMENT_S, subject)
        await newsroom.rest(key)
