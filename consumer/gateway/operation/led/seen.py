"""What there is of client-led groups at a gateway, at one moment. Everything here runs on the
members' loop, and visits each member once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from consumer.gateway.client_led.group import LedGroup
from consumer.gateway.client_led.groups import LedGroups
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.value_type import value

WAITS = ("join", "sync", "heartbeat", "commit", "group")
GROUPS_SHOWN_MAX = 2_000


def _nothing(names: tuple[str, ...]) -> dict[str, int]:
    return dict.fromkeys(names, 0)


PHASES = tuple(phase.value for phase in ClassicPhase)


@value
class LedServed:
    """`states`: groups with members here, by state; `waits`: requests without an answer yet, by
    what they are (`WAITS`: JoinGroup and SyncGroup that the coordinator is asked, heartbeats with
    nothing to say, commits that are being stored, whatever waits until its group is read);
    `of_others`: partitions that were committed and that another member has.
    """

    states: Mapping[str, int] = field(default_factory=lambda: _nothing(PHASES))
    members: int = 0
    waits: Mapping[str, int] = field(default_factory=lambda: _nothing(WAITS))
    of_others: int = 0


@value
class ServedLedGroup:
    """One group: what was decided, its members here, requests of them that wait, and the first
    commit of what another member has ("": none).
    """

    group: str
    state: str
    generation: int
    protocol_type: str
    protocol: str
    members: int
    members_here: int
    waiting: int
    commits_of_others: str


def led_served(led: LedGroups) -> LedServed:
    """All of them."""
    states, waits = _nothing(PHASES), _nothing(WAITS)
    members = 0
    for group in led.groups.values():
        if group.members:
            states[group.view.phase.value] += 1
        for ask in group.asks:
            waits["sync" if ask.join is None else "join"] += 1
        waits["group"] += group.waiting
        for member in group.members.values():
            members += 1
            waits["heartbeat"] += member.beat is not None
            waits["commit"] += len(member.commits)
    return LedServed(states, members, waits, led.of_others.count)


def led_groups_seen(led: LedGroups) -> tuple[list[ServedLedGroup], int]:
    """The first `GROUPS_SHOWN_MAX` of those with members here, by name, and how many there are."""
    names = sorted(name for name, group in led.groups.items() if group.members)
    shown = [_seen(led.groups[name], led) for name in names[:GROUPS_SHOWN_MAX]]
    return shown, len(names)


def _seen(group: LedGroup, led: LedGroups) -> ServedLedGroup:
    state = group.view.state
    return ServedLedGroup(
        group.name,
        group.view.phase.value,
        state.generation,
        state.protocol_type,
        state.protocol,
        len(state.members),
        len(group.members),
        len(group.asks) + group.waiting,
        led.of_others.named.get(group.name, ""),
    )
