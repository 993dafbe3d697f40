"""An operator's word about who runs a group."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.znodes.classic.test_malformed import Change, changed, drop, put
from zkcoord.core.classic.state import WORDS_CHARS_MAX
from zkcoord.core.model import Malformed
from zkcoord.znodes.classic.pin import Machine, Pin, decode_pin, encode_pin

PIN = Pin(Machine.CLIENT_LED, "op@host")


@pytest.mark.parametrize("one", [PIN, Pin(Machine.COORDINATED), Pin(Machine.COORDINATED, "x y")])
def test_what_is_written_is_read(one: Pin) -> None:
    assert decode_pin("g", encode_pin(one)) == one


def test_whose_word_it_is_need_not_be_said() -> None:
    assert decode_pin("g", changed(encode_pin(PIN), drop("by"))) == Pin(Machine.CLIENT_LED)


def test_a_long_name_is_cut() -> None:
    read = decode_pin("g", encode_pin(Pin(Machine.CLIENT_LED, "x" * (WORDS_CHARS_MAX + 1))))
    assert isinstance(read, Pin) and len(read.by) == WORDS_CHARS_MAX


def test_what_is_in_the_node_is_what_the_protocol_says() -> None:
    found = json.loads(encode_pin(PIN))
    assert found == {"version": 1, "machine": "client-led", "by": "op@host"}


BAD: tuple[Change, ...] = (
    put("version", 2),
    put("version", "1"),
    drop("version"),
    put("machine", "auto"),
    put("machine", ""),
    put("machine", 3),
    drop("machine"),
    put("by", 3),
    put("by", "x" * (WORDS_CHARS_MAX + 1)),
)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_no_pin(number: int) -> None:
    found = decode_pin("g", changed(encode_pin(PIN), BAD[number]))
    assert isinstance(found, Malformed) and found.name == "g"


@given(st.binary())
def test_whatever_is_there_a_pin_is_read_or_malformed(data: bytes) -> None:
    assert isinstance(decode_pin("g", data), Malformed)
