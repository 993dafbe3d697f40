"""Names: what users may choose, and what foreign text is taken for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.znodes import strategies
from zkcoord import terminal
from zkcoord.core.model import Thread, TopicPartition
from zkcoord.errors import InvalidConsumerIdError, InvalidGroupError
from zkcoord.znodes import names


@pytest.mark.parametrize(
    "name",
    [
        "g",
        "a.b_c-D9",
        "x" * 249,
        "...",
        "idsx",
        "team:billing",
        "a b",
        " a",
        "grüße",
        "é" * 124,
        "日本語",
        "*",
        "a?b[c]",
        "a\\b",
        "'\"`$;&|<>",
        "100%",
        "a,b",
    ],
)
def test_good_groups(name: str) -> None:
    assert names.validate_group(name) == name
    member = names.consumer_id(name, "host", 1_700_000_000_000, "00c0ffee")
    assert names.is_member(member) and member.isascii() and " " not in member
    assert names.origin_of(name, member) == "host"
    old = f"{name}_host-1700000000000-00c0ffee"
    assert names.is_member(old) and names.origin_of(name, old) == "host"
    assert names.parse_thread(f"{old}-0") == Thread(old, 0)
    assert names.is_plain_group(name) == (not set(name) & set("*?["))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "x" * 250,
        "é" * 125,
        "a/b",
        "/",
        "g\n",
        "a\0",
        "a\x9f",
        "a\u202eb",
        "a\u200bb",
        "a\u00a0b",
        "\ud800",
        "\ue000",
        "\U0001f600",
        "\ufffd",
        "ids",
        "owners",
        "offsets",
        "coordinator",
        "groups",
    ],
)
def test_bad_groups_get_one_sentence(name: str) -> None:
    with pytest.raises(InvalidGroupError) as caught:
        names.validate_group(name)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    assert "because" in str(caught.value) and str(caught.value).isascii()
    assert caught.value.fatal and not caught.value.retriable


def test_a_member_is_named_as_the_old_consumer_names_it() -> None:
    assert (
        names.consumer_id("g1", "host.local", 1700000000000, "00c0ffee")
        == "g1_host.local-1700000000000-00c0ffee"
    )
    assert (
        names.chosen_consumer_id("g1", "mine", 1700000000000, "00c0ffee")
        == "g1_mine-1700000000000-00c0ffee"
    )


@given(group=st.text(strategies.WORD, min_size=1, max_size=249), host=st.text(max_size=300))
def test_any_host_makes_a_member_name(group: str, host: str) -> None:
    name = names.consumer_id(group, host, 1700000000000, "00c0ffee")
    assert names.is_member(name)
    assert names.is_topic(names.origin_of(group, name) + "x")


@given(
    group=st.text("ab-_", min_size=1, max_size=8), chosen=st.text("ab-_.", min_size=1, max_size=20)
)
def test_the_chosen_id_can_be_read_back(group: str, chosen: str) -> None:
    assert names.origin_of(group, names.chosen_consumer_id(group, chosen, 5, "00c0ffee")) == chosen
    assert names.origin_of("other" + group, f"{group}_{chosen}-5-00c0ffee") == ""
    assert names.origin_of(group, f"{group}_{chosen}-5-00c0ffeg") == ""


@pytest.mark.parametrize("chosen", ["", "a b", "a/b", "x" * 101, "ä"])
def test_bad_consumer_ids_get_one_sentence(chosen: str) -> None:
    with pytest.raises(InvalidConsumerIdError, match="write 1 to 100"):
        names.chosen_consumer_id("g", chosen, 5, "00c0ffee")


@given(strategies.partitions)
def test_partitions_are_split_at_the_last_dash(tp: TopicPartition) -> None:
    assert names.parse_partition(str(tp)) == tp


@given(strategies.members, strategies.numbers)
def test_threads_are_split_at_the_last_dash(member: str, number: int) -> None:
    assert names.parse_thread(f"{member}-{number}") == Thread(member, number)


@pytest.mark.parametrize(
    "text",
    ["t", "t-", "-1", "t-01", "t- 1", "t-1_0", "t-+1", "t-١", "t-1000000000", ".-1", "t t-1", ""],
)
def test_what_is_no_partition(text: str) -> None:
    assert names.parse_partition(text) is None


@given(st.text())
def test_foreign_text_is_shown_short_and_printable(text: str) -> None:
    assert names.shown(text).isprintable() and names.shown(text).isascii()
    assert len(names.shown(text)) <= 10 * terminal.SHOWN_CHARS_MAX + 5
    assert names.printable(text, 10).isprintable() and len(names.printable(text, 10)) <= 10


@given(st.text(alphabet="0123456789+-_ .\n٣²１", max_size=12))
def test_a_number_has_one_spelling(text: str) -> None:
    assert names.is_number(text) == (re.fullmatch(r"0|[1-9][0-9]{0,8}", text, re.ASCII) is not None)


@given(
    st.text(alphabet="0123456789+-_ .\n٣²１", max_size=12)
    | st.integers(2**31 - 10, 2**31 + 10).map(str)
)
def test_a_brokers_id_is_what_kafka_takes(text: str) -> None:
    is_one = re.fullmatch(r"0|[1-9][0-9]{0,9}", text, re.ASCII) is not None
    assert names.is_broker(text) == (is_one and int(text) < 2**31)


@pytest.mark.parametrize(
    ("text", "is_number", "is_broker"),
    [
        ("0", True, True),
        ("10", True, True),
        ("999999999", True, True),
        ("1000000000", False, True),
        ("2147483647", False, True),
        ("2147483648", False, False),
        ("", False, False),
        ("00", False, False),
        ("01", False, False),
        ("-1", False, False),
        ("1_0", False, False),
        ("²", False, False),
        ("٣", False, False),
    ],
)
def test_numbers_and_ids_of_brokers(text: str, is_number: bool, is_broker: bool) -> None:
    assert names.is_number(text) is names.is_partition("t", text) is is_number
    assert names.is_broker(text) is is_broker
    assert not names.is_partition("a b", text)


@pytest.mark.parametrize("digits", [11, 5_000, 1_000_000])
def test_a_long_number_is_no_brokers_id_and_nothing_is_raised(digits: int) -> None:
    """Python makes no number of more than 4,300 digits, and ZooKeeper takes longer names."""
    assert not names.is_broker("1" * digits)
    assert not names.is_number("1" * digits)
    assert not names.is_port("1" * digits)


@pytest.mark.parametrize(
    ("text", "is_port"),
    [("1", True), ("65535", True), ("0", False), ("65536", False), ("", False), ("-1", False)]
    + [(text, False) for text in ("1_0", " 1", "000001", "\u0661", "\u00b2", "1.0")],
)
def test_ports(text: str, is_port: bool) -> None:
    assert names.is_port(text) is is_port
