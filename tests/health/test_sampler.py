"""One look at many groups, with sources that fail."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import pytest

from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.errors import RefusedError, UnavailableError
from zkcoord.health.history import OFFSETS_PER_LOOK, STEPS_MAX, LogHistory
from zkcoord.health.log_ends import PARTITIONS_PER_REQUEST, LogEnd, LogEnds
from zkcoord.health.monitor import HealthMonitor
from zkcoord.health.rules import HealthLimits, HealthVerdict
from zkcoord.health.sampler import GROUPS_PER_REQUEST, HealthLook, Sampler, Storage
from zkcoord.health.stored_offsets import GroupStored
from zkcoord.health.window import StoredSeen
from zkcoord.zk.clock import boot_ms, wall_ms

ROUND_S_MAX = 20.0
"""Some ten times as long as it takes, for machines that are busy."""


class Stored:
    """ZooKeeper."""

    def __init__(self, **groups: dict[TopicPartition, int]) -> None:
        self.groups = groups
        self.now = 0

    def look(self, groups: Sequence[str]) -> dict[str, GroupStored]:
        return {
            group: GroupStored(
                group in self.groups,
                GroupState.STABLE,
                {
                    tp: StoredSeen(offset, self.now, offset + 1)
                    for tp, offset in self.groups.get(group, {}).items()
                },
            )
            for group in groups
        }


class Kafka:
    """Groups in Kafka; those that begin with `closed` are refused."""

    def __init__(self, away: bool = False, **groups: dict[TopicPartition, int]) -> None:
        self.groups = groups
        self.away = away
        self.asked: list[int] = []

    def committed(self, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
        self.asked.append(len(groups))
        if self.away:
            raise UnavailableError("no broker answers")
        if any(group.startswith("closed") for group in groups):
            raise RefusedError("not authorized")
        return {group: self.groups.get(group, {}) for group in groups}


class Brokers:
    """Ends of logs; those of topics that begin with `away` are not answered."""

    warning = ""

    def __init__(self, end: int = 100) -> None:
        self.end = end
        self.asked: list[int] = []

    def of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(len(partitions))
        return {tp: self.end for tp in partitions if not tp.topic.startswith("away")}

    def why_not(self, tp: TopicPartition) -> str:
        return "no broker leads it"


class Ends:
    def __init__(self, end: int = 100) -> None:
        self.end = end
        self.wanted: list[TopicPartition] = []

    def of(
        self, wanted: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, LogEnd], dict[TopicPartition, str]]:
        self.wanted = sorted(wanted)
        return {tp: LogEnd(self.end, 5) for tp in wanted}, {}


def at(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)


# where offsets are


@pytest.mark.parametrize(
    ("storage", "found"),
    [
        (Storage.AUTO, {"both": ("zookeeper", 5), "kafka": ("kafka", 7), "none": ("", None)}),
        (Storage.ZOOKEEPER, {"both": ("zookeeper", 5), "kafka": ("", None), "none": ("", None)}),
        (Storage.KAFKA, {"both": ("kafka", 6), "kafka": ("kafka", 7), "none": ("", None)}),
    ],
)
def test_offsets_in_zookeeper_or_in_kafka(
    storage: Storage, found: dict[str, tuple[str, int | None]]
) -> None:
    stored = Stored(both={at("t"): 5}, none={})
    kafka = Kafka(both={at("t"): 6}, kafka={at("t"): 7})
    look = Sampler(stored, kafka, Ends(), storage).look(["both", "kafka", "none"])
    for group, (where, offset) in found.items():
        one = look.groups[group]
        assert one.storage == where
        assert [seen.offset for seen in one.offsets.values()] == ([offset] if where else [])
    assert look.groups["none"].exists
    assert look.groups["kafka"].exists is (storage is not Storage.ZOOKEEPER)


def test_a_refused_group_is_named_and_all_others_are_asked() -> None:
    groups = {f"g{n}": {at("t", n): n} for n in range(450)}
    names = [*list(groups)[:300], "closed", *list(groups)[300:]]
    kafka = Kafka(**groups)
    look = Sampler(Stored(), kafka, Ends(), Storage.KAFKA).look(names)
    assert look.groups["closed"].problems == ("not authorized",)
    assert all(look.groups[group].offsets for group in groups)
    assert max(kafka.asked) == GROUPS_PER_REQUEST and len(kafka.asked) < 20


def test_brokers_that_do_not_answer_are_asked_once() -> None:
    kafka = Kafka(away=True)
    names = [f"g{n}" for n in range(1_000)]
    look = Sampler(Stored(z={at("t"): 1}), kafka, Ends()).look([*names, "z"])
    assert len(kafka.asked) == 1
    assert {look.groups[name].problems for name in names} == {("no broker answers",)}
    assert look.groups["z"].storage == "zookeeper" and not look.groups["z"].problems


def test_the_ends_of_exactly_these_partitions_are_asked_for() -> None:
    ends = Ends()
    Sampler(Stored(a={at("t"): 1}, b={at("t"): 2, at("u", 3): 4}), Kafka(), ends).look(["a", "b"])
    assert ends.wanted == [at("t"), at("u", 3)]


# ends


def test_requests_are_of_bounded_size() -> None:
    usual, doubtful = Brokers(), Brokers()
    wanted = [at("t", n) for n in range(2 * PARTITIONS_PER_REQUEST + 1)]
    found, failed = LogEnds(usual, doubtful).of(wanted)
    assert len(found) == len(wanted) and not failed
    assert usual.asked == [PARTITIONS_PER_REQUEST] * 2 + [1] and doubtful.asked == []


def test_what_is_not_answered_is_asked_for_apart_and_less_often() -> None:
    now = [0]
    usual, doubtful = Brokers(), Brokers()
    ends = LogEnds(usual, doubtful, lambda: now[0])
    wanted = [at("t"), at("away")]
    found, failed = ends.of(wanted)
    assert found == {at("t"): LogEnd(100, 0)} and failed == {at("away"): "no broker leads it"}
    for second, asked in ((2, []), (14, []), (15, [1]), (17, [1]), (30, [1, 1])):
        now[0] = second * 1_000
        found, failed = ends.of(wanted)
        assert found == {at("t"): LogEnd(100, now[0])} and list(failed) == [at("away")]
        assert doubtful.asked == asked and usual.asked[-1] == 1
    assert ends.of([at("t")])[1] == {}, "nobody wants it any more"


def test_what_is_answered_again_is_one_of_the_others() -> None:
    now = [0]
    usual, doubtful = Brokers(), Brokers()
    ends = LogEnds(usual, doubtful, lambda: now[0])
    ends.of([at("away")])
    now[0] = 20_000
    doubtful.of = lambda partitions: dict.fromkeys(partitions, 7)  # type: ignore[method-assign]
    assert ends.of([at("away")])[0] == {at("away"): LogEnd(7, 20_000)}
    before = len(usual.asked)
    ends.of([at("away")])
    assert len(usual.asked) == before + 1


# looks in a row


def watched(
    *looks: tuple[dict[TopicPartition, int], int], commits_max: int = 3
) -> tuple[HealthMonitor, Stored]:
    """The group g, which has stored this, in logs that end there; a look every ten seconds."""
    stored, ends = Stored(g={}), Ends()
    sampler = Sampler(stored, Kafka(), ends)
    monitor = HealthMonitor(HealthLimits(commits_max, 20_000))
    for offsets, end in looks:
        stored.groups["g"], ends.end = offsets, end
        monitor.take(sampler.look(["g"]))
        stored.now += 10_000
    return monitor, stored


def test_a_partition_that_vanishes_is_dropped_and_begins_anew() -> None:
    t = at("t")
    monitor, _ = watched(({t: 1}, 9), ({t: 2}, 9), ({}, 9), ({t: 1}, 9))
    (group,) = monitor.groups()
    window = group.partitions[0].window
    assert window is not None and len(window.commits) == 1, "it went back to nothing"
    assert monitor._tables[t].lag(9, 0) is not None and list(monitor._windows["g"]) == [t]


def test_nothing_is_kept_of_what_is_gone() -> None:
    monitor, _ = watched(({at("t", n): 1 for n in range(50)}, 9), ({}, 9))
    assert not monitor._tables and monitor._windows == {"g": {}}


def test_a_topic_that_was_made_again_is_no_rewind() -> None:
    t = at("t")
    monitor, _ = watched(({t: 90}, 95), ({t: 91}, 99), ({t: 2}, 5), ({t: 3}, 9))
    (group,) = monitor.groups()
    window = group.partitions[0].window
    assert window is not None and [c.offset for c in window.commits] == [2, 3]
    assert group.verdict is HealthVerdict.UNKNOWN


def test_a_reset_backwards_is() -> None:
    t = at("t")
    monitor, _ = watched(({t: 90}, 95), ({t: 91}, 99), ({t: 2}, 99))
    (group,) = monitor.groups()
    assert (group.verdict, group.worst and group.worst.verdict) == (
        HealthVerdict.ERROR,
        HealthVerdict.REWIND,
    )


@pytest.mark.parametrize(
    ("looks", "unsettled"),
    [
        ([({"t": 9}, 9)], 0),
        ([({}, 9)], 0),
        ([({"t": 9, "u": 8}, 9)], 1),
        ([({"t": 10}, 9)], 1),  # beyond the log is seen twice
        ([({"t": 10}, 9), ({"t": 10}, 9)], 0),
        ([({"t": 1}, 9), ({"t": 2}, 9), ({"t": 3}, 9)], 0),
    ],
)
def test_when_more_looks_would_not_say_more(
    looks: list[tuple[dict[str, int], int]], unsettled: int
) -> None:
    made = [({at(topic): n for topic, n in stored.items()}, end) for stored, end in looks]
    assert watched(*made)[0].unsettled() == unsettled


def test_a_group_that_could_not_be_seen_keeps_its_window() -> None:
    kafka = Kafka(g={at("t"): 1})
    sampler = Sampler(Stored(), kafka, Ends(), Storage.KAFKA)
    monitor = HealthMonitor(HealthLimits())
    monitor.take(sampler.look(["g"]))
    kafka.away = True
    monitor.take(sampler.look(["g"]))
    (group,) = monitor.groups()
    assert group.verdict is HealthVerdict.UNKNOWN and group.why == "no broker answers"
    kafka.away = False
    monitor.take(sampler.look(["g"]))
    (group,) = monitor.groups()
    assert group.partitions[0].window is not None and not group.problems


def test_who_nobody_knows() -> None:
    monitor = HealthMonitor(HealthLimits())
    monitor.take(Sampler(Stored(), Kafka(), Ends()).look(["nobody"]))
    assert [group.verdict for group in monitor.groups()] == [HealthVerdict.NOTFOUND]


def test_ten_thousand_groups_of_ten_partitions_are_a_round_of_seconds() -> None:
    topics = [f"topic-{n}" for n in range(100)]
    groups = {f"group-{n}": {at(topics[n % 100], p): n for p in range(10)} for n in range(10_000)}
    stored, usual = Stored(**groups), Brokers(20_000)
    sampler = Sampler(stored, Kafka(), LogEnds(usual, Brokers()))
    monitor, took = HealthMonitor(HealthLimits()), []
    for _ in range(3):
        began = time.perf_counter()
        monitor.take(sampler.look(list(groups)))
        judged = monitor.groups()
        took.append(time.perf_counter() - began)
        stored.now += 2_000
    assert len(judged) == 10_000 and sum(len(g.partitions) for g in judged) == 100_000
    assert max(usual.asked) <= PARTITIONS_PER_REQUEST and max(took) < ROUND_S_MAX, took
    print(f"rounds took {[round(one, 2) for one in took]} s")


# what was before the first look


class Times:
    """Logs that grow by a record a second; `away` is not answered, `silent` has no new records."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def at_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked.append(len(times))
        now = wall_ms()
        return {
            tp: -1 if tp.topic == "silent" else max(0, 10_000 - (now - at_ms) // 1_000)
            for tp, at_ms in times.items()
            if tp.topic != "away"
        }


def behind(topics: Sequence[str], offset: int) -> HealthMonitor:
    stored, ends = Stored(g={at(topic): offset for topic in topics}), Ends(10_000)
    stored.now = boot_ms()
    monitor = HealthMonitor(HealthLimits())
    look = Sampler(stored, Kafka(), ends).look(["g"])
    ends_now = {tp: LogEnd(end.end, stored.now) for tp, end in look.ends.items()}
    monitor.take(HealthLook(look.groups, ends_now, {}))
    return monitor


def test_the_records_times_tell_how_long_it_is_behind_from_the_first_look_on() -> None:
    monitor, times = behind(["t", "away", "silent"], 4_000), Times()
    before = {p.tp.topic: p.seconds for p in monitor.groups()[0].partitions}
    assert all(seconds is not None and seconds.at_least for seconds in before.values())
    LogHistory(times).complete(monitor)
    found = {p.tp.topic: p.seconds for p in monitor.groups()[0].partitions}
    assert found["t"] is not None and not found["t"].at_least
    assert found["t"].value == pytest.approx(6_000, rel=0.1)
    assert found["away"] == before["away"], "and it is not asked again"
    assert found["silent"] is not None and found["silent"].value > 86_400
    assert times.asked[:2] == [3, 2] and len(times.asked) <= STEPS_MAX
    count = len(times.asked)
    LogHistory(times).complete(monitor)
    assert len(times.asked) == count


def test_of_very_many_so_many_are_asked_for_in_a_look() -> None:
    monitor, times = behind([f"t{n}" for n in range(2 * OFFSETS_PER_LOOK)], 9_000), Times()
    LogHistory(times).complete(monitor)
    assert max(times.asked) == OFFSETS_PER_LOOK
    exact = [p for p in monitor.groups()[0].partitions if p.seconds and not p.seconds.at_least]
    assert len(exact) == OFFSETS_PER_LOOK
