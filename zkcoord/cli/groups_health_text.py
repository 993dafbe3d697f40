"""Verdicts on groups as text and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zkcoord.cli.groups_health_troubles import Found, trouble_json
from zkcoord.cli.groups_text import MISSING
from zkcoord.health.owners import NOBODY
from zkcoord.health.rules import GroupHealth, HealthVerdict, PartitionHealth
from zkcoord.health.seconds import LagSeconds
from zkcoord.text_table import table

GROUP_COLUMNS = (
    ("GROUP", 15),
    ("STATE", 15),
    ("VERDICT", 8),
    ("LAG", 10),
    ("LAG-SECONDS", 11),
    ("WORST-PARTITION", 15),
    ("WHY", 0),
)
PARTITION_COLUMNS = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("VERDICT", 8),
    ("CURRENT-OFFSET", 15),
    ("LOG-END-OFFSET", 15),
    ("LAG", 10),
    ("LAG-SECONDS", 11),
    ("WHY", 0),
)


def worst_first(groups: Sequence[GroupHealth]) -> list[GroupHealth]:
    """The groups in the order in which people want to see them."""
    return sorted(groups, key=_order)


def _order(group: GroupHealth) -> tuple[int, float, int, str]:
    seconds = group.seconds.value if group.seconds is not None else 0.0
    return -group.verdict.rank, -seconds, -(group.lag or 0), group.group


def health_table(groups: Sequence[GroupHealth]) -> str:
    """One row per group, the worst first."""
    return table(GROUP_COLUMNS, [_group_row(group) for group in worst_first(groups)])


def _group_row(group: GroupHealth) -> list[str]:
    worst = group.worst
    return [
        group.group,
        group.state or MISSING,
        group.verdict.value,
        _text(group.lag),
        _text(group.seconds),
        MISSING if worst is None or worst.verdict is HealthVerdict.OK else str(worst.tp),
        group.why + _owned(worst),
    ]


def partitions_table(groups: Sequence[GroupHealth]) -> str:
    """One row per partition, those of the worst group first."""
    rows = [
        [
            group.group,
            p.tp.topic,
            str(p.tp.partition),
            p.verdict.value,
            _text(p.offset),
            _text(p.end),
            _text(p.lag),
            _text(p.seconds),
            p.why + _owned(p),
        ]
        for group in worst_first(groups)
        for p in group.partitions
    ]
    return table(PARTITION_COLUMNS, rows)


def problem_lines(groups: Sequence[GroupHealth]) -> Iterator[str]:
    """What could not be seen, each sentence once."""
    yield from dict.fromkeys(f"{g.group}: {problem}" for g in groups for problem in g.problems)


def health_json(
    groups: Sequence[GroupHealth], looks: int, everything: bool, troubles: Found | None = None
) -> dict[str, Any]:
    """The same, and the numbers behind it; `everything`: also partitions that are well."""
    found = troubles or {}
    return {
        "looks": looks,
        "groups": [
            {
                **_group_json(g, everything),
                "troubles": list(map(trouble_json, found.get(g.group, ()))),
            }
            for g in worst_first(groups)
        ],
    }


def _group_json(group: GroupHealth, everything: bool) -> dict[str, Any]:
    worst = group.worst
    return {
        "group": group.group,
        "state": group.state or None,
        "storage": group.storage or None,
        "verdict": group.verdict.value,
        "why": group.why,
        "paused": group.paused or None,
        "lag": group.lag,
        **_seconds_json(group.seconds),
        "partition_count": len(group.partitions),
        "worst_partition": None if worst is None else [worst.tp.topic, worst.tp.partition],
        "problems": list(group.problems),
        "partitions": [
            _partition_json(p)
            for p in group.partitions
            if everything or p.verdict is not HealthVerdict.OK
        ],
    }


def _partition_json(partition: PartitionHealth) -> dict[str, Any]:
    window = partition.window
    return {
        "topic": partition.tp.topic,
        "partition": partition.tp.partition,
        "verdict": partition.verdict.value,
        "why": partition.why,
        "owner": partition.owner or None,
        "current_offset": partition.offset,
        "log_end_offset": partition.end,
        "lag": partition.lag,
        **_seconds_json(partition.seconds),
        "complete": round(partition.complete, 2),
        "watched_ms": window.watched_ms if window is not None else 0,
        "commits": [
            {
                "offset": commit.offset,
                "age_ms": window.seen_ms - commit.at_ms,
                "log_end_offset": commit.end,
            }
            for commit in window.commits
        ]
        if window is not None
        else [],
    }


def _seconds_json(seconds: LagSeconds | None) -> dict[str, Any]:
    return {
        "lag_seconds": None if seconds is None else round(seconds.value, 3),
        "lag_seconds_at_least": seconds is not None and seconds.at_least,
    }


def _owned(partition: PartitionHealth | None) -> str:
    """Whose it is, for the end of a sentence."""
    owner = partition.owner if partition is not None else ""
    if not owner:
        return ""
    return "; nobody owns it" if owner == NOBODY else f"; owner {owner}"


def _text(value: object) -> str:
    return MISSING if value is None else str(value)
