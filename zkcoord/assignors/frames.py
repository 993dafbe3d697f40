"""What coordinator and child say to each other: frames of JSON, in a form that names nothing twice
that many share.

A frame is `MAGIC`, the body's length in 4 bytes (big endian), and the body. The child begins with
an empty frame ("I am here"); then each request is followed by one answer.

* request   {"assignor": name, "subscriptions": [{topic: streams}], "members": {member: index of a
  subscription}, "partitions": {topic: [number]}, "owners": THREADS, "owner_path_bytes_max": n,
  "owner_fixed_bytes": n, "user_data": {member: text}}
* answer    {"targets": THREADS, "unassigned": {topic: [number]}, "user_data": {member: text}}, or
  {"failure": text}

THREADS is {member: {thread's number: {topic: [number]}}}.

What a child says is believed to be nothing in particular: `decode_answer` returns a value or a
sentence for whatever bytes come. Whether partitions, members and threads exist is for the core to
judge.
"""

from __future__ import annotations

import json
import operator
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from zkcoord.core.assignment import Assignment, AssignmentInput
from zkcoord.core.model import Thread, TopicPartition

MAGIC = b"ZKA1"
HEADER = struct.Struct(">4sI")
ANSWER_BYTES_MAX = 8 * 1024 * 1024
FAILURE_CHARS_MAX = 300
NUMBER_MAX = 2**31 - 1

Threads = dict[str, dict[str, dict[str, list[int]]]]


def frame(body: bytes) -> bytes:
    """A body as a frame."""
    return HEADER.pack(MAGIC, len(body)) + body


def body_bytes(header: bytes) -> int:
    """The length that a header (8 bytes) announces; -1: this is no header."""
    magic, length = HEADER.unpack(header)
    return int(length) if magic == MAGIC else -1


def encode_request(assignor: str, given: AssignmentInput) -> bytes:
    """The body of a request."""
    subscriptions: dict[frozenset[tuple[str, int]], int] = {}
    members = {
        member: subscriptions.setdefault(frozenset(wanted.items()), len(subscriptions))
        for member, wanted in given.members.items()
    }
    return _bytes(
        {
            "assignor": assignor,
            "subscriptions": [dict(wanted) for wanted in subscriptions],
            "members": members,
            "partitions": {topic: list(numbers) for topic, numbers in given.partitions.items()},
            "owners": _packed(given.owners),
            "owner_path_bytes_max": given.owner_path_bytes_max,
            "owner_fixed_bytes": given.owner_fixed_bytes,
            "user_data": dict(given.user_data),
        }
    )


def decode_request(body: bytes) -> tuple[str, AssignmentInput]:
    """The assignor's name and its input, from a body of `encode_request`. Mappings are sorted: an
    assignor that depends on their order still gives the same answer to the same question.
    """
    document = json.loads(body)
    subscriptions = [dict(sorted(wanted.items())) for wanted in document["subscriptions"]]
    return document["assignor"], AssignmentInput(
        members={
            member: subscriptions[index] for member, index in sorted(document["members"].items())
        },
        partitions={
            topic: tuple(numbers) for topic, numbers in sorted(document["partitions"].items())
        },
        owners=dict(sorted(_unpacked(document["owners"]))),
        owner_path_bytes_max=document["owner_path_bytes_max"],
        owner_fixed_bytes=document["owner_fixed_bytes"],
        user_data=dict(sorted(document["user_data"].items())),
    )


def encode_answer(assignment: object) -> bytes:
    """The body of an answer. Raises `TypeError` or `ValueError`, in words for the assignor's
    author, where this is not an `Assignment` of the types that it documents (plain pairs are taken
    too).
    """
    if not isinstance(assignment, Assignment):
        raise TypeError(f"it returned {_kind(assignment)} instead of an Assignment")
    targets: dict[TopicPartition, Thread] = {}
    for key, value in _items(assignment.targets, "targets"):
        targets[TopicPartition(*_pair(key, "a partition in targets"))] = Thread(
            *_pair(value, "a thread in targets")
        )
    unassigned: dict[str, list[int]] = {}
    for item in assignment.unassigned:
        topic, number = _pair(item, "a partition in unassigned")
        unassigned.setdefault(topic, []).append(number)
    user_data = {
        _text(member, "a member in user_data"): _text(text, "user_data of a member")
        for member, text in _items(assignment.user_data, "user_data")
    }
    return _bytes({"targets": _packed(targets), "unassigned": unassigned, "user_data": user_data})


def encode_failure(text: str) -> bytes:
    """The body of an answer that says why there is none."""
    return _bytes({"failure": one_line(text)})


def decode_answer(body: bytes) -> Assignment | str:
    """The assignment, or why there is none. Never raises."""
    try:
        document = json.loads(body)
        if isinstance(document, dict) and isinstance(document.get("failure"), str):
            return one_line(document["failure"])
        pairs = list(_unpacked(document["targets"]))
        targets = dict(pairs)
        if len(targets) != len(pairs):
            return "it gave one partition to two threads"
        unassigned = sorted(_partitions(document["unassigned"]))
        user_data = {
            _text(member, ""): _text(text, "") for member, text in _items(document["user_data"], "")
        }
    # UnicodeError is a ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "its process answered something that is not an assignment"
    return Assignment(targets, tuple(unassigned), user_data)


def one_line(text: str) -> str:
    """Foreign text as part of a sentence: printable, without line ends, at most `FAILURE_CHARS_MAX`
    characters.
    """
    words = "".join(c if c.isprintable() else " " for c in text[: 4 * FAILURE_CHARS_MAX]).split()
    return " ".join(words)[:FAILURE_CHARS_MAX]


def _bytes(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _packed(targets: Mapping[TopicPartition, Thread]) -> Threads:
    packed: Threads = {}
    for (topic, partition), (member, number) in targets.items():
        packed.setdefault(member, {}).setdefault(str(number), {}).setdefault(topic, []).append(
            partition
        )
    return packed


def _unpacked(packed: Any) -> Iterable[tuple[TopicPartition, Thread]]:
    """Raises `ValueError` or `TypeError` (or `AttributeError`, of something that is no mapping) for
    what `_packed` did not make.
    """
    for member, threads in packed.items():
        for number, topics in threads.items():
            thread = Thread(_text(member, ""), _number(int(number), ""))
            for partition in _partitions(topics):
                yield partition, thread


def _partitions(topics: Any) -> Iterable[TopicPartition]:
    for topic, numbers in topics.items():
        name = _text(topic, "")
        for number in numbers:
            yield TopicPartition(name, _number(number, ""))


def _items(mapping: object, what: str) -> Iterable[tuple[object, object]]:
    if not isinstance(mapping, Mapping):
        raise TypeError(f"{what} is {_kind(mapping)} instead of a mapping")
    return mapping.items()


def _pair(value: object, what: str) -> tuple[str, int]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"{what} is {_kind(value)} instead of a pair of a name and a number")
    return _text(value[0], f"the name of {what}"), _number(value[1], f"the number of {what}")


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {_kind(value)} instead of a string")
    value.encode("utf-8")  # a lone surrogate could be stored nowhere
    return str(value)


def _number(value: object, what: str) -> int:
    """Anything that is a whole number, for assignors that compute with other kinds of them."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is {_kind(value)} instead of a number")
    number = operator.index(value)
    if not 0 <= number <= NUMBER_MAX:
        raise ValueError(f"{what} is not from 0 to {NUMBER_MAX}")
    return number


def _kind(value: object) -> str:
    return f"a value of the type {type(value).__name__}"
