"""Commands: the protocol's JSON, and what a member must not obey."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given

from tests.znodes import strategies
from zkcoord.core.model import Command, Malformed, Option, Thread, TopicPartition
from zkcoord.znodes.codec import decode_command, encode_command

START = Command(
    "g1_h-0",
    8589934601,
    Option.START,
    7,
    12,
    31,
    start={TopicPartition("orders-eu", 0): Thread("g1_h-0", 1)},
)


@given(strategies.commands())
def test_round_trip(command: Command) -> None:
    assert decode_command(command.member, command.node, encode_command(command)) == command


def test_the_wire_format() -> None:
    assert json.loads(encode_command(START)) == {
        "version": 1,
        "option": "start-fetcher",
        "epoch": 7,
        "seq": 12,
        "generation": 31,
        "incarnation": "8589934601",
        "ownershipMap": {"orders-eu-0": "g1_h-0-1"},
    }
    stop = Command("m", 5, Option.STOP, 7, 11, 31, stop=(TopicPartition("orders", 5),))
    assert json.loads(encode_command(stop)) == {
        "version": 1,
        "option": "stop-fetcher",
        "epoch": 7,
        "seq": 11,
        "generation": 31,
        "incarnation": "5",
        "partitions": ["orders-5"],
    }
    for one in (START, stop):
        more = dataclasses.replace(one, more=True)
        assert json.loads(encode_command(more)) == {
            **json.loads(encode_command(one)),
            "more": True,
        }
    reject = Command(
        "m", 5, Option.REJECT, 7, 11, 31, code="GROUP_MAX_SIZE_REACHED", fatal=True, message="full"
    )
    assert json.loads(encode_command(reject)) == {
        "version": 1,
        "option": "reject",
        "epoch": 7,
        "seq": 11,
        "generation": 31,
        "incarnation": "5",
        "code": "GROUP_MAX_SIZE_REACHED",
        "fatal": True,
        "message": "full",
    }


def test_a_message_with_foreign_text_can_be_read_again() -> None:
    reject = Command(
        "m", 5, Option.REJECT, 7, 11, 31, code="X", message="bad\n\x1b[31m" + "y" * 5_000
    )
    found = decode_command("m", "", encode_command(reject))
    assert isinstance(found, Command) and found.message.startswith("bad??[31m")


def test_who_is_told_something_else_is_not_told_that_more_is_to_come() -> None:
    for option in (Option.REJECT, Option.NOTIFY):
        document = changed(option=option.value, code="X", fatal=False, message="", more=3)
        found = decode_command("g1_h-0", "", document)
        assert isinstance(found, Command) and not found.more


def changed(**fields: object) -> bytes:
    """The start command with fields replaced."""
    return json.dumps({**json.loads(encode_command(START)), **fields}).encode()


@pytest.mark.parametrize(
    "data",
    [
        changed(version=2),
        changed(option="start"),
        changed(option=None),
        changed(epoch=-1),
        changed(epoch=True),
        changed(epoch=2**63),
        changed(seq="12"),
        changed(incarnation=8589934601),
        changed(incarnation="x"),
        changed(incarnation="٣"),
        changed(more=1),
        changed(option="stop-fetcher", partitions=["a-1"], more="true"),
        changed(ownershipMap=[]),
        changed(ownershipMap={"orders": "g1_h-0-1"}),
        changed(ownershipMap={"orders-01": "g1_h-0-1"}),
        changed(ownershipMap={"orders-1": "g1_h-0"}),
        changed(ownershipMap={"orders-1": "somebody_else-0"}),
        changed(ownershipMap={"orders-1": 1}),
        changed(ownershipMap={"orders-1": "thread"}),
        changed(option="stop-fetcher"),
        changed(option="stop-fetcher", partitions=["a-1", "a-1"]),
        changed(option="stop-fetcher", partitions=["a"]),
        changed(option="stop-fetcher", partitions="a-1"),
        changed(option="reject", code="X", fatal=1, message=""),
        changed(option="reject", code="X", fatal=True),
        b"",
        b"stop",
    ],
)
def test_malformed(data: bytes) -> None:
    found = decode_command("g1_h-0", "7-12-0000000000", data)
    assert isinstance(found, Malformed)
    assert found.name == "g1_h-0/7-12-0000000000"


def test_the_nodes_name_is_not_parsed() -> None:
    found = decode_command("g1_h-0", "anything", encode_command(START))
    assert found == dataclasses.replace(START, node="anything")
