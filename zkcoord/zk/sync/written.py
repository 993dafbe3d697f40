"""Nodes with the time at which they were written, which the port does not tell: nothing that
decides may rest on it, since it is of the leader's clock. Tools read it.

Servers before 3.6 are asked through the port, without times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple

from zkcoord.zk.kazoo_port.session import KazooPort
from zkcoord.zk.kazoo_port.wire_requests import (
    ERROR,
    GET_DATA,
    MULTI_READ,
    NO_NODE,
    READ_STRUCT,
    UNANSWERED_CODES,
    WireRequest,
    error_of,
    read_request,
)
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    Denied,
    GetData,
    Missing,
    Node,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Unanswered,
    fewer_reads,
    reads_that_fit,
)
from zkcoord.zk.sync.client import SyncClient

TIMES_STRUCT = Struct("!8xq8xq36x")
"""The transaction and the time that wrote a node, among the fields of its stat."""

REQUESTS_AT_ONCE = 4
ATTEMPTS_MAX = 8


class WrittenNode(NamedTuple):
    """A node's data, the transaction that wrote it, and when (ms since 1970 on the ensemble's
    clock; None: the server is too old to be asked for many at once).
    """

    data: bytes
    mzxid: int
    mtime_ms: int | None


WrittenAnswer = WrittenNode | Missing | Denied
WrittenResult = tuple[WrittenAnswer, ...] | Unanswered


def read_written(client: SyncClient, paths: Sequence[str]) -> list[WrittenAnswer]:
    """The answers in order, from requests of bounded size, a few of them at a time. Raises
    `UnavailableError` when they do not come.
    """
    found: list[WrittenAnswer] = []
    reads: list[Read] = [GetData(path) for path in paths]
    reads_max, attempts = READS_PER_REQUEST_MAX, 0
    while len(found) < len(reads):
        parts = _parts(reads, len(found), reads_max)
        answered: dict[int, WrittenResult] = dict(
            client.ask_all([partial(_send, n, part) for n, part in enumerate(parts)])
        )
        for n in range(len(parts)):
            answers = answered[n]
            if isinstance(answers, Unanswered):
                # the connection was lost, or the answer is larger than is taken
                attempts += 1
                if attempts >= ATTEMPTS_MAX:
                    raise client.unanswered()
                reads_max = fewer_reads(reads_max)
                break
            found += client.signed(answers)
            attempts = 0
    return found


def _parts(reads: Sequence[Read], at: int, reads_max: int) -> list[Sequence[Read]]:
    parts: list[Sequence[Read]] = []
    while at < len(reads) and len(parts) < REQUESTS_AT_ONCE:
        part = reads[at : at + reads_max]
        part = part[: reads_that_fit(part, reads_max)]
        parts.append(part)
        at += len(part)
    return parts


def _send(
    number: int,
    reads: Sequence[Read],
    port: KazooPort,
    done: Callable[[tuple[int, WrittenResult]], None],
) -> None:
    def answered(result: WrittenResult) -> None:
        done((number, result))

    if port.takes_many_reads:
        request = read_request(port.chroot, reads)
        ask = WireRequest(MULTI_READ, request.payload, partial(_decode, len(reads)))
        port.ask(ask, answered)
    else:
        port.read(reads, lambda result: answered(_without_times(result)))


def _without_times(result: ReadResult) -> WrittenResult:
    if not isinstance(result, ReadDone):
        return Unanswered()
    return tuple(map(_without_time, result.answers))


def _without_time(answer: ReadAnswer) -> WrittenAnswer:
    if isinstance(answer, Node):
        return WrittenNode(answer.data, answer.stat.mzxid, None)
    return answer if isinstance(answer, Denied) else Missing()


def _decode(count: int, err: int, body: bytes, offset: int) -> WrittenResult:
    if err in UNANSWERED_CODES:
        return Unanswered()
    if err:
        return (Denied(error_of(err)),) * count
    answers: list[WrittenAnswer] = []
    for _ in range(count):
        kind, is_end, _, number = READ_STRUCT.unpack_from(body, offset)
        offset += READ_STRUCT.size
        if is_end:
            raise ValueError("an answer holds fewer results than were asked for")
        if kind == GET_DATA:
            data = body[offset : offset + number] if number > 0 else b""
            offset += len(data)
            mzxid, mtime_ms = TIMES_STRUCT.unpack_from(body, offset)
            answers.append(WrittenNode(data, mzxid, mtime_ms))
            offset += TIMES_STRUCT.size
        elif kind == ERROR:
            answers.append(Missing() if number == NO_NODE else Denied(error_of(number)))
        else:
            raise ValueError(f"a multiRead's answer holds a result of type {kind}")
    return tuple(answers)
