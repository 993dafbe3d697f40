"""What is wrong with a group at rest: who owns what, and who is registered. By its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.health.trouble.evidence import Evidence, GroupFacts, MemberFact
from zkcoord.health.trouble.kinds import Trouble, TroubleKind
from zkcoord.health.trouble.words import many, some, span

SETTLED_MS = 30_000
"""So long a group is left to come to rest: a deployment has more members for a while, or fewer."""

UNEVEN_TIMES = 2
UNEVEN_MORE = 3
"""Who has more than twice its share, and so many more than another, has that of no remainder."""

AT_REST = (GroupState.STABLE.value, GroupState.QUARANTINED.value)


def _settled(e: Evidence) -> GroupFacts | None:
    """The group, where it is at rest for long enough; one that is paused is meant to be so."""
    facts = e.facts
    if facts is None or facts.led or facts.shared or not facts.members or not facts.since_ms:
        return None
    if facts.paused:
        return None
    return facts if facts.since_ms <= e.since(SETTLED_MS) else None


def unowned(e: Evidence) -> Iterator[Trouble]:
    """Partitions that members subscribe to and nobody has."""
    facts = _settled(e)
    if facts is None or (facts.state not in AT_REST and facts.has_coordinator):
        return
    free = sorted(
        tp
        for topic, numbers in facts.topics.items()
        for number in numbers
        if not facts.owners.get(tp := TopicPartition(topic, number))
    )
    if not free:
        return
    since_ms = facts.since_ms
    if not facts.has_coordinator:
        since_ms = e.now_ms  # who had them may have gone just now
        why = "no coordinator leads"
        remedy = "Start a coordinator: nothing is moved until one leads"
    elif facts.state == GroupState.QUARANTINED.value:
        why = f"the group is quarantined ({facts.failure or 'the journal has the reason'})"
        remedy = "Mend that; zkcoord groups rebalance GROUP tries again at once"
    else:
        why = f"nobody took them for {span(e.now_ms - since_ms)}"
        remedy = (
            "Look whether an assignor leaves them out, or members say that they cannot start them"
            " (their logs, zkcoord check), then zkcoord groups rebalance GROUP"
        )
    yield Trouble(
        TroubleKind.UNOWNED_PARTITIONS,
        e.group,
        f"{many(len(free), 'partition')} that the group subscribes to"
        f" {'has' if len(free) == 1 else 'have'} no member: {some(list(map(str, free)))}; {why}",
        remedy,
        since_ms,
        partition=free[0],
        identity="all",
    )


def idle(e: Evidence) -> Iterator[Trouble]:
    """More members than partitions."""
    facts = _settled(e)
    if facts is None or facts.state != GroupState.STABLE.value:
        return
    wanting = [m for m in facts.members.values() if m.streams]
    partitions = sum(len(numbers) for numbers in facts.topics.values())
    nothing = sorted(m.name for m in wanting if not facts.counts[m.name])
    if len(wanting) <= partitions or not nothing:
        return
    yield Trouble(
        TroubleKind.IDLE_MEMBERS,
        e.group,
        f"{many(len(nothing), 'member')} of {len(wanting)} {'has' if len(nothing) == 1 else 'have'}"
        f" no partition for {span(e.now_ms - facts.since_ms)}, because there are only"
        f" {partitions}: {some(nothing)}",
        "Stop them, or give the topic more partitions; where they are kept as spares on purpose,"
        " nothing",
        facts.since_ms,
        nothing[0] if len(nothing) == 1 else "",
        identity="all",
    )


def uneven(e: Evidence) -> Iterator[Trouble]:
    """A member with far more than its share, among those that subscribe to the same."""
    facts = _settled(e)
    if facts is None or facts.state != GroupState.STABLE.value:
        return
    alike: dict[tuple[tuple[str, int], ...], list[MemberFact]] = {}
    for member in facts.members.values():
        if member.streams:
            alike.setdefault(tuple(sorted(member.streams.items())), []).append(member)
    for members in alike.values():
        yield from _uneven_of(e, facts, {m.name: facts.counts[m.name] for m in members})


def _uneven_of(e: Evidence, facts: GroupFacts, counts: Mapping[str, int]) -> Iterator[Trouble]:
    share = sum(counts.values()) / len(counts)
    most, least = max(counts, key=lambda m: counts[m]), min(counts, key=lambda m: counts[m])
    if counts[most] <= UNEVEN_TIMES * share or counts[most] - counts[least] < UNEVEN_MORE:
        return
    yield Trouble(
        TroubleKind.UNEVEN_ASSIGNMENT,
        e.group,
        f"{most} has {counts[most]} partitions and {least} has {counts[least]}, where"
        f" {share:.1f} is the share of each of {len(counts)} members that subscribe to the same;"
        f" the assignor is {facts.assignor or 'not known'}",
        "Name an assignor that looks at all topics together (partition_assignment_strategy:"
        " sticky), or correct the custom one",
        facts.since_ms,
        most,
    )


def malformed(e: Evidence) -> Iterator[Trouble]:
    """Registrations that nobody can read: whoever made them waits in vain."""
    facts = e.facts
    for what, name, reason in facts.malformed if facts is not None else ():
        if what != "registration":
            continue
        told = [r["t"] for r in e.records if r["kind"] == "malformed" and r.get("name") == name]
        since_ms = min(told, default=e.now_ms)
        yield Trouble(
            TroubleKind.MALFORMED_REGISTRATION,
            e.group,
            f"the registration {name} cannot be read ({reason}): it is assigned nothing, for"
            f" {span(e.now_ms - since_ms)} as far as is known",
            "Find whose it is, stop it and correct what it writes; a node that nobody owns any more"
            " is deleted by hand",
            since_ms,
            name,
        )
