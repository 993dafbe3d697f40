"""What is just within a limit is taken, what is just above it is not; and each field of the small
documents is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from zkcoord.core.model import GroupMode, Malformed, Mode, Request, RequestKind, Thread
from zkcoord.znodes import mode, names, patterns, publication, registration, request, strict_json
from zkcoord.znodes.codec import decode_leader
from zkcoord.znodes.command import decode_command, encode_command
from zkcoord.znodes.patterns import compiled
from zkcoord.znodes.registration import decode_registration
from zkcoord.znodes.stat import Stat
from zkcoord.znodes.strict_json import UnfitField

STAT = Stat(1, 1, 1, 0, 99, 0)


def of(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def registered(**extras: Any) -> bytes:
    return of(
        {
            "version": 1,
            "subscription": {"a": 1, "b": 2},
            "pattern": "static",
            "timestamp": "1",
            "zkcoord": "1",
            **extras,
        }
    )


MODE = {"version": 1, "mode": "mixed", "strategy": "legacy-range", "by": "a"}
REQUEST = {"version": 1, "request": "rebalance", "fresh": False, "by": "a"}
LEADER = {"version": 1, "brokerid": "b", "host": "h", "port": 0, "epoch": 1, "timestamp": "1"}


def modes(data: bytes) -> object:
    return mode.decode_mode(data)


def requests(data: bytes) -> object:
    return request.decode_request("n", data)


def leaders(data: bytes) -> object:
    return decode_leader(data)


def registrations(data: bytes) -> object:
    return decode_registration("c", data, STAT)


@pytest.mark.parametrize(
    ("decode", "good", "bad"),
    [
        (modes, {**MODE, "by": "x" * mode.TEXT_CHARS_MAX}, {"by": "x" * (mode.TEXT_CHARS_MAX + 1)}),
        (modes, MODE, {"version": 2}),
        (modes, MODE, {"version": 0}),
        (modes, MODE, {"mode": "Mixed"}),
        (modes, MODE, {"strategy": "range"}),
        (
            requests,
            {**REQUEST, "by": "x" * request.BY_CHARS_MAX},
            {"by": "x" * (request.BY_CHARS_MAX + 1)},
        ),
        (requests, REQUEST, {"version": 2}),
        (requests, REQUEST, {"request": "balance"}),
        (requests, REQUEST, {"fresh": 0}),
        (leaders, LEADER, {"version": 2}),
        (leaders, {**LEADER, "port": 65535}, {"port": 65536}),
        (leaders, LEADER, {"port": -1}),
        (leaders, LEADER, {"epoch": 0}),
    ],
)
def test_a_field_that_is_out_of_its_bounds(
    decode: Callable[[bytes], object], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    assert not isinstance(decode(of(good)), Malformed)
    assert isinstance(decode(of({**good, **bad})), Malformed)


@pytest.mark.parametrize(
    ("streams", "taken"),
    [
        (1, True),
        (registration.STREAMS_MAX, True),
        (registration.STREAMS_MAX + 1, False),
        (0, False),
        (-1, False),
        (True, False),
        ("1", False),
    ],
)
def test_streams_of_each_of_several_topics(streams: Any, taken: bool) -> None:
    found = registrations(registered(subscription={"a": 1, "b": streams}))
    assert isinstance(found, Malformed) is not taken


def test_what_is_equal_to_a_number_is_not_taken_for_it() -> None:
    """Neither where the same subscription has just been read."""
    for streams, taken in ((1, True), (True, False), (1.0, False), (1, True)):
        found = registrations(registered(subscription={"a": streams}))
        assert isinstance(found, Malformed) is not taken


def test_what_a_mode_and_a_request_are_written_as() -> None:
    assert json.loads(mode.encode_mode(Mode(GroupMode.MIXED, "legacy-range", "a\n"))) == {
        **MODE,
        "by": "a?",
    }
    assert json.loads(request.encode_request(Request(RequestKind.REBALANCE, False, "a"))) == REQUEST


def test_what_a_pause_and_an_eviction_are_written_as() -> None:
    """The words of earlier releases are as ever, and what is not ours is refused."""
    paused = Mode(GroupMode.COORDINATED, by="a", paused=True)
    data = mode.encode_mode(paused)
    assert json.loads(data) == {**MODE, "mode": "coordinated", "by": "a", "paused": True}
    assert mode.decode_mode(data) == paused
    for wrong in ({"paused": 1}, {"paused": True, "mode": "mixed"}, {"paused": "true"}):
        bad = {**MODE, "mode": "coordinated", "by": "a", **wrong}
        assert isinstance(mode.decode_mode(json.dumps(bad).encode()), Malformed), wrong
    evict = Request(RequestKind.EVICT, False, "a", "g_h-1-00c0ffee", -(1 << 63))
    data = request.encode_request(evict)
    assert request.decode_request("request-0", data) == evict
    said = json.loads(data)
    assert said == {
        **REQUEST,
        "request": "evict",
        "member": "g_h-1-00c0ffee",
        "session": str(-(1 << 63)),
    }
    for wrong in (
        {"member": "a/b"},
        {"member": "m" * 641},
        {"member": None},
        {"session": "1" * 21},
        {"session": "x"},
        {"session": "-"},
        {"session": "--1"},
        {"session": 7},
        {"session": "\u0663"},
    ):
        bad = json.dumps({**said, **wrong}).encode()
        assert isinstance(request.decode_request("request-0", bad), Malformed), wrong


def test_user_data_of_a_command_is_read_again() -> None:
    """ "" is something else than nothing."""
    start = {
        "version": 1,
        "option": "start-fetcher",
        "epoch": 1,
        "seq": 1,
        "generation": 1,
        "incarnation": "1",
        "ownershipMap": {"t-0": "c-0"},
    }
    for given in (None, "", "x"):
        data = of(start if given is None else {**start, "userData": given})
        found = decode_command("c", "n", data)
        assert not isinstance(found, Malformed) and found.user_data == given
        assert decode_command("c", "n", encode_command(found)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("c-0", Thread("c", 0)),
        ("a-b-12", Thread("a-b", 12)),
        ("c", None),
        ("0", None),
        ("-0", None),
        ("c-", None),
        ("c-00", None),
        ("c--1", Thread("c-", 1)),
    ],
)
def test_what_is_a_thread(text: str, found: Thread | None) -> None:
    assert names.parse_thread(text) == found


def test_the_longest_expression() -> None:
    longest = "a" * patterns.REGEX_CHARS_MAX
    assert not isinstance(compiled(longest), Malformed)
    for regex in ("", longest + "a"):
        found = compiled(regex)
        assert isinstance(found, Malformed) and "1 to" in found.reason


@pytest.mark.parametrize(
    "path",
    ["", "/", "/a", "a/", "a//b", ".", "a/..", "../a", "a/./b", "a\0b", "a\nb", "\ud800", 7, None],
)
def test_what_does_not_stay_below_the_directory(path: Any) -> None:
    with pytest.raises(UnfitField):
        publication.path_below(path)


def test_the_longest_path() -> None:
    longest = "a" * publication.PATH_CHARS_MAX
    assert publication.path_below(longest) == longest
    with pytest.raises(UnfitField):
        publication.path_below(longest + "a")


@pytest.mark.parametrize("items", [["xxxx"], ["a", "xxxx"], ["a\n"], [1], "ab", None])
def test_a_list_of_texts_with_one_that_is_none(items: Any) -> None:
    """Each is looked at, also where it is alone."""
    with pytest.raises(UnfitField):
        strict_json.strings({"k": items}, "k", 3)


def test_a_list_of_texts() -> None:
    assert strict_json.strings({"k": ["xxx", "", "a"]}, "k", 3) == ["xxx", "", "a"]
