"""A small HTTP server that only answers questions: GET /live /ready /metrics /groups, nothing that
changes anything.

It is not meant for strangers (no authentication, loopback by default), but must survive them. So,
before the standard library's parser sees a byte: the request's head complete within
`REQUEST_DEADLINE_MS` in all and within `HEAD_BYTES_MAX`; one request per connection; an answer that
is not taken within `ANSWER_DEADLINE_MS` is dropped; and a limited number of each, one after the
other, with room kept for /live and /ready (`places`): one too many is answered 503, or not at all.
Bodies are not read. Errors are one plain sentence, never a stack trace. Nothing of a request is
logged but method, path (escaped) and status, at debug level.

What a path answers comes from the owner: `answer(path)` runs on a thread of the server and returns
an `HttpAnswer`.
"""

from __future__ import annotations

import errno
import http.server
import io
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from http import HTTPStatus
from typing import Any

import orjson

from zkcoord.coordinator.http.host_names import HostNames
from zkcoord.coordinator.http.parked import ParkedConnections
from zkcoord.coordinator.http.places import Places
from zkcoord.core.value_type import value
from zkcoord.errors import ConfigurationError, UnavailableError
from zkcoord.zk.clock import boot_ms

log = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8 * 1024
REQUEST_DEADLINE_MS = 5_000
ANSWER_DEADLINE_MS = 10_000
RECEIVE_BYTES = 4_096
STOP_POLL_S = 0.25
WHERE_MANY_ARE_PARKED_S = 0.002
PATHS = ("/live", "/ready", "/metrics", "/groups")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NOT_ANSWERED = (FutureTimeoutError, TimeoutError, CancelledError)


@value
class HttpAnswer:
    """What to send."""

    status: HTTPStatus
    content_type: str
    body: bytes


def sentence(status: HTTPStatus, text: str) -> HttpAnswer:
    """An answer in words."""
    return HttpAnswer(status, "text/plain; charset=utf-8", text.encode() + b"\n")


def document(value: Any) -> HttpAnswer:
    """An answer of JSON."""
    return HttpAnswer(
        HTTPStatus.OK,
        "application/json",
        orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2) + b"\n",
    )


TOO_MANY = sentence(
    HTTPStatus.SERVICE_UNAVAILABLE, "too many others are being answered: ask again later"
)
Respond = Callable[[str], HttpAnswer]
MISDIRECTED = sentence(
    HTTPStatus.MISDIRECTED_REQUEST,
    "this server has no such name: ask by its address, or name it with --http-names",
)


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection, one request."""

    server: HttpServer
    protocol_version = "HTTP/1.1"
    server_version = "zkcoord"
    sys_version = ""

    def setup(self) -> None:
        """Take the whole head first, under the limits; the parser then reads from memory."""
        super().setup()
        self.head = self._head()
        if not self.server.places.heard(self.connection):
            self.head = None

    def _head(self) -> bytes | HTTPStatus | None:
        until_ms = boot_ms() + REQUEST_DEADLINE_MS
        taken = b""
        while b"\r\n\r\n" not in taken and b"\n\n" not in taken:
            left_ms = until_ms - boot_ms()
            if len(taken) > HEAD_BYTES_MAX:
                return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            if left_ms <= 0:
                return HTTPStatus.REQUEST_TIMEOUT
            self.connection.settimeout(left_ms / 1000)
            try:
                more = self.connection.recv(RECEIVE_BYTES)
            except TimeoutError:
                return HTTPStatus.REQUEST_TIMEOUT
            except OSError:
                return None
            if not more:
                return None
            taken += more
        return taken if len(taken) <= HEAD_BYTES_MAX else HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE

    def handle(self) -> None:
        """Answer, or say what was wrong."""
        self.close_connection = True
        self.connection.settimeout(ANSWER_DEADLINE_MS / 1000)
        try:
            if isinstance(self.head, HTTPStatus):
                self.requestline, self.request_version, self.command = "", "HTTP/1.1", ""
                self.refuse(
                    sentence(
                        self.head,
                        f"the request's head must be complete within {REQUEST_DEADLINE_MS} ms and"
                        f" {HEAD_BYTES_MAX} bytes",
                    )
                )
            elif self.head is not None:
                self.rfile = io.BufferedReader(io.BytesIO(self.head))
                self.handle_one_request()
                self.close_connection = True
        except OSError:
            log.debug("a client went away before it had its answer")

    def parse_request(self) -> bool:
        """As the standard library's; and whether the request is meant for this server at all."""
        if not super().parse_request():
            return False
        if self.server.hosts.serve(self.headers.get_all("Host") or ()):
            return True
        self.refuse(MISDIRECTED)
        return False

    def do_GET(self) -> None:
        """The only method."""
        path = self.path.partition("?")[0]
        if path not in PATHS:
            self.refuse(sentence(HTTPStatus.NOT_FOUND, f"there is only {' '.join(PATHS)}"))
            return
        with self.server.places.place(path, self.client_address[0]) as free:
            if free:
                self.send_answer(self._answer(path))
        if not free:
            self.refuse(TOO_MANY)

    def _answer(self, path: str) -> HttpAnswer:
        try:
            return self.server.respond(path)
        except NOT_ANSWERED:
            return sentence(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the process does not answer in time, or is about to end",
            )

    def refuse(self, answer: HttpAnswer) -> None:
        """Say why, in turn."""
        if self.server.places.refuses():
            self.send_answer(answer)
        else:
            self.server.parked.park(self.connection)

    def send_answer(self, answer: HttpAnswer) -> None:
        """Head and body, and the end of the connection."""
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library's parser refuses: other methods, bad requests, long lines."""
        status = (
            HTTPStatus.METHOD_NOT_ALLOWED
            if code == HTTPStatus.NOT_IMPLEMENTED
            else HTTPStatus(code)
        )
        self.close_connection = True
        self.refuse(
            sentence(
                status,
                (
                    "only GET is answered"
                    if status is HTTPStatus.METHOD_NOT_ALLOWED
                    else status.phrase.lower()
                ),
            )
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged above debug level."""
        log.debug("http %s", ascii(format % args))


class HttpServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves `respond` until `stop`. `port` is the one in use."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, respond: Respond, names: Collection[str] = ()) -> None:
        """`names`: what clients may call it beside `host`, loopback's names and any address.
        Raises `ConfigurationError` when the address cannot be served on, `UnavailableError` where
        another process has it, which may be about to end.
        """
        self.hosts = HostNames((host, *names))
        self.respond = respond
        self.places = Places()
        self.parked = ParkedConnections(super().shutdown_request)
        try:
            self.address_family, address = _resolve(host, port)
            super().__init__(address, _Handler)
        except (OSError, UnicodeError) as error:
            in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            raise (UnavailableError if in_use else ConfigurationError)(
                f"HTTP cannot be served on {host}:{port}"
                f" ({getattr(error, 'strerror', '') or error}): give another --http-host or"
                " --http-port, or --no-http"
            ) from error
        self.port: int = self.server_address[1]
        self._thread = threading.Thread(
            target=self.serve_forever, args=(STOP_POLL_S,), name="zkcoord-http", daemon=True
        )

    def start(self) -> None:
        """Serve on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections; those under way end by themselves."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()
        self.parked.close_all()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the connection; when too many wait, one of them is dropped."""
        if self.parked.are_many:
            time.sleep(WHERE_MANY_ARE_PARKED_S)
        self.places.waits(request, client_address[0])
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # there is no thread for it
            self.places.heard(request)
            raise

    def service_actions(self) -> None:
        """After each connection, and from time to time."""
        self.parked.close_due()

    def shutdown_request(self, request: Any) -> None:
        """A connection is over, unless it is kept for a while."""
        if not self.parked.was_parked(request):
            super().shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, on its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.heard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An error that should not happen, in one connection's thread: logged, the others go on."""
        log.exception(  # noqa: LOG004  socketserver calls this where it catches the error
            "an HTTP request ended with an error that should not happen"
        )


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return found[0][0], found[0][4][:2]
