"""What is asked of a broker, of which names, and what is believed of its answer."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence

import pytest

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.options import GatewayOptions
from consumer.gateway.relay.expected import HELD_BY_ALL_BYTES_MAX
from consumer.gateway.rights.asking import is_known, needs, permissions, split
from consumer.gateway.rights.permitted import NAMES_MAX, Permitted
from consumer.gateway.rights.questions import (
    NAMES_PER_QUESTION,
    Right,
    UnsaidError,
    permitted,
    question,
)
from consumer.gateway.wire.requests import CommitRequest, HeartbeatRequest
from tests.consumer.gateway.rights.broker import GuardedConnection
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.names import NAME_CHARS_MAX


def asked(connection: GuardedConnection, right: Right, names: Sequence[str]) -> frozenset[str]:
    """What a connection's client may."""

    async def ask() -> frozenset[str]:
        return await permissions(connection, right, names)

    return asyncio.run(ask())


@pytest.mark.parametrize("right", Right)
def test_what_is_refused_is_left_out_and_asked_again(right: Right) -> None:
    connection = GuardedConnection("b")
    for _ in range(2):
        assert asked(connection, right, ["a", "b", "c", "a"]) == {"a", "c"}
    *_, (key, names, before) = connection.asked
    assert (names, before) == (["b"], None), "of the others it is known"
    assert key == question(right, ["b"])[0].key


@pytest.mark.parametrize("right", Right)
def test_an_answer_that_cannot_be_read_or_is_about_others_says_nothing(right: Right) -> None:
    whole = GuardedConnection()

    async def answer() -> bytes:
        return await whole.ask(*question(right, ["a", "b"]))

    data = asyncio.run(answer())
    assert permitted(right, ["a"], data) == {"a"}
    if right not in (Right.READ, Right.DELETE):  # of one group at a time, which is not named
        with pytest.raises(UnsaidError, match="does not say"):
            permitted(right, ["a", "c"], data)
    for cut in range(len(data)):
        with pytest.raises(UnsaidError):
            permitted(right, ["a"], data[:cut])


@pytest.mark.parametrize("right", Right)
@pytest.mark.parametrize(("code", "may"), [(-1, None), (7, None), (31, None), (15, True)])
def test_only_a_code_that_comes_after_the_check_is_a_permission(
    right: Right, code: int, may: bool | None
) -> None:
    """An authorizer that fails makes a broker answer with UNKNOWN_SERVER_ERROR, or a time limit:
    neither yes nor no, so the client is closed and asks again.
    """
    connection = GuardedConnection()
    connection.code = code
    if may:
        assert asked(connection, right, ["a"]) == {"a"} and not connection.dropped
    else:
        with pytest.raises(asyncio.CancelledError):
            asked(connection, right, ["a"])
        assert connection.dropped and f"error {code}" in connection.dropped[0]
        assert not connection.permitted.knows(right, "a")


def test_no_two_questions_can_be_told_in_advance() -> None:
    """A client that could make its own request's answer come first would have to know the id."""
    ids = {question(Right.READ, ["a"])[0].correlation_id for _ in range(20)}
    assert len(ids) == 20 and any(abs(one) > 2**16 for one in ids)


def test_who_says_anew_who_it_is_has_no_permissions() -> None:
    found = GuardedConnection().permitted
    found.add(Right.READ, "g")
    found.passed(Head(frames.FETCH, 4, 1, "me"))
    assert found.knows(Right.READ, "g")
    found.passed(Head(frames.SASL_AUTHENTICATE, 2, 2, "me"))
    assert not found.knows(Right.READ, "g")


def test_of_several_each_has_its_own_answer() -> None:
    """Brokers name those that are refused first."""
    connection = GuardedConnection("theirs")
    assert asked(connection, Right.DESCRIBE, ["mine", "theirs"]) == {"mine"}


def test_what_cannot_be_a_name_is_not_asked_about() -> None:
    connection = GuardedConnection()
    bad = ["", "..", "a b", "x" * 300]
    assert asked(connection, Right.READ_TOPIC, bad) == frozenset(bad)
    assert connection.asked == [] and is_known(connection, {Right.READ_TOPIC: bad})


@pytest.mark.parametrize(
    "right", [Right.DESCRIBE, Right.READ_TOPIC, Right.READ_RECORDS, Right.DESCRIBE_TOPIC]
)
def test_many_are_asked_about_in_parts_and_not_all_are_remembered(right: Right) -> None:
    connection = GuardedConnection("n1400")
    names = [f"n{number}" for number in range(4 * NAMES_PER_QUESTION)]
    for _ in range(2):
        assert asked(connection, right, names) == frozenset(names) - {"n1400"}
    sizes = [len(names) for _, names, _ in connection.asked]
    rest = NAMES_PER_QUESTION - NAMES_MAX
    full = [NAMES_PER_QUESTION] * 3
    expected = [*full, NAMES_PER_QUESTION, *full, rest]
    assert sizes == expected, "one time all, one time what is not remembered"
    assert connection.counts == {right.value: 8}
    assert is_known(connection, {right: names[:NAMES_MAX]})
    assert not is_known(connection, {right: names[: NAMES_MAX + 1]})


def test_what_is_remembered_of_all_connections_fits() -> None:
    """One address may have 5,000, each with the longest names."""
    tracemalloc.start()
    try:
        found = Permitted()
        for number in range(2 * NAMES_MAX):
            found.add(Right.READ_TOPIC, f"{number:0{NAME_CHARS_MAX}}")
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.knows(Right.READ_TOPIC, f"{0:0{NAME_CHARS_MAX}}")
    assert size * GatewayOptions.connections_per_address_max < HELD_BY_ALL_BYTES_MAX


def test_what_is_remembered_makes_room_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    found = GuardedConnection().permitted
    for number in range(NAMES_MAX):
        found.add(Right.READ, f"g{number}")
    found.add(Right.READ, "late")
    assert not found.knows(Right.READ, "late") and found.knows(Right.READ, "g7")
    assert not found.knows(Right.DELETE, "g7"), "another right"
    now_s[0] += 31
    assert not found.knows(Right.READ, "g7")
    found.add(Right.READ, "late")
    assert found.knows(Right.READ, "late")


def test_a_commit_is_split_by_its_topics() -> None:
    free, secret = TopicPartition("free", 0), TopicPartition("secret", 3)
    request = CommitRequest("g", "m", 4, {free: (1, ""), secret: (2, "x")})
    assert needs(request) == {
        Right.READ: frozenset({"g"}),
        Right.READ_TOPIC: frozenset({"free", "secret"}),
    }
    assert needs(HeartbeatRequest("g", "m", 4))[Right.READ_TOPIC] == frozenset()
    whole, nothing = split(request, frozenset({"free", "secret"}))
    assert (whole, nothing) == (request, {})
    rest, denied = split(request, frozenset({"free"}))
    assert rest == CommitRequest("g", "m", 4, {free: (1, "")})
    assert denied == {secret: WireCode.TOPIC_AUTHORIZATION_FAILED}


def test_a_commit_asks_by_a_commit_of_nobody_in_its_group() -> None:
    """A throttled client's Fetch is answered without a word of any topic."""
    head, frame = question(Right.READ_TOPIC, ["t"], "mine")
    assert (head.key, head.version) == (frames.OFFSET_COMMIT, 2)
    body = frames.decode(head, frame[4:])
    assert (body.group_id, body.member_id) == ("mine", "")
