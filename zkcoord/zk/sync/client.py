"""`SyncClient`: a synchronous face of a `Port`, for tools and operators' commands.

Calls block until the answer is there or a deadline has passed. The client has its loop and its
session; a lost connection is waited out and the reads are sent again (they change nothing), an
expired session is replaced. A multi is sent once. One that was refused or whose outcome is not
known is the caller's to judge: after `sync` it reads what is there now, and decides again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from zkcoord.errors import RefusedError, UnavailableError
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.kazoo_port.session import KazooEnsemble, KazooPort
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.overlay import OverlaidEnsemble, OverlaidPort
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    OPS_PER_MULTI_MAX,
    READS_PER_REQUEST_MAX,
    Connected,
    Denied,
    Fired,
    MultiResult,
    Op,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Refused,
    Suspended,
    Unanswered,
    ZkError,
    encoded_bytes,
    fewer_reads,
    reads_that_fit,
)

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
A = TypeVar("A")

READ_DEADLINE_MS = 15_000
AT_EASE_READS = 100
AT_EASE_PAUSES = 3
AT_EASE_PAUSE_MS_MAX = 50
"""Between requests of so many reads a reader at ease waits so many times as long as the last one
took: neither a server nor this machine is busy with it for long.
"""

CLOSE_WAIT_MS = 3_000


def not_allowed(path: str, answer: Denied) -> str:
    """The sentence for a node that may not be read, or is too large to be."""
    if answer.error is ZkError.TOO_LARGE:
        return (
            f"what {path} holds, or the names below it, are larger than any answer that is taken:"
            " delete what is nobody's there"
        )
    return (
        f"ZooKeeper does not let this client read {path} ({answer.error.value}):"
        f" {give_others(answer.who)}"
    )


def give_others(who: str) -> str:
    """What helps where a right is missing; `who`: by which credentials it was tried ("": none)."""
    if not who:
        return "give credentials that may (--zookeeper-user)"
    return f"{who} may not; give other credentials (--zookeeper-user)"


class SyncClient:
    """Reads and multis that block. A context manager. `at_ease`: many reads go in small requests,
    with pauses between them. Raises `UnavailableError`, one sentence, when ZooKeeper cannot be
    asked.
    """

    def __init__(
        self,
        options: ZkOptions,
        read_deadline_ms: int = READ_DEADLINE_MS,
        at_ease: bool = False,
    ) -> None:
        self._at_ease = at_ease
        self._options = options
        self._read_deadline_ms = read_deadline_ms
        self._loop = Loop("reader")
        self._ensemble = OverlaidEnsemble(KazooEnsemble(options, self._loop.post))
        self._port: KazooPort | None = None
        self._overlaid: OverlaidPort | None = None
        self._changed = threading.Condition()
        self._connected = False
        self._reads_max = READS_PER_REQUEST_MAX
        self._refusal = ""
        self._closing = False
        self._over = threading.Event()

    @property
    def principal(self) -> str:
        """Whom ZooKeeper takes this client for, for a sentence. With another password a digest's
        user is another one, and nobody says so.
        """
        options = self._options
        if options.digest is not None:
            return f"{options.digest.username} (if that is its password: ZooKeeper takes any)"
        if options.sasl is not None:
            return options.sasl.username or "the principal of the Kerberos ticket"
        if options.tls is not None and options.tls.cert:
            return f"the certificate {options.tls.cert}"
        return "this client, which gave no credentials,"

    @property
    def given(self) -> str:
        """`principal` where this client was given credentials; "": it was given none."""
        options = self._options
        with_cert = options.tls is not None and bool(options.tls.cert)
        has_some = options.digest is not None or options.sasl is not None or with_cert
        return self.principal if has_some else ""

    @property
    def roles(self) -> Roles | None:
        """Who is what, where this client was told."""
        return self._options.roles

    @property
    def refused(self) -> str:
        """Why ZooKeeper does not let this client in at all; "" where it does."""
        return self._refusal

    def __enter__(self) -> Self:
        self._loop.start()
        self._loop.post(self._open)
        try:
            self._await_connected(
                self._options.connect_timeout_ms + self._read_deadline_ms
                if self._options.connect_timeout_ms
                else None
            )
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the session and end the loop."""
        self._loop.post(self._close)
        self._over.wait(CLOSE_WAIT_MS / 1000)
        self._loop.stop()
        self._loop.join(CLOSE_WAIT_MS / 1000)

    def read(self, reads: Sequence[Read]) -> list[ReadAnswer]:
        """The answers in order. Raises `UnavailableError` when they do not come within the
        deadline.
        """
        answers: list[ReadAnswer] = []
        until = AT_EASE_READS if self._at_ease else len(reads)
        while len(answers) < len(reads):
            began_ms = boot_ms()
            answers += self._one(tuple(reads[len(answers) : len(answers) + until])).answers
            if self._at_ease and len(answers) < len(reads):
                pause_ms = min(AT_EASE_PAUSES * (boot_ms() - began_ms), AT_EASE_PAUSE_MS_MAX)
                threading.Event().wait(pause_ms / 1000)
        return self.signed(answers)

    def signed(self, answers: Sequence[A]) -> list[A | Denied]:
        """The same answers; those that a right is missing for say by whom it was tried."""
        who = self.given
        return [
            Denied(one.error, who) if who and isinstance(one, Denied) else one for one in answers
        ]

    def see(self, reads: Sequence[Read]) -> list[ReadAnswer]:
        """As `read`, for answers of which a hidden one would pass for an absent one: raises
        `RefusedError`, which names the first node that may not be read.
        """
        answers = self.read(reads)
        for read, answer in zip(reads, answers, strict=True):
            if isinstance(answer, Denied):
                raise RefusedError(not_allowed(read.path, answer))
        return answers

    def sync(self) -> None:
        """Have the server catch up, so that what is read next is not older than this call."""
        self._one(())

    def multi(self, ops: Sequence[Op]) -> MultiResult:
        """Run `ops` as one transaction and wait for its outcome; `Unanswered` where none comes in
        time: it may or may not have happened.
        """
        assert ops
        self._await_connected(self._read_deadline_ms)

        def send(port: KazooPort, done: Callable[[MultiResult], None]) -> None:
            port.multi(tuple(ops), done)

        result = self._ask(send, self._read_deadline_ms)
        return Unanswered() if result is None else result

    def ask_all(self, sends: Sequence[Callable[[KazooPort, Callable[[T], None]], None]]) -> list[T]:
        """Send requests that a read or a multi cannot hold, all at once; their answers, in order.
        Raises `UnavailableError` when they do not come within the deadline.
        """
        self._await_connected(self._read_deadline_ms)
        answers: list[T] = []
        complete = threading.Event()

        def answered(answer: T) -> None:
            answers.append(answer)
            if len(answers) == len(sends):
                complete.set()

        def send_all() -> None:
            assert self._port is not None
            for send in sends:
                send(self._port, answered)

        self._loop.post(send_all)
        if sends and not complete.wait(self._read_deadline_ms / 1000):
            raise self.unanswered()
        return answers

    def unanswered(self) -> UnavailableError:
        """That ZooKeeper did not answer, as an error."""
        return UnavailableError(
            f"ZooKeeper at {self._options.address} did not answer within"
            f" {self._read_deadline_ms} ms: look at its servers, then try again"
        )

    def _one(self, reads: tuple[Read, ...]) -> ReadDone:
        """One request with the first of the reads, repeated until it is answered; no reads: a
        sync.
        """
        until_ms = boot_ms() + self._read_deadline_ms
        while True:
            self._await_connected(max(0, until_ms - boot_ms()))
            result: ReadResult | None = self._ask(
                partial(self._send, reads[: reads_that_fit(reads, self._reads_max)]),
                max(1, until_ms - boot_ms()),
            )
            if isinstance(result, ReadDone):
                return result
            if boot_ms() >= until_ms:
                raise self.unanswered()

    def _ask(
        self, send: Callable[[KazooPort, Callable[[T], None]], None], timeout_ms: int
    ) -> T | None:
        """What `send` is answered; None when that takes longer."""
        answered = threading.Event()
        results: list[T] = []

        def done(result: T) -> None:
            results.append(result)
            answered.set()

        def post() -> None:
            assert self._port is not None
            send(self._port, done)

        self._loop.post(post)
        answered.wait(timeout_ms / 1000)
        return results[0] if results else None

    def _await_connected(self, timeout_ms: int | None) -> None:
        with self._changed:
            timeout_s = None if timeout_ms is None else timeout_ms / 1000
            there = self._changed.wait_for(
                lambda: self._connected or bool(self._refusal) or self._loop.stopped.is_set(),
                timeout_s,
            )
            if self._refusal:
                raise UnavailableError(self._refusal)
            if not there or not self._connected:
                raise UnavailableError(
                    f"there is no connection to ZooKeeper at {self._options.address}: look at its"
                    " servers, then try again"
                )

    # on the loop's thread

    def _open(self) -> None:
        if not self._closing:
            self._overlaid = self._ensemble.open(self._event)
            assert isinstance(self._overlaid.port, KazooPort)
            self._port = self._overlaid.port

    def _close(self) -> None:
        self._closing = True
        if self._port is None or self._refusal:
            self._over.set()
        else:
            self._port.close()

    def _event(self, event: PortEvent) -> None:
        if isinstance(event, Fired):
            return
        with self._changed:
            self._connected = isinstance(event, Connected)
            if isinstance(event, Suspended) and event.answer_too_large:
                self._reads_max = fewer_reads(self._reads_max)
            if isinstance(event, Refused):
                self._refusal = event.reason
            self._changed.notify_all()
        if not isinstance(event, (Connected, Suspended, Refused)):
            if self._closing:
                self._over.set()
            else:
                self._open()

    def _send(
        self, reads: tuple[Read, ...], port: KazooPort, done: Callable[[ReadResult], None]
    ) -> None:
        """A multiRead; no reads: a sync."""
        if reads:
            assert self._overlaid is not None
            self._overlaid.read(reads, done)
        else:
            port.sync(done)


def fitting(groups: Sequence[Sequence[Op]], ops_max: int = OPS_PER_MULTI_MAX) -> int:
    """How many of the leading groups of operations fit into one multi; the first always counts."""
    count, total_ops, total_bytes = 0, 0, 0
    for ops in groups:
        total_ops += len(ops)
        total_bytes += sum(map(encoded_bytes, ops))
        if count and (total_ops > ops_max or total_bytes > MULTI_BYTES_MAX):
            break
        count += 1
    return count
