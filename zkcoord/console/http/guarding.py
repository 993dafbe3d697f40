"""What every request passes, and every answer carries: whose name it was asked by, its size, and
what a browser may do with it.

Pages come from one host, run one script of ours, and nothing that is written in them: a text that
somebody has made a name of stays a text even if it were not escaped.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zkcoord.coordinator.http.host_names import HostNames

TARGET_BYTES_MAX = 8 * 1024
METHODS = ("GET", "HEAD")
ACTING = ("act", "sign-in", "sign-out")
"""Addresses that take forms, where readers may act."""

HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        b" connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    # "no-referrer" would have browsers say that forms come from nowhere
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}
MISDIRECTED = "this console has no such name: ask by its address, or name it with --http-names"


class Guarded:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, names: HostNames, may_act: bool = False) -> None:
        self._app = app
        self._names = names
        self._forms = {f"/{name}" for name in ACTING} if may_act else set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _guarded(message.get("headers", ()))
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, sent)
        else:
            await self._app(scope, receive, sent)

    def _refusal(self, scope: MutableMapping[str, Any]) -> PlainTextResponse | None:
        hosts = [v.decode("latin-1") for k, v in scope["headers"] if k == b"host"]
        if not self._names.serve(hosts):
            return PlainTextResponse(MISDIRECTED + "\n", 421)
        is_form = scope["method"] == "POST" and scope["path"] in self._forms
        if scope["method"] not in METHODS and not is_form:
            allowed = {"allow": ", ".join(METHODS)}
            return PlainTextResponse("only GET and HEAD are answered here\n", 405, allowed)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > TARGET_BYTES_MAX:
            return PlainTextResponse("the address is too long\n", 414)
        return None


def _guarded(headers: Any) -> list[tuple[bytes, bytes]]:
    found = [(k, v) for k, v in headers if k.lower() not in HEADERS]
    if not any(k.lower() == b"cache-control" for k, _ in found):
        found.append((b"cache-control", b"no-store"))
    return [*found, *HEADERS.items()]
