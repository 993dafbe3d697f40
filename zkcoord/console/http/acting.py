"""Addresses at which readers act, where they may: signing in and out, an action's page. What
changes something is a POST that a page of ours has sent: its form holds its reader's proof, and a
browser that says where it comes from says here.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from zkcoord.console.acting.audit import AuditLog
from zkcoord.console.acting.desk import ActionDesk, Sheet
from zkcoord.console.acting.readers import SESSION_MS, ActingReader, Readers
from zkcoord.console.http.guarding import ACTING
from zkcoord.console.pages import Pages, link
from zkcoord.errors import ConfigurationError, UnavailableError
from zkcoord.terminal import printable

BODY_BYTES_MAX = 16 * 1024
FIELDS_MAX = 50
BODY_S = 10.0
FORMS_MAX = 64
"""Forms whose bodies are waited for at a time: one more ends the wait for the one that has taken
longest, so that slow strangers take nobody's place.
"""

NOBODYS = "this token is nobody's: ask who runs the console for yours"
STRANGE = "this form is not one of this console's pages: open the group's page, and begin there"
NO_ACTION = "there is no such action: follow a link of a group's page"


class BodyError(Exception):
    """A form that is not taken."""


class ActingAddresses:
    """See the module. `cookie` is the name under which a browser keeps a session."""

    def __init__(
        self, pages: Pages, desk: ActionDesk, readers: Readers, audit: AuditLog, cookie: str
    ) -> None:
        self._pages = pages
        self._desk = desk
        self._readers = readers
        self._audit = audit
        self._cookie = cookie
        self._bodies: dict[asyncio.Future[bytes], None] = {}

    def routes(self) -> list[Route]:
        """Before those of the pages."""
        act, sign_in, sign_out = ACTING
        return [
            Route(f"/{act}", self.act, methods=["GET", "POST"]),
            Route(f"/{sign_in}", self.sign_in, methods=["GET", "POST"]),
            Route(f"/{sign_out}", self.sign_out, methods=["POST"]),
        ]

    async def act(self, request: Request) -> Response:
        """An action's page: GET asks for more, POST looks, or does it."""
        try:
            reader = await run_in_threadpool(self._reader, request)
            said = await self._said(request)
        except ConfigurationError as error:
            return self._trouble(503, str(error))
        except BodyError as error:
            return self._trouble(400, str(error))
        if request.method == "POST" and not _is_ours(request, reader, said):
            return self._trouble(403, STRANGE)
        sheet = self._desk.begin(said.get("do", ""), said.get("name", ""), said)
        if sheet is None:
            return self._trouble(404, NO_ACTION)
        if reader is None:
            return self._to_sign_in(sheet)
        if request.method == "POST" and (ticket := said.get("ticket", "")):
            sheet = await run_in_threadpool(self._desk.do, sheet, reader, ticket)
        elif request.method == "POST":
            sheet = await run_in_threadpool(self._desk.look, sheet, reader)
        has_tokens = self._readers.has_tokens
        return self._page("act.html", {"sheet": sheet, "reader": reader, "has_tokens": has_tokens})

    async def sign_in(self, request: Request) -> Response:
        """Where a reader says its token."""
        try:
            said = await self._said(request)
            if request.method != "POST":
                return self._signing_in(said)
            if not _comes_from_here(request):
                return self._trouble(403, STRANGE)
            found = await run_in_threadpool(self._readers.sign_in, said.get("token", "").strip())
            who = request.client.host if request.client is not None else "?"
            if found is None:
                await run_in_threadpool(self._audit.refused, who)
                return self._signing_in(said, NOBODYS, 403)
            name, session = found
            await run_in_threadpool(self._told, "signed in", who=name, address=who)
        except (ConfigurationError, UnavailableError) as error:
            return self._trouble(503, str(error))
        except BodyError as error:
            return self._trouble(400, str(error))
        answer = RedirectResponse(_next(said), 303)
        answer.set_cookie(
            self._cookie,
            session,
            max_age=SESSION_MS // 1000,
            path=None,  # below whatever prefix a proxy has put us
            secure=request.headers.get("x-forwarded-proto") == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    async def sign_out(self, request: Request) -> Response:
        """The session ends."""
        try:
            reader = await run_in_threadpool(self._reader, request)
            said = await self._said(request)
        except (ConfigurationError, BodyError) as error:
            return self._trouble(400, str(error))
        if not _is_ours(request, reader, said):
            return self._trouble(403, STRANGE)
        self._readers.sign_out(request.cookies.get(self._cookie, ""))
        answer = RedirectResponse(".", 303)
        answer.delete_cookie(self._cookie, path="", httponly=True, samesite="strict")
        return answer

    async def _said(self, request: Request) -> dict[str, str]:
        """What a query or a form says, the first of each name. Raises `BodyError`."""
        if request.method != "POST":
            return _fields(request.url.query)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise BodyError("only forms are taken here")
        coming = asyncio.ensure_future(_body(request))
        self._bodies[coming] = None
        if len(self._bodies) > FORMS_MAX:
            longest = next(iter(self._bodies))
            del self._bodies[longest]
            longest.cancel()
        try:
            done, _ = await asyncio.wait([coming], timeout=BODY_S)
            if not done or coming.cancelled():
                raise BodyError("the form did not come in time: send it again")
            return _fields(coming.result().decode("utf-8"))
        except (UnicodeDecodeError, ClientDisconnect) as error:
            raise BodyError("the form is not whole, or not UTF-8: send it again") from error
        finally:
            coming.cancel()
            self._bodies.pop(coming, None)

    def _reader(self, request: Request) -> ActingReader | None:
        """Who asks. Raises `ConfigurationError`."""
        address = request.client.host if request.client is not None else ""
        header = self._readers.header
        named = request.headers.getlist(header) if header else []
        found = self._readers.of_proxy(address, named)
        session = request.cookies.get(self._cookie, "")
        if found is None and session:
            found = self._readers.of_session(session)
        return found

    def _told(self, what: str, **fields: object) -> None:
        self._audit.write(what, **fields)

    def _to_sign_in(self, sheet: Sheet) -> Response:
        if not self._readers.has_tokens:
            return self._trouble(403, "the proxy in front of this console has not said who you are")
        found = {k: sheet.said[k] for k in ("do", "name", "member") if sheet.said.get(k)}
        return RedirectResponse(link("sign-in", **found), 303)

    def _signing_in(
        self, said: Mapping[str, str], problem: str = "", status: int = 200
    ) -> Response:
        if not self._readers.has_tokens:
            return self._trouble(404, NO_ACTION)
        towards = {k: said[k] for k in ("do", "name", "member") if said.get(k)}
        return self._page("sign_in.html", {"towards": towards, "problem": problem}, status)

    def _page(self, template: str, context: Mapping[str, Any], status: int = 200) -> Response:
        return HTMLResponse(self._pages.rendered(template, context), status)

    def _trouble(self, status: int, sentence: str) -> Response:
        return HTMLResponse(self._pages.trouble("Not done", sentence, ""), status)


def _next(said: Mapping[str, str]) -> str:
    found = {k: said[k] for k in ("do", "name", "member") if said.get(k)}
    return link("act", **found) if "do" in found else "."


def _is_ours(request: Request, reader: ActingReader | None, said: Mapping[str, str]) -> bool:
    """Whether a form comes from a page that was made for this reader. Nobody's is: it is sent to
    sign in, and changes nothing.
    """
    here = _comes_from_here(request)
    return here and (reader is None or _equal(said.get("proof", ""), reader.proof))


def _comes_from_here(request: Request) -> bool:
    """As far as a browser says where from: old ones do not. Its own word comes first: a proxy may
    have given us another name than the one that the browser knows, and no page can make that word.
    """
    sites = request.headers.getlist("sec-fetch-site")
    if sites:
        return len(sites) == 1 and sites[0] in ("same-origin", "none")
    origins = request.headers.getlist("origin")
    host = request.headers.get("host", "").lower()
    return not origins or (
        len(origins) == 1 and host != "" and _netloc(printable(origins[0])).lower() == host
    )


def _netloc(url: str) -> str:
    """Host and port of a URL; "" where there is none, or it is no URL (`//[`)."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX):
            found.setdefault(name, value)
    except ValueError as error:
        raise BodyError("the form has too many fields") from error
    return found


async def _body(request: Request) -> bytes:
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > BODY_BYTES_MAX:
            raise BodyError("the form is too long")
    return found
