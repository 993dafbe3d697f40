"""Answers as bytes: every error code has an outcome, and garbage raises only what the connection
expects.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import EXCEPTIONS

from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.kazoo_port.connection import GARBAGE
from zkcoord.zk.port import (
    Check,
    Children,
    Committed,
    Create,
    Created,
    Delete,
    Denied,
    Done,
    GetChildren,
    GetData,
    Missing,
    Node,
    Op,
    ReadDone,
    Rejected,
    SetData,
    Unanswered,
    WatchMode,
    ZkError,
)
from zkcoord.znodes.stat import Stat

STAT = struct.pack("!qqqqiiiqiiq", 5, 6, 0, 0, 7, 8, 0, 9, 1, 10, 11)


def header(kind: int, err: int = 0) -> bytes:
    return struct.pack("!iBi", kind, 0, err)


def text(value: str) -> bytes:
    return struct.pack("!i", len(value.encode())) + value.encode()


END = struct.pack("!iBi", -1, 1, -1)
OPS: list[Op] = [Create("/a", b""), SetData("/b", b"", 1), Delete("/c"), Check("/d", 2)]


DATA_ALONE, NAMES_ALONE, WATCHED_STAT, WATCHED_NAMES = ALONE = (
    wire_requests.single_request("/x", GetData("/aa")),
    wire_requests.single_request("/x", GetChildren("/aa")),
    wire_requests.watched_stat_request("/x", "/aa"),
    wire_requests.watched_names_request("/x", "/aa"),
)


@pytest.mark.parametrize("code", sorted(c for c in EXCEPTIONS if c not in (0, -2)))
def test_every_code_kazoo_knows_has_an_outcome_in_a_multi(code: int) -> None:
    request = wire_requests.multi_request("", OPS)
    body = (
        header(-1)
        + struct.pack("!i", 0)
        + header(-1, code)
        + struct.pack("!i", code)
        + (header(-1, -2) + struct.pack("!i", -2)) * 2
        + END
    )
    result = request.decode(0, body, 0)
    if code in wire_requests.UNANSWERED_CODES:
        assert result == Unanswered() == request.decode(code, b"", 0)
    else:
        assert result == Rejected(1, wire_requests.error_of(code))
        assert request.decode(code, b"", 0) == Rejected(0, wire_requests.error_of(code))


@pytest.mark.parametrize("code", [*sorted(c for c in EXCEPTIONS if c), -12345])
def test_every_code_has_an_outcome_in_reads_and_watches(code: int) -> None:
    reads = wire_requests.read_request("", [GetData("/a")])
    each = reads.decode(0, header(-1, code) + struct.pack("!i", code) + END, 0)
    assert (
        each == ReadDone((Missing(),))
        if code == wire_requests.NO_NODE
        else each == ReadDone((Denied(wire_requests.error_of(code)),))
    )
    whole = reads.decode(code, b"", 0)
    watch = wire_requests.watch_request("", "/a", WatchMode.RECURSIVE).decode(code, b"", 0)
    expected = (
        Unanswered()
        if code in wire_requests.UNANSWERED_CODES
        else ReadDone((Denied(wire_requests.error_of(code)),))
    )
    assert whole == watch == expected
    for alone in ALONE:
        assert alone.decode(code, b"", 0) == (
            ReadDone((Missing(),)) if code == wire_requests.NO_NODE else expected
        )


def test_an_unknown_code_is_other() -> None:
    assert wire_requests.error_of(-12345) is ZkError.OTHER
    named = {wire_requests.error_of(code) for code in EXCEPTIONS}
    assert named == set(ZkError) - {ZkError.TOO_LARGE}, "which no server says"
    assert wire_requests.error_of(wire_requests.TOO_LARGE) is ZkError.TOO_LARGE


@pytest.mark.parametrize("chroot", ["", "/x/y"])
def test_results_of_a_multi(chroot: str) -> None:
    body = header(1) + text(chroot + "/a") + header(5) + STAT + header(2) + header(13) + END
    result = wire_requests.multi_request(chroot, OPS).decode(0, body, 0)
    assert result == Committed((Created("/a"), Stat(5, 6, 7, 8, 9, 10), Done(), Done()))


def test_answers_of_a_read() -> None:
    body = (
        header(4)
        + struct.pack("!i", 3)
        + b"abc"
        + STAT
        + header(4)
        + struct.pack("!i", -1)
        + STAT
        + header(8)
        + struct.pack("!i", 2)
        + text("z")
        + text("b\u00e4")
        + END
    )
    result = wire_requests.read_request(
        "", [GetData("/a"), GetData("/n"), GetChildren("/a")]
    ).decode(0, body, 0)
    stat = Stat(5, 6, 7, 8, 9, 10)
    assert result == ReadDone((Node(b"abc", stat), Node(b"", stat), Children(("b\u00e4", "z"))))


def test_answers_of_reads_alone() -> None:
    """What servers before 3.6 answer; one byte more or less, or what no node has, is none."""
    stat, names = Stat(5, 6, 7, 8, 9, 10), struct.pack("!i", 2) + text("z") + text("b")
    whole = {
        DATA_ALONE: struct.pack("!i", 3) + b"abc" + STAT,
        NAMES_ALONE: names,
        WATCHED_STAT: STAT,
        WATCHED_NAMES: names,
    }
    assert [request.decode(0, body, 0) for request, body in whole.items()] == [
        ReadDone((answer,))
        for answer in (
            Node(b"abc", stat),
            Children(("b", "z")),
            Node(b"", stat),
            Children(("b", "z")),
        )
    ]
    assert DATA_ALONE.decode(0, struct.pack("!i", -1) + STAT, 0) == ReadDone((Node(b"", stat),))
    for request, body in whole.items():
        for wrong in (body + b"\0", body[:-1], b"", b"\xff" * len(body)):
            with pytest.raises(GARBAGE):
                request.decode(0, wrong, 0)


def test_a_chroot_stands_before_every_path() -> None:
    for request in (
        wire_requests.multi_request("/x", [Create("/aa", b"")]),
        wire_requests.multi_request("/x", [SetData("/aa", b"", 0)]),
        wire_requests.multi_request("/x", [Delete("/aa")]),
        wire_requests.multi_request("/x", [Check("/aa", 0)]),
        wire_requests.read_request("/x", [GetData("/aa")]),
        wire_requests.read_request("/x", [GetChildren("/aa")]),
        wire_requests.watch_request("/x", "/aa", WatchMode.PERSISTENT),
        *ALONE,
    ):
        assert text("/x/aa") in request.serialize()
    assert wire_requests.read_request("/x", [GetChildren("/")]).serialize().count(text("/x")) == 1
    assert wire_requests.sync_request("/x").serialize() == text(
        "/x"
    ) and wire_requests.sync_request("").serialize() == text("/")


@pytest.mark.parametrize(
    ("chroot", "path", "full"),
    [("", "/", "/"), ("", "/a", "/a"), ("/x", "/", "/x"), ("/x/y", "/a/b", "/x/y/a/b")],
)
def test_absolute_and_relative_are_inverse(chroot: str, path: str, full: str) -> None:
    assert (
        wire_requests.absolute(chroot, path) == full
        and wire_requests.relative(chroot, full) == path
    )


def test_a_path_that_is_not_text_raises_where_the_request_is_made() -> None:
    with pytest.raises(UnicodeEncodeError):
        wire_requests.multi_request("", [Delete("/\ud800")])


def test_a_request_prints_no_data() -> None:
    assert "secret" not in repr(wire_requests.multi_request("", [Create("/a", b"secret")]))


@given(
    st.binary(max_size=400),
    st.integers(-200, 5),
    st.sampled_from(
        [
            wire_requests.multi_request("", OPS),
            wire_requests.read_request("", [GetData("/a"), GetChildren("/a")]),
            wire_requests.sync_request(""),
            *ALONE,
        ]
    ),
)
def test_garbage_raises_only_what_the_connection_expects(
    body: bytes, err: int, request: wire_requests.WireRequest
) -> None:
    try:
        request.decode(err, body, 0)
    except GARBAGE:
        pass
