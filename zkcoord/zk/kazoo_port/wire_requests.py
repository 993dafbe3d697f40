"""The requests zkcoord sends, as bytes, and their answers as the values of `zkcoord.zk.port`.

kazoo has no MultiRead (opcode 22), no AddWatch (opcode 106) and no RemoveWatches (opcode 18), and
its transaction decoder loses results (a falsy one is dropped, an unknown error code raises in the
connection's thread). So all of them are encoded and decoded here, with kazoo's struct objects and
string codecs; `zkcoord.zk.kazoo_port.connection` puts them into kazoo's queue. A request is encoded
when it is made, in the caller's thread: a path that is not UTF-8 raises there, never in the
connection's thread.

The chroot is ours, not kazoo's: every path is prefixed here and every answer is stripped here, so
that requests kazoo does not know are treated like those it knows.

Errors: ZooKeeper answers with a code per request (`header.err`) and, in a multi, with a code per
operation: 0 before the operation that failed, its own code, and RuntimeInconsistency (-2) after it.
A code that says nothing about the operation (`UNANSWERED_CODES`: session moved, request timed out,
throttled ...) becomes `Unanswered`; every other code is a named refusal, `ZkError.OTHER` when
zkcoord has no use for the difference. No code raises.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.protocol import serialization as wire
from kazoo.security import ACL, Id

from zkcoord.core.value_type import assert_never
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import (
    Acl,
    AclAnswer,
    AclEntry,
    Check,
    Children,
    Committed,
    Create,
    Created,
    Delete,
    Denied,
    Done,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    OpResult,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    Unanswered,
    WatchMode,
    ZkError,
)
from zkcoord.znodes.stat import Stat

SYNC, MULTI, REMOVE_WATCHES, MULTI_READ, ADD_WATCH, CLOSE = 9, 14, 18, 22, 106, -11
ANY_WATCHER = 3
CREATE, DELETE, SET_DATA, CHECK, EXISTS, GET_DATA, GET_CHILDREN, ERROR = 1, 2, 5, 13, 3, 4, 8, -1
EPHEMERAL_FLAG, SEQUENTIAL_FLAG = 1, 2

NO_NODE, UNIMPLEMENTED, SESSION_EXPIRED, SESSION_MOVED, SASL_REQUIRED = -101, -6, -112, -118, -124
TOO_LARGE = -(2**31)
"""Ours, of no server: the answer was passed over, for it is larger than is taken."""

NAMED_CODES: dict[int, ZkError] = {
    NO_NODE: ZkError.NO_NODE,
    -102: ZkError.NO_AUTH,
    -103: ZkError.BAD_VERSION,
    -108: ZkError.NO_CHILDREN_FOR_EPHEMERALS,
    -110: ZkError.NODE_EXISTS,
    -111: ZkError.NOT_EMPTY,
    -125: ZkError.QUOTA_EXCEEDED,
    TOO_LARGE: ZkError.TOO_LARGE,
}
"""Error codes that zkcoord tells apart; every other one is `ZkError.OTHER`."""

UNANSWERED_CODES = frozenset({-4, -7, SESSION_EXPIRED, SESSION_MOVED, -122, SASL_REQUIRED, -127})
"""ConnectionLoss, OperationTimeout, SessionExpired, SessionMoved, RequestTimeout,
SessionClosedRequireSaslAuth, ThrottledOp: nothing about the operation itself.
"""

CONNECTION_OVER_CODES = frozenset({SESSION_EXPIRED, SESSION_MOVED, SASL_REQUIRED})
"""After these the server closes the connection, or nothing sent on it is worth anything."""

END_OF_READS = wire.multiheader_struct.pack(ERROR, True, -1)
READ_STRUCT = struct.Struct(f"{wire.multiheader_struct.format}i")
"""How each read of a multiRead and its answer begin: a header, then the length of the path; the
length of the data, the number of names, or an error's code.
"""

STAT_STRUCT = struct.Struct("!qq16xii4xq4xi8x")
"""The fields of `Stat` among those of a znode's stat: all but the last one."""

_READ_AS_IT_IS = (0,)

_MISSING = Missing()

SINCE_3_6 = frozenset({MULTI_READ, ADD_WATCH, REMOVE_WATCHES})
"""What older servers answer with `UNIMPLEMENTED`, and by closing the connection (the last one since
3.5).
"""

Result = MultiResult | ReadResult


@dataclass(frozen=True)
class WireRequest:
    """What kazoo's connection needs of a request: an opcode and bytes. `decode(err, body, offset)`
    makes the answer; it may raise what `struct` and `str.decode` raise on garbage. `reads`: how
    many nodes it reads.
    """

    type: int
    payload: bytes
    decode: Callable[[int, bytes, int], Any]
    reads: int = 0

    def serialize(self) -> bytes:
        """The bytes after the opcode."""
        return self.payload

    def __repr__(self) -> str:
        return f"Request(type={self.type}, {len(self.payload)} bytes)"


def error_of(code: int) -> ZkError:
    """The name of an error code; `OTHER` for what zkcoord does not tell apart."""
    return NAMED_CODES.get(code, ZkError.OTHER)


def absolute(chroot: str, path: str) -> str:
    """A path of ours as the server knows it. `chroot` is "" or "/a/b"."""
    if not chroot:
        return path
    return chroot if path == "/" else chroot + path


def relative(chroot: str, path: str) -> str:
    """A path of the server as we know it: the inverse of `absolute`."""
    if not chroot:
        return path
    return path[len(chroot) :] or "/"


def multi_request(chroot: str, ops: Sequence[Op]) -> WireRequest:
    """One transaction. Answer: `Committed`, `Rejected` or `Unanswered`."""
    payload = bytearray()
    for op in ops:
        payload += _encode_op(chroot, op)
    payload += wire.multiheader_struct.pack(-1, True, -1)
    count = len(ops)

    def decode(err: int, body: bytes, offset: int) -> MultiResult:
        return _decode_multi(chroot, count, err, body, offset)

    return WireRequest(MULTI, bytes(payload), decode)


def _encode_op(chroot: str, op: Op) -> bytes:
    path = absolute(chroot, op.path)
    match op:
        case Check():
            kind, record = CHECK, wire.CheckVersion(path, op.version)
        case SetData():
            kind, record = SET_DATA, wire.SetData(path, op.data, op.version)
        case Delete():
            kind, record = DELETE, wire.Delete(path, op.version)
        case Create():
            acl = [ACL(a.perms, Id(a.scheme, a.id)) for a in op.acl]
            sequential = SEQUENTIAL_FLAG if op.sequential else 0
            flags = (EPHEMERAL_FLAG if op.ephemeral else 0) | sequential
            kind, record = CREATE, wire.Create(path, op.data, acl, flags)
        case _:
            assert_never(op)
    return bytes(wire.multiheader_struct.pack(kind, False, -1) + record.serialize())


def _decode_multi(chroot: str, count: int, err: int, body: bytes, offset: int) -> MultiResult:
    if err in UNANSWERED_CODES:
        return Unanswered()
    if err:
        return Rejected(0, error_of(err))
    results: list[OpResult] = []
    for index in range(count):
        kind, offset = _result_kind(body, offset)
        if kind == CREATE:
            path, offset = wire.read_string(body, offset)
            results.append(Created(relative(chroot, path)))
        elif kind == SET_DATA:
            results.append(_stat(body, offset))
            offset += STAT_STRUCT.size
        elif kind in (DELETE, CHECK):
            results.append(Done())
        elif kind == ERROR:
            code = wire.int_struct.unpack_from(body, offset)[0]
            offset += wire.int_struct.size
            if code in UNANSWERED_CODES:
                return Unanswered()
            if code:
                return Rejected(index, error_of(code))
        else:
            raise ValueError(f"a multi's answer holds a result of type {kind}")
    if len(results) != count:
        raise ValueError("a multi's answer holds errors, and none of them is one")
    return Committed(tuple(results))


def _result_kind(body: bytes, offset: int) -> tuple[int, int]:
    kind, is_end, _ = wire.multiheader_struct.unpack_from(body, offset)
    if is_end:
        raise ValueError("an answer holds fewer results than were asked for")
    return kind, offset + wire.multiheader_struct.size


def read_request(chroot: str, reads: Sequence[Read]) -> WireRequest:
    """One multiRead. Answer: `ReadDone` with one answer per read, or `Unanswered`. A takeover asks
    some hundred thousand questions, so as little as possible is done for each.
    """
    parts: list[bytes] = []
    begins = READ_STRUCT.pack
    for read in reads:
        path = read.path
        ends = (
            f"{chroot}{path}\0".encode() if path != "/" else f"{absolute(chroot, path)}\0".encode()
        )
        parts += (
            begins(GET_DATA if type(read) is GetData else GET_CHILDREN, False, -1, len(ends) - 1),
            ends,
        )
    parts.append(END_OF_READS)
    count = len(reads)

    def decode(err: int, body: bytes, offset: int) -> ReadResult:
        return _decode_reads(count, err, body, offset)

    return WireRequest(MULTI_READ, b"".join(parts), decode, count)


def _decode_reads(count: int, err: int, body: bytes, offset: int) -> ReadResult:
    """A takeover decodes some hundred thousand answers, so this is written to do little for each:
    whatever its kind, an answer begins with its header and one number.
    """
    if err in UNANSWERED_CODES:
        return Unanswered()
    if err:
        return ReadDone((Denied(error_of(err)),) * count)
    answers: list[ReadAnswer] = []
    # what makes a `NamedTuple`, without the function around it
    begins, stat, named = READ_STRUCT.unpack_from, STAT_STRUCT.unpack_from, tuple.__new__
    head, tail = READ_STRUCT.size, STAT_STRUCT.size
    for _ in range(count):
        kind, is_end, _, number = begins(body, offset)
        offset += head
        if is_end:
            raise ValueError("an answer holds fewer results than were asked for")
        if kind == GET_DATA:
            data = body[offset : offset + number] if number > 0 else b""
            offset += len(data)
            answers.append(named(Node, (data, named(Stat, stat(body, offset) + _READ_AS_IT_IS))))
            offset += tail
        elif kind == GET_CHILDREN:
            names, offset = _names(body, offset, number)
            answers.append(Children(names))
        elif kind == ERROR:
            answers.append(_MISSING if number == NO_NODE else Denied(error_of(number)))
        else:
            raise ValueError(f"a multiRead's answer holds a result of type {kind}")
    return ReadDone(tuple(answers))


def single_request(chroot: str, read: Read) -> WireRequest:
    """One read by itself, for servers without multiRead. Answer: as of `read_request`."""
    return _plain_request(
        GET_DATA if isinstance(read, GetData) else GET_CHILDREN, chroot, read.path, watch=False
    )


def watched_stat_request(chroot: str, path: str) -> WireRequest:
    """A node's stat, and a watch that fires once: on its data, its end, or that it is made. Answer:
    as of `read_request`, a `Node` without data.
    """
    return _plain_request(EXISTS, chroot, path, watch=True)


def watched_names_request(chroot: str, path: str) -> WireRequest:
    """The names of a node's children, and a watch that fires once, on these (where there is the
    node). Answer: as of `read_request`.
    """
    return _plain_request(GET_CHILDREN, chroot, path, watch=True)


def _plain_request(kind: int, chroot: str, path: str, watch: bool) -> WireRequest:
    return WireRequest(
        kind,
        wire.write_string(absolute(chroot, path)) + bytes([watch]),
        lambda err, body, offset: _decode_plain(kind, err, body, offset),
        reads=1,
    )


def _decode_plain(kind: int, err: int, body: bytes, offset: int) -> ReadResult:
    if err in UNANSWERED_CODES:
        return Unanswered()
    if err:
        return ReadDone((Missing() if err == NO_NODE else Denied(error_of(err)),))
    answer: Children | Node
    if kind == GET_CHILDREN:
        count = wire.int_struct.unpack_from(body, offset)[0]
        names, offset = _names(body, offset + wire.int_struct.size, count)
        answer = Children(names)
        sensible = count >= 0
    else:
        data = b""
        if kind == GET_DATA:
            found, offset = wire.read_buffer(body, offset)
            data = bytes(found or b"")
        answer = Node(data, _stat(body, offset))
        offset += STAT_STRUCT.size
        sensible = answer.stat.czxid >= 0 <= answer.stat.num_children
    if not sensible or offset != len(body):
        raise ValueError("the answer to a read is not one")
    return ReadDone((answer,))


def get_acl_request(chroot: str, path: str) -> WireRequest:
    """Answer: an `AclAnswer`, or `Unanswered`."""
    payload = bytes(wire.GetACL(absolute(chroot, path)).serialize())
    return WireRequest(wire.GetACL.type, payload, _decode_acl)


def _decode_acl(err: int, body: bytes, offset: int) -> AclAnswer | Unanswered:
    if err:
        return refused_acl(err)
    entries, stat = wire.GetACL.deserialize(body, offset)
    return Acl(
        tuple(AclEntry(entry.perms, entry.id.scheme, entry.id.id) for entry in entries),
        stat.numChildren,
    )


def refused_acl(err: int) -> Missing | Denied | Unanswered:
    """What a request about a node's ACL is answered where it is refused."""
    if err in UNANSWERED_CODES:
        return Unanswered()
    return _MISSING if err == NO_NODE else Denied(error_of(err))


def sync_request(chroot: str) -> WireRequest:
    """Let the server catch up with the leader. Answer: `ReadDone(())`, or `Unanswered`."""
    return WireRequest(SYNC, wire.write_string(chroot or "/"), _decode_empty)


def watch_request(chroot: str, path: str, mode: WatchMode) -> WireRequest:
    """Add a persistent watch. Answer: `ReadDone(())`; `ReadDone((Denied(...),))` if the server will
    not; or `Unanswered`.
    """
    return WireRequest(
        ADD_WATCH,
        wire.write_string(absolute(chroot, path)) + wire.int_struct.pack(mode.value),
        _decode_empty,
    )


def unwatch_request(chroot: str, path: str) -> WireRequest:
    """Remove the watches on a path. Answer: as of `watch_request`."""
    return WireRequest(
        REMOVE_WATCHES,
        wire.write_string(absolute(chroot, path)) + wire.int_struct.pack(ANY_WATCHER),
        _decode_empty,
    )


def _decode_empty(err: int, body: bytes, offset: int) -> ReadResult:
    if err in UNANSWERED_CODES:
        return Unanswered()
    return ReadDone((Denied(error_of(err)),)) if err else ReadDone(())


def refusal_of_first_look(options: ZkOptions, err: int, result: Result) -> str:
    """What the answer to the first request (the chroot, by a multiRead or by itself) says about the
    ensemble: the sentence that refuses it, or "". Raises `ValueError` when it says nothing.
    """
    where, path = options.address, options.chroot or "/"
    if err == UNIMPLEMENTED:
        return (
            f"the ZooKeeper at {where} does not know how to read a node: use a server of 3.4 or"
            " newer"
        )
    if err == SASL_REQUIRED:
        return (
            f"the ZooKeeper at {where} demands SASL authentication: configure SASL (mechanism, name"
            " and password)"
        )
    if not isinstance(result, ReadDone):
        raise ValueError(f"the first request was answered with error {err}")
    if isinstance(result.answers[0], Missing):
        return (
            f"the chroot {path} does not exist at {where}: create it with `create {path}` in"
            " zkCli.sh, or correct the path after the last server"
        )
    if result.answers == (Denied(ZkError.NO_AUTH),) and options.chroot:
        return (
            f"the chroot {path} at {where} may not be read with these credentials: correct user"
            " name and password, or ask for read permission"
        )
    return ""


def _refuse_to_decode(err: int, body: bytes, offset: int) -> Result:
    raise ValueError("a closing session has no answer to decode")


CLOSE_REQUEST = WireRequest(CLOSE, b"", _refuse_to_decode)


def _stat(body: bytes, offset: int) -> Stat:
    return Stat(*STAT_STRUCT.unpack_from(body, offset))


def _names(body: bytes, offset: int, count: int) -> tuple[tuple[str, ...], int]:
    names: list[str] = []
    length = wire.int_struct.unpack_from
    for _ in range(count):
        begin = offset + wire.int_struct.size
        offset = begin + length(body, offset)[0]
        if offset < begin:
            raise ValueError("an answer holds a name of a negative length")
        names.append(body[begin:offset].decode())
    names.sort()
    return tuple(names), offset
