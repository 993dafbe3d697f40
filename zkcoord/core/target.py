"""From members, subscriptions and topics to a target: which thread shall own which partition.

The assignor is chosen by vote, as Kafka's coordinator does: each member votes for the first of its list that all members support, most votes win, and of equal votes the name
that sorts first. A member that shares no assignor with those before it (older registrations first) is rejected: INCONSISTENT_GROUP_PROTOCOL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .assignment import ASSIGNORS, AssignmentInput
from .model import Member, Pattern, Thread, Topic, TopicPartition
from .options import CoordinatorOptions


@dataclass(slots=True)
class TargetInput:
    """The resolved world, shared by all groups: topics by name, and the topics that each wildcard matches."""

    topics: dict[str, Topic] = field(default_factory=dict)
    matches: dict[Pattern, frozenset[str]] = field(default_factory=dict)

    def topics_of(self, member: Member) -> dict[str, int]:
        """A member's topics that exist, with its number of streams for each."""
        pattern = member.subscription.pattern
        if pattern is None:
            return {t: n for t, n in member.subscription.topics.items() if t in self.topics}
        return {t: member.subscription.streams for t in sorted(self.matches.get(pattern, frozenset())) if t in self.topics}


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a member cannot be in the group; `fatal`: trying again as it is cannot help."""

    code: str
    fatal: bool
    message: str


@dataclass(frozen=True, slots=True)
class Targets:
    """A computed target. `rejected` members are not in it; `unassigned` partitions did not fit under a session's cap of owner paths."""

    target: Mapping[TopicPartition, Thread]
    assignor: str
    rejected: Mapping[str, Rejection]
    unassigned: tuple[TopicPartition, ...]
    topics: tuple[str, ...]


INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"


def compute_target(group: str, world: TargetInput, members: Mapping[str, Member], held: Mapping[TopicPartition, Thread], options: CoordinatorOptions) -> Targets:
    """Vote, then assign. Pure and deterministic; `held` is who owns what now."""
    accepted, rejected = _admit(members, options)
    assignor = _vote(accepted, options)
    wants = {name: world.topics_of(m) for name, m in accepted.items()}
    subscribed = sorted({t for topics in wants.values() for t in topics})
    partitions = {t: world.topics[t].partitions for t in subscribed}
    owners = {tp: thread for tp, thread in held.items() if thread.member in accepted}
    fixed = options.owner_path_prefix_bytes + len(group)
    result = ASSIGNORS[assignor](AssignmentInput(wants, partitions, owners, options.owner_path_bytes_max, fixed))
    return Targets(result.targets, assignor, rejected, tuple(result.unassigned), tuple(subscribed))


def _supported(member: Member, options: CoordinatorOptions) -> tuple[str, ...]:
    named = member.assignors or (options.default_assignor,)
    return tuple(a for a in named if a in ASSIGNORS)


def _admit(members: Mapping[str, Member], options: CoordinatorOptions) -> tuple[dict[str, Member], dict[str, Rejection]]:
    """Oldest first, as long as all share an assignor."""
    accepted: dict[str, Member] = {}
    rejected: dict[str, Rejection] = {}
    common: set[str] | None = None
    for member in sorted(members.values(), key=lambda m: (m.incarnation, m.name)):
        supported = set(_supported(member, options))
        shared = supported if common is None else common & supported
        if not shared:
            known = ", ".join(sorted(ASSIGNORS))
            others = ", ".join(sorted(common or ())) or known
            rejected[member.name] = Rejection(INCONSISTENT_GROUP_PROTOCOL, True,
                f"no assignor in common: this member names {', '.join(member.assignors) or 'none'}, the group uses {others}; name one of them in partition_assignment_strategy")
            continue
        if len(accepted) >= options.members_per_group_max:
            rejected[member.name] = Rejection(GROUP_MAX_SIZE_REACHED, True, f"the group has {len(accepted)} members already, the most that the coordinator allows")
            continue
        common = shared
        accepted[member.name] = member
    return accepted, rejected


def _vote(members: Mapping[str, Member], options: CoordinatorOptions) -> str:
    if not members:
        return options.default_assignor
    supported = [_supported(m, options) for m in members.values()]
    common = set(supported[0]).intersection(*supported)
    votes: dict[str, int] = {}
    for ballot in supported:
        choice = next(a for a in ballot if a in common)
        votes[choice] = votes.get(choice, 0) + 1
    return min(votes, key=lambda a: (-votes[a], a))
