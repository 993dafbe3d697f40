"""One rebalance in words: what began it, what moved, who was waited for. Pure; from the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zkcoord.console.views.group import of_record
from zkcoord.console.views.texts import short
from zkcoord.console.views.timeline import REBALANCES, owned
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.words import counted

MOVES_SHOWN = 200
WAITED_SHOWN = 20
CAUSES = {
    "member joined": "a member joined: {trigger}",
    "member left": "a member left or was lost: {trigger}",
    "subscription changed": "{trigger} subscribes to something else now",
    "coordinator took over": "a coordinator began its term, and looked at every group",
}


@value
class PartitionMove:
    """A partition that changed hands; "": nobody."""

    tp: TopicPartition
    before: str
    after: str


@dataclass(frozen=True)
class RebalanceTold:
    """See the module. `moves` None: the journal does not say who owned what before and after."""

    record: Mapping[str, Any]
    cause: str
    moves: Sequence[PartitionMove] | None
    left_out: int
    waited: Sequence[tuple[str, int]]

    @property
    def sentences(self) -> list[str]:
        """The story."""
        record = self.record
        took = record.get("duration_ms")
        found = [f"It began because {self.cause}."]
        if type(took) is int:
            found.append(f"It took {took} ms until everything was where it was to be.")
        if self.waited:
            who, ms = self.waited[0]
            found.append(f"{who} took longest to answer: {ms} ms.")
        if type(record.get("moved")) is int:
            found.append(
                f"{counted(record['moved'], 'partition')} moved, to"
                f" {short(record.get('members', '?'))} members, by the assignor"
                f" {short(record.get('assignor', '?'))}."
            )
        left = record.get("unassigned")
        if type(left) is int and left:
            found.append(f"{counted(left, 'partition', 'was')} left without a member.")
        return found


def rebalance_story(records: Sequence[Mapping[str, Any]], address: str) -> RebalanceTold | None:
    """The rebalance at this address among a group's records; None: it is not there (any more)."""
    before: Mapping[str, Any] | None = None
    for record in records:
        if record.get("kind") not in REBALANCES:
            continue
        if of_record(record) == address:
            return _told(record, before)
        before = record
    return None


def _told(record: Mapping[str, Any], before: Mapping[str, Any] | None) -> RebalanceTold:
    reason, trigger = (short(record.get(name) or "") for name in ("cause", "trigger"))
    waited = record.get("waited_for")
    if reason in CAUSES:
        cause = CAUSES[reason].format(trigger=trigger)
    else:
        cause = "of " + (reason or "something the journal does not name")
        cause += f": {trigger}" if trigger else ""
    moves = _moves(record, before)
    return RebalanceTold(
        record,
        cause,
        None if moves is None else moves[:MOVES_SHOWN],
        max(0, len(moves or ()) - MOVES_SHOWN),
        [
            (short(one.get("member", "")), one["ms"])
            for one in (waited[:WAITED_SHOWN] if isinstance(waited, list) else ())
            if isinstance(one, dict) and type(one.get("ms")) is int
        ],
    )


def _moves(
    record: Mapping[str, Any], before: Mapping[str, Any] | None
) -> list[PartitionMove] | None:
    if before is None or not all(isinstance(r.get("owned"), dict) for r in (record, before)):
        return None
    was, now = owned(before["owned"]), owned(record["owned"])
    return [
        PartitionMove(tp, was.get(tp, ""), now.get(tp, ""))
        for tp in sorted(was.keys() | now.keys())
        if was.get(tp) != now.get(tp)
    ]
