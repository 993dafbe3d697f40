"""The group node's data: a report for people and a hint for the next coordinator.

Only `departed` is a promise (a static instance gets its partitions back), so when the document is
too large for its multi, `ownership` goes first, then the names of topics, then the `configuration`
that somebody left there, and departed instances last, the longest gone first. Partitions are
written as ranges per topic, {"orders": "0-3,7"}: the size follows the number of gaps, not of
partitions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from zkcoord.core.model import Cause, Departed, GroupMetadata, GroupState, Malformed, TopicPartition
from zkcoord.znodes import names
from zkcoord.znodes.strict_json import (
    JsonObject,
    Texts,
    UnfitField,
    integer,
    mapping,
    reading,
    required,
    string,
    strings,
    to_bytes,
)

METADATA_BYTES_MAX = 512 * 1024
METADATA_WRITTEN_BYTES_MAX = 96 * 1024
DEPARTED_PARTITIONS_MAX = 100_000
RANGES_CHARS_MAX = 128 * 1024
TEXT_CHARS_MAX = 1_000
PROBLEMS_MAX = 20
OWNERSHIP_CHARS_MAX = 64 * 1024
STREAMS_MAX = 10_000

_TOO_MANY = (
    f"departed holds more than {DEPARTED_PARTITIONS_MAX} partitions, or threads hold more than"
    " their instance"
)
_STATES = {state.value: state for state in GroupState}


def decode_metadata(name: str, data: bytes) -> GroupMetadata | Malformed:
    """The metadata of the group `name`; an empty node (its first member made it) is a group that
    nothing is known of. Never raises.
    """
    return (
        reading("group metadata", name, data, _metadata, METADATA_BYTES_MAX)
        if data
        else GroupMetadata()
    )


def decode_group_state(name: str, data: bytes) -> GroupState | Malformed:
    """Of the same only the state, which is all that members want: of a group of many static members
    the rest is most of the work.
    """
    return (
        reading("group metadata", name, data, _state, METADATA_BYTES_MAX)
        if data
        else GroupMetadata().state
    )


def encode_metadata(metadata: GroupMetadata, bytes_max: int = METADATA_WRITTEN_BYTES_MAX) -> bytes:
    """The group node's data, at most `bytes_max` long: what does not fit is left out in the order
    that the module's docstring gives.
    """
    data = to_bytes(_document(metadata))
    if len(data) > bytes_max:
        metadata = dataclasses.replace(metadata, ownership="")
        data = to_bytes(_document(metadata))
    if len(data) > bytes_max:
        usual = dict.fromkeys(metadata.topics, 1)
        shorter = tuple(
            dataclasses.replace(d, topics={}) if d.topics == usual else d for d in metadata.departed
        )
        metadata = dataclasses.replace(metadata, topics=(), departed=shorter)
        data = to_bytes(_document(metadata))
    if len(data) > bytes_max:
        metadata = dataclasses.replace(metadata, configuration={})
        data = to_bytes(_document(metadata))
    while len(data) > bytes_max and metadata.departed:
        newest = sorted(metadata.departed, key=lambda d: (-d.since_ms, d.instance))[
            : len(metadata.departed) // 2
        ]
        metadata = dataclasses.replace(
            metadata, departed=tuple(sorted(newest, key=lambda d: d.instance))
        )
        data = to_bytes(_document(metadata))
    return data


def _document(metadata: GroupMetadata) -> JsonObject:
    usual = dict.fromkeys(metadata.topics, 1)
    return {
        "version": 1,
        "generation": metadata.generation,
        "state": metadata.state.value,
        "assignor": metadata.assignor,
        "protocol": metadata.protocol,
        "topics": list(metadata.topics),
        "members": metadata.members,
        "configuration": dict(metadata.configuration),
        "departed": [_departed_document(d, usual) for d in metadata.departed],
        "cause": {
            "reason": names.printable(metadata.cause.reason, TEXT_CHARS_MAX),
            "trigger": names.printable(metadata.cause.trigger, TEXT_CHARS_MAX),
        },
        "since": metadata.since_ms,
        "ownership": names.printable(metadata.ownership, OWNERSHIP_CHARS_MAX),
        "failure": names.printable(metadata.failure, TEXT_CHARS_MAX),
        **({"mode": metadata.mode} if metadata.mode else {}),
        **(
            {
                "problems": [
                    names.printable(problem, TEXT_CHARS_MAX)
                    for problem in metadata.problems[:PROBLEMS_MAX]
                ]
            }
            if metadata.problems
            else {}
        ),
        **({"paused": names.printable(metadata.paused, TEXT_CHARS_MAX)} if metadata.paused else {}),
    }


def _departed_document(departed: Departed, usual: dict[str, int]) -> JsonObject:
    document: JsonObject = {
        "instance": departed.instance,
        "since": departed.since_ms,
        "grace": departed.grace_ms,
        "partitions": ranges_of(departed.partitions),
    }
    if departed.numbers:
        by_number: dict[int, list[TopicPartition]] = {}
        for partition, number in departed.numbers.items():
            by_number.setdefault(number, []).append(partition)
        document["threads"] = {
            str(number): ranges_of(partitions) for number, partitions in sorted(by_number.items())
        }
    if departed.topics != usual:
        document["topics"] = dict(departed.topics)
    return document


_TEXTS = Texts(
    {
        "state": (TEXT_CHARS_MAX, None),
        "assignor": (TEXT_CHARS_MAX, None),
        "protocol": (TEXT_CHARS_MAX, None),
        "ownership": (OWNERSHIP_CHARS_MAX, None),
        "failure": (TEXT_CHARS_MAX, ""),
    }
)


def _metadata(document: JsonObject) -> GroupMetadata:
    integer(document, "version", 1, 1)
    word, assignor, protocol, ownership, failure = _TEXTS.read(document)
    state = _state_named(word)
    topics = tuple(strings(document, "topics", names.NAME_CHARS_MAX))
    cause = mapping(document, "cause")
    return GroupMetadata(  # by position: names take longer than all else that making one does
        integer(document, "generation"),
        state,
        assignor,
        protocol,
        topics,
        integer(document, "members"),
        _configuration(mapping(document, "configuration")),
        _departed(document, topics),
        Cause(string(cause, "reason", TEXT_CHARS_MAX), string(cause, "trigger", TEXT_CHARS_MAX)),
        integer(document, "since"),
        ownership,
        failure,
        string(document, "mode", TEXT_CHARS_MAX) if "mode" in document else "",
        tuple(strings(document, "problems", TEXT_CHARS_MAX)) if "problems" in document else (),
        string(document, "paused", TEXT_CHARS_MAX) if "paused" in document else "",
    )


def _state(document: JsonObject) -> GroupState:
    integer(document, "version", 1, 1)
    return _state_named(string(document, "state", TEXT_CHARS_MAX))


def _state_named(word: str) -> GroupState:
    state = _STATES.get(word)
    if state is None:
        raise UnfitField(f"state is not one of {', '.join(_STATES)}")
    return state


def _configuration(found: JsonObject) -> dict[str, str | int]:
    if found and any(type(value) not in (str, int) for value in found.values()):
        raise UnfitField("configuration holds something that is neither a string nor an integer")
    return found


def _departed(document: JsonObject, topics: Iterable[str]) -> tuple[Departed, ...]:
    found = required(document, "departed")
    if type(found) is not list or (found and any(type(item) is not dict for item in found)):
        raise UnfitField("departed is not a list of objects")
    if not found:
        return ()
    budget = DEPARTED_PARTITIONS_MAX
    groups_topics = _streams(dict.fromkeys(topics, 1))
    departed = []
    for item in found:
        partitions = partitions_in(mapping(item, "partitions"), budget)
        budget -= len(partitions)
        numbers = _numbers(mapping(item, "threads", {}), frozenset(partitions))
        streams = _streams(mapping(item, "topics")) if "topics" in item else groups_topics
        grace_ms = integer(item, "grace") if "grace" in item else 0
        departed.append(
            Departed(
                string(item, "instance", TEXT_CHARS_MAX),
                partitions,
                integer(item, "since"),
                grace_ms,
                numbers,
                streams,
            )
        )
    return tuple(departed)


def _streams(found: JsonObject) -> JsonObject:
    """Topics with their streams."""
    for topic in found:
        if not names.is_topic(topic):
            raise UnfitField(f"{names.shown(topic)} is not a topic's name")
        integer(found, topic, 1, STREAMS_MAX)
    return found


def _numbers(found: JsonObject, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
    """The threads of an instance's partitions, one of each; those of thread 0 are not named."""
    budget = len(partitions)
    numbers: dict[TopicPartition, int] = {}
    for number in found:
        if not names.is_number(number) or int(number) >= STREAMS_MAX:
            raise UnfitField(f"{names.shown(number)} is not a thread's number")
        given = partitions_in(mapping(found, number), budget)
        budget -= len(given)
        for partition in given:
            if partition not in partitions:
                raise UnfitField(f"a thread has {partition}, which its instance has not")
            numbers[partition] = int(number)
    return numbers


def ranges_of(partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """Partitions as ranges per topic, {"orders": "0-3,7"}; topics and numbers ascend."""
    ranges: dict[str, list[list[int]]] = {}
    for topic, number in sorted(set(partitions)):
        runs = ranges.setdefault(topic, [])
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return {
        topic: ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
        for topic, runs in ranges.items()
    }


def partitions_in(
    found: JsonObject, budget: int, beyond: str = _TOO_MANY
) -> tuple[TopicPartition, ...]:
    """Ranges back to partitions, at most `budget` (else `beyond` is said): a range of nine digits
    is a bomb otherwise.
    """
    partitions: list[TopicPartition] = []
    for topic in found:
        if not names.is_topic(topic):
            raise UnfitField(f"{names.shown(topic)} is not a topic's name")
        for run in string(found, topic, RANGES_CHARS_MAX).split(","):
            first, _, last = run.partition("-")
            last = last or first
            if not names.is_number(first) or not names.is_number(last) or int(first) > int(last):
                raise UnfitField(f"the partitions of {names.shown(topic)} are not ranges")
            budget -= int(last) - int(first) + 1
            if budget < 0:
                raise UnfitField(beyond)
            partitions += [
                TopicPartition(topic, number) for number in range(int(first), int(last) + 1)
            ]
    return tuple(sorted(partitions))
