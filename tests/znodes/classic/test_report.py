"""What is said of groups whose leader is a client, for people: report, presence, assignments."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.znodes.classic.test_malformed import Change, changed, drop, put
from zkcoord.core.classic.state import WORDS_CHARS_MAX, ClassicPhase
from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.znodes.classic import assigned, report
from zkcoord.znodes.classic.assigned import partitions_of
from zkcoord.znodes.classic.documents import INT32_MAX, MEMBER_ID_CHARS_MAX
from zkcoord.znodes.classic.presence import ServedBy, decode_presence, encode_presence
from zkcoord.znodes.classic.report import (
    ClassicReport,
    EndedSaid,
    Named,
    WaitsSaid,
    Why,
    decode_report,
    encode_report,
    named,
)

QUIET = ClassicReport(ClassicPhase.EMPTY, 0, 0)
WAITS = WaitsSaid(
    Why("member joined", "c", "c joins; no reason given"),
    5,
    9,
    True,
    named(("a", "b")),
    named(("p",)),
    named(("x",)),
    "x",
)
ENDED = EndedSaid(Why("member left"), 7, 3, 2, 900, 800, "b", named(("z",)), 1)
BUSY = ClassicReport(ClassicPhase.PREPARING, 3, 5, WAITS, ENDED, ("beware",))
LONG_ID = "x" * (MEMBER_ID_CHARS_MAX + 1)


@pytest.mark.parametrize("one", [QUIET, BUSY, replace(BUSY, waits=None), replace(BUSY, ended=None)])
def test_what_is_written_is_read(one: ClassicReport) -> None:
    assert decode_report("g", encode_report(one)) == one


def test_an_empty_node_says_nothing() -> None:
    assert decode_report("g", b"") is None


def test_as_many_as_are_named_are_read() -> None:
    many = named(tuple(f"m{n}" for n in range(report.NAMED_MAX)))
    one = replace(BUSY, waits=replace(WAITS, unjoined=many))
    assert decode_report("g", encode_report(one)) == one


def test_what_is_long_is_cut_and_counted() -> None:
    many = named(tuple(f"m{n}" for n in range(200)))
    assert (many.count, len(many.names)) == (200, report.NAMED_MAX)
    long = "w" * (report.CAUSE_CHARS_MAX + 1)
    problems = (long,) * (report.PROBLEMS_MAX + 1)
    one = replace(BUSY, waits=replace(WAITS, why=Why("k", "t", long)), problems=problems)
    read = decode_report("g", encode_report(one))
    assert isinstance(read, ClassicReport) and read.waits is not None
    assert len(read.waits.why.words) == report.CAUSE_CHARS_MAX
    assert [len(p) for p in read.problems] == [report.CAUSE_CHARS_MAX] * report.PROBLEMS_MAX


def within(key: str, change: Change) -> Change:
    return lambda document: change(document[key])


BAD: tuple[Change, ...] = (
    put("version", 2),
    *(drop(key) for key in ("phase", "generation", "since", "waits", "ended", "problems")),
    put("phase", "Asleep"),
    put("generation", -1),
    put("generation", INT32_MAX + 1),
    put("since", -1),
    put("since", "5"),
    put("waits", 3),
    put("ended", []),
    put("problems", [3]),
    put("problems", ["x" * (report.CAUSE_CHARS_MAX + 1)]),
    put("problems", [""] * (report.PROBLEMS_MAX + 1)),
    *(
        within("waits", drop(key))
        for key in ("cause", "trigger", "words", "since", "until", "initial", "unjoined")
    ),
    *(within("waits", drop(key)) for key in ("pending", "unsynced")),
    within("waits", put("cause", "x" * (WORDS_CHARS_MAX + 1))),
    within("waits", put("trigger", LONG_ID)),
    within("waits", put("words", "x" * (report.CAUSE_CHARS_MAX + 1))),
    within("waits", put("initial", 1)),
    within("waits", put("leader", LONG_ID)),
    within("waits", put("until", -1)),
    within("waits", put("unjoined", [1, "a", "b"])),
    within("waits", put("unjoined", [])),
    within("waits", put("unjoined", [True, "a"])),
    within("waits", put("unjoined", [report.COUNT_MAX + 1])),
    within("waits", put("unjoined", [2, "a", 3])),
    within("waits", put("unjoined", [1, LONG_ID])),
    within("waits", put("unjoined", [99, *"a" * (report.NAMED_MAX + 1)])),
    *(within("ended", drop(key)) for key in ("at", "generation", "members", "duration", "joins")),
    *(within("ended", drop(key)) for key in ("out", "again")),
    within("ended", put("generation", -1)),
    within("ended", put("generation", INT32_MAX + 1)),
    within("ended", put("members", -1)),
    within("ended", put("members", report.COUNT_MAX + 1)),
    within("ended", put("again", -1)),
    within("ended", put("again", report.COUNT_MAX + 1)),
    within("ended", put("at", -1)),
    within("ended", put("duration", -1)),
    within("ended", put("joins", -1)),
    within("ended", put("last", LONG_ID)),
)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_no_report(number: int) -> None:
    found = decode_report("g", changed(encode_report(BUSY), BAD[number]))
    assert isinstance(found, Malformed) and found.name == "g"


@given(st.binary())
def test_whatever_is_there_a_report_is_read_or_malformed(data: bytes) -> None:
    assert decode_report("g", data) is None or isinstance(decode_report("g", data), Malformed)


LIMITS: tuple[Change, ...] = (
    put("generation", INT32_MAX),
    within("waits", put("unjoined", [report.COUNT_MAX, "x" * MEMBER_ID_CHARS_MAX])),
    within("waits", put("leader", "x" * MEMBER_ID_CHARS_MAX)),
    within("ended", put("generation", INT32_MAX)),
    within("ended", put("generation", 0)),
    within("ended", put("members", report.COUNT_MAX)),
    within("ended", put("again", report.COUNT_MAX)),
    within("ended", put("at", 0)),
    within("ended", put("duration", 0)),
    within("ended", put("joins", 0)),
    within("ended", put("members", 0)),
    within("ended", put("again", 0)),
    within("waits", put("since", 0)),
    within("waits", put("until", 0)),
)


@pytest.mark.parametrize("number", range(len(LIMITS)))
def test_what_is_just_a_report(number: int) -> None:
    found = decode_report("g", changed(encode_report(BUSY), LIMITS[number]))
    assert isinstance(found, ClassicReport), found


def test_what_a_gateway_says_of_a_client() -> None:
    said = ServedBy("librdkafka 2.3", "gw1:9192")
    assert decode_presence("m", encode_presence(said)) == said
    assert decode_presence("m", b"") == ServedBy()
    long = "x" * (WORDS_CHARS_MAX + 1)
    cut = decode_presence("m", encode_presence(ServedBy(long, long)))
    assert cut == ServedBy(long[:-1], long[:-1])
    for data in (b"{", b'{"version": 2}', json.dumps({"version": 1, "library": long}).encode()):
        assert isinstance(decode_presence("m", data), Malformed)


def text(said: str) -> bytes:
    data = said.encode()
    return struct.pack(">h", len(data)) + data


def assignment(*topics: tuple[str, tuple[int, ...]], version: int = 1) -> bytes:
    """As clients encode it, with user data behind."""
    data = struct.pack(">hi", version, len(topics))
    for topic, numbers in topics:
        data += text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return data + struct.pack(">i", 4) + b"user"


def test_partitions_of_an_assignment_are_read() -> None:
    data = assignment(("b", (2, 0)), ("a", (1,)), ("b", (0,)))
    b0, b2 = TopicPartition("b", 0), TopicPartition("b", 2)
    assert partitions_of(data) == (TopicPartition("a", 1), b0, b2)
    assert partitions_of(assignment()) == partitions_of(b"") == ()
    assert partitions_of(assignment(("a", ()), version=0)) == ()
    assert partitions_of(assignment(("", ()))) == ()


WHOLE = assignment(("a", (1,)))


@pytest.mark.parametrize("data", [WHOLE[:n] for n in range(1, len(WHOLE) - 8)])
def test_what_is_not_whole_cannot_be_read(data: bytes) -> None:
    assert partitions_of(data) is None


@pytest.mark.parametrize(
    "data",
    [
        assignment(("a", (1,)), version=-1),
        assignment(("../a", (1,))),
        assignment(("a", (-1,))),
        struct.pack(">hi", 1, 1) + struct.pack(">h", -1) + bytes(20),
        struct.pack(">hi", 1, 1) + struct.pack(">h", 2) + b"\xff\xff" + bytes(20),
        b'{"json": true}',
    ],
)
def test_what_is_none_cannot_be_read(data: bytes) -> None:
    assert partitions_of(data) is None


def test_an_assignment_that_names_too_much_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigned, "PARTITIONS_MAX", 2)
    assert partitions_of(assignment(("a", (1, 2)))) is not None
    assert partitions_of(assignment(("a", (1, 2, 3)))) is None


@given(st.binary())
def test_whatever_a_client_brings_nothing_is_raised(data: bytes) -> None:
    partitions_of(data)
    Named()
