"""Lists of groups as text and as JSON: their states, who runs each, and who is to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zkcoord.cli.groups_text import MISSING, coordinator_json
from zkcoord.core.model import Malformed
from zkcoord.text_table import WIDTH_MIN, table
from zkcoord.zk.sync.group_snapshot import CoordinatorSeen, GroupListed
from zkcoord.zk.sync.led_seen import NOT_KNOWN
from zkcoord.zk.sync.read_pins import DOUBTED
from zkcoord.znodes.classic.pin import AUTO, Machine, Pin

MachinesSaid = Mapping[str, Pin | Malformed]
"""What operators have said of groups; `Malformed`: nobody can read it, or it is not believed."""


def list_text(groups: Sequence[GroupListed], with_state: bool) -> str:
    """Names, one per line, or names and states."""
    if not with_state:
        return "".join(f"{group.name}\n" for group in groups)
    rows = [[group.name, group.shown, group.paused or MISSING] for group in groups]
    if any(group.paused for group in groups):
        return table((("GROUP", WIDTH_MIN), ("STATE", 19), ("PAUSED-BY", 0)), rows)
    return table((("GROUP", WIDTH_MIN), ("STATE", 0)), [row[:2] for row in rows])


def machines_text(
    groups: Sequence[GroupListed], said: MachinesSaid, unknown: Sequence[str] = ()
) -> str:
    """States, who runs each group, and who is to; `unknown`: groups of which nothing else is there
    than what was said.
    """
    rows = [
        [
            group.name,
            group.shown,
            _run_by(group) or MISSING,
            _word(said.get(group.name)),
            group.paused or MISSING,
        ]
        for group in groups
    ]
    rows += [[name, MISSING, MISSING, _word(said[name]), MISSING] for name in unknown]
    columns = (("GROUP", WIDTH_MIN), ("STATE", 19), ("RUN-BY", 11))
    if any(group.paused for group in groups):
        return table((*columns, ("PINNED", 11), ("PAUSED-BY", 0)), rows)
    return table((*columns, ("PINNED", 0)), [row[:4] for row in rows])


def list_json(
    groups: Sequence[GroupListed],
    coordinator: CoordinatorSeen,
    said: MachinesSaid,
    unknown: Sequence[str] = (),
) -> dict[str, Any]:
    """The same, and for each topic the groups that subscribe to it."""
    by_topic: dict[str, list[str]] = {}
    for group in groups:
        for topic in group.topics:
            by_topic.setdefault(topic, []).append(group.name)
    return {
        "coordinator": coordinator_json(coordinator),
        "groups": [_listed(group, said.get(group.name)) for group in groups],
        "groups_by_topic": dict(sorted(by_topic.items())),
        "pinned_and_unknown": [{"group": name, **_said(said[name])} for name in unknown],
    }


def _listed(group: GroupListed, said: Pin | Malformed | None) -> dict[str, Any]:
    bad = (*group.malformed, *((said,) if isinstance(said, Malformed) else ()))
    return {
        "group": group.name,
        "state": group.shown,
        "paused": group.paused or None,
        "members": None if group.unknown else group.members,
        "generation": None if group.unknown else group.generation,
        "topics": list(group.topics),
        "client_led": group.client_led,
        "protocol_type": group.protocol_type,
        "run_by": _run_by(group) or None,
        **_said(said),
        "malformed": [{"what": m.what, "name": m.name, "reason": m.reason} for m in bad],
    }


def _said(said: Pin | Malformed | None) -> dict[str, Any]:
    if not isinstance(said, Pin):
        return {"machine": AUTO, "pinned_by": None}
    return {"machine": said.machine.value, "pinned_by": said.by or None}


def _run_by(group: GroupListed) -> str:
    """Who runs it now; "": it has no members."""
    if group.unknown:
        return NOT_KNOWN
    if not group.members:
        return ""
    runs = Machine.CLIENT_LED if group.client_led else Machine.COORDINATED
    return str(runs.value)


def _word(said: Pin | Malformed | None) -> str:
    if isinstance(said, Malformed):
        return "not believed" if said.what == DOUBTED else "unreadable"
    return MISSING if said is None else said.machine.value
