"""How much work a stranger's request is, for the loop that relays for everybody."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest

from consumer.gateway import frames
from consumer.gateway.frames import BadFrameError
from consumer.gateway.skimming import NUMBER_BYTES, PART_BYTES, PARTS_MAX
from tests.consumer.gateway.recordings import framed, requests
from zkcoord.kafka_client.frames import TAGS_MAX

MIB = 1024 * 1024
WORK_S = 0.2
"""Of a machine on which others run, too; without a bound it is several seconds, or no end."""
COMMIT, FETCH = frames.OFFSET_COMMIT, frames.OFFSET_FETCH
RECORDED = list(requests())
GROUP = struct.pack(">h", 1) + b"g"
ONE_TAG = b"\x01\x07\x00"


def head(key: int, version: int) -> bytes:
    """Without a client id."""
    return struct.pack(">hhih", key, version, 1, 0)


def decode(frame: bytes) -> object:
    """As a gateway does."""
    return frames.decode(frames.decode_head(frame), frame)


def cost_s(work: Callable[[], object]) -> float:
    """Of this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


def refused_s(frame: bytes) -> float:
    """How much work it is to see that a frame is none."""

    def work() -> None:
        with pytest.raises(BadFrameError):
            decode(frame)

    return cost_s(work)


@pytest.mark.parametrize(
    ("key", "version", "part"),
    [(FETCH, 5, bytes(6)), (frames.LEAVE_GROUP, 3, b"\0\0\xff\xff"), (COMMIT, 2, bytes(6))],
)
def test_a_request_of_many_small_parts_is_refused_at_once(
    key: int, version: int, part: bytes
) -> None:
    count = MIB // len(part)
    front = GROUP + (bytes(14) if key == COMMIT else b"")
    frame = head(key, version) + front + struct.pack(">i", count) + part * count
    assert refused_s(frame) < WORK_S


def test_parts_that_a_request_says_it_has_are_looked_for_before_they_are_gone_through() -> None:
    """25 bytes were 40,000 lines of Python."""
    front = head(COMMIT, 2) + GROUP + bytes(14)
    with pytest.raises(BadFrameError, match="before its parts"):
        decode(front + struct.pack(">i", PARTS_MAX) + bytes(8))


def test_parts_are_counted_in_all_arrays_together() -> None:
    topic = struct.pack(">hi", 0, 2) + bytes(2 * 14)
    front = head(COMMIT, 2) + GROUP + bytes(14)
    most = PARTS_MAX // 3
    decode(front + struct.pack(">i", most) + topic * most)
    more = most + 1
    assert refused_s(front + struct.pack(">i", more) + topic * more) < WORK_S


def test_numbers_are_as_many_as_the_length_allows() -> None:
    count = MIB // 4 - 10
    front = head(FETCH, 5) + GROUP + struct.pack(">ihi", 1, 0, count)
    assert cost_s(lambda: decode(front + bytes(4 * count))) < WORK_S
    with pytest.raises(BadFrameError):
        decode(front + bytes(4 * count - 1))


def test_tags_that_never_end_are_not_read() -> None:
    assert refused_s(head(frames.HEARTBEAT, 4) + b"\xff\xff\xff\xff\x07" + bytes(MIB)) < WORK_S


def test_a_tag_in_each_part_is_not_read() -> None:
    """kafka-python copies what is left of a request at each."""
    count = PARTS_MAX - 1
    parts = (b"\x01\x00\x00" + ONE_TAG) * count
    frame = head(frames.LEAVE_GROUP, 5) + b"\0" + b"\x02g" + b"\xa0\x9c\x01" + parts
    assert refused_s(frame) < WORK_S


def test_a_number_that_never_ends_is_not_read() -> None:
    """It would grow by seven bits with each byte, all of which are copied each time."""
    assert refused_s(head(frames.HEARTBEAT, 4) + b"\0" + b"\xff" * MIB) < WORK_S


@pytest.mark.parametrize("count", [1, TAGS_MAX])
def test_some_tags_are_passed_over(count: int) -> None:
    """One more stands at the end."""
    tags = bytes([count]) + b"\x07\x02ab" * count
    frame = head(frames.HEARTBEAT, 4) + tags + b"\x02g" + bytes(4) + b"\x02m" + b"\0" + ONE_TAG
    if count == 1:
        decode(frame)
    else:
        assert refused_s(frame) < WORK_S


@pytest.mark.parametrize(
    ("key", "version", "request_"), RECORDED, ids=[f"{k}-v{v}" for k, v, _ in RECORDED]
)
def test_what_ends_before_its_end_is_refused(key: int, version: int, request_: object) -> None:
    frame = framed(version, request_)[4:]
    decode(frame)
    with pytest.raises(BadFrameError):
        decode(frame[:-1])


def test_what_clients_write_for_themselves_may_be_longer() -> None:
    longest = {key: frames.local_bytes_max(frames.Head(key, 0, 1, "")) for key in frames._CLASSES}
    assert {key for key, size in longest.items() if size == 4 * MIB} == frames.WITH_TEXTS
    assert set(longest.values()) == {MIB, 4 * MIB}


COUNT = 5_000


@pytest.mark.parametrize(
    ("frame", "parts", "numbers"),
    [
        (
            head(frames.OFFSET_COMMIT, 0)
            + GROUP
            + struct.pack(">i", 1)
            + GROUP
            + struct.pack(">i", COUNT)
            + struct.pack(">iqh", 0, 1, 0) * COUNT,
            COUNT + 1,
            0,
        ),
        (
            head(frames.OFFSET_FETCH, 0)
            + GROUP
            + struct.pack(">i", 1)
            + GROUP
            + struct.pack(">i", COUNT)
            + b"".join(struct.pack(">i", 1_000 + n) for n in range(COUNT)),
            1,
            COUNT,
        ),
        (
            head(frames.DELETE_GROUPS, 0) + struct.pack(">i", COUNT) + GROUP * COUNT,
            COUNT,
            0,
        ),
    ],
    ids=["structures", "numbers", "texts"],
)
def test_what_a_request_takes_decoded_is_known(frame: bytes, parts: int, numbers: int) -> None:
    """About: what is kept for it counts so, and not only its bytes."""
    weighed: list[int] = []
    asked = frames.decode_head(frame)
    frames.decode(asked, frame, weighed.append)
    assert weighed == [parts * PART_BYTES + numbers * NUMBER_BYTES]
    tracemalloc.start()
    try:
        kept = frames.decode(asked, frame)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept is not None and 0.8 * taken < weighed[0], "it takes more than it counts"
