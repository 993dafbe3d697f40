"""A group whose leader is a client, as ZooKeeper holds it, for people and tools."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.model import GroupState, Malformed, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.znodes.classic.report import ClassicReport, EndedSaid, WaitsSaid

NOT_KNOWN = "unknown"
"""What is shown where nobody knows it: in place of a state, or of a number of members."""

STATES = {phase: GroupState(phase.value) for phase in ClassicPhase}


@value
class LedMemberSnapshot:
    """A member. `library` and `gateway` ("": not known, or no gateway serves it just now) are as
    its gateway says; `partitions`: of an assignment that can be read (None: it cannot), of
    `assigned_bytes`. `gone`: it is no member any more, as the next generation will say.
    """

    member_id: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[str, ...]
    library: str = ""
    gateway: str = ""
    is_served: bool = False
    partitions: tuple[TopicPartition, ...] | None = None
    assigned_bytes: int = 0
    gone: bool = False


@dataclass(frozen=True)
class LedSnapshot:
    """A group. `report` is the coordinator's last, of which `waits` counts only while nothing else
    was decided since. `unknown`: why nobody knows who is in it, as a sentence without a full stop
    ("": that is known).
    """

    phase: ClassicPhase
    generation: int
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: tuple[LedMemberSnapshot, ...] = ()
    report: ClassicReport | None = None
    malformed: tuple[Malformed, ...] = ()
    unknown: str = ""

    @cached_property
    def by_id(self) -> dict[str, LedMemberSnapshot]:
        """Its members."""
        return {one.member_id: one for one in self.members}

    @property
    def state(self) -> GroupState:
        """In the words of all groups."""
        return STATES[self.phase]

    @property
    def waits(self) -> WaitsSaid | None:
        """Whom it waits for; None: for nobody, or that is not known."""
        report = self.report
        if report is None or (report.phase, report.generation) != (self.phase, self.generation):
            return None
        return report.waits

    @property
    def ended(self) -> EndedSaid | None:
        """How the last rebalance went."""
        return None if self.report is None else self.report.ended

    def status_of(self, member: LedMemberSnapshot) -> str:
        """What a member is doing, in a few words."""
        if member.gone:
            return "gone"
        waits = self.waits
        if waits is not None and member.member_id in waits.unjoined.names:
            return "has not joined again"
        if waits is not None and member.member_id == waits.leader:
            return "leads, has not assigned"
        if waits is not None and member.member_id in waits.unsynced.names:
            return "no SyncGroup yet"
        if self.phase is ClassicPhase.PREPARING:
            return "joined" if waits is not None else "is to join again"
        if not member.is_served:
            return "no gateway serves it"
        return "leads" if member.member_id == self.leader else "member"
