"""Which rows of the state tables a run has taken.

The members' table is a plain dictionary of the production code, looked up by key; here it is
replaced by a dictionary that counts its look-ups, once per process. A group's rows are pairs: the
state in which it stood, and what it needed. Nothing else changes.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import Any

from consumer.core import phases
from zkcoord.core import coordinator
from zkcoord.core.classic import machine as classic_machine
from zkcoord.core.classic import table as classic_table
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.classic.table import Trigger
from zkcoord.core.group import machine, states
from zkcoord.core.model import GroupState

LED = "client-led"
LED_MIX = "led"
NEVER_ASKED = (
    Trigger.BEAT,
    Trigger.COMMIT,
    Trigger.DESCRIBE,
    Trigger.DELETE,
    Trigger.UNLOADED,
    Trigger.NOT_PERSISTED,
)
"""Of a machine behind nodes: gateways answer the first three themselves, no client here deletes a
group, a coordinator that is replaced forgets its machines, and only rights and quotas refuse a
write. Scenarios have all of them.
"""
NEVER_COME = {
    (ClassicPhase.EMPTY, Trigger.SYNC, ClassicPhase.EMPTY): "gateways know that nobody is there",
    (ClassicPhase.EMPTY, Trigger.PERSISTED, ClassicPhase.DEAD): "no client deletes a group",
    (ClassicPhase.EMPTY, Trigger.RESTORED, ClassicPhase.PREPARING): "the bound of members stays",
    (ClassicPhase.COMPLETING, Trigger.SYNC, ClassicPhase.PREPARING): "assignments are small",
}
_counts: Counter[str] = Counter()


class _Counting(dict[Any, Any]):
    """A table that counts which rows are looked up."""

    def __init__(self, name: str, table: dict[Any, Any]) -> None:
        super().__init__(table)
        self.name = name

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        _counts[_row(self.name, key)] += 1
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        """As `dict.get`, counted."""
        return self[key] if key in self else default


def _label(part: Any) -> str:
    return part.name if isinstance(part, enum.Enum) else getattr(part, "__name__", str(part))


def _row(name: str, key: Any) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return f"{name}:" + "+".join(_label(p) for p in parts)


def _next_state(state: GroupState, need: states.Need) -> GroupState:
    _counts[_row("group", (state, need))] += 1
    return states.next_state(state, need)


def _judged(before: ClassicPhase, trigger: Trigger, after: ClassicPhase) -> None:
    classic_table.judged(before, trigger, after)
    _counts[_row(LED, (before, trigger, after))] += 1


classic_machine.judged = _judged
phases.TRANSITIONS = _Counting("member", phases.TRANSITIONS)
machine.next_state = _next_state
coordinator.next_state = _next_state
_TABLES = {
    "group": [
        (state, need)
        for state in GroupState
        if state is not GroupState.DEAD
        for need in states.Need
    ],
    "member": list(phases.TRANSITIONS),
    LED: [
        (before, trigger, after)
        for (before, trigger), states in classic_table.TRANSITIONS.items()
        if trigger not in NEVER_ASKED and before is not ClassicPhase.DEAD
        for after in states
        if (before, trigger, after) not in NEVER_COME
    ],
}


def reset() -> None:
    """Forget what was counted."""
    _counts.clear()


def taken() -> Counter[str]:
    """How often each row was taken since `reset`."""
    return Counter(_counts)


def tables() -> dict[str, list[str]]:
    """All rows of each table."""
    return {name: [_row(name, key) for key in table] for name, table in _TABLES.items()}
