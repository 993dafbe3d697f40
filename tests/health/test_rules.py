"""Each rule on windows made by hand, and where it ends."""

from __future__ import annotations

import pytest

from tests.health.windows import window
from zkcoord.core.model import TopicPartition
from zkcoord.health.rules import (
    GroupHealth,
    HealthLimits,
    HealthVerdict,
    PartitionHealth,
    judge,
    of_group,
    rewound,
)
from zkcoord.health.seconds import NO_LAG, LagSeconds
from zkcoord.health.window import SeenCommit

TP = TopicPartition("orders", 3)
LIMITS = HealthLimits(commits_max=5, watched_ms=40_000)
LONG_AGO = LagSeconds(999.0, at_least=True)
LATELY = LagSeconds(39.0)
OK, UNKNOWN, WARN, STOP, STALL, REWIND, ERROR = (
    HealthVerdict.OK,
    HealthVerdict.UNKNOWN,
    HealthVerdict.WARN,
    HealthVerdict.STOP,
    HealthVerdict.STALL,
    HealthVerdict.REWIND,
    HealthVerdict.ERROR,
)

# looks (second, offset, end[, mark]); then the end now, the lag in seconds, the verdict, and words
# of the evidence
CASES = {
    "no lag": ([(0, 9, 9)], 9, NO_LAG, OK, "no lag"),
    "no lag now, whatever was": (
        [(n, 5, 9 + n, n + 1) for n in range(5)],
        5,
        NO_LAG,
        OK,
        "no lag",
    ),
    "no lag now, after a rewind": ([(0, 9, 9), (9, 3, 9)], 3, NO_LAG, OK, "no lag"),
    "too little": ([(0, 5, 9), (10, 6, 12)], 12, LONG_AGO, UNKNOWN, "2 of 5 commits"),
    "looked at once": ([(0, 5, 9)], 9, LagSeconds(0.0, True), UNKNOWN, "too little to judge"),
    # WARN
    "falls behind": (
        [(n * 10, n * 5, 10 + n * 9) for n in range(5)],
        46,
        LONG_AGO,
        WARN,
        "the lag grew from 10 to 26 over 5 commits in 40 s, while 20 records were consumed",
    ),
    "falls behind, with pauses": (
        [(0, 1, 11), (10, 2, 12), (20, 3, 14), (30, 4, 15), (40, 5, 20)],
        20,
        LONG_AGO,
        WARN,
        "grew",
    ),
    "a lag that stays is no warning": (
        [(n * 10, n, n + 10) for n in range(5)],
        14,
        LONG_AGO,
        OK,
        "lag 10",
    ),
    "once it went down": (
        [(0, 1, 11), (10, 2, 13), (20, 8, 18), (30, 9, 21), (40, 10, 24)],
        24,
        LONG_AGO,
        OK,
        "goes down",
    ),
    "once there was none": (
        [(0, 5, 5), (10, 6, 13), (20, 8, 18), (30, 9, 21), (40, 10, 24)],
        24,
        LONG_AGO,
        OK,
        "no lag at one of its last 5 commits",
    ),
    "ends that were not known say nothing": (
        [(0, 1, 11), (10, 2, None), (20, 3, 14), (30, 4, 15), (40, 5, 20)],
        20,
        LONG_AGO,
        WARN,
        "grew",
    ),
    "too few ends are no trend": (
        [(0, 1, 11), (10, 2, None), (20, 3, None), (30, 4, None), (40, 5, 20)],
        20,
        LONG_AGO,
        OK,
        "",
    ),
    # STALL
    "the same again and again": (
        [(n * 10, 7, 20 + n, n + 1) for n in range(5)],
        24,
        LONG_AGO,
        STALL,
        "committed 5 times in 40 s, always 7; lag 17",
    ),
    "the same again and again, though the log stands": (
        [(n * 10, 7, 8, n + 1) for n in range(5)],
        8,
        LONG_AGO,
        STALL,
        "always 7; lag 1",
    ),
    "advanced within the window": (
        [(0, 6, 20, 1), *((n * 10, 7, 20, n + 1) for n in range(1, 5))],
        20,
        LONG_AGO,
        OK,
        "",
    ),
    "a window that is not full, watched for long enough": (
        [(0, 7, 20, 1), (21, 7, 21, 2), (40, 7, 22, 3)],
        22,
        LONG_AGO,
        STALL,
        "committed 3 times",
    ),
    # STOP
    "silent for longer than the window": (
        [*((n * 10, n, 50) for n in range(5)), (81, 4, 50)],
        50,
        LONG_AGO,
        STOP,
        "no commit for 41 s",
    ),
    "silent for as long as the window": (
        [*((n * 10, n, 50 - 2 * n) for n in range(5)), (80, 4, 50)],
        50,
        LONG_AGO,
        OK,
        "",
    ),
    "silent, and without lag until lately": (
        [*((n * 10, n, n) for n in range(5)), (81, 4, 6)],
        6,
        LATELY,
        OK,
        "no lag at one",
    ),
    "silent, and without lag once, long ago": (
        [*((n * 10, n, n) for n in range(5)), (99, 4, 6)],
        6,
        LagSeconds(41.0),
        STOP,
        "no commit for 59 s",
    ),
    "never a commit": ([(0, 4, 9), (40, 4, 12)], 12, LONG_AGO, STOP, "no commit for 40 s"),
    "not watched for long enough": ([(0, 4, 9), (39, 4, 12)], 12, LONG_AGO, UNKNOWN, "1 of 5"),
    "silent in Kafka may be a stall": (
        [(0, 4, 9), (40, 4, 12)],
        12,
        LONG_AGO,
        STOP,
        "the same offset again, which Kafka does not tell",
    ),
    # REWIND
    "back": (
        [(0, 50, 60), (5, 20, 60)],
        60,
        LONG_AGO,
        REWIND,
        "went back from 50 to 20 0.0 s ago; lag 40",
    ),
    "back, and on its way": (
        [(0, 50, 60), (5, 20, 60), (9, 49, 60)],
        60,
        LONG_AGO,
        REWIND,
        "went back from 50 to 20 4.0 s ago, now 49; lag 11",
    ),
    "back, from where there was no lag": ([(0, 50, 50), (5, 20, 50)], 50, LONG_AGO, REWIND, "back"),
    "back, and there again": (
        [(0, 50, 60), (5, 20, 60), (9, 50, 60), (20, 51, 61), (30, 52, 61)],
        61,
        LONG_AGO,
        OK,
        "",
    ),
    "back a second time": (
        [(0, 50, 60), (5, 20, 60), (9, 52, 60), (20, 30, 60)],
        60,
        LONG_AGO,
        REWIND,
        "from 52 to 30",
    ),
    "stopped after it went back": (
        [(0, 50, 60), (5, 20, 60), (46, 20, 60)],
        60,
        LONG_AGO,
        STOP,
        "no commit for 41 s",
    ),
    # ERROR
    "beyond the log, seen once": ([(0, 50, 20)], 20, NO_LAG, OK, "no lag"),
    "beyond the log": ([(0, 50, 20), (2, 50, 20)], 20, NO_LAG, ERROR, "the log ends at 20"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_partition(name: str) -> None:
    looks, end, seconds, verdict, words = CASES[name]
    found = judge(TP, window(looks, LIMITS.commits_max), end, seconds, LIMITS)
    assert found.verdict is verdict, found.why
    assert words in found.why and found.why
    assert found.lag == max(0, end - looks[-1][1]) and found.seconds is seconds


def test_a_transaction_that_is_known_tells_a_stop_from_a_stall() -> None:
    found = judge(TP, window([(0, 4, 9, 7), (40, 4, 12, 7)]), 12, LONG_AGO, LIMITS)
    assert found.verdict is STOP and "Kafka" not in found.why


def test_without_the_logs_end_there_is_no_verdict_but_why() -> None:
    found = judge(TP, window([(0, 4, None)]), None, None, LIMITS, "no broker leads it")
    assert found.verdict is UNKNOWN and "no broker leads it" in found.why and found.lag is None


def test_how_much_of_a_window_there_is() -> None:
    found = judge(TP, window([(0, 4, 9), (1, 5, 9)]), 9, LATELY, LIMITS)
    assert found.complete == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("offsets", "index"),
    [
        ([5], 0),
        ([5, 5, 6], 0),
        ([5, 4], 1),
        ([5, 4, 5], 0),
        ([5, 4, 6, 3], 3),
        ([5, 4, 3], 1),
        ([5, 4, 5, 1, 4], 3),
        ([0, 0, 0], 0),
    ],
)
def test_which_commit_went_back(offsets: list[int], index: int) -> None:
    assert rewound([SeenCommit(offset, n) for n, offset in enumerate(offsets)]) == index


def part(
    verdict: HealthVerdict, number: int = 0, lag: int = 0, seconds: float = 0.0
) -> PartitionHealth:
    return PartitionHealth(
        TopicPartition("t", number), verdict, f"why {number}", 100, 100 + lag, LagSeconds(seconds)
    )


@pytest.mark.parametrize(
    ("partitions", "verdict", "worst"),
    [
        ([part(OK, 0), part(OK, 1, 5)], OK, 1),
        ([part(OK, 0, 9), part(WARN, 1, 5)], WARN, 1),
        ([part(WARN, 0, 9), part(STOP, 1, 5)], ERROR, 1),
        ([part(STOP, 0), part(STALL, 1), part(REWIND, 2)], ERROR, 2),
        ([part(STOP, 0, 9, 1.0), part(STOP, 1, 5, 2.0)], ERROR, 1),
        ([part(STOP, 0, 9), part(STOP, 1, 5)], ERROR, 0),
        ([part(OK, 0), part(UNKNOWN, 1)], UNKNOWN, 1),
        ([part(WARN, 0), part(UNKNOWN, 1)], WARN, 0),
        ([part(ERROR, 0), part(REWIND, 1)], ERROR, 0),
    ],
)
def test_a_group_is_as_its_worst_partition(
    partitions: list[PartitionHealth], verdict: HealthVerdict, worst: int
) -> None:
    found = of_group("g", "Stable", "zookeeper", partitions)
    assert found.verdict is verdict and found.worst is not None
    assert found.worst.tp.partition == worst and f"why {worst}" in found.why


def test_a_groups_numbers() -> None:
    found = of_group("g", "", "", [part(WARN, 0, 9, 1.0), part(STOP, 1, 5, 2.0), part(OK, 2)])
    assert (found.lag, str(found.seconds)) == (14, "2.0")
    assert found.why == "STOP: why 1; 1 more partition"
    nothing = of_group("g", "Empty", "", [])
    assert (nothing.verdict, nothing.lag, nothing.seconds, nothing.worst) == (OK, None, None, None)
    assert nothing.why == "nothing is stored"
    hidden = of_group("g", "", "", [part(OK)], ["may not be read"])
    assert hidden.verdict is UNKNOWN and hidden.why == "may not be read"
    assert of_group("g", "", "", [part(WARN)], ["may not be read"]).verdict is WARN
    assert isinstance(nothing, GroupHealth)
