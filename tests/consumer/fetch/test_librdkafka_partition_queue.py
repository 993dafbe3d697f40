"""The buffer of one partition: whatever is handed out, put back, sought or brought another way,
records come once, in order and without a gap.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from consumer.fetch.librdkafka.partition_queue import PartitionQueue


@dataclass(frozen=True)
class Message:
    """As much of a message as a stream needs."""

    at: int

    def offset(self) -> int:
        return self.at


def stream_of(position: int, *offsets: int) -> PartitionQueue:
    stream = PartitionQueue(position)
    if offsets:
        stream.add([Message(o) for o in offsets], 10 * len(offsets))
    return stream


def taken(stream: PartitionQueue, count: int) -> list[int]:
    return [m.offset() for m in stream.take(count)]


def test_records_are_taken_in_order_and_once() -> None:
    stream = stream_of(5, 5, 6, 9)
    assert taken(stream, 2) == [5, 6] and stream.ready == 1 and not stream.exhausted
    assert taken(stream, 2) == [9] and stream.exhausted and stream.end == 10


def test_what_was_taken_last_can_be_put_back() -> None:
    stream = stream_of(0, 0, 1, 2, 3)
    taken(stream, 2)
    taken(stream, 2)
    assert stream.move(3) and taken(stream, 5) == [3]
    assert not stream.move(1), "what was taken before that is gone: it has to be fetched again"
    assert stream.move(4) and stream.exhausted


def test_a_position_between_records_is_held_and_one_outside_is_not() -> None:
    stream = stream_of(0, 0, 7)
    assert stream.move(3) and taken(stream, 5) == [7]
    assert not stream.move(9) and not stream_of(5, 5).move(4)


def test_what_comes_another_way_is_followed_only_where_nothing_is_left_out() -> None:
    stream = stream_of(10, 10, 11, 12)
    assert stream.jump(11) and taken(stream, 5) == [11, 12]
    assert stream.jump(20) and (stream.begin, stream.end, stream.ready) == (
        20,
        20,
        0,
    ), "what is fetched before that is passed over"
    assert not stream.jump(15), "what is fetched may begin after that"
    stream.fault = "an error in place of the message at 20"
    assert stream.jump(20) and not stream.jump(25)


def test_the_end_of_the_log_moves_the_end() -> None:
    stream = stream_of(0, 0)
    stream.ends(4)
    assert stream.end == 4 and stream.move(4) and stream.exhausted
    stream.ends(2)
    assert stream.end == 4


def test_what_came_another_way_is_not_handed_out_again() -> None:
    ahead, within = stream_of(0), stream_of(0, 0, 1, 2)
    ahead.jump(5)
    within.jump(2)
    assert ahead.begin == ahead.end == 5 and taken(within, 5) == [2]


@given(st.data())
def test_any_run_hands_out_what_the_log_holds(data: st.DataObject) -> None:
    """The log has gaps. The reader takes, puts back and seeks, gets records another way, and begins
    a new stream where the old one does not hold the position or cannot follow, as the fetcher does.
    """
    log = sorted(data.draw(st.sets(st.integers(0, 60), min_size=1)))
    position, stream, fetched = 0, PartitionQueue(0), 0
    for _ in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.sampled_from(("feed", "take", "seek", "back", "jump")))
        if step == "feed":
            new = [o for o in log if o >= fetched][: data.draw(st.integers(1, 9))]
            fetched = max([fetched, *(o + 1 for o in new)])
            new = [o for o in new if o >= stream.end]
            if new:
                stream.add([Message(o) for o in new], 1)
        elif step == "seek":
            position = data.draw(st.integers(0, 61))
        elif step == "jump":
            position = data.draw(st.integers(position, 61))
            if not stream.jump(position):
                stream, fetched = PartitionQueue(position), position
        elif stream.move(position):
            expected = [o for o in log if position <= o < stream.end][:4]
            found = taken(stream, 4)
            assert found == expected
            if found and step == "take":
                position = found[-1] + 1
        else:
            stream, fetched = PartitionQueue(position), position
        assert stream.begin <= stream.end
