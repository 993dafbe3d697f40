"""After a reset under live owners: have them look, and wait until they went on from there.

An owner learns of a reset when it reads its offsets again: because a write of its own was refused,
or because its channel node was set, which it watches. That it has taken it is seen from outside by
the offset's version, which its next commit or ack moves (or by the end of its ownership). A
partition that is reset to its log's end gives it nothing to commit, so nothing is waited for there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zkcoord.admin.common import Progress, argument, some
from zkcoord.admin.offsets.reset import ResetRow
from zkcoord.admin.offsets.stored import read_stored
from zkcoord.core.model import GroupMode, Member, Mode, TopicPartition
from zkcoord.errors import RefusedError
from zkcoord.zk.port import SetData
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

LOOK_AGAIN_ROUNDS = 20


def may_stay(group: str, members: Sequence[Member], mode: Mode | None) -> None:
    """Raises `RefusedError` where an old consumer is among the members (it never reads its offset
    again, and its next commit would overwrite the reset) or may be (then ours write over what
    somebody else wrote).
    """
    if mode is not None and mode.kind is not GroupMode.COORDINATED:
        raise RefusedError(
            f"the group {group} is in mode {mode.kind.value}, where members take no offset for a"
            f" reset: stop them all first, or end that with zkcoord groups mode"
            f" {argument(group)} coordinated"
        )
    old = [member.name for member in members if member.legacy]
    if old:
        raise RefusedError(
            f"the group {group} has old consumers ({some(old)}), which do not notice a reset and"
            " would overwrite it: stop them first"
        )


def call(client: SyncClient, layout: Layout, group: str, rows: Sequence[ResetRow]) -> None:
    """Have the owners of these partitions look now. One that is gone meanwhile is none any more, so
    no outcome matters.
    """
    for member in sorted({row.owner for row in rows if row.owner}):
        client.multi([SetData(layout.channel(group, member), b"", -1)])


def await_taken(
    client: SyncClient,
    layout: Layout,
    group: str,
    rows: Sequence[ResetRow],
    left_ms: Callable[[], int],
    pause: Callable[[], object],
    progress: Progress,
) -> list[TopicPartition]:
    """The partitions whose owner has not gone on from the reset when the time was over. `rows` were
    written under an owner; `pause` rests between two looks.
    """
    changed = [row for row in rows if row.owner and row.version >= 0]
    call(client, layout, group, changed)
    waiting = {row.tp: row for row in changed if row.lag}
    rounds = 0
    while waiting:
        for tp, stored in read_stored(client, layout, group, waiting).items():
            if (
                stored.version != waiting[tp].version
                or stored.owner is None
                or stored.owner.thread.member != waiting[tp].owner
            ):
                del waiting[tp]
        if not waiting or left_ms() <= 0:
            break
        rounds += 1
        if rounds % LOOK_AGAIN_ROUNDS == 0:
            call(client, layout, group, list(waiting.values()))
        progress.update(f"waiting for the owners of {some(waiting)} to go on from there")
        pause()
    return sorted(waiting)
