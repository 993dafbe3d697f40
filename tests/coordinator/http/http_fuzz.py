"""Junk for the HTTP endpoint, over real sockets, from several clients at once: `python -m
tests.coordinator.http.http_fuzz --inputs 100000`.

Mutated requests, random bytes, heads that are too large or never complete, paths in every encoding,
clients that say nothing, that send byte by byte, that go away in the middle or do not take their
answer. Every input is drawn from the seed. Held after each: an answer is HTTP of a known status (or
there is none, where the client was rude), and no answer has a trace in it. Held at the end: the
server serves, no request ended with an error that should not happen, no thread and no descriptor is
left, and memory has not grown.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus

import psutil

from tests.harness.wait import wait_until
from zkcoord.coordinator.http import server as http
from zkcoord.coordinator.http.server import HttpAnswer, HttpServer, document, sentence

INPUTS = 1_000
CLIENTS = 8
PATIENCE_S = 120.0
DEADLINE_MS = 300
GROWTH_MIB_MAX = 48.0
AT_ONCE = 500
STATUSES = frozenset({100, 200, 400, 404, 405, 408, 414, 421, 431, 503, 505})
BIG = document({"groups": [{"group": f"group-{n}", "state": "Stable"} for n in range(2_000)]})
WHOLE = b"GET /live HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"


def respond(path: str) -> HttpAnswer:
    """What the server under test answers."""
    return BIG if path == "/groups" else sentence(HTTPStatus.OK, "live")


@dataclass
class Outcome:
    """What became of all inputs. `wrong`: sentences about answers that should not be."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    growth_mib: float = 0.0


def mutated(rng: random.Random) -> bytes:
    """A request with bytes changed, left out, put in, repeated."""
    data = bytearray(
        rng.choice(
            (
                WHOLE,
                WHOLE.replace(b"/live", b"/groups"),
                b"GET /metrics HTTP/1.0\r\n\r\n",
                b"POST /live HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            )
        )
    )
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randint(1, 6)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 6))
        else:
            data[at:at] = data[at : at + rng.randint(1, 20)] * rng.randint(1, 50)
    return bytes(data)


def noise(rng: random.Random) -> bytes:
    """Bytes of any kind and size, some of them with the end of a head."""
    return rng.randbytes(rng.choice((0, 1, 10, 1_000, 20_000))) + rng.choice(
        (b"", b"\r\n\r\n", b"\n\n")
    )


def heads(rng: random.Random) -> bytes:
    """Headers: very many, very long, without a colon, folded, with control characters; around the
    limit of a head.
    """
    lines = rng.choice(
        (
            [b"X-%d: y" % n for n in range(rng.choice((5, 99, 101, 500)))],
            [b"X: " + b"a" * rng.choice((10, 8_000, 8_100, 8_192, 9_000, 70_000))],
            [b"no colon"],
            [b": empty"],
            [b"X: a", b" folded", b"\tmore"],
            [b"X: \x00\x01\x7f"],
            [b"Content-Length: -1"],
            [b"Content-Length: 99999999999999999999"],
            [b"Transfer-Encoding: chunked"],
            [b"Expect: 100-continue"],
            [b"Connection: keep-alive"],
            [b"\xff\xfe: \xff"],
        )
    )
    return b"GET /live HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n"


def paths(rng: random.Random) -> bytes:
    """Paths, methods and versions in every spelling."""
    text = rng.choice(
        (
            "/live",
            "/groups",
            "/%6cive",
            "/live%00",
            "//live",
            "/./live",
            "/../../etc/passwd",
            "/groups?" + "a=b&" * 500,
            "http://x/live",
            "*",
            "/l\u0456ve",
            "/\U0001f600",
            "/live#x",
            "/" + "\u00e9" * 3_000,
            "",
        )
    )
    encoded = text.encode(rng.choice(("utf-8", "utf-16", "utf-7", "utf-32-be")), "replace")
    method = rng.choice((b"GET", b"GET", b"GET", b"get", b"PUT", b"\xf0\x9f\x98\x80", b"G" * 5_000))
    return (
        method
        + b" "
        + encoded
        + rng.choice(
            (
                b" HTTP/1.1",
                b" HTTP/1.0",
                b" HTTP/2",
                b" HTTP/1.",
                b" HTTP/9.9",
                b" HTTP/1.1.1",
                b" HTTP/\xd9\xa1.\xd9\xa1",
                b"",
                b" x y",
            )
        )
        + b"\r\n\r\n"
    )


def whole(_: random.Random) -> bytes:
    """As it should be."""
    return WHOLE


MAKERS: tuple[Callable[[random.Random], bytes], ...] = (
    mutated,
    mutated,
    noise,
    heads,
    paths,
    whole,
)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def answer_of(client: socket.socket) -> bytes:
    """All that comes until the end."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while more := client.recv(65_536):
            found += more
    return found


def politely(port: int, rng: random.Random, data: bytes) -> bytes:
    """Send it, in one piece or in many, and take the answer."""
    with connect(port) as client:
        # it may have been answered and closed before it was all sent: a reset, a broken pipe, not
        # connected any more
        with contextlib.suppress(OSError):
            step = rng.choice(
                (len(data), len(data), 1 + len(data) // 7, 1 if len(data) < 200 else len(data))
            )
            for at in range(0, len(data), max(1, step)):
                client.sendall(data[at : at + max(1, step)])
            client.shutdown(socket.SHUT_WR)
        return answer_of(client)


def rudely(port: int, rng: random.Random, data: bytes) -> bytes:
    """Go away in the middle, with or without a reset; ask for much and take nothing; say nothing
    until the deadline.
    """
    kind = rng.randrange(20)
    with connect(port) as client:
        if kind == 0:
            return answer_of(client)
        with contextlib.suppress(OSError):
            client.sendall(
                b"GET /groups HTTP/1.1\r\n\r\n"
                if kind < 6
                else data[: rng.randrange(len(data) + 1)]
            )
        if kind % 2:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return b""


def judged(data: bytes, answer: bytes) -> tuple[int, str]:
    """The status (0: none), and what is wrong with it."""
    if not answer:
        return 0, ""
    if b"Traceback" in answer or b'File "' in answer:
        return 0, f"a trace after {data[:200]!r}"
    if not answer.startswith(b"HTTP/1."):  # to a request without a version there is no head
        known = (b"live\n", BIG.body)
        return 0, (
            ""
            if answer in known or answer.count(b"\n") == 1
            else f"{answer[:100]!r} after {data[:200]!r}"
        )
    status = int(answer[9:12])
    return status, "" if status in STATUSES else f"status {status} after {data[:200]!r}"


def one(port: int, seed: int) -> tuple[int, str]:
    """One input."""
    rng = random.Random(seed)
    data = rng.choice(MAKERS)(rng)
    return judged(data, (rudely if rng.random() < 0.15 else politely)(port, rng, data))


class Alarms(logging.Handler):
    """What the server itself takes for a defect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.heard.append(self.format(record))


@contextlib.contextmanager
def short_deadlines() -> Iterator[None]:
    """Silent clients are waited for shortly: there are many of them."""
    before, http.REQUEST_DEADLINE_MS = http.REQUEST_DEADLINE_MS, DEADLINE_MS
    try:
        yield
    finally:
        http.REQUEST_DEADLINE_MS = before


def run(inputs: int, seed: int, respond: Callable[[str], HttpAnswer] = respond) -> Outcome:
    """Send so many inputs."""
    outcome, alarms, process = Outcome(), Alarms(), psutil.Process()
    logger = logging.getLogger("zkcoord.coordinator.http.server")
    logger.addHandler(alarms)
    server = HttpServer("127.0.0.1", 0, respond)
    server.start()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    try:
        with short_deadlines():
            before = 0
            with ThreadPoolExecutor(CLIENTS) as pool:
                for first in range(0, inputs, AT_ONCE):  # a pool keeps all that it was given
                    for status, wrong in pool.map(
                        lambda n: one(server.port, seed * 1_000_003 + n),
                        range(first, min(first + AT_ONCE, inputs)),
                    ):
                        outcome.statuses[status] += 1
                        outcome.wrong += [wrong] if wrong else []
                    before = before or process.memory_info().rss
            wait_until(
                lambda: threading.active_count() <= threads,
                PATIENCE_S,
                "the connections' threads to end",
            )
            wait_until(
                lambda: len(os.listdir("/proc/self/fd")) <= descriptors,
                PATIENCE_S,
                "the descriptors to be closed",
            )
        # with the usual deadline again: a pause of this machine is nobody's fault
        with connect(server.port) as client:
            client.sendall(WHOLE)
            if not answer_of(client).startswith(b"HTTP/1.1 200"):
                outcome.wrong.append("a request as it should be is not served any more")
        outcome.growth_mib = (process.memory_info().rss - before) / 2**20
    finally:
        server.stop()
        logger.removeHandler(alarms)
    outcome.wrong += alarms.heard
    if outcome.growth_mib > GROWTH_MIB_MAX:
        outcome.wrong.append(
            f"memory has grown by {outcome.growth_mib:.0f} MiB, {GROWTH_MIB_MAX:.0f} are allowed"
        )
    return outcome


def main() -> int:
    """0 when nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.coordinator.http.http_fuzz")
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    args = parser.parse_args()
    started = time.monotonic()
    outcome = run(args.inputs, args.seed)
    statuses = ", ".join(
        f"{status or 'none'} {count}" for status, count in sorted(outcome.statuses.items())
    )
    sys.stdout.write(
        f"seed {args.seed}: {args.inputs} inputs in {time.monotonic() - started:.0f} s; answers:"
        f" {statuses}; memory {outcome.growth_mib:+.1f} MiB\n"
    )
    for sentence_ in outcome.wrong[:20]:
        sys.stdout.write(f"wrong: {sentence_}\n")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
