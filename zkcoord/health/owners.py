"""Who owns the partitions that are not well: read once, when verdicts are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zkcoord.core.model import Malformed, Owner, TopicPartition
from zkcoord.health.rules import GroupHealth, HealthVerdict
from zkcoord.zk.port import GetData, Missing, Node, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.led_groups import led_views, see_led
from zkcoord.zk.sync.led_seen import LedSnapshot
from zkcoord.znodes import codec
from zkcoord.znodes.classic.view import ClassicView
from zkcoord.znodes.paths import Layout

OWNERS_READ_MAX = 5_000
NOBODY = "nobody"


def with_owners(
    reader: SyncClient, layout: Layout, groups: Sequence[GroupHealth]
) -> list[GroupHealth]:
    """The same groups; partitions that are not well have their owners, as far as ZooKeeper knows
    the group. Raises `UnavailableError`.
    """
    wanted = [
        (group.group, partition.tp)
        for group in groups
        if group.state
        for partition in group.partitions
        if partition.verdict not in (HealthVerdict.OK, HealthVerdict.UNKNOWN)
    ][:OWNERS_READ_MAX]
    answers = reader.read([GetData(layout.owner(*one)) for one in wanted])
    owners: dict[str, dict[TopicPartition, str]] = {}
    for (group, tp), answer in zip(wanted, answers, strict=True):
        owners.setdefault(group, {})[tp] = _owner(tp, answer)
    for name, view in led_views(reader, layout, owners).items():
        led = see_led(reader, layout, name) if _may_have_members(view) else None
        if led is not None:
            owners[name] = {tp: _of_led(led, tp, owner) for tp, owner in owners[name].items()}
    return [
        replace(
            group,
            partitions=tuple(
                replace(p, owner=owners[group.group].get(p.tp, "")) for p in group.partitions
            ),
        )
        if group.group in owners
        else group
        for group in groups
    ]


def _may_have_members(view: ClassicView | Malformed) -> bool:
    return isinstance(view, Malformed) or bool(view.state.members)


def _of_led(led: LedSnapshot, tp: TopicPartition, owner: str) -> str:
    """The same where clients lead the group: who was assigned it, as far as that can be read."""
    if owner != NOBODY:
        return owner
    has = [one.member_id for one in led.members if tp in (one.partitions or ())]
    hidden = any(one.partitions is None and one.assigned_bytes for one in led.members)
    if has:
        return has[0]
    return "" if hidden or led.malformed else NOBODY


def _owner(tp: TopicPartition, answer: ReadAnswer) -> str:
    """The owner's name; "" where it is not known."""
    if isinstance(answer, Missing):
        return NOBODY
    found = codec.decode_owner(str(tp), answer.data, answer.stat) if isinstance(answer, Node) else 0
    return str(found.thread) if isinstance(found, Owner) else ""
