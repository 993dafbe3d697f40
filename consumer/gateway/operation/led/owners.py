"""Commits of partitions that another member of a client-led group has, by what its leader assigned:
they are stored, as Kafka stores them, and counted and named. Whoever reads what another member has
hands records out twice; but who is right only the clients know (docs/gateway.md).

Bounded: groups whose assignments are large are not looked at, and of many groups some are named.
Everything here runs on the members' loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.classic.assigned import partitions_of
from zkcoord.znodes.classic.consumer_blobs import CONSUMER
from zkcoord.znodes.names import shown

log = logging.getLogger(__name__)

BYTES_MAX = 1024 * 1024
MEMBERS_MAX = 500
COMMITS_WAITING_MAX = 100
NAMED_MAX = 1_000

Found = Callable[[dict[str, bytes] | None], None]
Blobs = Callable[[str, Sequence[BlobRef], Found], None]


@dataclass(slots=True)
class Owners:
    """Who has what by the state of this version. `owners` is None while that is being read;
    `waiting`: commits until then.
    """

    version: int
    owners: dict[TopicPartition, str] | None = None
    waiting: list[tuple[str, tuple[TopicPartition, ...]]] = field(default_factory=list)


class CommitsOfOthers:
    """See the module. `blobs` reads what clients have brought. `count`: partitions of commits;
    `named`: the first of each group, in words.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._groups: dict[str, Owners] = {}
        self.count = 0
        self.named: dict[str, str] = {}

    def committed(
        self,
        group: str,
        state: ClassicState,
        version: int,
        member_id: str,
        partitions: Iterable[TopicPartition],
    ) -> None:
        """A member stores offsets of these, and may."""
        if state.phase is not ClassicPhase.STABLE or state.protocol_type != CONSUMER:
            return
        known = self._groups.get(group)
        if known is None or known.version != version:
            known = self._groups[group] = Owners(version)
            self._read(group, state, known)
        if known.owners is not None:
            self._judge(group, known.owners, member_id, partitions)
        elif len(known.waiting) < COMMITS_WAITING_MAX:
            known.waiting.append((member_id, tuple(partitions)))

    def forget(self, group: str) -> None:
        """Nobody of it is here any more. What was named stays."""
        self._groups.pop(group, None)

    def _read(self, group: str, state: ClassicState, known: Owners) -> None:
        refs = {
            one.assignment: one.member_id
            for one in state.members
            if isinstance(one.assignment, BlobRef)
        }
        if len(refs) > MEMBERS_MAX or sum(map(len, refs)) > BYTES_MAX:
            known.owners = {}
            return

        def read(found: dict[str, bytes] | None) -> None:
            known.owners = {
                tp: name
                for ref, name in refs.items()
                for tp in partitions_of((found or {}).get(ref.digest, b"")) or ()
            }
            waiting, known.waiting = known.waiting, []
            for member_id, partitions in waiting:
                self._judge(group, known.owners, member_id, partitions)

        self._blobs(group, tuple(refs), read)

    def _judge(
        self,
        group: str,
        owners: dict[TopicPartition, str],
        member_id: str,
        partitions: Iterable[TopicPartition],
    ) -> None:
        others = sorted(tp for tp in partitions if owners.get(tp, member_id) != member_id)
        self.count += len(others)
        if others and group not in self.named and len(self.named) < NAMED_MAX:
            owner = owners[others[0]]
            text = f"{shown(member_id)} commits {others[0]}, which {shown(owner)} has"
            self.named[group] = text
            log.warning(
                "in client-led group %s %s, by what its leader assigned: the commit is stored, as"
                " Kafka does, but records may be handed out twice",
                shown(group),
                text,
            )
