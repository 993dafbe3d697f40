"""The application: addresses, pages, events, files. Starlette does HTTP's work; the pages are in
`zkcoord/console/pages.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from zkcoord.console.http.acting import ActingAddresses
from zkcoord.console.http.live import Newsroom, events
from zkcoord.console.pages import NotThereError, Pages

STATIC = Path(__file__).parent.parent / "static"
OPEN_PAGES_MAX = 200
DEPTH_MAX = 20
OVERVIEW = "overview"
OF_ONE_GROUP = ("group", "rebalance")
NOT_THERE = "there is no such page: begin with the list of groups"
EVENTS = "text/event-stream"
EVENT_HEADERS = {"x-accel-buffering": "no", "cache-control": "no-store, no-transform"}


def application(
    at: ConsoleAddresses, newsroom: Newsroom, acting: ActingAddresses | None = None
) -> Starlette:
    """The ASGI application. `acting`: where readers may act."""

    @contextlib.asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        newsroom.open()
        yield

    found = Starlette(
        routes=[
            Route("/", at.page, name="overview"),
            Route("/live/{name}", at.live),
            *(acting.routes() if acting is not None else ()),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/{name}", at.page),
        ],
        exception_handlers={404: at.not_there},
        lifespan=life,
    )
    # to an address with our name and scheme in it, which a proxy's reader may not come by
    found.router.redirect_slashes = False
    return found


class ConsoleAddresses:
    """What is answered at which address."""

    def __init__(self, pages: Pages, newsroom: Newsroom) -> None:
        self._pages = pages
        self._newsroom = newsroom
        self._open = 0
        self._is_over = False

    def end(self) -> None:
        """Streams of events end: open pages come again to whoever serves them next."""
        self._is_over = True
        self._newsroom.tell()

    async def page(self, request: Request) -> Response:
        """A whole page."""
        name = request.path_params.get("name", "")
        if name not in self._pages.of:
            return await self.not_there(request, None)
        try:
            text = await run_in_threadpool(self._pages.whole, name, _query(request))
        except NotThereError as error:
            return self._trouble(404, "Not there", str(error))
        return HTMLResponse(text)

    async def live(self, request: Request) -> Response:
        """What changes on a page, until its reader goes."""
        name = request.path_params["name"]
        name = "" if name == OVERVIEW else name
        if name not in self._pages.of:
            return PlainTextResponse(NOT_THERE + "\n", 404)
        if self._open >= OPEN_PAGES_MAX:
            return PlainTextResponse("too many pages are open\n", 503)
        if request.method == "HEAD":
            return Response(headers=EVENT_HEADERS, media_type=EVENTS)
        query = _query(request)
        key = f"{name}?{sorted(query.items())}"
        render = partial(self._pages.parts, name, query)
        subject = query.get("name", "") if name in OF_ONE_GROUP else None
        return StreamingResponse(
            self._counted(events(self._newsroom, key, render, lambda: self._is_over, subject)),
            media_type=EVENTS,
            headers=EVENT_HEADERS,
        )

    async def _counted(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            async for part in stream:
                yield part
        finally:
            self._open -= 1

    async def not_there(self, request: Request, _: Exception | None) -> Response:
        """Any other address."""
        # as a browser counts: an encoded slash is none
        depth = (request.scope.get("raw_path") or b"/").count(b"/") - 1
        return self._trouble(404, "Not there", NOT_THERE, max(0, min(depth, DEPTH_MAX)))

    def _trouble(self, status: int, title: str, sentence: str, depth: int = 0) -> Response:
        return HTMLResponse(self._pages.trouble(title, sentence, "../" * depth), status)


def _query(request: Request) -> dict[str, str]:
    """The first of each name: what is said twice does not count twice."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        found.setdefault(name, value)
    return found
