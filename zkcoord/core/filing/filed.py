"""Where each partition of a group is filed: in exactly one place, with indexes over the places."""

from __future__ import annotations

import enum

from zkcoord.core.model import TopicPartition


class PartitionPlace(enum.Enum):
    """Where a partition is filed."""

    # Owned by the thread that the target names; before there is a target, by any live member's.
    SETTLED = "settled"
    # Owned by a live member that must give it up: the target names another member or thread, the
    # ownership began before the topic was made again, or everybody is recalled.
    TO_REVOKE = "to revoke"
    # Free, wanted by a live member, and in nobody's outstanding start.
    ASSIGNABLE = "assignable"
    # Free, and in somebody's outstanding start command.
    START_PENDING = "start pending"
    # Its owner node belongs to a session that has no registration: left alone for a lease.
    ORPHAN = "orphan"
    # The owner node is not ours to judge (unreadable, a legacy member's, or of a registration that
    # is unreadable), or the topic was made again and not everybody has let go of the one before.
    NOT_OURS = "not ours"
    # Free, and in no target.
    UNWANTED = "unwanted"


class Filed:
    """Partitions by place. `place` has all that are not settled or unwanted, with the member
    concerned and the member that wants it; the others are indexes over it. By member: `to_revoke`,
    `assignable`; `orphans` with their sessions; `coming` counts what others have yet to give up for
    a member.
    """

    def __init__(self) -> None:
        self.place: dict[TopicPartition, tuple[PartitionPlace, str, str]] = {}
        self.to_revoke: dict[str, set[TopicPartition]] = {}
        self.assignable: dict[str, set[TopicPartition]] = {}
        self.orphans: dict[TopicPartition, int] = {}
        self.not_ours: set[TopicPartition] = set()
        self.coming: dict[str, int] = {}

    def put(
        self, tp: TopicPartition, place: PartitionPlace, member: str, taker: str, session: int
    ) -> None:
        """File it. `member` is concerned, `taker` is who is to have it, `session` its owner's."""
        self._take_out(tp)
        if place is PartitionPlace.SETTLED or place is PartitionPlace.UNWANTED:
            return  # most are, and there is nothing to do for them: they are not kept
        self.place[tp] = (place, member, taker)
        if place is PartitionPlace.TO_REVOKE:
            self.to_revoke.setdefault(member, set()).add(tp)
            self.coming[taker] = self.coming.get(taker, 0) + 1
        elif place is PartitionPlace.ASSIGNABLE:
            self.assignable.setdefault(member, set()).add(tp)
        elif place is PartitionPlace.ORPHAN:
            self.orphans[tp] = session
        elif place is PartitionPlace.NOT_OURS:
            self.not_ours.add(tp)

    def _take_out(self, tp: TopicPartition) -> None:
        filed = self.place.pop(tp, None)
        if filed is None:
            return
        place, member, taker = filed
        if place is PartitionPlace.TO_REVOKE:
            self.coming[taker] -= 1
            if not self.coming[taker]:
                del self.coming[taker]
        if place is PartitionPlace.TO_REVOKE or place is PartitionPlace.ASSIGNABLE:
            sets = self.to_revoke if place is PartitionPlace.TO_REVOKE else self.assignable
            sets[member].discard(tp)
            if not sets[member]:
                del sets[member]
        elif place is PartitionPlace.ORPHAN:
            del self.orphans[tp]
        elif place is PartitionPlace.NOT_OURS:
            self.not_ours.discard(tp)
