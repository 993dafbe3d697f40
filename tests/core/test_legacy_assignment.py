"""The old consumers' assignors: literal values, the published algorithm written down naively, and
what is refused. That the real ones agree is shown by tests/legacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import pytest
from hypothesis import given, settings

from tests.core.test_assignment import inputs
from zkcoord.core.assignment import AssignmentInput, assign_range
from zkcoord.core.legacy_assignment import (
    LEGACY_ASSIGNORS,
    LEGACY_RANGE,
    LEGACY_ROUNDROBIN_08,
    LEGACY_ROUNDROBIN_10,
    EqualHashes,
    LegacyAssignor,
    assign_legacy_range,
    assign_legacy_roundrobin_08,
    assign_legacy_roundrobin_10,
    java_hash,
)
from zkcoord.core.model import Thread, TopicPartition

TEXTS = {LEGACY_ROUNDROBIN_08: "[{0},{1}]", LEGACY_ROUNDROBIN_10: "{0}-{1}"}
ROUNDROBINS = pytest.mark.parametrize("name", sorted(TEXTS))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("[orders,0]", -1093576615),
        ("orders-0", 1234322248),
        ("\u00e9", 233),
        ("\U0001f600", 1772899),
    ],
)
def test_java_hash(text: str, value: int) -> None:
    """Values of a Java virtual machine: signed, over UTF-16 units."""
    assert java_hash(text) == value


def dealt(given_: AssignmentInput, text: str) -> Mapping[TopicPartition, str]:
    """The old code, line by line: a circular iterator over the sorted threads, dropped from while a
    thread does not take the topic.
    """
    of_topic = {
        topic: {
            f"{m}-{n}" for m, wanted in given_.members.items() for n in range(wanted.get(topic, 0))
        }
        for topic in given_.partitions
    }
    partitions = [
        TopicPartition(topic, number)
        for topic, numbers in given_.partitions.items()
        if of_topic[topic]
        for number in numbers
    ]
    threads = cycle(
        sorted(
            f"{m}-{n}"
            for m, wanted in given_.members.items()
            for n in range(max(wanted.values(), default=0))
        )
    )
    found = {}
    for partition in sorted(partitions, key=lambda partition: java_hash(text.format(*partition))):
        found[partition] = next(thread for thread in threads if thread in of_topic[partition.topic])
    return found


@ROUNDROBINS
@settings(max_examples=100)
@given(given_=inputs(streams_max=12))
def test_roundrobin_is_the_old_algorithm(name: str, given_: AssignmentInput) -> None:
    found = LEGACY_ASSIGNORS[name](given_)
    assert not isinstance(found, EqualHashes)
    assert {partition: str(thread) for partition, thread in found.targets.items()} == dealt(
        given_, TEXTS[name]
    )


def test_the_two_orders_of_roundrobin() -> None:
    """Literal, so that a change of both the code and the naive version is seen: one group, as the
    earlier and as the later releases share it. A member of each never agrees with the other.
    """
    given_ = AssignmentInput(
        {"g_A": {"orders": 1, "clicks": 1}, "g_B": {"orders": 1, "clicks": 1}},
        {"orders": (0, 1), "clicks": (0, 1, 2)},
    )
    old, new = assign_legacy_roundrobin_08(given_), assign_legacy_roundrobin_10(given_)
    assert not isinstance(old, EqualHashes) and not isinstance(new, EqualHashes)
    clicks = {"clicks-0": "g_A-0", "clicks-1": "g_B-0", "clicks-2": "g_A-0"}
    assert {str(partition): str(thread) for partition, thread in old.targets.items()} == {
        **clicks,
        "orders-0": "g_A-0",
        "orders-1": "g_B-0",
    }
    assert {str(partition): str(thread) for partition, thread in new.targets.items()} == {
        **clicks,
        "orders-0": "g_B-0",
        "orders-1": "g_A-0",
    }


def test_threads_are_sorted_as_text() -> None:
    """The eleventh thread comes before the third."""
    found = assign_legacy_roundrobin_10(AssignmentInput({"B": {"t": 12}}, {"t": tuple(range(12))}))
    assert not isinstance(found, EqualHashes)
    in_order = sorted(found.targets, key=lambda partition: java_hash(str(partition)))
    assert [found.targets[partition].number for partition in in_order] == [
        0,
        1,
        10,
        11,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ]


@pytest.mark.parametrize("assign", [assign_legacy_roundrobin_08, assign_legacy_roundrobin_10])
def test_equal_hashes_are_refused_by_name(assign: LegacyAssignor) -> None:
    found = assign(AssignmentInput({"A": {"Aa": 1, "BB": 1}}, {"Aa": (0, 1), "BB": (0, 1)}))
    assert isinstance(found, EqualHashes)
    assert (
        len(found.partitions) == 2
        and found.partitions[0].partition == found.partitions[1].partition
    )
    assert (
        f"Aa-{found.partitions[0].partition}, BB-{found.partitions[1].partition} have equal hashes"
        in found.sentence
    )


@ROUNDROBINS
def test_equal_hashes_of_topics_that_nobody_takes_do_not_matter(name: str) -> None:
    found = LEGACY_ASSIGNORS[name](AssignmentInput({"A": {"Aa": 1}}, {"Aa": (0, 1), "BB": (0, 1)}))
    assert not isinstance(found, EqualHashes)
    assert set(found.targets) == {TopicPartition("Aa", 0), TopicPartition("Aa", 1)}


@given(given_=inputs(streams_max=12))
def test_range_is_range(given_: AssignmentInput) -> None:
    assert assign_legacy_range(given_) == assign_range(given_)


def test_nothing_is_capped() -> None:
    """A cap would only mean that nobody owns what the old members leave to that member."""
    given_ = AssignmentInput({"A": {"t": 1}}, {"t": tuple(range(100))}, owner_path_bytes_max=1)
    assert len(assign_range(given_).targets) == 0
    for name, assign in LEGACY_ASSIGNORS.items():
        found = assign(given_)
        assert not isinstance(found, EqualHashes) and len(found.targets) == 100, name


@pytest.mark.parametrize("name", sorted(LEGACY_ASSIGNORS))
@given(given_=inputs())
def test_who_owns_what_now_does_not_count(name: str, given_: AssignmentInput) -> None:
    """Old members keep nothing."""
    found = LEGACY_ASSIGNORS[name](given_)
    assert found == LEGACY_ASSIGNORS[name](AssignmentInput(given_.members, given_.partitions))
    assert not isinstance(found, EqualHashes)
    assert all(
        isinstance(thread, Thread) and thread.number < given_.members[thread.member][tp.topic]
        for tp, thread in found.targets.items()
    )


def test_the_names() -> None:
    """Operators write them."""
    assert (
        sorted(LEGACY_ASSIGNORS)
        == [LEGACY_RANGE, LEGACY_ROUNDROBIN_08, LEGACY_ROUNDROBIN_10]
        == ["legacy-range", "legacy-roundrobin-0.8", "legacy-roundrobin-1.0"]
    )
