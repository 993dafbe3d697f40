"""ZooKeeper's wire protocol, as far as closing somebody else's session needs it, and the loop that
does not give up too early.

Three frames, each a 4-byte length and a body, big-endian:

    > ConnectRequest   protocolVersion 0, lastZxidSeen 0, timeOut, sessionId, password, readOnly
                       false
    < ConnectResponse  protocolVersion, timeOut, sessionId, password, readOnly;  timeOut <= 0 or
                       another session id = the session is gone
    > closeSession     xid, opcode -11
    < reply            xid, zxid, error

A session may be taken over by any server of the ensemble: connecting with id and password moves it.
`lastZxidSeen` 0 lets a follower that lags serve us, which is right: a close goes through the leader
anyway. A reply that never comes leaves "closed or not?" open; the answer is to connect again: an
expired session is the proof that it is gone.

Ordering contract: `is_dead` is asked immediately before every attempt, not once: nobody's session
is closed on an old belief. Limits: an attempt takes at most `ATTEMPT_FIRST_MS` in the first round
over the servers and doubles with every round up to `ATTEMPT_MAX_MS`, so that one black hole costs
little at first and a slow network still works later. After `GIVE_UP_TIMEOUTS` session timeouts
ZooKeeper has expired the session by itself.
"""

from __future__ import annotations

import select
import socket
import struct
import time

from zkcoord.guardian.handover import Handover, TlsOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import Any

ATTEMPT_FIRST_MS = 250
ATTEMPT_MAX_MS = 4_000
BACKOFF_FIRST_MS = 20
BACKOFF_MAX_MS = 1_000
GIVE_UP_TIMEOUTS = 2
FRAME_BYTES_MAX = 1 << 20
FRAMES_SKIPPED_MAX = 1000

CLOSE_XID = 1
CLOSE_OPCODE = -11
ERROR_NAMES = {-112: "expired", -115: "sasl-required", -124: "sasl-required"}

# What became of a session. The first five are final, the others are one attempt's.
CLOSED = "closed"
EXPIRED = "expired"
SASL_REQUIRED = "sasl-required"
STILL_ALIVE = "still-alive"
GAVE_UP = "gave-up"
UNREACHABLE = "unreachable"
NOT_SERVING = "not-serving"
FINAL = frozenset((CLOSED, EXPIRED, SASL_REQUIRED, STILL_ALIVE, GAVE_UP))


class NotServing(Exception):
    """The server hung up or answered something that is no ZooKeeper reply; stays inside this
    module.
    """


class CloseResult:
    """What became of one session: outcome, the server it was said by (None = nobody), attempts
    made, milliseconds since closing began.
    """

    __slots__ = ("attempts", "elapsed_ms", "handover", "outcome", "server")

    def __init__(
        self,
        handover: Handover,
        outcome: str,
        server: tuple[str, int] | None,
        attempts: int,
        elapsed_ms: float,
    ) -> None:
        self.handover = handover
        self.outcome = outcome
        self.server = server
        self.attempts = attempts
        self.elapsed_ms = elapsed_ms


def connect_request(handover: Handover) -> bytes:
    """The frame that attaches to the session."""
    signed_id = (
        handover.session_id - (1 << 64) if handover.session_id >= 1 << 63 else handover.session_id
    )
    body = struct.pack(">iqiq", 0, 0, handover.timeout_ms, signed_id)
    body += struct.pack(">i", len(handover.password)) + handover.password + b"\0"
    return struct.pack(">i", len(body)) + body


def close_request() -> bytes:
    """The frame that closes the session."""
    return struct.pack(">iii", 8, CLOSE_XID, CLOSE_OPCODE)


def parse_connect_response(body: bytes) -> tuple[int, int]:
    """(negotiated timeout in ms, session id, unsigned); raises NotServing for anything else."""
    if len(body) < 20:
        raise NotServing("short connect response")
    _, timeout_ms, session_id = struct.unpack_from(">iiQ", body)
    return timeout_ms, session_id


def tls_context(tls: TlsOptions) -> ssl.SSLContext:
    """A client context for these options. Raises OSError (ssl.SSLError is one) for files that
    cannot be used.
    """
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    context.hostname_checks_common_name = False  # a name alone is believed nowhere (zkcoord.tls)
    try:
        if tls.ca_file is not None:
            context.load_verify_locations(cafile=tls.ca_file)
        elif tls.verify:
            context.load_default_certs()
        if tls.cert_file is not None:
            # without a password given, an encrypted key is an error; never a prompt on somebody's
            # terminal
            context.load_cert_chain(tls.cert_file, tls.key_file, password=tls.key_password or "")
    except ValueError as error:  # a NUL in a name, a password of a thousand characters
        raise OSError(f"the TLS files cannot be used: {error}") from error
    return context


def resolve(host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    """[(address family, socket address)]; a number costs no look-up; a name that does not resolve
    gives an empty list.
    """
    for flags in (socket.AI_NUMERICHOST, 0):
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
        except (OSError, UnicodeError):
            continue
        return [(family, address) for family, _, _, _, address in found]
    return []


class Closer:
    """Closes sessions of one dead process; addresses are looked up early, when there is time for
    it.
    """

    def __init__(self, is_dead: Callable[[], bool]) -> None:
        self._is_dead = is_dead
        self._addresses: dict[tuple[str, int], list[tuple[int, tuple[Any, ...]]]] = {}
        self._contexts: dict[tuple[str | bool | None, ...], ssl.SSLContext] = {}
        self._served_by: tuple[str, int] | None = None

    def prepare(self, handover: Handover) -> None:
        """Look up names and read TLS files now, so that death waits for neither; failures show
        again, and count, when closing.
        """
        for server in handover.servers:
            if not self._addresses.get(server):
                self._addresses[server] = resolve(*server)
        if handover.tls is not None:
            self._contexts.pop(handover.tls.key(), None)
            try:
                self._context(handover.tls)
            except OSError:
                return

    def close_all(self, handovers: list[Handover]) -> list[CloseResult]:
        """Close every session or find it closed; returns one final result for each, in the order
        they became final.
        """
        started = time.monotonic()
        attempts = dict.fromkeys(handovers, 0)
        results: list[CloseResult] = []
        pending = list(handovers)
        round_number = 0
        while pending:
            timeout_s = min(ATTEMPT_FIRST_MS << min(round_number, 16), ATTEMPT_MAX_MS) / 1000
            for handover in list(pending):
                outcome, server, tried = self._try_servers(
                    handover, timeout_s, fresh=round_number > 0
                )
                attempts[handover] += tried
                elapsed_ms = (time.monotonic() - started) * 1000
                if outcome not in FINAL and elapsed_ms > GIVE_UP_TIMEOUTS * handover.timeout_ms:
                    outcome = GAVE_UP
                if outcome in FINAL:
                    pending.remove(handover)
                    results.append(
                        CloseResult(handover, outcome, server, attempts[handover], elapsed_ms)
                    )
            if pending:
                time.sleep(min(BACKOFF_FIRST_MS << min(round_number, 16), BACKOFF_MAX_MS) / 1000)
            round_number += 1
        return results

    def _try_servers(
        self, handover: Handover, timeout_s: float, fresh: bool
    ) -> tuple[str, tuple[str, int] | None, int]:
        """One round over the servers, the one that served last first; (outcome, server,
        attempts).
        """
        servers = sorted(handover.servers, key=lambda server: server != self._served_by)
        outcome, tried = UNREACHABLE, 0
        if fresh:
            self._contexts.clear()  # certificates may have been replaced meanwhile
        for server in servers:
            if fresh or not self._addresses.get(server):
                self._addresses[server] = resolve(*server) or self._addresses.get(server, [])
            for family, address in self._addresses[server]:
                if not self._is_dead():
                    return STILL_ALIVE, None, tried
                tried += 1
                outcome = self._attempt(handover, server[0], family, address, timeout_s)
                if outcome in FINAL:
                    self._served_by = server
                    return outcome, server, tried
        return outcome, None, tried

    def _attempt(
        self,
        handover: Handover,
        host: str,
        family: int,
        address: tuple[str | int, ...],
        timeout_s: float,
    ) -> str:
        """One connection to one address."""
        deadline = time.monotonic() + timeout_s
        try:
            with socket.socket(family, socket.SOCK_STREAM) as raw:
                raw.settimeout(timeout_s)
                raw.connect(address)
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if handover.tls is None:
                    return _attach_and_close(raw, handover, deadline)
                with self._context(handover.tls).wrap_socket(raw, server_hostname=host) as wrapped:
                    return _attach_and_close(wrapped, handover, deadline)
        except NotServing:
            return NOT_SERVING
        except OSError:  # refused, timed out, cut, TLS refused
            return UNREACHABLE

    def _context(self, tls: TlsOptions) -> ssl.SSLContext:
        context = self._contexts.get(tls.key())
        if context is None:
            context = self._contexts[tls.key()] = tls_context(tls)
        return context


def _attach_and_close(connection: socket.socket, handover: Handover, deadline: float) -> str:
    """Speak the three frames on an open connection; CLOSED, EXPIRED, SASL_REQUIRED or
    NOT_SERVING.
    """
    connection.sendall(connect_request(handover))
    timeout_ms, session_id = parse_connect_response(_read_frame(connection, deadline))
    if timeout_ms <= 0:
        return EXPIRED
    # also when we were given another session: that one is nobody's, then
    connection.sendall(close_request())
    for _ in range(FRAMES_SKIPPED_MAX):
        body = _read_frame(connection, deadline)
        if len(body) < 16:
            raise NotServing("short reply")
        xid, _, error = struct.unpack_from(">iqi", body)
        if xid == CLOSE_XID:
            if session_id != handover.session_id:
                return EXPIRED
            return CLOSED if error == 0 else ERROR_NAMES.get(error, NOT_SERVING)
    return NOT_SERVING


def _read_frame(connection: socket.socket, deadline: float) -> bytes:
    """One frame's body. Raises TimeoutError past the deadline (monotonic seconds), NotServing at
    the end of the stream.
    """
    (size,) = struct.unpack(">i", _read_exactly(connection, 4, deadline))
    if not 0 < size <= FRAME_BYTES_MAX:
        raise NotServing("no ZooKeeper frame")
    return _read_exactly(connection, size, deadline)


def _read_exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the server did not answer in time")
        connection.settimeout(left_s)
        piece = connection.recv(size - len(data))
        if not piece:
            raise NotServing("end of stream")
        data += piece
    return data


def pidfd_says_dead(pidfd: int) -> bool:
    """True only when the whole process has exited (a zombie counts, a stopped or frozen process
    does not).
    """
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return any(events & select.POLLIN for _, events in poller.poll(0))
