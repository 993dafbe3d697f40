"""What the page of one group says: who owns what, who blocks, what happened. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zkcoord.admin.common import argument
from zkcoord.cli import groups_text as view
from zkcoord.cli.groups_led_text import led_lines
from zkcoord.console.picture import GroupLine
from zkcoord.console.views.timeline import MARKED
from zkcoord.core.model import GroupMode, GroupState, Option, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.health.rules import HealthVerdict, PartitionHealth
from zkcoord.zk.sync.group_snapshot import GroupSnapshot
from zkcoord.znodes.codec import ranges_of

PARTITIONS_SHOWN = 100
MEMBERS_SHOWN = 100
EVENTS_SHOWN = 30
BLOCKERS_SHOWN = 30
TROUBLES_SHOWN = 10
TOLD = (*MARKED, "malformed", "assignor", "trouble")
"""The records that are shown."""

PARTS_SHOWN = 6
MOVING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


@value
class PartitionRow:
    """A partition: its owner, offsets and verdict."""

    tp: TopicPartition
    owner: str
    offset: int | None
    end: int | None
    lag: int | None
    seconds: str
    verdict: str
    why: str


def partition_rows(group: GroupSnapshot, line: GroupLine | None) -> list[PartitionRow]:
    """All partitions, the worst first, then by name."""
    judged: dict[TopicPartition, PartitionHealth] = {
        p.tp: p for p in (line.health.partitions if line and line.health else ())
    }
    rows = [
        _partition_row(group, tp, judged.get(tp)) for tp in sorted({*group.partitions, *judged})
    ]
    return sorted(rows, key=lambda row: -HealthVerdict(row.verdict).rank if row.verdict else 0)


def _partition_row(
    group: GroupSnapshot, tp: TopicPartition, health: PartitionHealth | None
) -> PartitionRow:
    # of one look, where there was one: what is newer would be beyond the log's end as it was then
    offset = group.offsets.get(tp) if health is None else health.offset
    return PartitionRow(
        tp,
        group.holders.get(tp, ""),
        offset,
        health.end if health is not None else None,
        health.lag if health is not None else None,
        str(health.seconds) if health is not None and health.seconds is not None else "",
        health.verdict.value if health is not None else "",
        health.why if health is not None else "",
    )


def members_of(group: GroupSnapshot, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first of its members, as `groups describe --json` has them, with what they own as
    text.
    """
    of: dict[str, list[TopicPartition]] = {}
    for tp, holder in sorted(group.holders.items()):
        of.setdefault(holder, []).append(tp)
    found = [{**member} for member in (document["members"] or ())[:MEMBERS_SHOWN]]
    for member in found:
        held = of.get(member["consumer_id"], [])
        member["owns"] = ", ".join(
            f"{topic}[{numbers}]" for topic, numbers in ranges_of(held).items()
        )
        member["count"] = len(held)
    return found


def blockers(group: GroupSnapshot, now_ms: int) -> Iterator[str]:
    """Sentences: who keeps the group from what it is to be, and how."""
    if group.led is not None and group.led.members:
        yield from led_lines(group.group, group.led, now_ms)
        return
    if group.unknown:
        yield f"The group's members are not known: {group.unknown}."
    metadata = group.metadata
    if group.state is GroupState.QUARANTINED:
        why = metadata.failure or "the journal has the reason"
        yield f"The group is quarantined, and everybody keeps what it has: {why}."
    for member, commands in sorted(group.commands.items()):
        for command in commands:
            what = command.stop if command.option is Option.STOP else tuple(command.start)
            verb = "give up" if command.option is Option.STOP else "begin"
            yield (
                f"{member} was told to {verb} {_some(what)} and has not answered yet"
                f"{_since(group, now_ms)}."
            )
    if group.members and not group.coordinator.leader:
        yield "No coordinator leads: nothing is moved until one does."
    if group.paused:
        taken_up = "" if metadata.paused else " (the coordinator has not taken that up yet)"
        yield (
            f"The group is paused by {group.paused}{taken_up}: nobody is to consume until `zkcoord"
            f" groups resume {argument(group.group)} --execute`."
        )
    if _is_shared(group):
        yield from view.mode_lines(group)
    else:
        yield from (f"Problem: {problem}" for problem in metadata.problems)


def _is_shared(group: GroupSnapshot) -> bool:
    """With old consumers, or so that these may come."""
    is_coordinated = group.mode is None or group.mode.kind is GroupMode.COORDINATED
    return not is_coordinated or any(member.legacy for member in group.members.values())


def _since(group: GroupSnapshot, now_ms: int) -> str:
    since = group.metadata.since_ms
    if group.state not in MOVING or not 0 < since <= now_ms:
        return ""
    return f"; the group rebalances for {(now_ms - since) / 1000:.1f} s"


def _some(partitions: Sequence[TopicPartition]) -> str:
    names = ", ".join(map(str, sorted(partitions)[:PARTS_SHOWN]))
    more = len(partitions) - PARTS_SHOWN
    return names + (f" and {more} more" if more > 0 else "")


def unowned(rows: Sequence[PartitionRow], group: GroupSnapshot) -> list[TopicPartition]:
    """Partitions that members subscribe to and nobody has; of a paused group nobody is to."""
    if group.paused:
        return []
    wanted = {topic for topics in group.subscribed.values() for topic in topics}
    return [row.tp for row in rows if not row.owner and row.tp.topic in wanted]


def of_record(record: Mapping[str, Any]) -> str:
    """The address of a rebalance within its group: when it was over, and its generation."""
    generation = record.get("generation")
    return f"{record['t']}-{generation if type(generation) is int else 0}"
