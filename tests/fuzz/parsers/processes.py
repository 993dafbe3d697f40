"""What other processes say: guarded ones, assignors, whoever asks by HTTP."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request

from tests.fuzz.harness import Harness, equal, holds, outcome, text_of
from tests.fuzz.parsers.nodes import STRANGE
from zkcoord.assignors import frames
from zkcoord.console.acting.readers import NAME_CHARS_MAX, Readers, plain_address
from zkcoord.console.http.acting import FIELDS_MAX, BodyError, _comes_from_here, _fields
from zkcoord.console.http.guarding import Guarded
from zkcoord.console.http.serving import parse_listen
from zkcoord.coordinator.http.host_names import HostNames
from zkcoord.coordinator.http.places import Places
from zkcoord.coordinator.http.server import HEAD_BYTES_MAX, _Handler, document, sentence
from zkcoord.core.assignment import Assignment, AssignmentInput
from zkcoord.core.error_codes import EndKind, MembershipEnd, parse_end
from zkcoord.core.model import Thread, TopicPartition
from zkcoord.demo.processes import parsed
from zkcoord.errors import ConfigurationError
from zkcoord.guardian import handover
from zkcoord.guardian.handover import (
    PASSWORD_BYTES_MAX,
    SESSIONS_MAX,
    Forget,
    Handover,
    Inbox,
    MalformedLine,
    Stop,
    TlsOptions,
    Watch,
)
from zkcoord.stack.java import parse_major

STATUSES = {200, 400, 404, 405, 414, 421, 431, 505}


def handed_over(data: bytes) -> None:
    """What is read is a message within its bounds, and says the same once it is written again."""
    found = handover.parse(data)
    holds(isinstance(found, Watch | Forget | Stop | MalformedLine), found)
    if isinstance(found, Watch):
        session = found.handover
        holds(0 < session.timeout_ms < 2**31 and 0 < session.session_id < 2**64, session)
        holds(0 < len(session.password) <= PASSWORD_BYTES_MAX, session)
        holds(bool(session.servers), session)
        holds(all(host and 0 < port < 65_536 for host, port in session.servers), session)
        line = handover.encode_watch(found.key, session).rstrip(b"\n")
        again = handover.parse(line)
        if len(line) < handover.MESSAGE_BYTES_MAX - 300:
            holds(isinstance(again, Watch), again)
            equal(seen(again.handover), seen(session))  # type: ignore[union-attr]


def seen(session: Handover) -> tuple[object, ...]:
    tls = session.tls and session.tls.key()
    return session.session_id, session.password, session.servers, tls, session.report_path


def inbox(data: bytes) -> None:
    """What comes in pieces is what comes at once."""
    whole, parts = Inbox(), Inbox()
    whole.feed(data)
    step = 1 + (data[0] if data else 0)
    for at in range(0, len(data), step):
        parts.feed(data[at : at + step])
    equal(list(whole.sessions), list(parts.sessions))
    equal((whole.stopped, whole.malformed), (parts.stopped, parts.malformed))
    holds(len(whole.sessions) <= SESSIONS_MAX, len(whole.sessions))


def assignors_answer(data: bytes) -> None:
    """An assignment that can be written again, or one sentence."""
    found = frames.decode_answer(data)
    if isinstance(found, str):
        holds(found.isprintable() and len(found) <= 2 * frames.FAILURE_CHARS_MAX, found)
        return
    again = frames.decode_answer(frames.encode_answer(found))
    holds(isinstance(again, Assignment), again)
    equal(dict(again.targets), dict(found.targets))  # type: ignore[union-attr]
    equal(again.unassigned, tuple(sorted(found.unassigned)))  # type: ignore[union-attr]


REFUSED_REQUEST = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)


def assignors_request(data: bytes) -> None:
    """A coordinator's own; what else comes ends the child with an error of these."""
    error = outcome(partial(frames.decode_request, data))
    holds(error is None or isinstance(error, REFUSED_REQUEST), error)
    if len(data) >= frames.HEADER.size:
        length = frames.body_bytes(data[: frames.HEADER.size])
        holds(-1 <= length < 2**32, length)


class _Connection:
    """A socket that has received this, and nothing more comes."""

    def __init__(self, data: bytes) -> None:
        self.received, self.sent = io.BytesIO(data), io.BytesIO()

    def settimeout(self, seconds: float) -> None:
        """Nothing waits here."""

    def recv(self, size: int) -> bytes:
        return self.received.read(size)

    def makefile(self, mode: str, buffering: int = -1) -> io.BytesIO:
        return self.received

    def sendall(self, data: bytes) -> None:
        self.sent.write(data)


def respond(path: str) -> Any:
    return document({"path": path}) if path == "/groups" else sentence(HTTPStatus.OK, path)


class _Server:
    """As much of a server as a request asks for."""

    hosts = HostNames(("here.example",))

    def __init__(self) -> None:
        self.places = Places()
        self.respond = respond


def http_request(data: bytes) -> None:
    """One answer or none; no page, no name of ours in it that the client has written."""
    connection, server = _Connection(data), _Server()
    server.places.waits(connection, "1.2.3.4")  # type: ignore[arg-type]
    _Handler(connection, ("1.2.3.4", 5), server)  # type: ignore[arg-type]
    answer = connection.sent.getvalue()
    if not answer:
        return
    first, _, rest = answer.partition(b"\r\n")
    status = int(first.split()[1]) if first.startswith(b"HTTP/1.") else 200
    holds(status in STATUSES or status == 503, first)
    holds(len(answer) < HEAD_BYTES_MAX + 2_000 and b"Traceback" not in rest, answer)


def host_header(data: bytes) -> None:
    """A name that is served is one of ours, or an address; one with two is served to nobody."""
    names = HostNames(("here.example", "::1"))
    given = [one.decode("latin-1") for one in data.split(b"\n")]
    served = names.serve(given)
    holds(not served or len(given) == 1, given)
    if served:
        host = given[0].strip().lower()
        ours = any(one in host for one in ("here.example", "localhost"))
        holds(ours or any(c in host for c in ".:"), given)
        holds(names.serve([f" {given[0]} "]), given)


def form(data: bytes) -> None:
    """A form's fields, of which there are not too many."""
    try:
        found = _fields(data.decode("utf-8", "replace"))
    except BodyError:
        return
    holds(len(found) <= FIELDS_MAX, len(found))
    for name, value in found.items():
        holds(isinstance(name, str) and isinstance(value, str), name)


def console_request(data: bytes) -> None:
    """What a console refuses before it looks at an address, and where a form says it is from."""
    lines = [line.partition(b":") for line in data.split(b"\n")]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in lines[1:]]
    path = lines[0][0] or b"/"
    scope = {
        "type": "http",
        "method": "POST" if data[:1] == b"P" else "GET",
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": lines[0][2],
        "headers": headers,
        "client": ("1.2.3.4", 5),
    }
    guarded = Guarded(lambda *given: None, HostNames(("here.example",)), True)  # type: ignore[arg-type,return-value]
    refusal = guarded._refusal(scope)
    holds(refusal is None or refusal.status_code in (405, 414, 421), refusal)
    request = Request(scope)
    here = _comes_from_here(request)
    hosts = Headers(raw=headers).getlist("origin")
    holds(here in (True, False) and (not hosts or len(hosts) < 2 or not here or has_site(headers)))
    reader = Readers("", "x-user", frozenset({"1.2.3.4"}), lambda: 0)
    who = reader.of_proxy("1.2.3.4", request.headers.getlist("x-user"))
    holds(who is None or (who.name.isprintable() and len(who.name) <= NAME_CHARS_MAX), who)


def has_site(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"sec-fetch-site" for name, _ in headers)


def listening(data: bytes) -> None:
    text = text_of(data)
    try:
        host, port = parse_listen(text)
    except ConfigurationError:
        return
    holds(bool(host) and 0 <= port < 65_536, host, port)
    error = outcome(partial(plain_address, host))
    holds(error is None or isinstance(error, ValueError), error)


def told_end(data: bytes) -> None:
    """Why a membership ended, as a registration says it."""
    found = parse_end(text_of(data))
    if found is not None:
        equal(parse_end(str(found)), found)
        holds(found.ms >= 0 and str(found.kind.value) in text_of(data), found)


def child_line(data: bytes) -> None:
    """A line of the demo's children, and a Java's word about its version."""
    found = parsed(data)
    holds(found is None or isinstance(found, Mapping), found)
    major = parse_major(text_of(data))
    holds(major is None or major >= 0, major)


SESSION = Handover(7, b"secret", 6_000, [("h", 2181), ("::1", 1)], TlsOptions("/ca"), "/r")
LINE = handover.encode_watch(3, SESSION)
GIVEN = AssignmentInput({"m": {"t": 1}}, {"t": (0, 1)}, {TopicPartition("t", 0): Thread("m", 0)})
ASSIGNED = Assignment({TopicPartition("t", 0): Thread("m", 0)}, (TopicPartition("t", 1),))
GET = b"GET /live HTTP/1.1\r\nHost: here.example\r\n\r\n"
WATCH_WORDS = (
    b" tls= ",
    b" tls=",
    b" tls=11",
    b" tls_ca_file=2f",
    b" report=2f",
    b" server=h:1",
    b" key=1",
)
HTTP_WORDS = (b"Host: ", b"HTTP/1.0", b"HEAD ", b"\r\n", b"/groups?a=b", b"Expect: 100-continue")
PAGE = (
    b"/act:do=1\nhost: here.example\norigin: http://here.example\nx-user: me\nsec-fetch-site: none"
)
HARNESSES = (
    Harness(
        "handover",
        ("zkcoord.guardian.handover:parse",),
        handed_over,
        lambda: [LINE.rstrip(b"\n"), handover.encode_forget(3).rstrip(b"\n"), b"stop"],
        WATCH_WORDS,
    ),
    Harness(
        "handover-inbox",
        ("zkcoord.guardian.handover:Inbox.feed",),
        inbox,
        lambda: [LINE * 3, LINE + handover.encode_forget(3) + handover.encode_stop(), b"x\n" * 9],
        (*WATCH_WORDS, b"\n"),
    ),
    Harness(
        "assignor-answer",
        ("zkcoord.assignors.frames:decode_answer",),
        assignors_answer,
        lambda: [frames.encode_answer(ASSIGNED), json.dumps({"failure": "no"}).encode(), *STRANGE],
        (b'"targets":', b'"unassigned":', b'"user_data":', b'"failure":', b"NaN", b"1e999"),
    ),
    Harness(
        "assignor-request",
        ("zkcoord.assignors.frames:decode_request", "zkcoord.assignors.frames:body_bytes"),
        assignors_request,
        lambda: [frames.encode_request("a", GIVEN), frames.frame(b"{}")],
    ),
    Harness(
        "http-request",
        ("zkcoord.coordinator.http.server:_Handler.parse_request",),
        http_request,
        lambda: [
            GET,
            GET.replace(b"/live", b"/metrics"),
            b"GET /\r\n\r\n",
            b"POST / HTTP/1.1\r\n\r\n",
        ],
        HTTP_WORDS,
    ),
    Harness(
        "host-header",
        ("zkcoord.coordinator.http.host_names:HostNames.serve",),
        host_header,
        lambda: [b"here.example:80", b"[::1]:5", b"127.0.0.1", b"a.localhost.", b"x\ny"],
        (b"localhost", b"[", b"]", b":", b"%25", b"here.example"),
        bytes_max=300,
    ),
    Harness(
        "console-form",
        ("zkcoord.console.http.acting:_fields",),
        form,
        lambda: [b"do=pause&name=g&proof=ab%20c", b"a=1&" * 60, b"=&=&%ff=+"],
        (b"&", b"=", b"%", b";", b"+"),
    ),
    Harness(
        "console-request",
        (
            "zkcoord.console.http.guarding:Guarded._refusal",
            "zkcoord.console.http.acting:_comes_from_here",
            "zkcoord.console.acting.readers:Readers.of_proxy",
        ),
        console_request,
        lambda: [PAGE, b"P" + PAGE, PAGE.replace(b"http://", b"//[")],
        (b"\nhost: ", b"\norigin: ", b"\nx-user: ", b"\nsec-fetch-site: ", b"://[", b"]"),
        bytes_max=10_000,
    ),
    Harness(
        "listen-address",
        (
            "zkcoord.console.http.serving:parse_listen",
            "zkcoord.console.acting.readers:plain_address",
        ),
        listening,
        lambda: [b"127.0.0.1:9407", b"[::1]:9407", b"[::ffff:1.2.3.4]:1"],
        bytes_max=100,
    ),
    Harness(
        "membership-end",
        ("zkcoord.core.error_codes:parse_end",),
        told_end,
        lambda: [str(MembershipEnd(kind, 5)).encode() for kind in EndKind],
        (b" ", b"0", "\u0663".encode(), b"9" * 20),
        bytes_max=100,
    ),
    Harness(
        "child-line",
        ("zkcoord.demo.processes:parsed", "zkcoord.stack.java:parse_major"),
        child_line,
        lambda: [b'{"event":"start","t":5}\n', b'openjdk version "17.0.15"', b'version "1.8.0"'],
        (b'version "', b"1." + b"9" * 20, b"[" * 1_200),
    ),
)
