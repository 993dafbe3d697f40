"""From members, subscriptions and topics to a target: which thread is to own which partition.

Assignor and protocol are chosen by vote, as Kafka's coordinator does: each member votes for the
first of its list that all members support, most votes win, and of equal votes the name that sorts
first. So a group is eager until all its members support the cooperative form. A member that shares
nothing with those before it (older registrations first) is rejected.

`prepare` votes and says what the assignor is to see; a built-in assignor answers at once, a custom
one later and from elsewhere, so `accept_proposal` takes its answer for what it is: a proposal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from zkcoord.core.group.static_members import alias_of

from .assignment import ASSIGNORS, Assignment, AssignmentInput
from .error_codes import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    Rejection,
    rejection,
)
from .model import GroupMetadata, Member, Pattern, Thread, Topic, TopicPartition
from .options import CoordinatorOptions
from .sizes import json_bytes
from .value_type import value

COOPERATIVE = "cooperative"
EAGER = "eager"
PROTOCOLS = (COOPERATIVE, EAGER)
USER_DATA_CHARS_MAX = 16 * 1024
USER_DATA_JSON_BYTES_MAX = 48 * 1024
LISTS_KEPT_MAX = 1_000


@dataclass(slots=True)
class TargetInput:
    """The resolved world, shared by all groups: topics by name, and the topics that each wildcard
    matches.
    """

    topics: dict[str, Topic] = field(default_factory=dict)
    matches: dict[Pattern, frozenset[str]] = field(default_factory=dict)

    def topics_of(self, member: Member) -> dict[str, int]:
        """A member's topics that exist, with its number of streams for each."""
        pattern = member.subscription.pattern
        if pattern is None:
            return {t: n for t, n in member.subscription.topics.items() if t in self.topics}
        return {
            t: member.subscription.streams
            for t in sorted(self.matches.get(pattern, frozenset()))
            if t in self.topics
        }

    def streams(self, member: Member, topic: str) -> int:
        """How many streams of a topic a member wants (0: none)."""
        wanted = member.subscription
        if wanted.pattern is None:
            return wanted.topics.get(topic, 0)
        return wanted.streams if topic in self.matches.get(wanted.pattern, ()) else 0


@value
class TargetAssignment:
    """A computed target. `rejected` members are not in it; `unassigned` partitions did not fit
    under a session's cap of owner paths. `user_data` is what a custom assignor tells members.
    """

    target: Mapping[TopicPartition, Thread]
    assignor: str
    rejected: Mapping[str, Rejection]
    unassigned: tuple[TopicPartition, ...]
    topics: tuple[str, ...]
    protocol: str = COOPERATIVE
    user_data: Mapping[str, str] = field(default_factory=dict)

    def renamed(self, before: str, after: str) -> TargetAssignment:
        """What `before` was to be told is for `after`. (The target itself lives on in the view.)"""
        return replace(self, user_data=_renamed(self.user_data, before, after))


@value
class Prepared:
    """What the votes said, and what the assignor is to see. Static members go by their instance
    there (`aliases`: from a name to that).
    """

    assignor: str
    protocol: str
    rejected: Mapping[str, Rejection]
    given: AssignmentInput
    aliases: Mapping[str, str]

    @property
    def built_in(self) -> bool:
        """Whether the assignor is one of ours."""
        return self.assignor in ASSIGNORS

    @property
    def partitions(self) -> int:
        """How many there are to assign."""
        return sum(map(len, self.given.partitions.values()))

    def renamed(self, before: str, after: str) -> Prepared:
        """A static member is back under another name, which the assignor does not see."""
        return replace(self, aliases=_renamed(self.aliases, before, after))


@value
class PendingAssignorCall:
    """A question to a custom assignor that waits for its answer; `fresh` are the requests for a
    target as if nobody owned anything that it is for.
    """

    token: int
    prepared: Prepared
    fresh: frozenset[str]

    def renamed(self, before: str, after: str) -> PendingAssignorCall:
        """As `Prepared.renamed`."""
        return replace(self, prepared=self.prepared.renamed(before, after))


def prepare(
    group: str,
    world: TargetInput,
    members: Mapping[str, Member],
    away: Mapping[str, Member],
    held: Mapping[TopicPartition, Thread],
    moved: Mapping[TopicPartition, int],
    options: CoordinatorOptions,
    used: GroupMetadata | None = None,
    new_term: bool = False,
) -> Prepared:
    """Admit and vote. `away` are static members that left and are expected back: they get
    partitions, and have no vote; while there are any, what the group has `used` stays, if all
    support it. So it does in the first target of a `new_term` where there are promises: nothing was
    assigned when those came back to whom they are, and a new coordinator is no reason to count what
    they prefer. `held` is who has what now, `moved` how often that changed lately. Pure and
    deterministic.
    """
    accepted, rejected = _admit(members, options)
    kept = ("", "")
    if used is not None and (away or (new_term and used.departed)):
        known = used.assignor in ASSIGNORS or used.assignor in options.external_assignors
        kept = (used.assignor if known else "", used.protocol)
    ballots = [_supported(m, options) for m in accepted.values()]
    assignor = _vote(ballots, options.default_assignor, kept[0])
    protocol = _vote(list(map(_protocols, accepted.values())), COOPERATIVE, kept[1])
    taking = {**accepted, **away}
    aliases = {
        name: alias_of(m.instance) if m.instance is not None else name for name, m in taking.items()
    }
    # members of one wildcard share one mapping: it may match very many topics
    matched: dict[tuple[Pattern, int], dict[str, int]] = {}
    wants: dict[str, dict[str, int]] = {}
    named: set[str] = set()
    for name, m in taking.items():
        pattern, streams = m.subscription.pattern, m.subscription.streams
        if pattern is None:
            found = world.topics_of(m)
            named.update(found)
        elif (pattern, streams) in matched:
            found = matched[(pattern, streams)]
        else:
            found = matched[(pattern, streams)] = world.topics_of(m)
            named.update(found)
        wants[aliases[name]] = found
    subscribed = sorted(named)
    partitions = {t: world.topics[t].partitions for t in subscribed}
    holders = set(held.values())
    threads = {
        thread: Thread(aliases[thread.member], thread.number)
        for thread in holders
        if thread.member in taking
    }
    owners = (
        held
        if threads == dict(zip(holders, holders, strict=False))
        else {tp: threads[thread] for tp, thread in held.items() if thread in threads}
    )
    user_data = {aliases[name]: m.user_data for name, m in taking.items() if m.user_data}
    fixed = options.owner_path_prefix_bytes + len(group)
    return Prepared(
        assignor,
        protocol,
        rejected,
        AssignmentInput(
            wants, partitions, owners, options.owner_path_bytes_max, fixed, user_data, dict(moved)
        ),
        aliases,
    )


def fits(member: Member, result: TargetAssignment, options: CoordinatorOptions) -> bool:
    """Whether a member shares the assignor and the form that its group has come to use: one that
    was away had no vote.
    """
    return not result.assignor or (
        result.assignor in _supported(member, options) and result.protocol in _protocols(member)
    )


def assign(prepared: Prepared) -> Assignment:
    """The answer of a built-in assignor."""
    return ASSIGNORS[prepared.assignor](prepared.given)


def proposal_error(prepared: Prepared, answer: Assignment) -> str:
    """What is wrong with an assignor's proposal, as a sentence; "" if nothing is."""
    given = prepared.given
    existing = {TopicPartition(t, n) for t, numbers in given.partitions.items() for n in numbers}
    used: dict[str, int] = {}
    for tp, thread in answer.targets.items():
        streams = given.members.get(thread.member, {}).get(tp.topic, 0)
        if tp not in existing:
            return f"it assigned {tp}, which nobody subscribed to or does not exist"
        if not 0 <= thread.number < streams:
            return f"it gave {tp} to {thread}, which is not a thread of a subscriber"
        used[thread.member] = used.get(thread.member, 0) + given.path_bytes(tp)
    over = sorted(member for member, size in used.items() if size > given.owner_path_bytes_max)
    if over:
        return (
            f"it gave {over[0]} more partitions than a session's owner paths may hold"
            " (owner_path_bytes_max)"
        )
    for member, text in answer.user_data.items():
        if (
            member not in given.members
            or len(text.encode("utf-8", "replace")) > USER_DATA_CHARS_MAX
            or json_bytes(text) > USER_DATA_JSON_BYTES_MAX
        ):
            return (
                f"its user data for {member[:100]} is for nobody, or longer than"
                f" {USER_DATA_CHARS_MAX} bytes ({USER_DATA_JSON_BYTES_MAX} with what JSON escapes)"
            )
    return ""


def accept_proposal(prepared: Prepared, answer: Assignment) -> TargetAssignment:
    """The target, under the members' own names. The answer has no `proposal_error`. What it says to
    be unassigned is not asked: partitions that it says nothing of are so too.
    """
    names = {alias: name for name, alias in prepared.aliases.items() if alias != name}
    target = answer.targets
    if names:
        threads = {
            thread: Thread(names.get(thread.member, thread.member), thread.number)
            for thread in set(target.values())
        }
        target = {tp: threads[thread] for tp, thread in target.items()}
    user_data = {names.get(alias, alias): text for alias, text in answer.user_data.items()}
    partitions = prepared.given.partitions
    left = len(target) < sum(map(len, partitions.values()))
    unassigned = (
        tuple(
            tp
            for t in sorted(partitions)
            for n in partitions[t]
            if (tp := TopicPartition(t, n)) not in target
        )
        if left
        else ()
    )
    return TargetAssignment(
        target,
        prepared.assignor,
        prepared.rejected,
        unassigned,
        tuple(sorted(partitions)),
        prepared.protocol,
        user_data,
    )


def hand_out_nothing(prepared: Prepared) -> TargetAssignment:
    """The target of a group that is paused: votes and rejections as ever, and nothing for anybody,
    which is what is wanted, so that nothing is `unassigned`.
    """
    return replace(accept_proposal(prepared, Assignment({}, ())), unassigned=())


def differing(
    target: Mapping[TopicPartition, Thread], held: Mapping[TopicPartition, Thread]
) -> int:
    """How many partitions are not where the target wants them, or are in it no more."""
    if target == held:
        return 0
    return sum(1 for tp, thread in target.items() if held.get(tp) != thread) + sum(
        1 for tp in held if tp not in target
    )


def count_moves(
    before: Mapping[TopicPartition, Thread],
    target: Mapping[TopicPartition, Thread],
    members: Collection[str],
    moved: dict[TopicPartition, int],
) -> None:
    """Who must give in a storm of joins gives what has moved least, from one target to the next.
    What a member leaves behind counts as not moved: of those who come and go each gets the same,
    and the others keep theirs.
    """
    for tp, thread in target.items() if before or moved else ():
        was = before.get(tp)
        if was is None or was.member not in members:
            moved.pop(tp, None)
        elif was.member != thread.member:
            moved[tp] = moved.get(tp, 0) + 1


def _renamed(about: Mapping[str, str], before: str, after: str) -> dict[str, str]:
    return {after if name == before else name: text for name, text in about.items()}


def _supported(member: Member, options: CoordinatorOptions) -> tuple[str, ...]:
    return _known(member.assignors or (options.default_assignor,), options.external_assignors)


def _protocols(member: Member) -> tuple[str, ...]:
    return _known(member.protocols, PROTOCOLS, ())


@lru_cache(maxsize=LISTS_KEPT_MAX)
def _known(
    named: tuple[str, ...], known: tuple[str, ...], more: Collection[str] = tuple(ASSIGNORS)
) -> tuple[str, ...]:
    """Those of a member's list that are known here. Nearly all members of all groups have one of a
    few lists.
    """
    return tuple(name for name in named if name in known or name in more)


def _admit(
    members: Mapping[str, Member], options: CoordinatorOptions
) -> tuple[dict[str, Member], dict[str, Rejection]]:
    """Oldest first, as long as all share an assignor and a protocol, and no instance is there
    twice.
    """
    by_age = sorted(members.values(), key=_age)
    if (
        len({(m.assignors, m.protocols, m.instance) for m in by_age}) == 1
        and by_age[0].instance is None
        and len(by_age) <= options.members_per_group_max
        and _supported(by_age[0], options)
        and _protocols(by_age[0])
    ):
        return {m.name: m for m in by_age}, {}  # most groups: all name the same
    accepted: dict[str, Member] = {}
    rejected: dict[str, Rejection] = {}
    assignors: set[str] | None = None
    protocols: set[str] = set(PROTOCOLS)
    instances: dict[str, str] = {}
    for member in by_age:
        supported = set(_supported(member, options))
        shared = supported if assignors is None else assignors & supported
        if member.instance is not None and member.instance in instances:
            rejected[member.name] = rejection(
                FENCED_INSTANCE_ID,
                f"the instance {member.instance} is in the group already, as"
                f" {instances[member.instance]}",
            )
        elif not shared:
            known = ", ".join(sorted({*ASSIGNORS, *options.external_assignors}))
            others = ", ".join(sorted(assignors or ())) or known
            rejected[member.name] = rejection(
                INCONSISTENT_GROUP_PROTOCOL,
                f"no assignor in common: this member names {', '.join(member.assignors) or 'none'},"
                f" the group uses {others}; name one of them in partition_assignment_strategy",
            )
        elif not protocols & set(_protocols(member)):
            rejected[member.name] = rejection(
                INCONSISTENT_GROUP_PROTOCOL,
                f"no protocol in common: this member names {', '.join(member.protocols) or 'none'},"
                f" the group uses {', '.join(sorted(protocols))}; name one of them in"
                " rebalance_protocol",
            )
        elif len(accepted) >= options.members_per_group_max:
            rejected[member.name] = rejection(
                GROUP_MAX_SIZE_REACHED,
                f"the group has {len(accepted)} members already, the most that the coordinator"
                " allows",
            )
        else:
            assignors = shared
            protocols &= set(_protocols(member))
            accepted[member.name] = member
            if member.instance is not None:
                instances[member.instance] = member.name
    return accepted, rejected


def _age(member: Member) -> tuple[int, str]:
    return member.incarnation, member.name


def _vote(ballots: list[tuple[str, ...]], default: str, kept: str) -> str:
    """What is `kept`, if all support it; else the first choice, among what all support, of most."""
    if not ballots:
        return kept or default
    if all(kept in ballot for ballot in ballots):
        return kept
    if len(set(ballots)) == 1:
        return ballots[0][0]
    common = set(ballots[0]).intersection(*ballots)
    votes: dict[str, int] = {}
    for ballot in ballots:
        choice = next(a for a in ballot if a in common)
        votes[choice] = votes.get(choice, 0) + 1
    return min(votes, key=lambda a: (-votes[a], a))
