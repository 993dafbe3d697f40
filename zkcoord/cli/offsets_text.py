"""Offsets as text and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zkcoord.admin.offsets.accept import Acceptance
from zkcoord.admin.offsets.reset import ResetRow
from zkcoord.admin.offsets.stored import OffsetsParent, StoredOffset
from zkcoord.cli.groups_text import MISSING
from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.text_table import table
from zkcoord.zk.sync.group_snapshot import GroupSnapshot
from zkcoord.znodes.codec import OffsetsOf

SHOW_COLUMNS = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("CURRENT-OFFSET", 15),
    ("LOG-START-OFFSET", 16),
    ("LOG-END-OFFSET", 15),
    ("LAG", 15),
    ("CONSUMER-ID", 15),
    ("INCARNATION", 0),
)
RESET_COLUMNS = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("OLD-OFFSET", 15),
    ("NEW-OFFSET", 15),
    ("LAG", 0),
)
ACCEPT_COLUMNS = (("GROUP", 15), ("TOPIC", 15), ("OFFSETS", 10), ("BEFORE", 15), ("AFTER", 0))
EARLIER = "of an earlier topic"
NO_TOPIC = "there is no such topic"
Ends = Mapping[TopicPartition, int]


def show_table(
    group: GroupSnapshot, stored: Mapping[TopicPartition, StoredOffset], starts: Ends, ends: Ends
) -> str:
    """A row per partition. The last column says which topic of this name the offset belongs to,
    where that is known.
    """
    rows = []
    for tp, found in stored.items():
        row = _shown(group, tp, found, starts, ends)
        mark = ""
        if found.offset is not None and not row["counts"]:
            mark = f" ({EARLIER if tp.topic in group.topics else NO_TOPIC})"
        rows.append(
            [
                group.group,
                tp.topic,
                str(tp.partition),
                *(
                    _dash(row[name])
                    for name in (
                        "current_offset",
                        "log_start_offset",
                        "log_end_offset",
                        "lag",
                        "consumer_id",
                    )
                ),
                _dash(row["incarnation"]) + mark,
            ]
        )
    return table(SHOW_COLUMNS, rows)


def show_json(
    group: GroupSnapshot, stored: Mapping[TopicPartition, StoredOffset], starts: Ends, ends: Ends
) -> dict[str, Any]:
    """All that is known of each partition's offset. `counts` false: it belongs to an earlier topic
    of this name, and a consumer begins as if there were none.
    """
    return {
        "group": group.group,
        "layout": group.layout.name,
        "state": group.state.value,
        "offsets": [_shown(group, tp, found, starts, ends) for tp, found in stored.items()],
    }


def reset_table(group: str, rows: Sequence[ResetRow]) -> str:
    """A row per partition, as kafka-consumer-groups.sh shows it, with what was stored and what is
    left.
    """
    return table(
        RESET_COLUMNS,
        [
            [
                group,
                row.tp.topic,
                str(row.tp.partition),
                _dash(row.old),
                _dash(row.new),
                _dash(row.lag),
            ]
            for row in rows
        ],
    )


def reset_json(
    group: str, rows: Sequence[ResetRow], executed: bool, refusal: str
) -> dict[str, Any]:
    """A reset and what became of it."""
    return {
        "group": group,
        "executed": executed,
        "refusal": refusal or None,
        "partitions": [
            {
                "topic": r.tp.topic,
                "partition": r.tp.partition,
                "old_offset": r.old,
                "new_offset": r.new,
                "log_end_offset": r.end,
                "lag": r.lag,
                "consumer_id": r.owner or None,
                "written": r.written,
                "there_already": r.there,
                "warning": r.warning or None,
            }
            for r in rows
        ],
    }


def accept_table(group: str, done: Sequence[Acceptance]) -> str:
    """A row per topic."""
    return table(
        ACCEPT_COLUMNS,
        [
            [group, one.topic, str(len(one.gains)), _dash(one.before or None), one.after]
            for one in done
        ],
    )


def accept_json(group: str, done: Sequence[Acceptance], executed: bool) -> dict[str, Any]:
    """Topics whose offsets count (or would count) again."""
    return {
        "group": group,
        "executed": executed,
        "topics": [
            {
                "topic": one.topic,
                "partitions": [tp.partition for tp in one.gains],
                "before": one.before or None,
                "after": one.after,
            }
            for one in done
        ],
    }


def outside(stored: Mapping[TopicPartition, StoredOffset], starts: Ends, ends: Ends) -> list[str]:
    """Sentences about offsets that lie outside of the logs: the topic is another one after all, or
    lost its records.
    """
    return [
        f"{tp}: {found.offset} is outside of the log, which holds {starts[tp]} to {ends[tp]}: was"
        f" {tp.topic} really made again?"
        for tp, found in stored.items()
        if tp in starts
        and tp in ends
        and found.offset is not None
        and not starts[tp] <= found.offset <= ends[tp]
    ]


def _shown(
    group: GroupSnapshot, tp: TopicPartition, found: StoredOffset, starts: Ends, ends: Ends
) -> dict[str, Any]:
    topic = group.topics.get(tp.topic)
    counts, end = found.counts(topic), ends.get(tp)
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "current_offset": found.offset,
        "log_start_offset": starts.get(tp),
        "log_end_offset": end,
        "lag": (
            end - found.offset if end is not None and found.offset is not None and counts else None
        ),
        "consumer_id": group.holders.get(tp) or None,
        "thread": str(found.owner.thread) if found.owner is not None else None,
        "incarnation": _incarnation(found.beside),
        "topic_incarnation": topic.incarnation if topic is not None else None,
        "counts": counts,
        "version": found.version,
    }


def _incarnation(beside: OffsetsParent) -> str | None:
    value = beside.value
    if isinstance(value, OffsetsOf):
        return value.incarnation
    return value.reason if isinstance(value, Malformed) else None


def _dash(value: int | str | None) -> str:
    return MISSING if value is None else str(value)
