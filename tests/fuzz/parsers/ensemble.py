"""What ZooKeeper's servers answer, and other texts that come with an ensemble."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from tests.fuzz.harness import Harness, equal, holds, outcome, text_of
from tests.zk.kazoo_port.test_wire_requests import END, OPS, STAT, header, text
from zkcoord.console.ensemble import TEXT_CHARS_MAX, ServerSeen, read_srvr
from zkcoord.errors import ConfigurationError
from zkcoord.guardian.wire import NotServing, parse_connect_response
from zkcoord.zk.acl.text import acl_entries
from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.kazoo_port.connection import GARBAGE
from zkcoord.zk.kazoo_port.too_large import refusal_instead
from zkcoord.zk.kazoo_port.watch_events import AT_ONCE_MAX, events_together
from zkcoord.zk.options import HOSTS_MAX, ZkOptions, parse_hosts
from zkcoord.zk.port import (
    Committed,
    GetChildren,
    GetData,
    Node,
    Read,
    ReadDone,
    Rejected,
    Unanswered,
    WatchMode,
)
from zkcoord.zk.sync import written
from zkcoord.znodes import names
from zkcoord.znodes.paths import LAYOUTS
from zkcoord.znodes.places import (
    AskAt,
    BrokerAt,
    ChannelAt,
    CommandAt,
    Elsewhere,
    GroupAt,
    OwnerAt,
    RegistrationAt,
    TopicAt,
)

WIRE = "zkcoord.zk.kazoo_port."
READS: list[Read] = [GetData("/a"), GetChildren("/b"), GetData("/c")]
NODE = header(4) + struct.pack("!i", 3) + b"abc" + STAT
CHILDREN = header(8) + struct.pack("!i", 2) + text("x") + text("yy")
MISSING = header(-1, -101) + struct.pack("!i", -101)
ANSWER = NODE + CHILDREN + MISSING + END
MULTI = header(1) + text("/a") + header(5) + STAT + header(2) + header(13) + END
REFUSED = header(-1) + struct.pack("!i", 0) + (header(-1, -103) + struct.pack("!i", -103)) * 3 + END
CODES = (0, -101, -112, -118, -2, -103)
NUMBERS = (
    b"\0\0\0\1",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\x9b",
)


def garbage(call: Callable[[], Any]) -> Any:
    """What a decoder answers; None where it raises what the connection's thread expects."""
    try:
        return call()
    except GARBAGE:
        return None


def multi(data: bytes) -> None:
    """As many results as operations, or one refusal within them."""
    code = CODES[data[0] % len(CODES)] if data else 0
    found = garbage(lambda: wire_requests.multi_request("", OPS).decode(code, data[1:], 0))
    if isinstance(found, Committed):
        equal(len(found.results), len(OPS))
    elif isinstance(found, Rejected):
        holds(0 <= found.index < len(OPS), found)
    else:
        holds(found is None or isinstance(found, Unanswered), found)


def reads(data: bytes) -> None:
    """One answer a read; two decoders of the same bytes see the same nodes."""
    code = CODES[data[0] % len(CODES)] if data else 0
    found = garbage(lambda: wire_requests.read_request("", READS).decode(code, data[1:], 0))
    if isinstance(found, ReadDone):
        equal(len(found.answers), len(READS))
    timed = garbage(lambda: written._decode(len(READS), code, data[1:], 0))
    if isinstance(timed, tuple):
        equal(len(timed), len(READS))
        if isinstance(found, ReadDone):
            for one, other in zip(found.answers, timed):
                if isinstance(one, Node) and isinstance(other, written.WrittenNode):
                    equal((one.data, one.stat.mzxid), (other.data, other.mzxid))


def alone(data: bytes) -> None:
    """Answers to one read, to a watch, to a question for an ACL."""
    if not data:
        return
    code, body = CODES[data[0] % len(CODES)], data[1:]
    for request in (
        wire_requests.single_request("/x", GetData("/a")),
        wire_requests.single_request("/x", GetChildren("/a")),
        wire_requests.watched_stat_request("/x", "/a"),
        wire_requests.get_acl_request("", "/a"),
        wire_requests.watch_request("", "/a", next(iter(WatchMode))),
    ):
        found = garbage(lambda request=request: request.decode(code, body, 0))  # type: ignore[misc]
        if isinstance(found, ReadDone):
            holds(len(found.answers) <= 1, found)


def watch_events(data: bytes) -> None:
    """What came together is taken together, and no frame is taken twice."""
    received, taken = bytearray(data), 0

    def read(size: int) -> bytes:
        nonlocal taken
        found = bytes(received[:size])
        del received[:size]
        taken += len(found)
        return found

    first = struct.pack("!iiqiii", 0, -1, 0, 0, 3, 3) + text("/a")

    def all_of_them() -> int:
        return len(list(events_together(first, 20, received, read, (b"/ignored",))))

    count = garbage(all_of_them)
    holds(count is None or 0 < count <= AT_ONCE_MAX, count)
    equal(taken + len(received), len(data))


def too_large(data: bytes) -> None:
    """An answer is passed over to its end, or not at all."""
    if len(data) < 4:
        return
    at = 4
    (number,) = struct.unpack_from(">i", data)

    def read(size: int) -> bytes:
        nonlocal at
        part = data[at : at + size]
        at += len(part)
        if not part:
            raise EOFError
        return part

    one = wire_requests.single_request("", GetData("/a"))
    error = outcome(lambda: holds_refusal(len(data) - 4, one, number, read))
    if error is not None and not isinstance(error, (EOFError, struct.error)):
        raise error


def holds_refusal(length: int, request: object, number: int, read: Callable[[int], bytes]) -> None:
    found = refusal_instead(length, [(request, None, number)], read)
    holds(found == b"" or found.startswith(struct.pack(">i", number)), found)


def connected(data: bytes) -> None:
    try:
        timeout_ms, session = parse_connect_response(data)
    except NotServing:
        holds(len(data) < 20, data)
        return
    holds(0 <= session < 2**64 and -(2**31) <= timeout_ms < 2**31, session)


def hosts(data: bytes) -> None:
    """Ports are ports, and what is shown of the servers is the same servers again."""
    given = text_of(data)
    try:
        servers, chroot = parse_hosts(given)
    except ConfigurationError as error:
        secret = given.partition("@")[0].rpartition("//")[2].strip()
        holds("@" not in given or len(secret) < 9 or secret not in str(error), error)
        return
    holds(0 < len(servers) <= HOSTS_MAX and len(set(servers)) == len(servers), servers)
    for host, port in servers:
        holds(bool(host) and 0 < port <= 65_535, host, port)
    shown = ZkOptions(given).address
    equal(parse_hosts(shown), (servers, chroot))


def acl(data: bytes) -> None:
    """Permissions are of the five letters, and each entry has a scheme."""
    try:
        found = acl_entries(text_of(data))
    except ValueError as error:
        holds(not isinstance(error, UnicodeError), error)
        return
    holds(all(0 < one.perms < 32 and one.scheme for one in found), found)


def server_seen(data: bytes) -> None:
    found = read_srvr("h:1", data)
    holds(isinstance(found, ServerSeen), found)
    for text_ in (found.mode, found.version, found.latency, found.nodes, found.problem):
        holds(text_.isprintable() and len(text_) <= TEXT_CHARS_MAX * 10, text_)  # escaped


def name(data: bytes) -> None:
    """What is a thread or a partition is written as it was; a name is one or the other."""
    given = text_of(data)
    thread, partition = names.parse_thread(given), names.parse_partition(given)
    for found in (thread, partition):
        holds(found is None or str(found) == given, found, given)
    if partition is not None:
        holds(names.is_partition(partition.topic, str(partition.partition)), partition)
    if names.is_topic(given):
        holds(names.is_group(given) or given in names.RESERVED_GROUPS, given)
    if names.is_group(given):
        equal(names.validate_group(given), given)
        made = names.consumer_id(given, "h", 7, "0a1b2c3d")
        holds(names.is_member(made) and names.origin_of(given, made) == "h", made)
    if names.is_number(given) or names.is_broker(given):
        equal(str(int(given)), given)


def place(data: bytes) -> None:
    """What a path is said to be has that path."""
    path = text_of(data)
    for layout in LAYOUTS.values():
        match layout.locate(path):
            case Elsewhere(found):
                equal(found, path)
            case AskAt(group):
                equal(layout.ask(group), path)
            case GroupAt(group):
                equal(layout.group(group), path)
            case RegistrationAt(group, member):
                equal(layout.registration(group, member), path)
            case ChannelAt(group, member):
                equal(layout.channel(group, member), path)
            case CommandAt(group, member, node):
                equal(layout.command(group, member, node), path)
            case OwnerAt(group, partition):
                equal(layout.owner(group, partition), path)
            case TopicAt(topic):
                equal(layout.topic(topic), path)
            case BrokerAt(broker):
                equal(layout.broker(broker), path)


def paths() -> Iterable[bytes]:
    for layout in LAYOUTS.values():
        yield from (
            path.encode()
            for path in (
                layout.registration("g", "m"),
                layout.command("g", "m", "7-1-0000000001"),
                layout.topic("t"),
                layout.request("g", "request-0"),
                f"{layout.owners('g')}/t/0",
                layout.broker(3),
            )
        )


SRVR = b"Zookeeper version: 3.9.2-x\nLatency min/avg/max: 0/0.5/9\nMode: leader\nNode count: 5\n"
HARNESSES = (
    Harness(
        "multi-answer",
        (f"{WIRE}wire_requests:multi_request", f"{WIRE}wire_requests:_decode_multi"),
        multi,
        lambda: [b"\0" + MULTI, b"\0" + REFUSED, b"\1"],
        NUMBERS,
    ),
    Harness(
        "read-answer",
        (f"{WIRE}wire_requests:_decode_reads", "zkcoord.zk.sync.written:_decode"),
        reads,
        lambda: [b"\0" + ANSWER, b"\0" + NODE * 2 + MISSING + END, b"\1"],
        NUMBERS,
    ),
    Harness(
        "single-answer",
        (
            f"{WIRE}wire_requests:_decode_plain",
            f"{WIRE}wire_requests:_decode_acl",
            f"{WIRE}wire_requests:_decode_empty",
        ),
        alone,
        lambda: [
            b"\0" + struct.pack("!i", 3) + b"abc" + STAT,
            b"\0" + struct.pack("!i", 2) + text("x") + text("yy"),
            b"\0" + struct.pack("!ii", 1, 31) + text("world") + text("anyone") + STAT,
        ],
        NUMBERS,
    ),
    Harness(
        "watch-events",
        (f"{WIRE}watch_events:events_together",),
        watch_events,
        lambda: [
            b"".join(
                struct.pack("!iiqiii", 24 + len(path), -1, 0, 0, kind, 3) + text(path)
                for kind, path in ((1, "/a"), (2, "/ignored/b"), (3, "/c"), (4, "/d"))
            )
        ],
        NUMBERS,
    ),
    Harness(
        "too-large-answer",
        (f"{WIRE}too_large:refusal_instead",),
        too_large,
        lambda: [struct.pack(">i", 7) + struct.pack("!iqi", 7, 1, 0) + b"x" * 50],
    ),
    Harness(
        "connect-response",
        ("zkcoord.guardian.wire:parse_connect_response",),
        connected,
        lambda: [struct.pack(">iiQ", 0, 6_000, 7) + struct.pack(">i", 16) + b"p" * 16],
        bytes_max=64,
    ),
    Harness(
        "connect-string",
        ("zkcoord.zk.options:parse_hosts",),
        hosts,
        lambda: [b"zk1:2181,zk2/kafka", b"[::1]:2181,h/a/b", b"u:p@h:1", b"digest://h:1"],
        (b"65535", b"0", b"://", b"[", b"]", b"@", b",", b"/", "é".encode()),
        bytes_max=200,
    ),
    Harness(
        "acl-text",
        ("zkcoord.zk.acl.text:acl_entries", "zkcoord.zk.acl.principals:unfit"),
        acl,
        lambda: [
            b"open",
            b"digest:a:m4cxMpBIm3Ds3yHPtXMOKFz9+mM=:cdrwa,sasl:b:r",
            b"digest:a:cdrwa,sasl:b:r",
            b"ip:1.2.3.4/24:cdrwa",
            b"ip:::1:r,x509:CN=a:r,world:anyone:r",
        ],
        bytes_max=300,
    ),
    Harness("srvr", ("zkcoord.console.ensemble:read_srvr",), server_seen, lambda: [SRVR]),
    Harness(
        "names",
        ("zkcoord.znodes.names:parse_thread", "zkcoord.znodes.names:parse_partition"),
        name,
        lambda: [b"g_h-1-00c0ffee-0", b"orders-12", b"a-b-3", b"ids", b"2147483647"],
        ("٣".encode(), b"..", b"-0", b"00", "\u202e".encode()),
        bytes_max=700,
    ),
    Harness("paths", ("zkcoord.znodes.paths:Layout.locate",), place, paths, bytes_max=300),
)
