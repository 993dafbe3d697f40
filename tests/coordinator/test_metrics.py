"""Metrics: counted from the journal's records, and no series that a stranger could make."""

from __future__ import annotations

from typing import Any

from zkcoord.coordinator.metrics import OTHER, Metrics
from zkcoord.core.model import GroupState
from zkcoord.zk.classic.figures import NO_STATES, ClassicSeen


def samples(metrics: Metrics) -> dict[str, float]:
    """name{labels} -> value, as /metrics shows them."""
    lines = [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def rebalance(**more: Any) -> dict[str, Any]:
    return {
        "t": 1,
        "kind": "rebalance",
        "group": "g",
        "cause": "member joined",
        "duration_ms": 40,
        "moved": 6,
        "stops": 2,
        "starts": 3,
        **more,
    }


def test_a_rebalance_is_counted_by_cause_duration_moves_and_commands() -> None:
    metrics = Metrics()
    metrics.record(rebalance())
    metrics.record(rebalance(duration_ms=400))
    found = samples(metrics)
    assert found['zkcoord_rebalances_total{cause="member joined"}'] == 2
    assert found["zkcoord_rebalance_duration_seconds_count"] == 2
    assert found['zkcoord_rebalance_duration_seconds_bucket{le="0.05"}'] == 1
    assert found["zkcoord_partitions_moved_total"] == 12
    assert (
        found['zkcoord_commands_total{option="stop-fetcher"}'],
        found['zkcoord_commands_total{option="start-fetcher"}'],
    ) == (4, 6)


def test_names_of_strangers_make_no_series() -> None:
    metrics = Metrics()
    before = set(samples(metrics))
    for n in range(50):
        metrics.record(rebalance(cause=f"made up {n}", group=f"group-{n}"))
        metrics.record(
            {"t": 1, "kind": "evicted", "group": f"g{n}", "member": f"m{n}", "reason": f"r{n}"}
        )
    after = samples(metrics)
    assert {name for name in after if "_created" not in name} == {
        name for name in before if "_created" not in name
    }
    assert (
        after[f'zkcoord_rebalances_total{{cause="{OTHER}"}}'] == 50
        and after["zkcoord_evictions_total"] == 50
    )


def test_who_an_operator_had_evicted_is_no_alarm() -> None:
    metrics = Metrics()
    evicted = {"t": 1, "kind": "evicted", "group": "g", "member": "m", "reason": "asked: ann"}
    metrics.record({**evicted, "by": "ann"})
    metrics.record(rebalance(cause="operator paused the group"))
    found = samples(metrics)
    assert found["zkcoord_evictions_total"] == 0 and found["zkcoord_evictions_asked_total"] == 1
    assert found['zkcoord_rebalances_total{cause="operator paused the group"}'] == 1


def test_odd_records_are_survived() -> None:
    metrics = Metrics()
    for record in (
        {},
        {"kind": 7},
        {"kind": "rebalance"},
        rebalance(duration_ms="x", moved=None),
        {"kind": "term"},
        {"kind": "malformed"},
    ):
        metrics.record(record)
    assert samples(metrics)["zkcoord_rebalance_duration_seconds_count"] == 2


def test_gauges_follow_the_status() -> None:
    metrics = Metrics()
    status = {
        "leading": True,
        "connected": True,
        "epoch": 9,
        "contact_age_ms": 1_500,
        "states": {"Stable": 3, "Empty": 1},
        "topics": 4,
        "queue": 2,
        "writing": 1,
        "malformed": 5,
        "paused": 2,
        "ahead": 8,
    }
    metrics.refresh(status, events_queued=6, journal_lost=7)
    found = samples(metrics)
    assert (
        found["zkcoord_leader"],
        found["zkcoord_epoch"],
        found["zkcoord_session_contact_age_seconds"],
    ) == (1, 9, 1.5)
    assert (
        found['zkcoord_groups{state="Stable"}'],
        found["zkcoord_events_queued"],
        found["zkcoord_journal_records_lost"],
        found["zkcoord_malformed_nodes"],
    ) == (3, 6, 7, 5)
    assert (found["zkcoord_groups_paused"], found["zkcoord_groups_read_ahead"]) == (2, 8)
    metrics.refresh({"leading": False, "epoch": 9, "contact_age_ms": -1}, 0, 0)
    found = samples(metrics)
    assert (
        found["zkcoord_leader"],
        found["zkcoord_epoch"],
        found["zkcoord_session_contact_age_seconds"],
        found['zkcoord_groups{state="Stable"}'],
    ) == (0, 0, -1, 0)
    assert all(f'zkcoord_groups{{state="{state.value}"}}' in found for state in GroupState)


def test_client_led_groups_are_counted() -> None:
    metrics = Metrics()
    before = set(samples(metrics))
    record = {"t": 1, "kind": "client-led rebalance", "cause": "member left", "duration_ms": 300}
    metrics.record(record)
    metrics.record({**record, "cause": "made up"})
    refused = {"UNKNOWN_MEMBER_ID": 4}
    seen = ClassicSeen({**NO_STATES, "Stable": 2}, 5, 7, 3, refused, 9, 2, True)
    for _ in range(2):  # what is seen twice is counted once
        metrics.refresh({"led": seen}, 0, 0)
    found = samples(metrics)
    assert set(found) == before, "no series comes with what happens"
    rebalances = 'zkcoord_client_led_rebalances_total{cause="%s"}'
    assert (found[rebalances % "member left"], found[rebalances % OTHER]) == (1, 1)
    assert found["zkcoord_client_led_rebalance_duration_seconds_sum"] == 0.6
    assert found['zkcoord_client_led_groups{state="Stable"}'] == 2
    assert found["zkcoord_client_led_members"] == 5
    assert found["zkcoord_client_led_left_alone"] == 2
    assert found["zkcoord_client_led_none_served"] == 1
    requests = 'zkcoord_client_led_requests{kind="%s"}'
    assert (found[requests % "unread"], found[requests % "open"]) == (3, 4)
    answers = 'zkcoord_client_led_answers_total{code="%s"}'
    assert (found[answers % "NONE"], found[answers % "UNKNOWN_MEMBER_ID"]) == (9, 4)
    metrics.refresh({}, 0, 0)
    assert samples(metrics)['zkcoord_client_led_groups{state="Stable"}'] == 0
