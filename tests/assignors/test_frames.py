"""Frames: everything that an assignor may see and say survives them, and whatever else a child
writes is a sentence.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_assignment import inputs
from zkcoord.assignors import frames
from zkcoord.core.assignment import Assignment, AssignmentInput
from zkcoord.core.model import Thread, TopicPartition

PARTITIONS = st.builds(
    TopicPartition, st.sampled_from(["a", "b-1"]), st.integers(0, frames.NUMBER_MAX)
)
THREADS = st.builds(Thread, st.sampled_from(["m", "!/m-1"]), st.integers(0, 9))
TEXTS = st.text(st.characters(exclude_categories=("Cs",)))


@given(
    given_=inputs(),
    said=st.dictionaries(st.sampled_from(["m0", "m1"]), TEXTS),
    cap=st.integers(0, 1_000),
)
def test_an_input_survives(given_: AssignmentInput, said: dict[str, str], cap: int) -> None:
    full = AssignmentInput(given_.members, given_.partitions, given_.owners, cap, 77, said)
    assert frames.decode_request(frames.encode_request("some", full)) == ("some", full)


def test_the_order_of_mappings_is_not_told() -> None:
    """An assignor that takes members as they come still answers the same after a takeover."""
    one = AssignmentInput({"b": {"u": 1, "t": 1}, "a": {"t": 1}}, {"u": (0,), "t": (0,)})
    _, back = frames.decode_request(frames.encode_request("some", one))
    assert (list(back.members), list(back.members["b"]), list(back.partitions)) == (
        ["a", "b"],
        ["t", "u"],
        ["t", "u"],
    )


@given(
    targets=st.dictionaries(PARTITIONS, THREADS),
    unassigned=st.lists(PARTITIONS, unique=True),
    said=st.dictionaries(TEXTS, TEXTS),
)
def test_an_assignment_survives(
    targets: dict[TopicPartition, Thread], unassigned: list[TopicPartition], said: dict[str, str]
) -> None:
    assert frames.decode_answer(
        frames.encode_answer(Assignment(targets, tuple(unassigned), said))
    ) == Assignment(targets, tuple(sorted(unassigned)), said)


def test_plain_pairs_and_other_whole_numbers_are_taken() -> None:
    class Seven:
        def __index__(self) -> int:
            return 7

    loose: Any = Assignment({("t", Seven()): ("m", 0)})  # type: ignore[dict-item]
    assert frames.decode_answer(frames.encode_answer(loose)) == Assignment(
        {TopicPartition("t", 7): Thread("m", 0)}
    )


TP, THREAD = TopicPartition("t", 0), Thread("m", 0)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "type NoneType instead of an Assignment"),
        (Assignment([(TP, THREAD)]), "targets is a value of the type list instead of a mapping"),  # type: ignore[arg-type]
        (
            Assignment({"t-0": THREAD}),
            "a partition in targets is a value of the type str instead of a pair",
        ),  # type: ignore[dict-item]
        (
            Assignment({TP: "m-0"}),
            "a thread in targets is a value of the type str instead of a pair",
        ),  # type: ignore[dict-item]
        (
            Assignment({TP: Thread("m", True)}),
            "the number of a thread in targets is a value of the type bool",
        ),
        (Assignment({TP: Thread("m", -1)}), "the number of a thread in targets is not from 0 to"),
        (
            Assignment({TopicPartition("t", 2**31): THREAD}),
            "the number of a partition in targets is not from 0 to",
        ),
        (Assignment({TP: Thread("m", 0.0)}), "type float instead of a number"),  # type: ignore[arg-type]
        (Assignment({}, (7,)), "a partition in unassigned is a value of the type int"),  # type: ignore[arg-type]
        (
            Assignment({}, (), {"m": b"x"}),
            "user_data of a member is a value of the type bytes instead of a string",
        ),  # type: ignore[dict-item]
        (Assignment({}, (), {"m": "\ud800"}), "surrogates not allowed"),
    ],
)
def test_a_result_of_other_types_is_told_to_its_author(result: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        frames.encode_answer(result)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["0", "m", "t", "-1", "x" * 20]), inner, max_size=3)
    ),
    max_leaves=12,
)
PARTS = st.fixed_dictionaries(
    {}, optional={"targets": JSON, "unassigned": JSON, "user_data": JSON, "failure": JSON}
)


@given(body=st.binary(max_size=200) | PARTS.map(lambda parts: json.dumps(parts).encode()))
def test_whatever_a_child_says_is_an_assignment_or_a_sentence(body: bytes) -> None:
    answer = frames.decode_answer(body)
    if isinstance(answer, Assignment):
        assert frames.decode_answer(frames.encode_answer(answer)) == answer, (
            "of the types that it says"
        )
    else:
        assert len(answer) <= frames.FAILURE_CHARS_MAX and "\n" not in answer


@pytest.mark.parametrize(
    "body",
    [
        b'{"targets":{"m":{"0":{"t":[1]},"1":{"t":[1]}}},"unassigned":{},"user_data":{}}',
        b'{"targets":' + b"[" * 200_000 + b',"unassigned":{},"user_data":{}}',
        b'{"targets":{"m":{"0":{"t":[1' + b"0" * 5_000 + b']}}},"unassigned":{},"user_data":{}}',
        b'{"targets":{"m":{"0":{"t":"12"}}},"unassigned":{},"user_data":{}}',
        b'{"targets":{},"unassigned":{},"user_data":{"m":"\\ud800"}}',
        b"\xff\xfe{\x00}\x00",
    ],
)
def test_answers_that_are_none(body: bytes) -> None:
    assert isinstance(frames.decode_answer(body), str)
