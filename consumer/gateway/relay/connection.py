"""One client's connection and the connection to a broker behind it.

Requests are split into frames; of each only the head is read, unless it is one that is answered
here or whose answer is rewritten. Everything else goes on as it comes, piece by piece, and so do
answers: no body of either direction is put together. Answers leave in the order of the requests,
whoever gives them: the queue of what is expected says whose turn it is, and a broker that answers
before its turn is not read from.

Back-pressure: a client that does not read stops the reading from its broker, and the reverse. Nor
is such a client read itself, or one of which much is held (`Held`): of requests that wait here
for their answers, and of answers that wait for their turn.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable

from consumer.gateway import frames
from consumer.gateway.frames import BadFrameError, Head
from consumer.gateway.operation.figures import RelayFigures
from consumer.gateway.relay.acks import front_of
from consumer.gateway.relay.broker import (
    HIGH_WATER,
    BrokerAwayError,
    BrokerConnection,
    close_now,
    close_soon,
    reach,
)
from consumer.gateway.relay.expected import (
    IDLE_S,
    Brake,
    Expected,
    Held,
    never_answered,
    taken,
    waiting_at,
    waits_for_none,
)
from consumer.gateway.relay.host import Host
from consumer.gateway.relay.login import LOGIN_S, ClientLogin
from consumer.gateway.relay.rewriting import REWRITTEN, BadAnswerError, rewritten
from consumer.gateway.relay.software import is_serial, other_protocol, software_of
from consumer.gateway.rights.permitted import Permitted
from consumer.gateway.turns import Turns

log = logging.getLogger(__name__)

EXPECTED_MAX = 1_000
HELD_UP = "held up"
CLOSED = "the connection of %s (client %r) is closed: %s"
BEGIN_S = 30.0
"""Who has not asked anything by then, or leaves a request half sent for so long, is closed."""


class ClientConnection(asyncio.Protocol):
    """See the module."""

    def __init__(
        self, host: Host[ClientConnection], number: int, figures: RelayFigures | None = None
    ) -> None:
        self.host = host
        self.number = number
        self.figures = RelayFigures() if figures is None else figures
        self.peer = ""
        self.client_id = ""
        self.software = ""
        self.is_shared = False  # what waits here may keep the client from asking for records
        self._expected: deque[Expected] = deque()
        self.held = Held(self.figures)
        self._room = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._broker: BrokerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._in = bytearray()  # of the frame that comes: what is not yet split
        self._left = 0  # of one that passes
        self._answer = bytearray()  # of the broker's answers: the same
        self._answer_left = 0
        self._client_paused = Brake(self._client_stops, self._client_goes_on)
        self._broker_paused = Brake(self._broker_stops, self._broker_goes_on)
        self._holding: Head | None = None
        self._asked: set[asyncio.Future[bytes]] = set()
        self.permitted = Permitted()
        self.questions = self.figures.questions
        self.turns = Turns()
        self._half_since_s: float | None = None  # a request is awaited, or half there
        self._heard_s = time.monotonic()
        self._login = ClientLogin(host.demands_login)
        self._closing = False  # transports of TLS give data for a while after that
        self.left = False

    # the client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is here."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""
        self._half_since_s = time.monotonic()
        self.figures.accepted += 1
        if not self.host.admits(self):
            self.figures.turned_away += 1
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self._transport = None
        self._closing = True
        self.held.end()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._broker is not None:
            self._broker.close()
        for answer in tuple(self._asked):
            answer.cancel()
        self._room.set()
        self.host.closed(self)

    def pause_writing(self) -> None:
        """The client does not read: neither is it read, nor its broker."""
        self._broker_paused.by("client")
        self._client_paused.by("unread")

    def resume_writing(self) -> None:
        """It reads again."""
        self._broker_paused.no_more_by("client")
        self._client_paused.no_more_by("unread")
        self._room.set()

    def data_received(self, data: bytes) -> None:
        """Split what comes into frames, and pass on what is the broker's."""
        if self._closing:
            return None
        self.figures.from_clients += len(data)
        self._heard_s = time.monotonic()
        try:
            self._take(data)
        except BadFrameError as error:
            return self.drop(str(error))
        if self.held.half_there(0 if self._closing else len(self._in)):
            return self.drop("a large request while much is kept for all clients")
        if not self._in and not self._left:
            self._half_since_s = None
        elif self._half_since_s is None or self._left:
            self._half_since_s = time.monotonic()
        return None

    def drop_if_slow(self) -> None:
        """Close it where a request is half there for too long, and nothing of ours holds it up."""
        since = self._half_since_s
        if since is not None and not self._client_paused and time.monotonic() > since + BEGIN_S:
            self.drop(f"no whole request within {BEGIN_S:.0f} s")
        elif not (self._broker or self._expected) and time.monotonic() > self._heard_s + IDLE_S:
            self.drop(f"nothing asked for {IDLE_S:.0f} s")
        elif why := never_answered(self._expected):
            self.drop(why)
        elif self._login.is_overdue():
            self.drop(f"its broker has not accepted a login within {LOGIN_S:.0f} s")

    def eof_received(self) -> bool:
        """The client has said all: the connection ends."""
        return False

    def _take(self, data: bytes) -> None:
        if self._left and not self._in:
            part = data[: self._left]
            self._left -= len(part)
            self._to_broker(part)
            data = data[len(part) :]
            if not data:
                return
        self._in += data
        while self._in and not self._closing and HELD_UP not in self._client_paused:
            if not self._next_frame():
                return

    def _next_frame(self) -> bool:
        """Take what is at the beginning; False: more must come first."""
        if self._left:
            part = bytes(self._in[: self._left])
            del self._in[: len(part)]
            self._left -= len(part)
            self._to_broker(part)
            return self._left == 0
        if len(self._in) < 4:
            return False
        (length,) = struct.unpack_from(">i", self._in)
        if not 8 <= length <= self._login.frame_bytes_max(self.host.frame_bytes_max):
            what = other_protocol(bytes(self._in[:4])) or f"a frame of {length} bytes"
            raise BadFrameError(what)
        front = front_of(self._in, length)
        if front is None:
            return False
        head = front.head
        if len(self._expected) - len(self._asked) >= EXPECTED_MAX:
            raise BadFrameError(f"{EXPECTED_MAX} requests without an answer")
        self._login.check(head)
        self.client_id = head.client_id
        if front.whole is not None:
            del self._in[: 4 + length]
            self._serve(head, front.whole)
        else:
            self._pass(head, length, front.is_answered)
        return True

    def _serve(self, head: Head, frame: bytes) -> None:
        if head.key == frames.API_VERSIONS:
            self.software = software_of(head, frame)
            self.is_shared |= is_serial(self.software)
        answer = self.host.serve(self, head, frame)
        if answer is False:
            self._expect_brokers(head)
            self._to_broker(struct.pack(">i", len(frame)) + frame)
        elif answer is not True:
            ready = answer if answer else None
            expected = Expected(True, head, ready, since_s=time.monotonic())
            self._expected.append(expected)
            self._hold(expected, len(frame if ready is None else ready))
            self._flush()

    def _pass(self, head: Head, length: int, has_answer: bool) -> None:
        """Give it to the broker as it comes."""
        self.is_shared |= head.key == frames.FETCH
        self.host.passes(self, head)
        self.permitted.passed(head)
        if has_answer:
            self._expect_brokers(head)
        self._left = 4 + length

    def _expect_brokers(self, head: Head) -> None:
        is_read = head.key in REWRITTEN or self._login.reads(head)
        self._expected.append(Expected(False, head if is_read else None))

    def answer_later(self, head: Head, frame: bytes, codes: Iterable[int] = ()) -> None:
        """The answer to a request for which `serve` said None; `codes` that stand in it."""
        at = waiting_at(self._expected, head)
        if at is not None:
            expected = self._expected[at]
            expected.ready = frame
            self._hold(expected, len(frame))
            self.figures.answered(head.key, codes, time.monotonic() - expected.since_s)
        self.turns.answered(head)
        self._flush()

    def pass_on(self, head: Head, frame: bytes, after: Callable[[bytes], None]) -> None:
        """Ask the broker after all, and give its answer (without its length) to `after`, which
        makes another of it (`answer_later`). Called within `serve`, which then says True.
        """
        self._expected.append(Expected(False, head, None, after))
        self._to_broker(struct.pack(">i", len(frame)) + frame)

    def hold_up(self, head: Head) -> None:
        """Nothing more of the client is read until `go_on` of the same request: the broker may have
        to be asked before it is answered. Called within `serve`.
        """
        self._holding = head
        self._client_paused.by(HELD_UP)

    def go_on(self, head: Head) -> None:
        """See `hold_up`; of a request that holds up nothing, nothing."""
        if self._holding is head:
            self._holding = None
            self._client_paused.no_more_by(HELD_UP)
            self.data_received(b"")

    def ask(self, head: Head, frame: bytes, before: Head | None = None) -> asyncio.Future[bytes]:
        """Ask the broker something of our own, on the client's connection: its answer (without its
        length). Cancelled when the connection ends. Called within `serve`, or about the request
        `before`, which waits for its answer and has held up all others since.
        """
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        at = len(self._expected) if before is None else waiting_at(self._expected, before)
        if at is None or self._transport is None:
            answer.cancel()
            return answer
        self._asked.add(answer)
        answer.add_done_callback(self._asked.discard)
        self._expected.insert(at, Expected(False, head, asked=answer, since_s=time.monotonic()))
        self._to_broker(frame)
        if before is not None:
            self._flush()
        return answer

    async def room(self, head: Head) -> None:
        """Until the answer to a request that waits here may be made, however large it is: not while
        its client does not read, or many bytes wait for the turn of another one.
        """
        while not (self._closing or self._has_room(head)):
            self._room.clear()
            await self._room.wait()

    def _has_room(self, head: Head) -> bool:
        if "unread" in self._client_paused:
            return False
        return not self.held.is_much or self._expected[0].head is head

    def _hold(self, expected: Expected, size: int) -> None:
        """So many bytes are kept for it now."""
        self.held.keep(expected, size)
        if self.held.is_much:
            self._client_paused.by("held")
        else:
            self._client_paused.no_more_by("held")

    def _send_ready(self) -> None:
        while self._expected and self._expected[0].ours:
            ready = self._expected[0].ready
            if ready is None:
                break
            self._hold(self._expected.popleft(), 0)
            self._send(ready)
        self._room.set()

    def _flush(self) -> None:
        """Send the answers of ours whose turn it is, then let the broker's come."""
        self._send_ready()
        if self._expected and self._expected[0].ours:
            self._broker_paused.by("turn")
        else:
            self._broker_paused.no_more_by("turn")
            if self._answer:
                self._from_broker(b"")

    def _send(self, data: bytes | memoryview) -> None:
        if self._transport is not None and not self._closing:
            self.figures.to_clients += len(data)
            self._transport.write(data)

    def drop(self, why: str, level: int = logging.INFO) -> None:
        """End it, and say why."""
        log.log(level, CLOSED, self.peer, self.client_id[:80], why)
        self.close()

    def close(self) -> None:
        """End it."""
        self._end(at_once=bool(self._expected))

    def _end(self, at_once: bool) -> None:
        if self._transport is None or self._closing:
            return
        self._closing = True
        if at_once:
            close_now(self._transport)
        else:
            close_soon(self._transport)

    # the broker

    def _to_broker(self, data: bytes) -> None:
        self.figures.to_brokers += len(data)
        if self._broker is not None:
            self._broker.write(data)
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        if self._waiting_bytes > HIGH_WATER:
            self._client_paused.by("connecting")

    async def _connect(self) -> None:
        way, tls = self.host.upstream(), self.host.broker_tls()
        try:
            self._broker = broker = await reach(self, way, tls, self.figures)
        except BrokerAwayError as error:
            self.drop(str(error), logging.WARNING)
            return
        for data in self._waiting:
            broker.write(data)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._client_paused.no_more_by("connecting")
        if self._broker_paused:
            broker.pause()

    def broker_lost(self, why: str) -> None:
        """The broker closed the connection."""
        if not why and self._needs_no_broker():
            self._broker = self._connecting = None
            self.left = False
            return
        if why and not self._closing:
            self.drop(why)
        self._end(at_once=False)

    def _needs_no_broker(self) -> bool:
        """Whether a client that means no broker, and has just asked something, waits for none: the
        next request that is a broker's is another one's.
        """
        if self._left or self._answer or self._client_paused or self._closing:
            return False
        return waits_for_none(self._expected, self._heard_s) and self.host.means_no_broker()

    def broker_pauses(self) -> None:
        """The broker does not read."""
        self._client_paused.by("broker")

    def broker_resumes(self) -> None:
        """It reads again."""
        self._client_paused.no_more_by("broker")

    def from_broker(self, data: bytes) -> None:
        """Pass answers on, in the turn of each."""
        self.figures.from_brokers += len(data)
        try:
            self._from_broker(data)
        except BadAnswerError as error:
            self.drop(str(error))

    def _from_broker(self, data: bytes) -> None:
        if self._answer_left and not self._answer:
            part = data[: self._answer_left]
            self._answer_left -= len(part)
            self._send(part)
            data = data[len(part) :]
            if self._answer_left == 0:
                self._answered()
            if not data:
                return
        self._answer += data
        while self._answer and not self._closing:
            if not self._next_answer():
                return

    def _answered(self) -> None:
        self._expected.popleft()
        self._send_ready()
        if self._expected and self._expected[0].ours:
            self._broker_paused.by("turn")

    def _next_answer(self) -> bool:
        if self._answer_left:
            part = bytes(self._answer[: self._answer_left])
            del self._answer[: len(part)]
            self._answer_left -= len(part)
            self._send(part)
            if self._answer_left:
                return False
            self._answered()
            return True
        if not self._expected:
            raise BadAnswerError("the broker answers what nobody asked")
        expected = self._expected[0]
        if expected.ours or len(self._answer) < 4:
            return False
        (length,) = struct.unpack_from(">i", self._answer)
        if length < 4:
            raise BadAnswerError(f"the broker sends a frame of {length} bytes")
        if expected.head is None:
            self._answer_left = 4 + length
            return True
        frame = taken(self._answer, length, expected.head)
        if frame is None:
            return False
        if expected.asked is not None:
            if not expected.asked.done():
                expected.asked.set_result(frame)
            self._answered()
            return True
        if expected.after is not None:
            expected.ours = True
            self._broker_paused.by("turn")
            expected.after(frame)
            return False
        if expected.head.key in REWRITTEN:
            self._send(rewritten(expected.head, frame, self.host))
        else:
            self._login.answered(expected.head, frame)
            self._send(struct.pack(">i", length) + frame)
        self._answered()
        return True

    # back-pressure

    def _client_stops(self) -> None:
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def _client_goes_on(self) -> None:
        if self._transport is not None and not self._closing:
            if self._half_since_s is not None:
                self._half_since_s = time.monotonic()
            self._transport.resume_reading()

    def _broker_stops(self) -> None:
        if self._broker is not None:
            self._broker.pause()

    def _broker_goes_on(self) -> None:
        if self._broker is not None:
            self._broker.resume()
