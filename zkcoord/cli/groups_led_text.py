"""Groups whose leader is a client, as text and as JSON: beside what all groups have, what their
clients say, and who keeps a rebalance waiting. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zkcoord.core.model import TopicPartition
from zkcoord.text_table import table
from zkcoord.zk.sync.led_seen import NOT_KNOWN, LedMemberSnapshot, LedSnapshot
from zkcoord.znodes.classic.report import Named, WaitsSaid, Why
from zkcoord.znodes.names import shown

MISSING = "-"
NAMES_SHOWN_MAX = 5

MEMBER_COLUMNS = (
    ("GROUP", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 15),
    ("#PARTITIONS", 15),
)
INSTANCE_COLUMN = ("GROUP-INSTANCE-ID", 15)
MORE_MEMBER_COLUMNS = (
    ("LIBRARY", 15),
    ("GATEWAY", 15),
    ("SESSION-TIMEOUT", 15),
    ("STATUS", 15),
    ("ASSIGNMENT", 0),
)
MORE_STATE_COLUMNS = (
    ("#MEMBERS", 9),
    ("GENERATION", 10),
    ("EPOCH", 8),
    ("TYPE", 10),
    ("LEADER", 15),
    ("CAUSE", 15),
    ("TRIGGER", 15),
    ("WAITS-FOR", 0),
)


def _seconds(ms: int) -> str:
    return f"{max(0, ms) / 1000:.1f} s"


def led_members_table(
    group: str,
    led: LedSnapshot,
    verbose: bool,
    assigned: Callable[[Sequence[TopicPartition]], str],
) -> str:
    """One row per member; `verbose` adds what its gateway says, what it is doing and what it
    has. `assigned` writes partitions.
    """
    static = any(one.instance is not None for one in led.members)
    rows = []
    for one in sorted(led.members, key=lambda one: one.member_id):
        known = one.partitions is not None
        row = [
            group,
            one.member_id,
            *([one.instance or MISSING] if static else []),
            one.host or MISSING,
            one.client_id or MISSING,
            str(len(one.partitions or ())) if known else MISSING,
        ]
        if verbose:
            opaque = f"{one.assigned_bytes} bytes" if one.assigned_bytes else MISSING
            row += [
                one.library or MISSING,
                one.gateway or MISSING,
                f"{one.session_timeout_ms} ms",
                led.status_of(one),
                assigned(one.partitions) if one.partitions is not None else opaque,
            ]
        rows.append(row)
    first, second, *others = MEMBER_COLUMNS
    columns = (first, second, *([INSTANCE_COLUMN] if static else []), *others)
    return table((*columns, *MORE_MEMBER_COLUMNS) if verbose else columns, rows)


def led_state_cells(led: LedSnapshot, epoch: int) -> list[str]:
    """What `--state --verbose` adds after the number of members (`MORE_STATE_COLUMNS`)."""
    why = _latest(led)
    return [
        NOT_KNOWN if led.unknown else str(led.generation),
        str(epoch),
        led.protocol_type or MISSING,
        led.leader or MISSING,
        why.kind or MISSING,
        why.trigger or MISSING,
        _whom(led.waits) if led.waits is not None else MISSING,
    ]


def _latest(led: LedSnapshot) -> Why:
    if led.waits is not None:
        return led.waits.why
    return led.ended.why if led.ended is not None else Why("")


def _some(named: Named) -> str:
    names = ", ".join(map(shown, named.names[:NAMES_SHOWN_MAX]))
    more = named.count - min(len(named.names), NAMES_SHOWN_MAX)
    return names + (f" and {more} more" if more > 0 else "")


def _whom(waits: WaitsSaid) -> str:
    """Who blocks, and by what."""
    said = []
    if waits.is_initial:
        said.append("whoever else joins at the beginning")
    if waits.unjoined.count:
        said.append(f"JoinGroup of {_some(waits.unjoined)}")
    if waits.pending.count:
        said.append(f"clients that have been given an id to come with: {_some(waits.pending)}")
    if waits.leader:
        said.append(f"SyncGroup of the leader {shown(waits.leader)}")
    elif waits.unsynced.count:
        said.append(f"SyncGroup of {_some(waits.unsynced)}")
    return "; ".join(said) or "what is being written"


def led_lines(group: str, led: LedSnapshot, now_ms: int) -> list[str]:
    """What must not be overlooked, for people."""
    lines = []
    waits = led.waits
    if waits is not None:
        why = waits.why.kind + (f": {shown(waits.why.trigger)}" if waits.why.trigger else "")
        lines.append(
            f"Consumer group '{group}' rebalances for {_seconds(now_ms - waits.since_ms)} ({why})"
            f" and waits for {_whom(waits)}, {_seconds(waits.until_ms - now_ms)} more at most."
        )
    elif led.phase.value.endswith("Rebalance"):
        lines.append(
            f"Consumer group '{group}' rebalances; whom it waits for the coordinator has not said"
            " yet."
        )
    if led.report is not None:
        lines += [f"problem: {problem}" for problem in led.report.problems]
    return lines


def led_json(led: LedSnapshot) -> dict[str, Any]:
    """What only such a group has."""
    waits, ended = led.waits, led.ended
    return {
        "protocol_type": led.protocol_type,
        "protocol": led.protocol,
        "leader": led.leader or None,
        "since_ms": led.report.since_ms if led.report is not None else None,
        "waits": None
        if waits is None
        else {
            "cause": _why_json(waits.why),
            "since_ms": waits.since_ms,
            "until_ms": waits.until_ms,
            "initial": waits.is_initial,
            "not_joined": _named_json(waits.unjoined),
            "pending_ids": _named_json(waits.pending),
            "no_sync": _named_json(waits.unsynced),
            "leader_has_not_assigned": waits.leader or None,
        },
        "last_rebalance": None
        if ended is None
        else {
            "cause": _why_json(ended.why),
            "at_ms": ended.at_ms,
            "generation": ended.generation,
            "members": ended.members,
            "duration_ms": ended.duration_ms,
            "until_all_joined_ms": ended.joins_ms,
            "last_to_join": ended.last or None,
            "out": _named_json(ended.out),
            "began_again": ended.again,
        },
    }


def _why_json(why: Why) -> dict[str, str]:
    return {"reason": why.kind, "trigger": why.trigger, "words": why.words}


def _named_json(named: Named) -> dict[str, Any]:
    return {"count": named.count, "first": list(named.names)}


def led_member_json(led: LedSnapshot, one: LedMemberSnapshot) -> dict[str, Any]:
    """A member, with the same names as those of other groups have."""
    return {
        "consumer_id": one.member_id,
        "incarnation": None,
        "instance": one.instance,
        "host": one.host or MISSING,
        "client_id": one.client_id or MISSING,
        "library": one.library or None,
        "gateway": one.gateway or None,
        "subscription": {},
        "pattern": None,
        "partitions": None if one.partitions is None else [list(tp) for tp in one.partitions],
        "commands": [],
        "session_timeout_ms": one.session_timeout_ms,
        "rebalance_timeout_ms": one.rebalance_timeout_ms,
        "protocols": list(one.protocols),
        "assignment_bytes": one.assigned_bytes,
        "status": led.status_of(one),
    }
