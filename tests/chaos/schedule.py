"""What happens to whom and when: drawn from a seed, a plain value that can be printed, kept and
played again.

Slots are places that processes fill: `k1` and `k2` for coordinators, `a1`.. and `b1`.. for
consumers of the groups a and b, `zookeeper` for the ensemble, `broker`, `journals` for the disk
that coordinators write theirs to. A killed process is followed by another in its slot. Rules that
the draw keeps, so that every finding is one of the product and not of the schedule: one fault at a
time per slot; a consumer that leaves cleanly is not disturbed while it does, since a close that
reaches no ensemble cannot commit; ZooKeeper is not broken while the broker starts, which would end
it; no consumer is started while the only broker is down, which it says and ends; nothing happens
after `seconds`, and every fault has ended by then.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

SESSION_MS = 6_000
LEASE_MS = SESSION_MS * 2 // 3
GAP_MS = (300, 3_500)
SOAK_GAP_MS = (8_000, 45_000)
SETTLE_MS = 2_500
ATTEMPTS_MAX = 50
COORDINATORS = ("k1", "k2")
ZOOKEEPER = "zookeeper"
BROKER = "broker"
JOURNALS = "journals"
VISITORS = ("a9", "b9")


class Who(enum.Enum):
    """Which slots a fault is for."""

    COORDINATOR = "coordinator"
    CONSUMER = "consumer"
    ZOOKEEPER = "zookeeper"
    BROKER = "broker"
    VISITOR = "visitor"
    JOURNALS = "journals"


class Kind(enum.Enum):
    """What can happen. `low_ms` .. `high_ms`: for how long (a kill: until another is started);
    `weight`: how often.
    """

    who: Who
    low_ms: int
    high_ms: int
    weight: int

    def __new__(cls, text: str, who: Who, low_ms: int, high_ms: int, weight: int) -> Kind:
        made = object.__new__(cls)
        made._value_ = text
        made.who, made.low_ms, made.high_ms, made.weight = who, low_ms, high_ms, weight
        return made

    COORDINATOR_KILLED = (
        "a coordinator is killed (kill -9) and started again",
        Who.COORDINATOR,
        200,
        8_000,
        6,
    )
    COORDINATOR_STOPPED_BRIEFLY = (
        "a coordinator is stopped for less than its session",
        Who.COORDINATOR,
        300,
        SESSION_MS // 2,
        3,
    )
    COORDINATOR_STOPPED_LONG = (
        "a coordinator is stopped past its session and goes on (a zombie)",
        Who.COORDINATOR,
        SESSION_MS + 1_500,
        SESSION_MS + 5_000,
        4,
    )
    COORDINATOR_CUT = "a coordinator's connections to ZooKeeper are reset", Who.COORDINATOR, 1, 2, 2
    COORDINATOR_UNREACHED = (
        "a coordinator cannot reach ZooKeeper, and nobody tells it",
        Who.COORDINATOR,
        500,
        SESSION_MS + 4_000,
        3,
    )
    COORDINATOR_CLOCK = (
        "a coordinator's wall clock jumps by an hour, and back by two",
        Who.COORDINATOR,
        500,
        3_000,
        1,
    )
    COORDINATOR_SLOW = (
        "a coordinator's network to ZooKeeper is slow",
        Who.COORDINATOR,
        1_000,
        6_000,
        1,
    )
    CONSUMER_KILLED = (
        "a consumer is killed (kill -9) and started again",
        Who.CONSUMER,
        200,
        8_000,
        6,
    )
    CONSUMER_STOPPED_BRIEFLY = (
        "a consumer is stopped for less than its session",
        Who.CONSUMER,
        300,
        SESSION_MS // 2,
        3,
    )
    CONSUMER_STOPPED_LONG = (
        "a consumer is stopped past its session and goes on (a zombie)",
        Who.CONSUMER,
        SESSION_MS + 1_500,
        SESSION_MS + 5_000,
        5,
    )
    CONSUMER_CUT = "a consumer's connections to ZooKeeper are reset", Who.CONSUMER, 1, 2, 2
    CONSUMER_UNREACHED = (
        "a consumer cannot reach ZooKeeper, and nobody tells it",
        Who.CONSUMER,
        500,
        SESSION_MS + 4_000,
        4,
    )
    CONSUMER_CLOCK = (
        "a consumer's wall clock jumps by an hour, and back by two",
        Who.CONSUMER,
        500,
        3_000,
        1,
    )
    CONSUMER_SLOW = "a consumer's network to ZooKeeper is slow", Who.CONSUMER, 1_000, 6_000, 1
    CONSUMER_VISITS = "a consumer joins, and leaves cleanly", Who.VISITOR, 2_000, 8_000, 4
    FOLLOWER_KILLED = (
        "a following ZooKeeper server is killed and started again",
        Who.ZOOKEEPER,
        500,
        6_000,
        2,
    )
    LEADER_KILLED = (
        "the leading ZooKeeper server is killed and started again",
        Who.ZOOKEEPER,
        500,
        6_000,
        2,
    )
    LEADER_STOPPED = (
        "the leading ZooKeeper server is stopped and goes on",
        Who.ZOOKEEPER,
        500,
        6_000,
        2,
    )
    QUORUM_LOST_BRIEFLY = (
        "ZooKeeper's quorum is lost for less than a lease",
        Who.ZOOKEEPER,
        300,
        LEASE_MS // 2,
        2,
    )
    QUORUM_LOST_LONG = (
        "ZooKeeper's quorum is lost for longer than a session",
        Who.ZOOKEEPER,
        SESSION_MS + 500,
        SESSION_MS + 4_000,
        1,
    )
    ENSEMBLE_RESTARTED = (
        "all ZooKeeper servers are killed and started again",
        Who.ZOOKEEPER,
        200,
        3_000,
        1,
    )
    JUNK_WRITTEN = "somebody writes junk among the groups' nodes", Who.ZOOKEEPER, 500, 3_000, 2
    ZOOKEEPER_DISK_FULL = (
        (
            "the disk of the leading ZooKeeper server is full, and it ends; it is started when"
            " there is space"
        ),
        Who.ZOOKEEPER,
        1_000,
        6_000,
        1,
    )
    ZOOKEEPER_CLOCK = (
        "the wall clocks of all ZooKeeper servers jump by half an hour, and back",
        Who.ZOOKEEPER,
        1_500,
        5_000,
        1,
    )
    BROKER_STOPPED = "the broker is stopped and goes on", Who.BROKER, 500, 3_000, 1
    BROKER_KILLED = (
        "the broker is killed (kill -9) and started again",
        Who.BROKER,
        12_000,
        20_000,
        1,
    )
    BROKER_CLOCK = (
        "the broker's wall clock jumps by half an hour, and back",
        Who.BROKER,
        1_500,
        5_000,
        1,
    )
    JOURNALS_DISK_FULL = (
        "the disk of the coordinators' journals is full",
        Who.JOURNALS,
        1_000,
        8_000,
        2,
    )


CLOCKS = (Kind.COORDINATOR_CLOCK, Kind.CONSUMER_CLOCK)
SERVERS_CLOCKS = (Kind.ZOOKEEPER_CLOCK, Kind.BROKER_CLOCK)
STARTING = (Kind.CONSUMER_KILLED, Kind.CONSUMER_VISITS)
DISKS = (Kind.ZOOKEEPER_DISK_FULL, Kind.JOURNALS_DISK_FULL)


@dataclass(frozen=True, order=True)
class Happening:
    """One fault. `at_ms` is since the schedule's beginning, `for_ms` how long until what was done
    is undone.
    """

    at_ms: int
    slot: str
    kind: Kind
    for_ms: int

    @property
    def end_ms(self) -> int:
        """When it has ended."""
        return self.at_ms + self.for_ms

    @property
    def text(self) -> str:
        """A line of the printed schedule."""
        return f"{self.at_ms / 1000:7.2f} s  {self.slot:<9} {self.kind.value}" + (
            f", for {self.for_ms / 1000:.2f} s" if self.for_ms > 2 else ""
        )


def slots_of(consumers: Sequence[str], who: Who) -> tuple[str, ...]:
    """Whom a fault can hit."""
    return {
        Who.COORDINATOR: COORDINATORS,
        Who.CONSUMER: tuple(consumers),
        Who.ZOOKEEPER: (ZOOKEEPER,),
        Who.BROKER: (BROKER,),
        Who.VISITOR: VISITORS,
        Who.JOURNALS: (JOURNALS,),
    }[who]


def drawn(
    seed: int,
    seconds: float,
    consumers: Sequence[str],
    kinds: Iterable[Kind] = Kind,
    gap_ms: tuple[int, int] = GAP_MS,
) -> tuple[Happening, ...]:
    """The schedule of a seed, by time. The same arguments give the same schedule, on every
    machine.
    """
    source = random.Random(seed)
    kinds = sorted(kinds, key=lambda kind: kind.name)
    found: list[Happening] = []
    now_ms = source.randint(*gap_ms)
    while now_ms < seconds * 1000:
        for _ in range(ATTEMPTS_MAX):
            kind = source.choices(kinds, [kind.weight for kind in kinds])[0]
            happening = Happening(
                now_ms,
                source.choice(slots_of(consumers, kind.who)),
                kind,
                source.randint(kind.low_ms, kind.high_ms),
            )
            if happening.end_ms <= seconds * 1000 and not any(
                conflict(other, happening) for other in found
            ):
                found.append(happening)
                break
        now_ms += source.randint(*gap_ms)
    return tuple(sorted(found, key=lambda h: (h.at_ms, h.slot)))


def conflict(one: Happening, other: Happening) -> bool:
    """Whether two happenings may not overlap (with `SETTLE_MS` between them)."""
    if one.end_ms + SETTLE_MS <= other.at_ms or other.end_ms + SETTLE_MS <= one.at_ms:
        return False
    for kind, with_kind in ((one.kind, other.kind), (other.kind, one.kind)):
        if (
            with_kind.who is Who.ZOOKEEPER
            and (kind.who is Who.VISITOR or kind is Kind.BROKER_KILLED)
        ) or (kind is Kind.BROKER_KILLED and with_kind in STARTING):
            return True
    return one.slot == other.slot


def shown(schedule: Sequence[Happening]) -> list[str]:
    """The schedule as lines."""
    return [happening.text for happening in schedule]


def spans(seeds: Iterable[int]) -> str:
    """`3, 5 to 9` of 3, 5, 6, 7, 8, 9."""
    found: list[list[int]] = []
    for seed in sorted(seeds):
        if found and seed == found[-1][-1] + 1:
            found[-1][1:] = [seed]
        else:
            found.append([seed])
    return ", ".join(" to ".join(map(str, span)) for span in found)


def titled(seeds: Collection[int], seconds: float) -> str:
    """What a table of these schedules is called."""
    return (
        f"{len(seeds)} schedule{'s' * (len(seeds) != 1)} of {seconds:g} s,"
        f" seed{'s' * (len(seeds) != 1)} {spans(seeds)}"
    )
