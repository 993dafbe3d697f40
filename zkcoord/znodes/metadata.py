"""The group node's data: a report for people and a hint for the next coordinator.

Only `departed` is a promise (a static instance gets its partitions back), so when the document is too large for its multi, `ownership` goes first, then the names of topics, and departed
instances last, the longest gone first. Partitions are written as ranges per topic, {"orders": "0-3,7"}: the size follows the number of gaps, not of partitions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Union

from zkcoord.core.model import Cause, Departed, GroupMetadata, GroupState, Malformed, TopicPartition
from zkcoord.znodes import names
from zkcoord.znodes.strict_json import JsonObject, Unfit, integer, mapping, reading, required, string, strings, to_bytes

METADATA_BYTES_MAX = 512 * 1024
METADATA_WRITTEN_BYTES_MAX = 96 * 1024
DEPARTED_PARTITIONS_MAX = 100_000
RANGES_CHARS_MAX = 128 * 1024
TEXT_CHARS_MAX = 1_000
OWNERSHIP_CHARS_MAX = 64 * 1024

_STATES = {state.value: state for state in GroupState}


def decode_metadata(name: str, data: bytes) -> Union[GroupMetadata, Malformed]:
    """The metadata of the group `name`; an empty node (its first member made it) is a group that nothing is known of. Never raises."""
    return reading("group metadata", name, data, _metadata, METADATA_BYTES_MAX) if data else GroupMetadata()


def encode_metadata(metadata: GroupMetadata, bytes_max: int = METADATA_WRITTEN_BYTES_MAX) -> bytes:
    """The group node's data, at most `bytes_max` long: what does not fit is left out in the order that the module's docstring gives."""
    data = to_bytes(_document(metadata))
    if len(data) > bytes_max:
        metadata = dataclasses.replace(metadata, ownership="")
        data = to_bytes(_document(metadata))
    if len(data) > bytes_max:
        metadata = dataclasses.replace(metadata, topics=())
        data = to_bytes(_document(metadata))
    while len(data) > bytes_max and metadata.departed:
        newest = sorted(metadata.departed, key=lambda d: (-d.since_ms, d.instance))[: len(metadata.departed) // 2]
        metadata = dataclasses.replace(metadata, departed=tuple(sorted(newest, key=lambda d: d.instance)))
        data = to_bytes(_document(metadata))
    return data


def _document(metadata: GroupMetadata) -> JsonObject:
    return {
        "version": 1,
        "generation": metadata.generation,
        "state": metadata.state.value,
        "assignor": metadata.assignor,
        "protocol": metadata.protocol,
        "topics": list(metadata.topics),
        "members": metadata.members,
        "configuration": dict(metadata.configuration),
        "departed": [{"instance": d.instance, "since": d.since_ms, "partitions": ranges_of(d.partitions)} for d in metadata.departed],
        "cause": {"reason": names.printable(metadata.cause.reason, TEXT_CHARS_MAX), "trigger": names.printable(metadata.cause.trigger, TEXT_CHARS_MAX)},
        "since": metadata.since_ms,
        "ownership": names.printable(metadata.ownership, OWNERSHIP_CHARS_MAX),
    }


def _metadata(document: JsonObject) -> GroupMetadata:
    integer(document, "version", 1, 1)
    state = _STATES.get(string(document, "state", TEXT_CHARS_MAX))
    if state is None:
        raise Unfit(f"state is not one of {', '.join(_STATES)}")
    cause = mapping(document, "cause")
    return GroupMetadata(
        generation=integer(document, "generation"),
        state=state,
        assignor=string(document, "assignor", TEXT_CHARS_MAX),
        protocol=string(document, "protocol", TEXT_CHARS_MAX),
        topics=tuple(strings(document, "topics", names.NAME_CHARS_MAX)),
        members=integer(document, "members"),
        configuration=_configuration(mapping(document, "configuration")),
        departed=_departed(document),
        cause=Cause(string(cause, "reason", TEXT_CHARS_MAX), string(cause, "trigger", TEXT_CHARS_MAX)),
        since_ms=integer(document, "since"),
        ownership=string(document, "ownership", OWNERSHIP_CHARS_MAX),
    )


def _configuration(found: JsonObject) -> dict[str, Union[str, int]]:
    if any(type(value) not in (str, int) for value in found.values()):
        raise Unfit("configuration holds something that is neither a string nor an integer")
    return found


def _departed(document: JsonObject) -> tuple[Departed, ...]:
    found = required(document, "departed")
    if type(found) is not list or any(type(item) is not dict for item in found):
        raise Unfit("departed is not a list of objects")
    budget = DEPARTED_PARTITIONS_MAX
    departed = []
    for item in found:
        partitions = _partitions(mapping(item, "partitions"), budget)
        budget -= len(partitions)
        departed.append(Departed(string(item, "instance", TEXT_CHARS_MAX), partitions, integer(item, "since")))
    return tuple(departed)


def ranges_of(partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """Partitions as ranges per topic, {"orders": "0-3,7"}; topics and numbers ascend."""
    ranges: dict[str, list[list[int]]] = {}
    for topic, number in sorted(set(partitions)):
        runs = ranges.setdefault(topic, [])
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return {topic: ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs) for topic, runs in ranges.items()}


def _partitions(found: Mapping[str, object], budget: int) -> tuple[TopicPartition, ...]:
    """Ranges back to partitions, at most `budget`: a range of nine digits is a bomb otherwise."""
    partitions: list[TopicPartition] = []
    for topic in found:
        if not names.is_topic(topic):
            raise Unfit(f"{names.shown(topic)} is not a topic's name")
        for run in string(dict(found), topic, RANGES_CHARS_MAX).split(","):
            first, _, last = run.partition("-")
            last = last or first
            if not names.is_number(first) or not names.is_number(last) or int(first) > int(last):
                raise Unfit(f"the partitions of {names.shown(topic)} are not ranges")
            budget -= int(last) - int(first) + 1
            if budget < 0:
                raise Unfit(f"departed holds more than {DEPARTED_PARTITIONS_MAX} partitions")
            partitions += [TopicPartition(topic, number) for number in range(int(first), int(last) + 1)]
    return tuple(sorted(partitions))
