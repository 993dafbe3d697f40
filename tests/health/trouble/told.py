"""Evidence by hand: a journal of comings, goings and rebalances, in seconds before now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zkcoord.core.model import TopicPartition
from zkcoord.health.trouble.evidence import (
    CommitFacts,
    Evidence,
    GroupFacts,
    MemberFact,
    of_last_hour,
)
from zkcoord.health.trouble.rules import troubles_of

NOW_MS = 1_800_000_000_000
GROUP = "billing"


def name(number: int, host: str = "h1") -> str:
    """A member's, as consumers make them."""
    return f"{GROUP}_{host}-{1_700_000_000_000 + number}-{number:08x}"


class Journal:
    """Records, added in any order."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._number = 0

    def add(self, ago_s: float, kind: str, **more: Any) -> None:
        """A record."""
        self.records.append({"t": NOW_MS - int(ago_s * 1000), "kind": kind, "group": GROUP, **more})

    def came(self, ago_s: float, client: str = "app", ended: str = "", host: str = "h1") -> str:
        """A member comes; its name."""
        self._number += 1
        member = name(self._number, host)
        one = {"member": member, "host": host, "client": client, "ended": ended}
        self.add(ago_s, "members", joined=[{k: v for k, v in one.items() if v}], left=[])
        return member

    def went(self, ago_s: float, member: str) -> None:
        """And goes."""
        self.add(ago_s, "members", joined=[], left=[member])

    def lived(self, from_s: float, to_s: float, client: str = "app", ended: str = "") -> str:
        """Both, with the rebalances that follow."""
        member = self.came(from_s, client, ended)
        self.rebalanced(from_s - 0.1, "member joined", member)
        self.went(to_s, member)
        self.rebalanced(to_s - 0.1, "member left", member)
        return member

    def rebalanced(
        self,
        ago_s: float,
        cause: str = "member joined",
        trigger: str = "",
        members: int = 3,
        stops: Mapping[str, int] | None = None,
        owned: Mapping[str, Mapping[str, str]] | None = None,
        took_ms: int = 50,
    ) -> None:
        """One has ended; `stops`: how long each took to give partitions up (ms)."""
        steps = [
            {"member": m, "option": "stop-fetcher", "at_ms": 0, "ms": ms}
            for m, ms in (stops or {}).items()
        ]
        more = {"owned": owned} if owned is not None else {}
        self.add(
            ago_s,
            "rebalance",
            cause=cause,
            trigger=trigger,
            members=members,
            steps=steps,
            duration_ms=took_ms,
            **more,
        )

    def evidence(
        self, facts: GroupFacts | None = None, commits: Sequence[CommitFacts] = ()
    ) -> Evidence:
        """Of all of it."""
        return Evidence(GROUP, NOW_MS, of_last_hour(self.records, NOW_MS), facts, commits)

    def found(
        self, facts: GroupFacts | None = None, commits: Sequence[CommitFacts] = ()
    ) -> list[tuple[str, str]]:
        """Kinds and subjects."""
        troubles = troubles_of(self.evidence(facts, commits))
        return [(one.kind.value, one.subject) for one in troubles]


def facts(owns: Mapping[str, Mapping[str, Sequence[int]]], **more: Any) -> GroupFacts:
    """A group at rest, by what each member owns; all subscribe to all `topics`."""
    topics = more.pop("topics")
    return GroupFacts(
        **{
            "state": "Stable",
            "since_ms": NOW_MS - 60_000,
            "assignor": "sticky",
            "members": {m: MemberFact(m, streams=dict.fromkeys(topics, 1)) for m in owns},
            "topics": topics,
            "owners": {
                TopicPartition(topic, number): member
                for member, of in owns.items()
                for topic, numbers in of.items()
                for number in numbers
            },
            **more,
        }
    )


def commit(
    partition: int = 0, offset: int = 10, end: int = 50, ago_s: float = 60, **more: Any
) -> CommitFacts:
    """Of a partition of orders: `offset` since then."""
    tp = TopicPartition("orders", partition)
    at_ms = NOW_MS - int(ago_s * 1000)
    return CommitFacts(
        tp, offset, end, **{"ended": 20, "waiting_ms": at_ms, **more}, since_ms=at_ms
    )
