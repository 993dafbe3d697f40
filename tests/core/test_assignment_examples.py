"""Assignors by example: caps that fit to the byte, subscriptions that differ, owners that look fair
and are not.
"""

from __future__ import annotations

import pytest

from zkcoord.core.assignment import (
    ASSIGNORS,
    Assignment,
    AssignmentInput,
    assign_range,
    assign_roundrobin,
    assign_sticky,
)
from zkcoord.core.model import Thread, TopicPartition

LONG = "aaaaaaaaaa"
LONG_BYTES = 64 + len(LONG) + 1
B_BYTES = 64 + len("b") + 1


def text(found: Assignment) -> dict[str, str]:
    """Partition -> thread, as texts."""
    return {str(tp): str(thread) for tp, thread in sorted(found.targets.items())}


def owners(**by_thread: str) -> dict[TopicPartition, Thread]:
    """a_0="t-0,u-1": thread -> partitions."""
    return {
        TopicPartition(tp.split("-")[0], int(tp.split("-")[1])): Thread(
            thread.split("_")[0], int(thread.split("_")[1])
        )
        for thread, partitions in by_thread.items()
        for tp in partitions.split(",")
    }


def test_a_path_is_counted_as_it_is_written() -> None:
    given = AssignmentInput({}, {})
    assert given.path_bytes(TopicPartition(LONG, 123)) == 64 + 10 + 3


@pytest.mark.parametrize("streams", range(1, 131))
def test_range_takes_all_threads_in_the_order_of_their_texts(streams: int) -> None:
    found = assign_range(AssignmentInput({"m": {"t": streams}}, {"t": tuple(range(streams))}))
    threads = [thread for _, thread in sorted(found.targets.items())]
    assert threads == sorted((Thread("m", n) for n in range(streams)), key=str)


def test_range_gives_the_first_threads_one_more() -> None:
    given = AssignmentInput({name: {"t": 1} for name in "abcd"}, {"t": tuple(range(6))})
    assert "".join(thread[0] for thread in text(assign_range(given)).values()) == "aabbcd"


def test_members_of_which_one_has_other_streams_are_not_alike() -> None:
    """Though they name the same topics, and one of these with as many streams."""
    given = AssignmentInput({"a": {"t": 1, "u": 2}, "b": {"t": 1, "u": 3}}, {"u": tuple(range(5))})
    assert list(text(assign_range(given)).values()) == ["a-0", "a-1", "b-0", "b-1", "b-2"]


def test_under_ranges_cap_all_fits_that_fits_to_the_byte() -> None:
    """What does not fit takes no room."""
    wanted = {LONG: 1, "b": 1}
    partitions = {LONG: (0,), "b": (0,)}
    both = AssignmentInput({"a": wanted}, partitions, owner_path_bytes_max=LONG_BYTES + B_BYTES)
    assert text(assign_range(both)) == {f"{LONG}-0": "a-0", "b-0": "a-0"}
    short = AssignmentInput({"a": wanted}, partitions, owner_path_bytes_max=B_BYTES)
    found = assign_range(short)
    assert text(found) == {"b-0": "a-0"} and found.unassigned == (TopicPartition(LONG, 0),)


def test_roundrobin_has_a_place_for_each_stream_of_the_topic_with_most() -> None:
    given = AssignmentInput(
        {"a": {"t": 2, "u": 1}, "b": {"t": 1, "u": 1}}, {"t": (0, 1, 2), "u": (0, 1)}
    )
    assert list(text(assign_roundrobin(given)).values()) == ["a-0", "a-1", "b-0", "a-0", "b-0"]


@pytest.mark.parametrize(("room", "count"), [(B_BYTES, 1), (LONG_BYTES - 1, 1), (LONG_BYTES, 2)])
def test_roundrobin_keeps_room_for_the_longest_path(room: int, count: int) -> None:
    given = AssignmentInput(
        {"a": {LONG: 1, "b": 1}},
        {LONG: (0,), "b": (0, 1, 2)},
        owner_path_bytes_max=LONG_BYTES + room,
    )
    assert len(assign_roundrobin(given).targets) == count


def test_a_longer_number_is_a_longer_path() -> None:
    """For round robin, which keeps room for it, and where what is owned looks fair."""
    for cap, count in ((B_BYTES + B_BYTES, 1), (B_BYTES + B_BYTES + 1, 2)):
        given = AssignmentInput(
            {"a": {"b": 1}}, {"b": (9, 10)}, owners(a_0="b-9,b-10"), owner_path_bytes_max=cap
        )
        assert len(assign_roundrobin(given).targets) == len(assign_sticky(given).targets) == count


def test_roundrobin_passes_over_who_is_full_and_goes_on() -> None:
    wanted = {"a": {"u": 1}, "b": {"t": 1, "u": 1}, "c": {"u": 1}}
    given = AssignmentInput(
        wanted, {"t": (0, 1), "u": (0, 1, 2, 3)}, owner_path_bytes_max=2 * B_BYTES
    )
    assert list(text(assign_roundrobin(given)).values()) == [
        "b-0",
        "b-0",
        "c-0",
        "a-0",
        "c-0",
        "a-0",
    ]


# sticky


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            AssignmentInput(
                {"a": {"t": 1, "u": 1}, "b": {"t": 1}},
                {"t": (0,), "u": (0,)},
                owners(a_0="t-0", b_0="u-0"),
            ),
            {"t-0": "b-0", "u-0": "a-0"},
            id="one of another's topic",
        ),
        pytest.param(
            AssignmentInput({"a": {"t": 2}}, {"t": (0, 1)}, owners(a_0="t-0,t-1")),
            {"t-0": "a-0", "t-1": "a-1"},
            id="all with one thread of two",
        ),
        pytest.param(
            AssignmentInput(
                {"a": {"t": 1}, "b": {"t": 1}},
                {"t": (0,), "u": (0,)},
                owners(a_0="t-0", b_0="u-0"),
            ),
            {"t-0": "a-0"},
            id="what nobody wants",
        ),
        pytest.param(
            AssignmentInput({"a": {"t": 1}}, {"t": (0, 1)}, owners(a_0="t-0,t-7")),
            {"t-0": "a-0", "t-1": "a-0"},
            id="what does not exist",
        ),
        pytest.param(
            AssignmentInput({"a": {"t": 1}}, {"t": (0,)}, owners(a_0="t-7")),
            {"t-0": "a-0"},
            id="nothing but what does not exist",
        ),
        pytest.param(
            AssignmentInput(
                {"a": {LONG: 1, "b": 1}},
                {LONG: (0,), "b": (0,)},
                owners(a_0=f"{LONG}-0,b-0"),
                owner_path_bytes_max=LONG_BYTES + B_BYTES - 1,
            ),
            {f"{LONG}-0": "a-0"},
            id="more than fits",
        ),
        pytest.param(
            AssignmentInput(
                {"a": {"t": 2}}, {"t": (0, 1, 2)}, owners(a_0="t-0", a_1="t-1", a_2="t-2")
            ),
            {"t-0": "a-0", "t-1": "a-1", "t-2": "a-0"},
            id="a thread too many",
        ),
    ],
)
def test_what_looks_fair_and_is_not_is_mended(
    given: AssignmentInput, expected: dict[str, str]
) -> None:
    assert text(assign_sticky(given)) == expected


def test_a_member_counts_with_its_streams_of_the_topic_with_most() -> None:
    given = AssignmentInput(
        {"a": {"t": 1, "u": 1}, "b": {"t": 1, "u": 3}}, {"t": tuple(range(4)), "u": tuple(range(4))}
    )
    found = list(text(assign_sticky(given)).values())
    assert sum(thread.startswith("a") for thread in found) == 2


def test_between_its_threads_each_topic_counts_with_its_own_streams() -> None:
    given = AssignmentInput({"a": {"t": 2, "u": 1}}, {"t": (0, 1), "u": (0,)})
    assert set(text(assign_sticky(given)).values()) == {"a-0", "a-1"}


def test_in_each_pass_the_highest_gives_first() -> None:
    """c has room for one of u below the others only when it has given t-0 away, which a and b then
    see: a, which is higher, gives.
    """
    given = AssignmentInput(
        {"a": {"u": 1}, "b": {"u": 3}, "c": {"t": 2, "u": 2}, "d": {"t": 3}},
        {"t": (0,), "u": (0, 1, 2)},
        owners(a_0="u-1,u-2", c_0="t-0"),
    )
    assert text(assign_sticky(given)) == {"t-0": "d-0", "u-0": "b-0", "u-1": "c-0", "u-2": "b-1"}


def test_what_it_owned_of_a_topic_counts_to_how_much_it_has_of_it() -> None:
    """a has u-0 and v-0, which nobody owned, and v-1, which it owned: it gives of v, of which it
    has most, the one that it did not own.
    """
    given = AssignmentInput(
        {"a": {"u": 3, "v": 3}, "b": {"t": 3}, "c": {"t": 2, "u": 2, "v": 2}},
        {"t": (0,), "u": (0,), "v": (0, 1)},
        owners(a_0="v-1", c_0="t-0"),
    )
    found = {tp: thread[0] for tp, thread in text(assign_sticky(given)).items()}
    assert found == {"t-0": "b", "u-0": "a", "v-0": "c", "v-1": "a"}


def test_who_had_room_with_as_many_shorter_paths_has_none_any_more() -> None:
    """c gives both of b away, one by one, and takes one long path: with one of b it had room."""
    given = AssignmentInput(
        {"a": {"b": 3}, "c": {LONG: 1, "b": 1}},
        {LONG: (0, 1), "b": (0, 1)},
        owners(c_0="b-0,b-1"),
        owner_path_bytes_max=LONG_BYTES + B_BYTES,
    )
    found = assign_sticky(given)
    assert text(found) == {f"{LONG}-0": "c-0", "b-0": "a-0", "b-1": "a-1"}
    assert found.unassigned == (TopicPartition(LONG, 1),)


def test_what_was_given_away_does_not_count_any_more() -> None:
    """a gives both of y that it owned to b, which had no room before c took some of z from it, and
    takes x-1 and y-2, which were free. When b has room once more, a has one of x and one of y: then
    the first topic's goes.
    """
    given = AssignmentInput(
        {"a": {"p": 1, "x": 1, "y": 1}, "b": {"x": 2, "y": 2, "z": 2}, "c": {"z": 2}},
        {"p": (0, 1, 2), "x": (0, 1), "y": (0, 1, 2), "z": (0, 1, 2, 3, 4)},
        owners(a_0="p-0,p-1,p-2,y-0,y-1", b_0="z-0,z-1,z-2,z-3,z-4"),
        owner_path_bytes_max=5 * B_BYTES,
    )
    found = text(assign_sticky(given))
    assert {tp for tp, thread in found.items() if thread == "a-0"} == {"p-0", "p-1", "p-2", "y-2"}
    assert {tp for tp, thread in found.items() if thread[0] == "c"} == {"z-1", "z-2", "z-3", "z-4"}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_members_without_topics_get_nothing_and_change_nothing(name: str) -> None:
    given = {"b": {"t": 1}, "d": {"t": 1}}
    partitions = {"t": (0, 1, 2), "empty": ()}
    alone = ASSIGNORS[name](AssignmentInput(given, partitions))
    among = ASSIGNORS[name](AssignmentInput({"a": {}, **given, "c": {}}, partitions))
    assert alone == among and len(alone.targets) == 3
