"""Registrations: ours are valid for old consumers, theirs are understood, bad ones are named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.znodes import strategies
from zkcoord.core.error_codes import EndKind, MembershipEnd, parse_end
from zkcoord.core.model import Malformed, Member, Pattern, PatternKind, Subscription
from zkcoord.core.shared import KEEPER
from zkcoord.errors import InvalidSubscriptionError
from zkcoord.znodes.codec import decode_registration, encode_registration
from zkcoord.znodes.registration import (
    TOPIC_BYTES_MORE,
    TOPICS_BYTES_MAX,
    is_somebodys,
    topics_fit,
)
from zkcoord.znodes.stat import Stat

STAT = Stat(czxid=77, mzxid=77, version=0, cversion=0, ephemeral_owner=99, num_children=0)
INT32_MAX = 2**31 - 1


@given(
    name=strategies.members,
    stat=strategies.stats,
    subscription=strategies.subscriptions,
    assignors=st.lists(strategies.words, max_size=3).map(tuple),
    protocols=st.sampled_from([("cooperative",), ("eager",), ("cooperative", "eager"), ()]),
    instance=st.none() | strategies.topics,
    grace=st.integers(0, INT32_MAX),
    text=strategies.printable,
    user_data=st.text(st.characters(codec="utf-8"), max_size=50),
)
def test_round_trip(
    name: str,
    stat: Stat,
    subscription: Subscription,
    assignors: tuple[str, ...],
    protocols: tuple[str, ...],
    instance: str | None,
    grace: int,
    text: str,
    user_data: str,
) -> None:
    data = encode_registration(
        subscription,
        timestamp_ms=5,
        assignors=assignors,
        protocols=protocols,
        instance=instance,
        process=text,
        grace_ms=grace,
        rebalance_timeout_ms=grace,
        user_data=user_data,
        client=text,
        host=text,
        library=text,
        gateway=text,
        ended=text,
    )
    wanted = Member(
        name,
        stat.czxid,
        stat.ephemeral_owner,
        subscription,
        assignors,
        protocols,
        instance,
        text,
        grace,
        grace,
        user_data,
        text,
        text,
        library=text,
        gateway=text,
        ended=text,
    )
    assert decode_registration(name, data, stat) == wanted


def test_what_gateways_say_of_clients_is_in_their_registrations_alone_and_bounded() -> None:
    subscription = Subscription({"t": 1})
    document = json.loads(encode_registration(subscription, timestamp_ms=1))
    assert not {"library", "gateway", "ended"} & set(document)
    for key in ("library", "gateway", "ended"):
        for bad in (7, None, "x" * 256, "a\nb", ["x"]):
            data = json.dumps({**document, key: bad}).encode()
            found = decode_registration("c", data, STAT)
            assert isinstance(found, Malformed) and key in found.reason


def test_how_a_membership_ended_is_read_as_it_was_written() -> None:
    for kind in EndKind:
        end = MembershipEnd(kind, 12_345)
        assert parse_end(str(end)) == end
    for text in ("", "session", "session ", "session -1", "session 1.5", "session x", "else 5"):
        assert parse_end(text) is None
    assert parse_end("session " + "9" * 12) == MembershipEnd(EndKind.SESSION, 10**12 - 1)
    assert parse_end("session " + "9" * 13) is None and parse_end("session ٣") is None


def test_topics_that_fit_can_be_registered_whatever_else_is_said() -> None:
    text = "\U0001f600" * 255
    topics = [f"{n:05}" + "x" * 100 for n in range(TOPICS_BYTES_MAX // (105 + TOPIC_BYTES_MORE))]
    assert topics_fit(topics) and not topics_fit([*topics, "y" * 200])
    encode_registration(
        Subscription(dict.fromkeys(topics, 1)),
        timestamp_ms=INT32_MAX * 1000,
        assignors=("sticky", "range", "roundrobin"),
        instance="i" * 249,
        process="p" * 255,
        client=text,
        host=text,
        library=text,
        gateway=text,
        ended=str(MembershipEnd(EndKind.POLL, 10**12 - 1)),
        grace_ms=INT32_MAX,
        rebalance_timeout_ms=INT32_MAX,
        session_timeout_ms=INT32_MAX,
    )


@given(subscription=strategies.subscriptions, text=strategies.printable)
def test_ours_are_valid_for_old_consumers(subscription: Subscription, text: str) -> None:
    document = json.loads(
        encode_registration(subscription, timestamp_ms=1700000000000, client=text)
    )
    assert document.pop("version") == 1
    wanted = document.pop("subscription")
    assert all(type(streams) is int and 1 <= streams <= INT32_MAX for streams in wanted.values())
    assert document["pattern"] in ("static", "white_list", "black_list")
    assert document["timestamp"] == "1700000000000"
    assert all(type(value) is str for value in document.values())
    if subscription.pattern is not None:
        assert wanted == {subscription.pattern.regex: subscription.streams}


def old(**fields: object) -> bytes:
    """An old consumer's registration."""
    return json.dumps(
        {
            "version": 1,
            "subscription": {"t": 2},
            "pattern": "static",
            "timestamp": "1700000000000",
            **fields,
        }
    ).encode()


def test_an_old_consumer_is_a_member() -> None:
    assert decode_registration("g_h-1-a", old(), STAT) == Member(
        "g_h-1-a", 77, 99, Subscription({"t": 2}), legacy=True
    )


@pytest.mark.parametrize(
    "data",
    [
        old(version=2),
        old(timestamp=1700000000000),
        old(pattern="whatever"),
        old(note={"nested": 1}),
        b'{ "subscription": { "t": 2 }, "pattern": "static" }',
    ],
)
def test_what_old_readers_do_not_look_at(data: bytes) -> None:
    found = decode_registration("c", data, STAT)
    assert (
        isinstance(found, Member) and found.legacy and found.subscription == Subscription({"t": 2})
    )


@pytest.mark.parametrize("text", ["orders, payments", '"orders,payments"', " 'orders|payments' "])
def test_an_old_expression_is_normalised(text: str) -> None:
    found = decode_registration("c", old(subscription={text: 1}, pattern="white_list"), STAT)
    assert isinstance(found, Member) and found.subscription.pattern == Pattern(
        PatternKind.WHITE_LIST, "orders|payments"
    )


def test_internal_topics_are_asked_for_in_one_word() -> None:
    wide = Subscription(pattern=Pattern(PatternKind.WHITE_LIST, "_.*", internal=True))
    data = encode_registration(wide, timestamp_ms=1)
    found = decode_registration("c", data, STAT)
    assert isinstance(found, Member) and found.subscription == wide
    assert isinstance(
        decode_registration(
            "c", data.replace(b'"internal_topics":"true"', b'"internal_topics":"maybe"'), STAT
        ),
        Malformed,
    )


def test_ours_is_not_normalised() -> None:
    subscription = Subscription(pattern=Pattern(PatternKind.BLACK_LIST, "a{1,2}"))
    found = decode_registration("c", encode_registration(subscription, timestamp_ms=1), STAT)
    assert isinstance(found, Member) and found.subscription == subscription


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"orders",
        b"null",
        old(subscription={"t": 0}),
        old(subscription={"t": -1}),
        old(subscription={"t": True}),
        old(subscription={"t": 1.0}),
        old(subscription={"t": "1"}),
        old(subscription={"t": 2**40}),
        old(subscription={"": 1}),
        old(subscription={"t": 2**31}),
        old(subscription=["t"]),
        old(pattern=7),
        old(subscription={"*a": 1}, pattern="white_list"),
        old(subscription={"(": 1}, pattern="white_list"),
        old(zkcoord=1),
        old(zkcoord="1", subscription={"t": [1]}),
        old(zkcoord="1", subscription={"t": {}}),
        b'{"version":1,"subscription":{"t":1},"timestamp":"1"}',
        old(zkcoord="one"),
        old(zkcoord="1", pattern="whatever"),
        old(zkcoord="1", assignors=["range"]),
        old(zkcoord="1", assignors="range,,sticky"),
        old(zkcoord="1", grace_ms=5),
        old(zkcoord="1", grace_ms="-5"),
        old(zkcoord="1", grace_ms="9999999999"),
        old(zkcoord="1", instance=""),
        old(zkcoord="1", instance="a/b"),
        old(zkcoord="1", host="\u001b[31m"),
        old(zkcoord="1", user_data="x" * 20_000),
    ],
)
def test_malformed(data: bytes) -> None:
    found = decode_registration("bad", data, STAT)
    assert isinstance(found, Malformed)
    assert (
        (found.what, found.name) == ("registration", "bad")
        and found.reason.isprintable()
        and len(found.reason) < 500
    )


@pytest.mark.parametrize(
    ("data", "why", "streams"),
    [
        (old(subscription={"t": 10_001}), "10000", 0),
        (old(subscription={r"(a)\1": 1}, pattern="white_list"), "is not followed", 1),
        (old(subscription={"(?=a).*": 3}, pattern="black_list"), "is not followed", 3),
        (old(subscription={"a" * 5_000: 1}, pattern="white_list"), "4096", 1),
        (old(subscription={"a": 1, "b": 1}, pattern="white_list"), "exactly one", 0),
    ],
)
def test_who_only_old_consumers_can_follow_is_an_old_consumer(
    data: bytes, why: str, streams: int
) -> None:
    found = decode_registration("c", data, STAT)
    assert isinstance(found, Member) and found.legacy and why in found.unfollowed
    assert not found.subscription.topics and found.subscription.pattern is None
    # of each topic, where that can be told
    assert found.subscription.streams == streams
    assert found.unfollowed.isprintable() and len(found.unfollowed) <= 300


@pytest.mark.parametrize(
    "data",
    [
        old() + b" and more",
        old().replace(b'"t"', b'"t": 1, "t"'),
        old(more=[[[[[[[[[[1]]]]]]]]]]),
        old(more=10**30),
        old(more="x" * 100_000),
        old(pattern=None),
        old().replace(b'"static"', b'"\\static"'),
        old().replace(b"}", b"}", 1) + b"\n",
        b'{"subscription":{"t":2},"pattern":"static","more":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
)
def test_what_parsers_of_old_consumers_take_is_taken(data: bytes) -> None:
    """Laxer than ours are: of some release, which is enough for somebody to consume by it."""
    found = decode_registration("c", data, STAT)
    assert isinstance(found, Member) and found.legacy and not found.unfollowed
    assert found.subscription == Subscription({"t": 2})


@pytest.mark.parametrize(
    ("fields", "subscription"),
    [
        ({"subscription": {"a/b": 1, "..": 2, "t": 3}}, Subscription({"t": 3})),
        ({"subscription": {}, "pattern": "black_list"}, Subscription()),
        (
            {"subscription": {"": 1}, "pattern": "white_list"},
            Subscription(pattern=Pattern(PatternKind.WHITE_LIST, "(?:)")),
        ),
        (
            {"subscription": {"(?!__).*": 2}, "pattern": "white_list"},
            Subscription(
                pattern=Pattern(PatternKind.WHITE_LIST, "(?:|[^_].*|_(?:|[^_].*))"), streams=2
            ),
        ),
    ],
)
def test_an_old_subscription_is_what_its_readers_make_of_it(
    fields: dict[str, Any], subscription: Subscription
) -> None:
    found = decode_registration("c", old(**fields), STAT)
    assert isinstance(found, Member) and found.subscription == subscription and not found.unfollowed


def test_what_costs_too_much_to_read_is_malformed() -> None:
    for data in (
        old(more="x" * 300_000),
        old()[:-1] + b',"m":' + b"[" * 6_000 + b"]" * 6_000 + b"}",
    ):
        assert isinstance(decode_registration("c", data, STAT), Malformed)


def test_a_reason_never_carries_foreign_control_characters() -> None:
    found = decode_registration("c", old(subscription={"\u001b[31m" + "x" * 5_000: None}), STAT)
    assert isinstance(found, Malformed) and found.reason.isprintable() and len(found.reason) <= 300


def test_a_persistent_registration_is_malformed() -> None:
    assert isinstance(decode_registration("c", old(), Stat(77, 77, 0, 0, 0, 0)), Malformed)


def test_what_keeps_old_consumers_out_is_nobodys() -> None:
    assert is_somebodys("g_host-1700000000000-0a1b2c3d")
    assert not is_somebodys(KEEPER) and not is_somebodys("no/name") and not is_somebodys("")


@pytest.mark.parametrize("name", ["", "a/b", "\U0001f600", "a\u200bb", "x" * 641, ".."])
def test_a_bad_name_is_malformed(name: str) -> None:
    assert isinstance(decode_registration(name, old(), STAT), Malformed)


def test_a_registration_without_extras_gets_the_defaults() -> None:
    found = decode_registration("c", old(zkcoord="1"), STAT)
    assert found == Member("c", 77, 99, Subscription({"t": 2}))


@pytest.mark.parametrize(
    "subscription",
    [
        Subscription({"a b": 1}),
        Subscription({"t": 0}),
        Subscription({"t": 10_001}),
        Subscription(pattern=Pattern(PatternKind.WHITE_LIST, "(")),
        Subscription(pattern=Pattern(PatternKind.WHITE_LIST, "\ud800")),
        Subscription(pattern=Pattern(PatternKind.STATIC, "a.*")),
        Subscription({f"{n:0240}": 1 for n in range(400)}),
    ],
    ids=["name", "no streams", "many streams", "regex", "surrogate", "kind", "size"],
)
def test_what_a_reader_would_refuse_is_refused_at_once(subscription: Subscription) -> None:
    with pytest.raises(InvalidSubscriptionError) as caught:
        encode_registration(subscription, timestamp_ms=1)
    assert "correct its subscription" in str(caught.value) and "\n" not in str(caught.value)


def test_topics_fit_up_to_the_last_byte() -> None:
    whole = "t" * (TOPICS_BYTES_MAX - TOPIC_BYTES_MORE)
    assert topics_fit([whole]) and not topics_fit([f"{whole}t"])
