"""Fairness of what is handed out, and that nothing is handed out twice, left out or out of order,
whatever is buffered.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import kafka.errors
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.serializer import Deserializer
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.fetch.buffer import FairTurns, extent_of
from tests.consumer.fakes import tp
from tests.consumer.logs import Log, Reader, batch

A, B, C = tp(0), tp(1), tp(2)


def logs(*sizes: int, per_batch: int = 100) -> list[Log]:
    """One log per partition, with so many records."""
    made = [Log(tp(n)) for n in range(len(sizes))]
    for log, size in zip(made, sizes):
        log.grow(size, per_batch)
    return made


def counts(taken: dict[int, list[int]]) -> dict[int, int]:
    return {n: len(offsets) for n, offsets in taken.items()}


def test_three_hundred_over_three_partitions() -> None:
    """KIP-41's example: 100 of each of A, B and C; 150 of A and B where C has nothing."""
    reader = Reader(*logs(1_000, 1_000, 1_000), max_poll_records=300)
    reader.fetch()
    assert counts(reader.take()) == {0: 100, 1: 100, 2: 100}
    reader = Reader(*logs(1_000, 1_000, 0), max_poll_records=300)
    reader.fetch()
    assert counts(reader.take()) == {0: 150, 1: 150}


def test_what_one_cannot_use_goes_to_the_others() -> None:
    """A poll is full when enough is buffered, and what there is comes at once."""
    reader = Reader(*logs(1_000, 20, 0), max_poll_records=300)
    reader.fetch()
    assert counts(reader.take()) == {0: 280, 1: 20}
    alone = Reader(*logs(1_000), max_poll_records=300)
    alone.fetch()
    assert counts(alone.take()) == {0: 300}


def test_a_backlog_of_one_does_not_keep_the_other_from_being_fetched() -> None:
    """KIP-41's example: one record a poll, 1000 of A fetched and none of B. B is fetched at each
    poll, and its first record comes with the second poll after it arrived.
    """
    a, b = logs(1_000, 0)
    reader = Reader(a, b, max_poll_records=1)
    reader.fetch()
    for n in range(10):
        assert reader.take() == {0: [n]} and reader.wanted() == {B: 0}
    b.grow(3)
    reader.fetch()
    assert [reader.take() for _ in range(6)] == [
        {0: [10]},
        {1: [0]},
        {0: [11]},
        {1: [1]},
        {0: [12]},
        {1: [2]},
    ]


def test_a_poll_goes_on_where_the_last_one_left_off() -> None:
    reader = Reader(*logs(200, 200, 200), max_poll_records=40)
    reader.fetch()
    assert [counts(reader.take()) for _ in range(4)] == [
        {0: 14, 1: 13, 2: 13},
        {0: 13, 1: 14, 2: 13},
        {0: 13, 1: 13, 2: 14},
        {0: 14, 1: 13, 2: 13},
    ]


@pytest.mark.parametrize("records", [1, 5, 6, 7, 11, 60])
def test_a_small_poll_is_shared_by_all(records: int) -> None:
    """Six partitions: a poll of six records gives one of each, not six of one."""
    reader = Reader(*logs(*[200] * 6), max_poll_records=records)
    reader.fetch()
    seen = Counter[int]()
    for _ in range(6):
        taken = counts(reader.take())
        assert sum(taken.values()) == records and len(taken) == min(records, 6)
        assert max(taken.values()) - min(taken.values()) <= 1
        seen.update(taken)
        assert max(seen.values()) - min(seen[n] for n in range(6)) <= 1


def test_each_is_fetched_again_when_less_than_its_share_of_a_poll_is_left() -> None:
    """From the end of what is buffered; the answer is handed out after it."""
    a, b = logs(100, 1_000)
    reader = Reader(a, b, max_poll_records=100)
    reader.fetch()
    a.grow(30)
    assert reader.wanted() == {}
    reader.take(100)
    assert reader.wanted() == {}, "50 are left, which is the share"
    reader.take(2)
    assert reader.wanted() == {A: 100}
    reader.fetch()
    taken = [reader.take().get(0, []) for _ in range(3)]
    assert sum(taken, []) == list(range(reader.position(A) - sum(map(len, taken)), 130))


@pytest.mark.parametrize("max_poll_records", [500, 50_000])
def test_what_is_buffered_stays_below_the_limit(max_poll_records: int) -> None:
    """However much there is, and also where the limit is less than a poll: each partition has its
    part of the limit, so that all of them are fetched.
    """
    reader = Reader(
        *logs(*[6_000] * 5), max_buffered_bytes=160 * 1024, max_poll_records=max_poll_records
    )
    largest, seen = 0, Counter[int]()
    while sum(seen.values()) < 30_000:
        reader.fetch()
        reader.fetch()
        largest = max(largest, reader.buffers.size)
        taken = reader.take(500)
        assert taken
        seen.update(counts(taken))
        assert (
            max(seen.values()) - min(seen[n] for n in range(5)) <= 1 or max(seen.values()) == 6_000
        )
    assert 40 * 1024 < largest <= 160 * 1024 and reader.take() == {} and reader.buffers.size == 0


def test_none_takes_the_part_of_the_others() -> None:
    reader = Reader(*logs(20_000, 100), max_buffered_bytes=160 * 1024, max_poll_records=50_000)
    for _ in range(10):
        reader.fetch(A)
    assert 40 * 1024 < reader.buffers.size <= 80 * 1024 and set(reader.wanted()) == {B}


def test_over_the_limit_nothing_is_fetched() -> None:
    """A single batch may be larger than everything that was asked for."""
    reader = Reader(*logs(100, 100, 100), max_buffered_bytes=900)
    reader.fetch(A)
    assert reader.buffers.size > 900 and reader.wanted() == {}
    assert (
        counts(reader.take()) == {0: 100}
        and reader.buffers.size == 0
        and set(reader.wanted()) == {A, B, C}
    )


def test_what_is_paused_gives_way() -> None:
    """When the limit is reached; it may stay paused for ever. It is fetched again when it goes
    on.
    """
    reader = Reader(*logs(200, 200), max_buffered_bytes=1_800)
    reader.fetch(A)
    reader.subscriptions.pause(A)
    assert reader.take() == {} and reader.buffers.size > 900 and set(reader.wanted()) == {B}
    reader.max_buffered_bytes = 900
    assert set(reader.wanted()) == {B} and reader.buffers.size == 0
    reader.fetch()
    assert set(reader.take()) == {1} and reader.position(A) == 0
    reader.subscriptions.resume(A)
    reader.fetch()
    assert reader.take()[0][0] == 0


def test_a_seek_drops_what_is_buffered() -> None:
    for target in (5, 150, 350):
        reader = Reader(*logs(400, 400), max_poll_records=100)
        reader.fetch()
        reader.take()
        reader.subscriptions.seek(A, target)
        assert counts(reader.take()) == {1: 100}, "what was buffered of it is not what comes next"
        assert reader.wanted() == {A: target}
        reader.fetch()
        taken = reader.take()
        assert taken[0] == list(range(target, target + len(taken[0]))) and taken[1] == list(
            range(150, 200)
        )


def test_what_is_put_back_comes_again() -> None:
    reader = Reader(*logs(400, 400), max_poll_records=100)
    reader.fetch()
    first = reader.take()
    reader.subscriptions.assignment[A].position = OffsetAndMetadata(first[0][0], "", -1)
    reader.fetch()
    again = reader.take()
    assert again[0] == first[0] and again[1] == list(range(50, 100))


@pytest.mark.parametrize("end", ["pause", "hold"])
def test_what_is_paused_or_held_is_kept(end: str) -> None:
    """And goes on where it stood, without being fetched again."""
    reader = Reader(*logs(400, 400), max_poll_records=100)
    reader.fetch()
    reader.take()
    state = reader.subscriptions.assignment[A]
    change = {
        "pause": (state.pause, state.resume),
        "hold": (
            lambda: state.mark_pending_revocation(True),
            lambda: state.mark_pending_revocation(False),
        ),
    }[end]
    change[0]()
    assert (
        [counts(reader.take()) for _ in range(2)] == [{1: 100}, {1: 100}]
        and A not in reader.wanted()
        and reader.position(A) == 50
    )
    change[1]()
    assert A not in reader.wanted()
    assert reader.take()[0] == list(range(50, 100))


def test_a_revoked_partition_leaves_nothing_behind() -> None:
    reader = Reader(*logs(400, 400), max_poll_records=100)
    reader.fetch()
    reader.take()
    reader.remove(A)
    assert counts(reader.take()) == {1: 100}
    reader.assign(A, offset=70)
    assert reader.wanted()[A] == 70
    reader.fetch()
    assert reader.take()[0][0] == 70


def test_a_late_answer_is_dropped() -> None:
    """Two requests may ask for the same; the second answer counts neither as buffered nor as
    records.
    """
    (log,) = logs(100)
    reader = Reader(log)
    for _ in range(2):
        reader.buffers.put(log.fetch(0))
    size = reader.buffers.size
    assert size == len(log.fetch(0).partition_data.records) and reader.take()[0] == list(range(100))
    reader.buffers.put(log.fetch(0))
    assert reader.take() == {} and reader.buffers.size == 0 and reader.position(A) == 100


def test_the_position_passes_what_holds_no_records() -> None:
    """Compacted batches and markers of transactions: no record is missed, and what cannot be read
    is not fetched again and again.
    """
    log = Log(A)
    log.append([0, 3], last=9)
    log.append([], last=4)
    log.append([1, 2], last=5)
    log.append([0], control=True)
    reader = Reader(log, isolation_level="read_committed")
    reader.fetch()
    assert reader.take(1) == {0: [0]} and reader.position(A) == 1
    assert reader.wanted() == {A: 22}
    assert reader.take(2) == {0: [3, 16]} and reader.position(A) == 17
    assert reader.take() == {0: [17]} and reader.position(A) == 22 == log.end
    assert reader.wanted() == {A: 22}


def test_an_error_comes_after_what_was_buffered_before_it() -> None:
    (log,) = logs(30)
    reader = Reader(log)
    reader.fetch()
    reader.buffers.put(log.fetch(30, error=kafka.errors.TopicAuthorizationFailedError.errno))
    assert reader.wanted() == {}, "it is dealt with first"
    assert reader.take()[0] == list(range(30))
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        reader.take()
    assert reader.take() == {} and reader.wanted() == {A: 30}


def test_an_offset_out_of_range_is_reset() -> None:
    (log,) = logs(30)
    reader = Reader(log)
    reader.buffers.put(log.fetch(0, error=kafka.errors.OffsetOutOfRangeError.errno))
    assert (
        reader.take() == {}
        and reader.subscriptions.is_offset_reset_needed(A)
        and reader.wanted() == {}
    )
    reader.subscriptions.seek(A, 7)
    reader.fetch()
    assert reader.take()[0] == list(range(7, 30))


class Picky(Deserializer):
    """Cannot read some values."""

    def __init__(self, *bad: bytes) -> None:
        self.bad = bad

    def deserialize(self, topic: str, headers: Any, data: bytes) -> bytes:
        if data in self.bad:
            raise ValueError(data)
        return data


@pytest.mark.parametrize("per_batch", [1, 20, 100])
def test_a_record_that_cannot_be_decoded_is_raised_until_it_is_passed(per_batch: int) -> None:
    """Nothing that was taken is lost by it, and the others go on. It may be passed within its
    batch.
    """
    reader = Reader(
        *logs(100, 100, per_batch=per_batch), max_poll_records=50, value_deserializer=Picky(b"30")
    )
    seen: dict[int, list[int]] = {0: [], 1: []}
    errors = 0
    for _ in range(30):
        reader.fetch()
        try:
            for n, offsets in reader.take().items():
                seen[n] += offsets
        except ValueError:
            errors += 1
            bad = [n for n in (0, 1) if reader.position(tp(n)) == 30]
            assert bad
            if errors == 4:
                for n in bad:
                    reader.subscriptions.seek(tp(n), 31)
        for n in (0, 1):
            assert reader.position(tp(n)) in (
                seen[n][-1] + 1,
                31,
            ), "the positions are those of what was handed out"
    assert errors >= 4 and seen == {n: [o for o in range(100) if o != 30] for n in (0, 1)}


def test_extents_are_read_from_heads_only() -> None:
    whole = batch(10, [0, 2], 19, epoch=3) + batch(20, [0], 20, epoch=4)
    assert extent_of(whole) == (3, OffsetAndMetadata(21, "", 4))
    assert extent_of(whole[:-1]) == (
        2,
        OffsetAndMetadata(20, "", 3),
    ), "the last batch is not complete"
    assert extent_of(b"") == extent_of(whole[:30]) == (0, None)
    assert extent_of(bytes(100)) == (0, None), "no batch has no length"


# fairness, stated

SUPPLY = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 80)), max_size=4)
POLLS = st.lists(SUPPLY, min_size=1, max_size=60)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 120), POLLS)
def test_turns_are_fair(room: int, polls: list[list[tuple[int, int]]]) -> None:
    """Between two that both always have something, the numbers of what they gave differ by at most
    two in any run of polls (one at its begin, one at its end); nobody who has something waits for
    longer than there are others; and a poll is full when there is enough.
    """
    turns: FairTurns[int] = FairTurns()
    stock: Counter[int] = Counter()
    given: list[Counter[int]] = []
    busy: list[set[int]] = []

    def give(key: int, wanted: int) -> tuple[int, bool]:
        n = min(wanted, stock[key])
        stock[key] -= n
        given[-1][key] += n
        return n, n == wanted

    for supply in [*polls, *[[]] * 40]:
        for key, amount in supply:
            if key not in turns:
                turns.add(key)
            stock[key] += amount
        before = +stock
        given.append(Counter())
        turns.run(room, give)
        busy.append({key for key in before if stock[key]})
        assert sum(given[-1].values()) == min(room, sum(before.values()))
    _judge(given, busy)


def _judge(given: list[Counter[int]], busy: list[set[int]]) -> None:
    for first in range(len(given)):
        since: Counter[int] = Counter()
        always = set(range(6))
        for n in range(first, len(given)):
            always &= busy[n]
            since += given[n]
            amounts = [since[key] for key in always]
            assert not amounts or max(amounts) - min(amounts) <= 2
            if n - first >= max(map(len, busy[first : n + 1]), default=0):
                assert all(amounts), "waited for longer than there are others"


# everything together

ACTION = st.one_of(
    st.tuples(
        st.just("grow"),
        st.integers(0, 2),
        st.lists(st.integers(0, 12), max_size=6, unique=True),
        st.integers(0, 3),
    ),
    st.tuples(st.just("fetch"), st.integers(0, 3), st.sampled_from([80, 300, 5_000])),
    st.tuples(st.just("take"), st.integers(1, 30)),
    st.tuples(st.just("seek"), st.integers(0, 2), st.integers(0, 60)),
    st.tuples(
        st.sampled_from(
            ["pause", "resume", "hold", "release", "remove", "assign", "put back", "repeat"]
        ),
        st.integers(0, 2),
    ),
)


class World:
    """Logs, a reader, and what must come next of each partition."""

    def __init__(self) -> None:
        self.logs = logs(40, 10, 0)
        self.reader = Reader(*self.logs, max_poll_records=12, max_buffered_bytes=1 << 16)
        self.next = dict.fromkeys((A, B, C), 0)
        self.stopped: set[TopicPartition] = set()

    def do(self, name: str, *arguments: Any) -> None:
        number, *rest = arguments
        partition = tp(number % 3)
        if name == "grow":
            self.logs[number].append(sorted(rest[0]), last=max(rest[0], default=0) + rest[1])
        elif name == "fetch":
            self.reader.chunk = rest[0]
            self.reader.fetch(*([partition] if number < 3 else []))
        elif name == "take":
            self.take(number)
        elif name == "assign":
            if partition not in self.next:
                self.reader.assign(partition)
                self.next[partition] = 0
        elif partition in self.next:
            self.change(name, partition, *rest)

    def change(self, name: str, partition: TopicPartition, offset: int = 0) -> None:
        state = self.reader.subscriptions.assignment[partition]
        if name == "seek":
            self.reader.subscriptions.seek(partition, offset)
            self.next[partition] = offset
        elif name in ("pause", "hold"):
            if name == "pause":
                state.pause()
            else:
                state.mark_pending_revocation(True)
            self.stopped.add(partition)
        elif name in ("resume", "release"):
            state.resume()
            state.mark_pending_revocation(False)
            self.stopped.discard(partition)
        elif name == "remove":
            self.reader.remove(partition)
            del self.next[partition]
            self.stopped.discard(partition)
        elif name == "put back":
            self.next[partition] = max(0, self.next[partition] - 3)
            state.position = OffsetAndMetadata(self.next[partition], "", -1)
        elif name == "repeat":
            self.reader.buffers.put(self.logs[partition.partition].fetch(self.next[partition]))

    def take(self, room: int) -> None:
        taken = self.reader.take(room)
        assert sum(map(len, taken.values())) <= room
        for number, offsets in taken.items():
            assert tp(number) not in self.stopped
            left = [o for o in self.logs[number].readable if o >= self.next[tp(number)]]
            assert offsets == left[: len(offsets)], "in order, each once, none left out"
            self.next[tp(number)] = offsets[-1] + 1
        for partition, expected in self.next.items():
            position = self.reader.position(partition)
            assert position >= expected and not [
                o for o in self.logs[partition.partition].readable if expected <= o < position
            ], "the position is after what was handed out"

    def drain(self) -> None:
        """Whatever happened before: everything that is left comes."""
        for _ in range(200):
            for number in range(3):
                self.do("resume", number)
            self.reader.chunk = 5_000
            self.reader.fetch()
            self.take(30)
        for partition, position in self.next.items():
            assert not [o for o in self.logs[partition.partition].readable if o >= position]
        assert self.reader.buffers.size == 0 or any(
            p > self.logs[q.partition].end for q, p in self.next.items()
        )


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTION, max_size=60))
def test_every_record_once_in_order_whatever_happens(actions: list[tuple[Any, ...]]) -> None:
    world = World()
    for name, *arguments in actions:
        world.do(name, *arguments)
    world.drain()
