"""What an answer that names all topics says anew: it is read by the bytes of the one before.

20,000 topics with five partitions each are 5 MB, which kafka-python decodes in 0.7 s. But hardly
any topic changes from one second to the next, and brokers keep their order. So the last answer is
kept, and what is the same at the beginning and at the end of both is passed over. Between them a
topic with the same bytes, wherever it stands, is passed over too; where a partition has another
leader or replica, the topic's end is looked for, and that is all, since nobody here asks for these.
What remains is decoded by kafka-python: an answer of these topics alone, and of how many partitions
each has, not of these, which would be a kilobyte of memory each.

So the layout of an answer has to be known here, for each version that is asked for (KIP-482: those
from 9 to 13 differ only in what `_layout` says).
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Set
from itertools import pairwise
from typing import Any

from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.kafka_client.frames import MORE, after_tags, varint
from zkcoord.znodes.names import shown

OLDEST, NEWEST = 9, 13
TOPICS_MAX = 200_000
BROKERS_MAX = 2_000
ANSWER_BYTES_MAX = 100_000_000

THROTTLE_BYTES, BROKER_ID_BYTES, PORT_BYTES, CONTROLLER_BYTES = 4, 4, 4, 4
ERROR_BYTES, OPERATIONS_BYTES, NODE_BYTES = 2, 4, 4
NO_PARTITIONS = b"\1\x80\0\0\0\0"
"""How a topic ends that has none: whoever asks does not want to know what it may do there."""
PARTITION_BYTES = 14  # its error, number, leader and the leader's epoch
COMPARED_BYTES = 64 * 1024  # at once
ARRAYS = (0, 1, 2)  # its replicas, those in sync, those that are away


@value
class WholeReading:
    """`response`: the answer as kafka-python has it, of topics only those that are not as before,
    and how many `partitions` each has; `gone`: names that it has no more.
    """

    response: Any
    gone: frozenset[str]
    partitions: Mapping[str, int]


class WholeAnswers:
    """See the module. What could not be read changes nothing."""

    def __init__(self) -> None:
        self._kept = NOTHING

    def read(self, version: int, data: bytes) -> WholeReading | Malformed:
        """An answer's bytes behind its header. Never raises."""
        try:
            return self._read(version, data)
        except IndexError:
            return Malformed("answer", "all topics", "it is cut off")
        except (ValueError, struct.error) as error:
            return Malformed("answer", "all topics", shown(str(error)))

    def _read(self, version: int, data: bytes) -> WholeReading:
        from kafka.protocol.metadata import MetadataResponse
        from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

        has_ids, tail_bytes = _layout(version)
        count_at = _topics_at(data)
        count, at = varint(data, count_at)
        count = max(0, count - 1)
        if count > TOPICS_MAX:
            raise ValueError(f"it has more than {TOPICS_MAX} topics")
        kept, others, gone = _compared(self._kept, data, at, count, has_ids)
        end = kept.starts[-1]
        if after_tags(data, end + tail_bytes) != len(data):
            raise ValueError("it does not end where it should")
        topics = UnsignedVarInt32.encode(len(others) + 1)
        heads = (one.head + NO_PARTITIONS for one in others)
        part = b"".join([data[:count_at], topics, *heads, data[end:]])
        response = MetadataResponse.decode(part, version=version)
        partitions = {one.name.decode(): one.partitions for one in others}
        reading = WholeReading(response, frozenset(name.decode() for name in gone), partitions)
        self._kept = kept
        return reading


def _layout(version: int) -> tuple[bool, int]:
    """Whether a topic has an id, and how many bytes stand between the topics and the end."""
    return version >= 10, {9: 4, 10: 4, 13: 2}.get(version, 0)


@value
class _OtherTopic:
    """One that is not as before: its bytes up to where it says how many partitions it has."""

    name: bytes
    head: bytes
    partitions: int


@value
class _KeptAnswer:
    """An answer, the names of its topics in its order, and where each begins; behind the last, too.
    `all_names` are the same. `has_ids`: as they are laid out.
    """

    data: bytes
    has_ids: bool
    names: list[bytes]
    starts: list[int]
    all_names: frozenset[bytes]

    def topics(self, first: int, after: int) -> dict[bytes, bytes]:
        """The bytes of some by their names."""
        places = pairwise(self.starts[first : after + 1])
        named = zip(self.names[first:after], places, strict=True)
        return {name: self.data[start:end] for name, (start, end) in named}

    def alike(self, data: bytes, at: int) -> tuple[int, int]:
        """Topics up to the first number, and those from the second one, seem to be the same in
        another answer, whose topics begin at `at`.
        """
        own = self.starts[0]
        most = min(len(data) - at, len(self.data) - own)
        same = _same(most, lambda a, b: data[at + a : at + b] == self.data[own + a : own + b])
        first = bisect_right(self.starts, own + same) - 1
        end, own_end = len(data), len(self.data)
        same = _same(
            most - (self.starts[first] - own),
            lambda a, b: data[end - b : end - a] == self.data[own_end - b : own_end - a],
        )
        after = bisect_left(self.starts, own_end - same)
        return first, min(max(first, after), len(self.names))


NOTHING = _KeptAnswer(b"", True, [], [0], frozenset())


def _same(most: int, are_same: Callable[[int, int], bool]) -> int:
    """How many of so many bytes are the same, from the first on."""
    same, size = 0, min(most, COMPARED_BYTES)
    while size and are_same(same, same + size):
        same += size
        size = min(most - same, COMPARED_BYTES)
    while size > 1:
        half = size // 2
        if are_same(same, same + half):
            same, size = same + half, size - half
        else:
            size = half
    return same


def _compared(
    last: _KeptAnswer, data: bytes, at: int, count: int, has_ids: bool
) -> tuple[_KeptAnswer, list[_OtherTopic], Set[bytes]]:
    """An answer whose `count` topics begin at `at`, those that are not as before, and the names
    that are gone. Raises `ValueError` or `IndexError`.
    """
    before = last if last.has_ids == has_ids else NOTHING
    first, after = before.alike(data, at)
    shift = at - before.starts[0]
    end = len(data) - len(before.data) + before.starts[after]
    old = before.topics(first, after)
    between = count - first - (len(before.names) - after)
    names, starts, others = _split(data, before.starts[first] + shift, between, has_ids, old)
    if between < 0 or (starts[-1] != end and after < len(before.names)):
        # what looked the same at the end is not
        first, after = 0, len(before.names)
        old = before.topics(first, after)
        names, starts, others = _split(data, at, count, has_ids, old)
    new = set(names)
    come, gone = new - old.keys(), old.keys() - new
    if len(new) < len(names) or come & before.all_names:
        raise ValueError("it names a topic twice")
    moved = starts[-1] - before.starts[after]
    kept = _KeptAnswer(
        data,
        has_ids,
        before.names[:first] + names + before.names[after:],
        [
            *(start + shift for start in before.starts[:first]),
            *starts[:-1],
            *(start + moved for start in before.starts[after:]),
        ],
        before.all_names - gone | come if come or gone else before.all_names,
    )
    return kept, others, gone if before is last else last.all_names - new


def _split(
    data: bytes, at: int, count: int, has_ids: bool, before: dict[bytes, bytes]
) -> tuple[list[bytes], list[int], list[_OtherTopic]]:
    """The names of topics one after the other, where each begins and the last one ends, and those
    that are not as before. Raises `ValueError` or `IndexError`.
    """
    names: list[bytes] = []
    starts = [at]
    others: list[_OtherTopic] = []
    for _ in range(count):
        name = _name(data, at)
        topic = before.get(name)
        if topic is not None and data.startswith(topic, at):
            at += len(topic)
        else:
            count_at = _count_at(data, at, has_ids)
            size, head_end = varint(data, count_at)
            partitions = max(0, size - 1)
            end = _topic_end(data, head_end, partitions)
            if topic is None or not topic.startswith(data[at:head_end]):
                others.append(_OtherTopic(name, data[at:count_at], partitions))
            at = end
        names.append(name)
        starts.append(at)
    return names, starts, others


def _name(data: bytes, at: int) -> bytes:
    size = data[at + ERROR_BYTES]
    if size < MORE:
        return data[at + 3 : at + 2 + size]
    size, at = varint(data, at + ERROR_BYTES)
    return data[at : at + size - 1]


def _count_at(data: bytes, at: int, has_ids: bool) -> int:
    """Where a topic says how many partitions it has. All else that anybody here asks for stands
    before: its error, its name, its id.
    """
    size, at = varint(data, at + ERROR_BYTES)
    if size <= 1:
        raise ValueError("it has a topic without a name")
    return at + size - 1 + (17 if has_ids else 1)


def _topic_end(data: bytes, at: int, partitions: int) -> int:
    """Where a topic ends whose partitions begin there."""
    for _ in range(partitions):
        at += PARTITION_BYTES
        for _ in ARRAYS:
            size = data[at]
            if size >= MORE:
                size, at = varint(data, at)
            else:
                at += 1
            if size:
                at += NODE_BYTES * (size - 1)
        at = after_tags(data, at)
    return after_tags(data, at + OPERATIONS_BYTES)


def _topics_at(data: bytes) -> int:
    """Where it says how many topics there are, behind brokers, the cluster's id and the
    controller's.
    """
    count, at = varint(data, THROTTLE_BYTES)
    if count - 1 > BROKERS_MAX:
        raise ValueError(f"it has more than {BROKERS_MAX} brokers")
    for _ in range(count - 1):
        at = _after_text(data, at + BROKER_ID_BYTES)  # its host
        at = _after_text(data, at + PORT_BYTES)  # its rack
        at = after_tags(data, at)
    return _after_text(data, at) + CONTROLLER_BYTES


def _after_text(data: bytes, at: int) -> int:
    size, at = varint(data, at)
    return at + max(0, size - 1)
