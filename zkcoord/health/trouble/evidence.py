"""What the rules look at: what the journal says of a group's last hour, and, as far as somebody has
read it, what the group is now and how its commits go. Plain values; whatever a record holds,
reading it raises nothing: it may be of another version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from zkcoord.core.error_codes import MembershipEnd, parse_end
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.health.trouble.lives import Life, lives_of

HOUR_MS = 3_600_000
RECORDS_MAX = 2_000
"""Records of one group that are looked at, the newest: a group that fills them has trouble enough
in them.
"""

STEPS_MAX = 200
"""Steps that are read of one record: the journal writes fewer."""

KINDS = ("members", "rebalance", "client-led rebalance", "evicted", "malformed")
Record = Mapping[str, Any]


@value
class MemberFact:
    """A member as its node says. `told`: it was told something and has not answered; `streams`: how
    many of each topic it subscribes to.
    """

    name: str
    host: str = ""
    client: str = ""
    instance: str = ""
    told: bool = False
    streams: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupFacts:
    """A group as its nodes say now. `since_ms` (wall clock): when it came into its state;
    `topics`: partitions of what it subscribes to; `owners`: the member by partition ("": one that
    is not registered); `malformed`: what, its name, why; `shared`: old consumers are in it;
    `paused`: nobody is to have anything.
    """

    state: str
    since_ms: int = 0
    assignor: str = ""
    members: Mapping[str, MemberFact] = field(default_factory=dict)
    topics: Mapping[str, Sequence[int]] = field(default_factory=dict)
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    malformed: Sequence[tuple[str, str, str]] = ()
    led: bool = False
    has_coordinator: bool = True
    failure: str = ""
    shared: bool = False
    paused: bool = False

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many partitions each member owns."""
        found = dict.fromkeys(self.members, 0)
        for owner in self.owners.values():
            if owner in found:
                found[owner] += 1
        return found


@value
class CommitFacts:
    """How commits of a partition go. `offset` is committed since `since_ms` (wall clock), as far as
    was seen, and `ended` is where the log ended when that was first seen; `stands` is the verdict's
    sentence where it says that nothing moves ("": it moves), `owner` who has it ("": not known).
    `waiting_ms` (wall clock) is since when records were seen to wait behind it (0: not seen).
    """

    tp: TopicPartition
    offset: int
    end: int
    ended: int
    since_ms: int
    stands: str = ""
    owner: str = ""
    waiting_ms: int = 0


@value
class Ended:
    """A member said how its membership before had ended."""

    at_ms: int
    member: str
    end: MembershipEnd


@dataclass(frozen=True)
class Evidence:
    """Of one group. `now_ms` is wall clock; `records` the last hour's, the oldest first."""

    group: str
    now_ms: int
    records: Sequence[Record] = ()
    facts: GroupFacts | None = None
    commits: Sequence[CommitFacts] = ()

    @cached_property
    def lives(self) -> list[Life]:
        """Of everybody who came or went."""
        return lives_of(self.group, self.records)

    @cached_property
    def rebalances(self) -> list[Record]:
        """The records of rebalances."""
        return [r for r in self.records if r["kind"] in ("rebalance", "client-led rebalance")]

    @cached_property
    def identities(self) -> dict[str, str]:
        """By member: what stays of it when it comes again."""
        return {life.member: life.identity for life in self.lives}

    @cached_property
    def ends(self) -> list[Ended]:
        """What members said of how memberships ended, each once."""
        found = {}
        for life in self.lives:
            end = parse_end(life.ended)
            if end is not None and life.began_ms is not None:
                found[life.member] = Ended(life.began_ms, life.member, end)
        return sorted(found.values(), key=lambda one: (one.at_ms, one.member))

    def since(self, ago_ms: int) -> int:
        """So long ago."""
        return self.now_ms - ago_ms


def of_last_hour(records: Iterable[Record], now_ms: int) -> list[Record]:
    """Those that the rules look at, by time."""
    found = [
        r
        for r in records
        if r.get("kind") in KINDS
        and type(r.get("t")) is int
        and now_ms - HOUR_MS <= r["t"] <= now_ms + HOUR_MS
    ]
    return sorted(found, key=lambda record: record["t"])[-RECORDS_MAX:]


def whole(record: Record, name: str) -> int:
    """A number of a record that is not negative; 0: there is none."""
    value = record.get(name)
    return value if type(value) is int and value > 0 else 0


def text(record: Record, name: str) -> str:
    """A text of a record."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def steps_of(record: Record) -> Iterator[tuple[str, str, int]]:
    """Whom a rebalance told what, and how long that took (ms)."""
    found = record.get("steps")
    for step in found[:STEPS_MAX] if isinstance(found, list) else ():
        if isinstance(step, dict) and isinstance(step.get("member"), str):
            yield step["member"], text(step, "option"), whole(step, "ms")
