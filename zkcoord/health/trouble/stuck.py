"""Commits that stand still, and records of which members die. By commits and the journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from zkcoord.core.model import TopicPartition
from zkcoord.health.trouble.evidence import CommitFacts, Evidence
from zkcoord.health.trouble.kinds import Trouble, TroubleKind
from zkcoord.health.trouble.lives import Life
from zkcoord.health.trouble.words import many, some, span

DEATHS_MIN = 2
"""Who dies of a record takes its successor along; a single death has any reason."""

OWNED_MAX = 10_000
"""Partitions that are read of one record: the journal writes fewer."""


def stands_still(e: Evidence) -> Iterator[Trouble]:
    """Partitions whose owner lives and commits nothing, although records come."""
    poisoned = {found.partition for found in poison(e)}
    for one in e.commits:
        owner = _owner(e, one)
        if not one.stands or not owner or one.end <= one.ended or one.tp in poisoned:
            continue
        yield Trouble(
            TroubleKind.COMMIT_STANDS_STILL,
            e.group,
            f"{one.tp} stands at {one.offset} for {span(e.now_ms - one.since_ms)}, while its log"
            f" grew by {one.end - one.ended} records to {one.end} and its owner {owner} is a member"
            f" ({one.stands})",
            f"Look at what {owner} does: a handler that hangs or tries one record again and again,"
            " a commit that is never called; its log and a stack dump of its threads say it",
            one.since_ms,
            owner,
            one.tp,
        )


def _owner(e: Evidence, one: CommitFacts) -> str:
    """Who has it and is registered; "": nobody, or it is not known."""
    if e.facts is None:
        return one.owner
    owner = e.facts.owners.get(one.tp, "")
    return owner if owner in e.facts.members or e.facts.led else ""


def poison(e: Evidence) -> Iterator[Trouble]:
    """One offset that is never passed while its owners die on it."""
    waiting = _waiting(e)
    for tp, found in sorted(died_on(e).items()):
        one = waiting[tp]
        yield Trouble(
            TroubleKind.POISON_RECORD,
            e.group,
            f"commits of {tp} stand at {one.offset} for {span(e.now_ms - one.waiting_ms)}, while"
            f" {many(len(found), 'member')} that owned it went, one after another:"
            f" {some([life.member for life in found])}; the log ends at {one.end}",
            f"Look at the records of {tp} from offset {one.offset} on, and at the last lines of who"
            " died: one of these records ends whoever reads it. Mend what reads it, or pass it:"
            " zkcoord offsets reset, to the offset behind it, while the group is stopped",
            one.waiting_ms,
            partition=tp,
        )


def died_on(e: Evidence) -> dict[TopicPartition, list[Life]]:
    """Who went while it owned a partition that was not passed meanwhile. What else they owned
    stands still, too, where they die before they commit anything: so it is the partition of which
    most died. Where that is all that they owned, it is not the record: they die of something else,
    and there is nothing here.
    """
    deaths = _deaths(e, _waiting(e))
    most = max(map(len, deaths.values()), default=0)
    if most < DEATHS_MIN:
        return {}
    stuck = {tp: found for tp, found in deaths.items() if len(found) == most}
    dead = {life.member for found in stuck.values() for life in found}
    owned = {tp for tp, members in _ever_owned(e).items() if members & dead}
    return stuck if len(stuck) == 1 or owned - stuck.keys() else {}


def _waiting(e: Evidence) -> dict[TopicPartition, CommitFacts]:
    """Partitions behind whose commit records wait, and have since a moment that was seen: who went
    while there was nothing to read died of no record.
    """
    return {one.tp: one for one in e.commits if one.offset < one.end and one.waiting_ms}


def _deaths(
    e: Evidence, waiting: Mapping[TopicPartition, CommitFacts]
) -> dict[TopicPartition, list[Life]]:
    """Of each of these partitions, the members that went while they owned it, since its offset
    stands.
    """
    found: dict[TopicPartition, list[Life]] = {}
    gone = {life.member: life for life in e.lives if life.over_ms is not None}
    for record in e.rebalances:
        if not isinstance(record.get("owned"), dict):
            continue
        owners = {tp: m for tp, m in _owned(record["owned"]) if tp in waiting}
        for tp, one in waiting.items():
            member, known = owners.get(tp, ""), found.setdefault(tp, [])
            life = gone.get(member)
            # who gave it up before it went did not die of it
            known[:] = [
                other
                for other in known
                if other.member != member and (other.over_ms or 0) <= record["t"]
            ]
            if life is not None and (life.over_ms or 0) >= one.waiting_ms:
                known.append(life)
    return found


def _ever_owned(e: Evidence) -> dict[TopicPartition, set[str]]:
    found: dict[TopicPartition, set[str]] = {}
    for record in e.rebalances:
        if isinstance(record.get("owned"), dict):
            for tp, member in _owned(record["owned"]):
                found.setdefault(tp, set()).add(member)
    return found


def _owned(found: Mapping[object, object]) -> Iterator[tuple[TopicPartition, str]]:
    pairs = (
        (TopicPartition(topic, number), member)
        for member, topics in found.items()
        if isinstance(member, str) and isinstance(topics, dict)
        for topic, numbers in topics.items()
        if isinstance(topic, str) and isinstance(numbers, str)
        for number in _numbers(numbers)
    )
    return islice(pairs, OWNED_MAX)


def _numbers(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if all(one.isascii() and one.isdigit() and len(one) < 10 for one in (first, last or first)):
            yield from range(int(first), int(last or first) + 1)
