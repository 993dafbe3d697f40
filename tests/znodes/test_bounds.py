"""The exact bounds of names, numbers, offsets, epochs and incarnations, and what is said of what is
beyond them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from zkcoord.core.model import Malformed, Option, Subscription
from zkcoord.errors import InvalidGroupError
from zkcoord.znodes import names, publication, strict_json
from zkcoord.znodes.codec import EpochData, OffsetsOf, Vacant, decode_offset, decode_owner
from zkcoord.znodes.command import decode_command, encode_command
from zkcoord.znodes.owner_offset_epoch import (
    INCARNATION_CHARS_MAX,
    LEASE_MS_MAX,
    OFFSET_BYTES_MAX,
    OFFSET_MAX,
    OWNER_BYTES_MAX,
    decode_epoch,
    decode_incarnation,
)
from zkcoord.znodes.registration import decode_registration
from zkcoord.znodes.stat import Stat
from zkcoord.znodes.strict_json import Reason, Texts, UnfitField
from zkcoord.znodes.strict_json import strict_json as parsed

STAT = Stat(1, 1, 1, 0, 99, 0)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "it is empty"),
        (".", "a place in a path"),
        ("..", "a place in a path"),
        ("a/b", "a / parts paths"),
        ("a\nb", "cannot be seen"),
        ("\U0001f600", "ZooKeeper refuses in paths"),
        ("x" * (names.NAME_CHARS_MAX + 1), "it has 250 bytes"),
        ("é" * 125, "it has 250 bytes"),
        ("owners", "a part of the layout"),
    ],
)
def test_why_a_group_is_refused(name: str, why: str) -> None:
    assert not names.is_group(name) and not names.is_plain_group(name)
    with pytest.raises(InvalidGroupError, match=why):
        names.validate_group(name)


@pytest.mark.parametrize("name", ["x" * names.NAME_CHARS_MAX, "é" * 124, "a b", "..."])
def test_a_group_that_is_just_good(name: str) -> None:
    assert names.validate_group(name) == name and names.is_plain_group(name)


@pytest.mark.parametrize("name", ["a*", "?", "[a]"])
def test_a_group_that_could_be_a_pattern(name: str) -> None:
    assert names.is_group(name) and not names.is_plain_group(name)


def test_names_of_members_and_of_other_nodes() -> None:
    assert names.is_member("x" * names.MEMBER_CHARS_MAX)
    assert not names.is_member("x" * (names.MEMBER_CHARS_MAX + 1))
    assert names.is_node("1-2-0000000001") and not names.is_node("a/b") and not names.is_node("")
    assert names.is_node("x" * names.NODE_CHARS_MAX)
    assert not names.is_node("x" * (names.NODE_CHARS_MAX + 1))


def test_what_is_kept_of_a_name_that_is_too_long_is_no_nodes_name() -> None:
    longest = "x" * names.MEMBER_CHARS_MAX
    assert names.kept(longest) == longest
    one, other = names.kept(f"{longest}a"), names.kept(f"{longest}b")
    assert one != other and len(one) < 200 and "641 characters" in one
    assert not names.is_member(one) and not names.is_node(one) and names.kept(one) == one
    assert len(names.kept("\ud800" * 1_000)) < 200


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("0", True),
        ("9" * names.NUMBER_DIGITS_MAX, True),
        ("1" + "0" * names.NUMBER_DIGITS_MAX, False),
        ("00", False),
        ("-1", False),
        ("٣", False),
        ("²", False),
    ],
)
def test_numbers_of_partitions(text: str, good: bool) -> None:
    assert names.is_number(text) is good and names.is_partition("t", text) is good
    assert not names.is_partition("a b", "0")


def test_a_host_of_which_nothing_is_left() -> None:
    made = names.consumer_id("g", "", 1, "0" * 8)
    assert made == "g_localhost-1-00000000" and names.origin_of("g", made) == "localhost"
    for other in ("g_localhost", "h_localhost-1-00000000", "g_localhost-1-0", "g_x1-00000000"):
        assert names.origin_of("g", other) == ""


def test_a_group_within_a_members_name_is_short_enough_and_another_for_another() -> None:
    made = {names.consumer_id("é" * n, "h", 1, "0" * 8) for n in range(45, 60)}
    assert len(made) == 15 and all(names.is_member(one) and one.isascii() for one in made)
    exact = "é" * (names.FIT_CHARS_MAX // 6)  # each is six characters there
    assert f"{'%C3%A9' * len(exact)}_h-1-" in names.consumer_id(exact, "h", 1, "0" * 8)


@pytest.mark.parametrize(
    ("data", "good"),
    [
        (b"x" * (OWNER_BYTES_MAX - 2) + b"-0", False),  # a member is shorter
        (b"x" * names.MEMBER_CHARS_MAX + b"-999999999", True),
        (b"x" * (names.MEMBER_CHARS_MAX + 1) + b"-0", False),
        (b"x-0" * OWNER_BYTES_MAX, False),
        (b"", False),
        (b"a-0", True),
    ],
)
def test_the_longest_owner(data: bytes, good: bool) -> None:
    assert isinstance(decode_owner("t-0", data, STAT), Malformed) is not good


def test_what_an_owner_that_is_too_long_is_said_to_be() -> None:
    """By its length, whatever it holds: it is not parsed."""
    for data in (b"", b"x" * (OWNER_BYTES_MAX + 1)):
        found = decode_owner("t-0", data, STAT)
        assert isinstance(found, Malformed) and "bytes of ASCII" in found.reason


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("0", 0),
        ("+0", 0),
        ("-0", 0),
        ("+1", 1),
        (str(OFFSET_MAX), OFFSET_MAX),
        (f"+{OFFSET_MAX}", OFFSET_MAX),
        (f"+{OFFSET_MAX + 1}", None),
        ("-1", None),
        ("+" + "7".rjust(80, "0"), 7),
        ("+" + "7".rjust(81, "0"), None),
        ("٧" * 2, 77),
        ("٠" * (OFFSET_BYTES_MAX // 2 - 1) + "٧", 7),
        ("٠" * (OFFSET_BYTES_MAX // 2 - 1) + "٧٧", None),  # never cut
    ],
)
def test_the_last_offset(text: str, offset: int | None) -> None:
    found = decode_offset("t-0", text.encode())
    assert found == offset if offset is not None else isinstance(found, Malformed)


def test_what_an_offset_below_zero_is_said_to_be() -> None:
    found = decode_offset("t-0", b"-7")
    assert isinstance(found, Malformed) and "'-7' is below 0" in found.reason


def test_the_longest_incarnation() -> None:
    """A topic's id may be longer than the ones that Kafka draws."""
    longest = "1" * 19 + "." + "A" * (INCARNATION_CHARS_MAX - 20)
    for mark, newer in (("", False), ("+", True)):
        assert decode_incarnation("t", (longest + mark).encode()) == OffsetsOf(longest, newer)
    assert isinstance(decode_incarnation("t", (longest + "AA").encode()), Malformed)
    assert decode_incarnation("t", b"") == Vacant()


@pytest.mark.parametrize(
    ("own", "older", "next_one", "said"),
    [(10, 0, 10, 0), (10, 0, 9, 10), (10, 20, 9, 20), (10, 20, 20, 0), (30, 20, 25, 30)],
)
def test_what_the_next_coordinator_says_of_older_leases(
    own: int, older: int, next_one: int, said: int
) -> None:
    """The longest that any lease in the group may still have, where its own is shorter."""
    assert EpochData(1, 1, own, older).older_than(next_one) == said


def test_no_older_lease_is_zero() -> None:
    data = b'{"version":1,"epoch":1,"protocol":1,"lease_max_ms":5%s}'
    for said in (b"", b',"older_lease_ms":0'):
        assert decode_epoch(data % said) == EpochData(1, 1, 5, 0)
    longest = data % (b',"older_lease_ms":%d' % LEASE_MS_MAX)
    assert decode_epoch(longest) == EpochData(1, 1, 5, LEASE_MS_MAX)
    for bad in (LEASE_MS_MAX + 1, -1):
        assert isinstance(decode_epoch(data % (b',"older_lease_ms":%d' % bad)), Malformed)


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"incarnations": {"t": "5"}}, True),
        ({"incarnations": {"a b": "5"}}, False),
        ({"incarnations": {"t": "x"}}, False),
        ({"incarnations": {"t": 5}}, False),
        ({"seen": "3-ab"}, True),
        ({"ownershipMap": {"t-0": "c-" + "9" * 9}}, True),
        ({"ownershipMap": {"t-0": ["c-0"]}}, False),
        ({"ownershipMap": {"t-0": "d-0"}}, False),
    ],
)
def test_what_a_start_command_may_say(change: dict[str, Any], good: bool) -> None:
    document = {
        "version": 1,
        "option": "start-fetcher",
        "epoch": 1,
        "seq": 1,
        "generation": 1,
        "incarnation": "1",
        "ownershipMap": {"t-0": "c-0"},
        **change,
    }
    found = decode_command("c", "n", json.dumps(document).encode())
    assert isinstance(found, Malformed) is not good
    if not isinstance(found, Malformed):
        assert decode_command("c", "n", encode_command(found)) == found
        assert found.incarnations == document.get("incarnations", {})
        assert found.seen == document.get("seen", "")


def test_what_a_member_of_the_longest_name_is_told() -> None:
    member = "x" * names.MEMBER_CHARS_MAX
    document = {
        "version": 1,
        "option": "start-fetcher",
        "epoch": 1,
        "seq": 1,
        "generation": 1,
        "incarnation": "1",
        "ownershipMap": {"t-0": f"{member}-999999999"},
    }
    found = decode_command(member, "n", json.dumps(document).encode())
    assert not isinstance(found, Malformed) and found.option is Option.START


def test_a_stop_command_names_no_incarnations() -> None:
    document = {
        "version": 1,
        "option": "stop-fetcher",
        "epoch": 1,
        "seq": 1,
        "generation": 1,
        "incarnation": "1",
        "partitions": ["t-0"],
        "incarnations": {"a b": "x"},
    }
    found = decode_command("c", "n", json.dumps(document).encode())
    assert not isinstance(found, Malformed) and not found.incarnations


@pytest.mark.parametrize(
    ("node", "incarnation"),
    [
        ("5-0", 5),
        ("9" * 19 + "-1", int("9" * 19)),
        ("1" + "9" * 19 + "-1", None),
        ("5", None),
        ("05-0", None),
        ("5-", None),
        ("-0", None),
        ("0-0", 0),
    ],
)
def test_whose_publication(node: str, incarnation: int | None) -> None:
    assert publication.incarnation_of(node) == incarnation


@pytest.mark.parametrize(
    ("length", "good"), [(0, False), (1, True), (publication.PATH_CHARS_MAX, True)]
)
def test_the_directory_of_a_publication(length: int, good: bool) -> None:
    document = {"version": 1, "directory": "d" * length, "manifest": "m", "digest": "0" * 64}
    data = json.dumps(document).encode()
    assert isinstance(publication.decode_publication("1-0", data), Malformed) is not good


@pytest.mark.parametrize(
    ("subscription", "good"),
    [({"a": 1, "b": 1}, True), ({"a": 1, "b c": 1}, False), ({"b c": 1}, False), ({}, True)],
)
def test_each_topic_of_ours_has_a_topics_name(subscription: dict[str, int], good: bool) -> None:
    found = decode_registration(
        "c",
        json.dumps(
            {
                "version": 1,
                "subscription": subscription,
                "pattern": "static",
                "timestamp": "1",
                "zkcoord": "1",
            }
        ).encode(),
        STAT,
    )
    assert isinstance(found, Malformed) is not good


def test_an_old_consumers_topic_that_cannot_be_is_left_out() -> None:
    for given, topics in (({"a b": 1}, {}), ({"a b": 1, "t": 2}, {"t": 2}), ({"t": 3}, {"t": 3})):
        data = json.dumps(
            {"version": 1, "subscription": given, "pattern": "static", "timestamp": "1"}
        ).encode()
        found = decode_registration("c", data, STAT)
        assert not isinstance(found, Malformed) and found.subscription == Subscription(topics)


@pytest.mark.parametrize(
    ("text", "good"),
    [("1", True), ("0" * 20, True), ("0" * 21, False), ("5", True), ("6", False), ("", False)],
)
def test_a_number_in_a_string(text: str, good: bool) -> None:
    try:
        assert strict_json.number_in(text, "k", 5) == int(text) and good
    except UnfitField:
        assert not good


@pytest.mark.parametrize(
    ("document", "values"),
    [
        ({"a": "xxx"}, ("xxx", "", "d")),
        ({"a": "xxx", "b": "yyyyy", "c": "zzzz"}, ("xxx", "yyyyy", "zzzz")),
        ({"a": "", "b": "yyy", "c": "z"}, ("", "yyy", "z")),
        ({"a": "xxxx"}, None),
        ({"a": "x", "b": "yyyyyy"}, None),
        ({"a": "x", "c": "zzzzz"}, None),
        ({"a": "\n"}, None),
        ({"b": "y"}, None),
        ({"a": 1}, None),
        ({"a": None}, None),
    ],
)
def test_several_texts_at_once(document: dict[str, Any], values: tuple[str, ...] | None) -> None:
    """Each has a limit of its own."""
    texts = Texts({"a": (3, None), "b": (5, ""), "c": (4, "d")})
    if values is None:
        with pytest.raises(UnfitField):
            texts.read(document)
    else:
        assert texts.read(document) == values


@pytest.mark.parametrize(
    "data", [b'{"a":"\\ud800"}', b'{"a":"\\uD800"}', b'{"\\udfff":1}', b'{"a":["\\uDC00"]}']
)
def test_half_a_character_is_no_text(data: bytes) -> None:
    assert parsed(data, 100) == Reason("not UTF-8")


def test_a_document_is_nested_as_deep_as_may_be() -> None:
    deep = strict_json.DOCUMENT_DEPTH_MAX
    for depth, good in ((deep, True), (deep + 1, False)):
        data = b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
        assert isinstance(parsed(data, 1_000), dict) is good
        mixed = b'{"a":[' * (depth // 2) + b'{"a":1}' * (depth % 2) + b"]}" * (depth // 2)
        assert isinstance(parsed(mixed, 1_000), dict) is good


def test_what_is_no_number_is_never_written() -> None:
    with pytest.raises(ValueError):
        strict_json.to_bytes({"a": float("nan")})
