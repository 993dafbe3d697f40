"""Snapshots of groups as text and as JSON. Pure.

The tables have the columns, widths and dashes of Kafka's own kafka-consumer-groups.sh (3.9), so
that what reads those reads these. What only zkcoord knows is in the `--verbose` columns and in the
JSON, which holds all that a group consists of: topics, configuration, members, offsets, ownership,
generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zkcoord.admin.common import argument
from zkcoord.cli import groups_led_text as led
from zkcoord.core.model import Member, TopicPartition
from zkcoord.text_table import table
from zkcoord.words import counted
from zkcoord.zk.sync.group_snapshot import CoordinatorSeen, GroupSnapshot
from zkcoord.zk.sync.led_seen import NOT_KNOWN
from zkcoord.znodes.classic.pin import AUTO, Machine
from zkcoord.znodes.codec import LeaderData, ranges_of
from zkcoord.znodes.gateway_nodes import is_instance_of_client
from zkcoord.znodes.names import origin_of

MISSING = "-"
Ends = Mapping[TopicPartition, int]

OFFSET_COLUMNS = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("CURRENT-OFFSET", 15),
    ("LOG-END-OFFSET", 15),
    ("LAG", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 0),
)
MEMBER_COLUMNS = (
    ("GROUP", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 15),
    ("#PARTITIONS", 15),
)
STATIC_MEMBER_COLUMNS = (
    ("GROUP", 15),
    ("CONSUMER-ID", 15),
    ("GROUP-INSTANCE-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 15),
    ("#PARTITIONS", 15),
)
WIRE_MEMBER_COLUMNS = (("LIBRARY", 15), ("GATEWAY", 15))
STATE_COLUMNS = (
    ("GROUP", 15),
    ("COORDINATOR (ID)", 25),
    ("ASSIGNMENT-STRATEGY", 20),
    ("STATE", 15),
    ("#MEMBERS", 0),
)


def offsets_table(group: GroupSnapshot, ends: Ends) -> str:
    """One row per partition; a member without partitions has a row too."""
    rows = []
    for tp in group.partitions:
        member, current, end = group.holders.get(tp, ""), group.offsets.get(tp), ends.get(tp)
        lag = end - current if end is not None and current is not None else None
        rows.append(
            [
                group.group,
                tp.topic,
                str(tp.partition),
                _dash(current),
                _dash(end),
                _dash(lag),
                member or MISSING,
                *_whereabouts(group, member),
            ]
        )
    for member in sorted(set(group.names) - set(group.holders.values())):
        rows.append([group.group, *[MISSING] * 5, member, *_whereabouts(group, member)])
    return table(OFFSET_COLUMNS, rows)


def members_table(group: GroupSnapshot, verbose: bool) -> str:
    """One row per member; `verbose` adds what it owns and, where a gateway's clients are among
    them, the library of each and its gateway.
    """
    if group.led is not None and group.is_led:
        return led.led_members_table(group.group, group.led, verbose, _assignment)
    static = any(map(_instance, group.members.values()))
    wire = verbose and any(member.gateway for member in group.members.values())
    rows = []
    for name, member in sorted(group.members.items()):
        held = group.held_by(name)
        host, client = _whereabouts(group, name)
        row = [
            group.group,
            name,
            *([_instance(member) or MISSING] if static else []),
            host,
            client,
            str(len(held)),
        ]
        if wire:
            row += [member.library or MISSING, member.gateway or MISSING]
        rows.append(row + ([_assignment(held)] if verbose else []))
    columns = STATIC_MEMBER_COLUMNS if static else MEMBER_COLUMNS
    more = (*(WIRE_MEMBER_COLUMNS if wire else ()), ("ASSIGNMENT", 0))
    return table((*columns, *more) if verbose else columns, rows)


def state_table(group: GroupSnapshot, verbose: bool) -> str:
    """One row; `verbose` adds generation, epoch and what began the last rebalance."""
    led_by_client = group.led if group.is_led else None
    row = [
        group.group,
        coordinator_name(group.coordinator),
        (led_by_client.protocol if led_by_client is not None else group.metadata.assignor)
        or MISSING,
        group.shown,
        NOT_KNOWN if group.unknown else str(len(group.names)),
    ]
    if not verbose:
        return table(STATE_COLUMNS, [row])
    if led_by_client is not None:
        cells = led.led_state_cells(led_by_client, group.coordinator.epoch)
        return table((*STATE_COLUMNS[:-1], *led.MORE_STATE_COLUMNS), [row + cells])
    outstanding = sum(len(commands) for commands in group.commands.values())
    more = [
        str(group.metadata.generation),
        str(group.coordinator.epoch),
        str(outstanding),
        str(len(group.malformed)),
        group.metadata.cause.reason or MISSING,
        group.metadata.cause.trigger or MISSING,
    ]
    columns = (
        *STATE_COLUMNS[:-1],
        ("#MEMBERS", 9),
        ("GENERATION", 10),
        ("EPOCH", 8),
        ("COMMANDS", 8),
        ("MALFORMED", 9),
        ("CAUSE", 15),
        ("TRIGGER", 0),
    )
    return table(columns, [row + more])


def group_json(group: GroupSnapshot, ends: Ends) -> dict[str, Any]:
    """All that a group consists of."""
    found = _group_json(group, ends)
    by_client = group.led
    if by_client is None or not group.is_led:
        return {**found, "client_led": None, "machine": group.pinned or AUTO}
    members = sorted(by_client.members, key=lambda one: one.member_id)
    return {
        **found,
        "generation": None if group.unknown else by_client.generation,
        "assignor": by_client.protocol,
        "protocol": "classic",
        "members": None
        if group.unknown
        else [led.led_member_json(by_client, one) for one in members],
        "ownership": {name: ranges_of(group.held_by(name)) for name in group.names},
        "client_led": led.led_json(by_client),
        "machine": group.pinned or AUTO,
    }


def _group_json(group: GroupSnapshot, ends: Ends) -> dict[str, Any]:
    metadata = group.metadata
    return {
        "group": group.group,
        "layout": group.layout.name,
        "state": group.shown,
        "failure": metadata.failure or None,
        "paused": group.paused or None,
        "generation": metadata.generation,
        "assignor": metadata.assignor,
        "protocol": metadata.protocol,
        "coordinator": coordinator_json(group.coordinator),
        "cause": {"reason": metadata.cause.reason, "trigger": metadata.cause.trigger},
        "since_ms": metadata.since_ms,
        "topics": {
            topic: _topic_json(group, topic)
            for topic in sorted({t for topics in group.subscribed.values() for t in topics})
        },
        "configuration": {
            **metadata.configuration,
            "members": {
                name: _configuration(member) for name, member in sorted(group.members.items())
            },
        },
        "members": [_member_json(group, member) for _, member in sorted(group.members.items())],
        "departed": [
            {"instance": d.instance, "since_ms": d.since_ms, "partitions": ranges_of(d.partitions)}
            for d in metadata.departed
        ],
        "offsets": [_offset_json(group, tp, ends) for tp in group.partitions],
        "ownership": {name: ranges_of(group.held_by(name)) for name in sorted(group.members)},
        "malformed": [_malformed(m) for m in group.malformed],
        **mode_json(group),
    }


def paused_line(group: GroupSnapshot) -> str:
    """What people must know of a paused group, as a line."""
    owned = (
        f"{len(group.holders)} partitions are still owned" if group.holders else "nobody owns any"
    )
    taken_up = (
        ""
        if group.metadata.paused
        else "; the coordinator has not taken it up yet (one of an earlier release knows no pauses,"
        " and hands out as ever)"
    )
    resume = f"zkcoord groups resume {argument(group.group)} --execute"
    return (
        f"Consumer group '{group.group}' is paused by {group.paused}: nothing is handed out to its"
        f" {counted(len(group.members), 'member')}, {owned}{taken_up}; `{resume}` ends that.\n"
    )


def is_shared(group: GroupSnapshot) -> bool:
    """Whether old consumers have, or had, to do with the group."""
    return group.mode is not None or any(member.legacy for member in group.members.values())


def mode_json(group: GroupSnapshot) -> dict[str, Any]:
    """Whose the group is, how far the coordinator is with that, and what is wrong."""
    old, ours, free, rest = _shares(group)
    return {
        "mode": {
            "said": group.mode.kind.value if group.mode is not None else None,
            "strategy": group.mode.strategy if group.mode is not None else None,
            "taken_up": group.metadata.mode or None,
            "old_consumers": sum(member.legacy for member in group.members.values()),
            "members": sum(not member.legacy for member in group.members.values()),
            "client_led_members": _led_members(group),
            "owned_by_old_consumers": old,
            "owned_by_members": ours,
            "owned_by_others": rest,
            "free": free,
        },
        "problems": list(group.metadata.problems),
    }


def _led_members(group: GroupSnapshot) -> int | None:
    """How many are of a leader of their own; None: nobody knows."""
    if group.led is None:
        return 0
    return None if group.led.unknown else len(group.led.members)


def mode_lines(group: GroupSnapshot) -> list[str]:
    """The same for people."""
    found = mode_json(group)
    mode = found["mode"]
    if mode["said"] is None:
        what = f"no mode: {_whose(group, mode['old_consumers'], mode['client_led_members'])}"
    else:
        what = (
            f"mode {mode['said']}"
            + (f" ({mode['strategy']})" if mode["said"] != "coordinated" else "")
            + (f", paused by {group.paused}" if group.paused else "")
            + ("" if mode["taken_up"] == mode["said"] else ", not taken up by the coordinator yet")
            + (f", and {_leads(mode['client_led_members'])}" if mode["client_led_members"] else "")
        )
    foreign = (
        f", {mode['owned_by_others']} are owned by nobody who is registered"
        if mode["owned_by_others"]
        else ""
    )
    shares = (
        f"; {mode['old_consumers']} old consumers own {mode['owned_by_old_consumers']} partitions,"
        f" {mode['members']} members own {mode['owned_by_members']}, {mode['free']} are"
        f" free{foreign}"
    )
    led_alone = group.unknown or mode["client_led_members"]
    is_led_alone = led_alone and not group.members  # it shares nothing
    return [
        f"{group.group}: {what}{'' if is_led_alone else shares}",
        *(f"{group.group}: problem: {problem}" for problem in found["problems"]),
    ]


def _whose(group: GroupSnapshot, old_consumers: int, led: int | None) -> str:
    """Whose a group is of which nobody has said that."""
    if group.unknown:
        return "whether clients lead it is not known"
    if led:
        return _leads(led)
    if old_consumers:
        return "its old consumers keep it, and nothing is commanded while they are there"
    if group.pinned == Machine.CLIENT_LED.value and not group.members:
        return "a client is to lead it (zkcoord groups machine)"
    return "it is the coordinator's"


def _leads(members: int) -> str:
    return f"one of its {members} clients leads it"


def _shares(group: GroupSnapshot) -> tuple[int, int, int, int]:
    """How many of the subscribed partitions old consumers own, members own, nobody owns, and others
    own.
    """
    counts = [0, 0, 0, 0]
    for topic in {
        topic for topics in group.subscribed.values() for topic in topics if topic in group.topics
    }:
        for number in group.topics[topic].partitions:
            tp = TopicPartition(topic, number)
            member = group.members.get(group.holders.get(tp, ""))
            if tp not in group.owners:
                counts[2] += 1
            elif member is None:
                counts[3] += 1
            else:
                counts[0 if member.legacy else 1] += 1
    return counts[0], counts[1], counts[2], counts[3]


def coordinator_name(coordinator: CoordinatorSeen) -> str:
    """host:port (broker id), `-` where nobody leads."""
    leader = coordinator.leader
    return (
        f"{leader.host}:{leader.port} ({leader.brokerid or MISSING})"
        if isinstance(leader, LeaderData)
        else MISSING
    )


def coordinator_json(coordinator: CoordinatorSeen) -> dict[str, Any] | None:
    """The leader node's data; None: nobody leads."""
    leader = coordinator.leader
    if not isinstance(leader, LeaderData):
        return None
    return {
        "host": leader.host,
        "port": leader.port,
        "broker_id": leader.brokerid,
        "epoch": leader.epoch,
        "since_ms": leader.timestamp_ms,
    }


def _topic_json(group: GroupSnapshot, topic: str) -> dict[str, Any]:
    known = group.topics.get(topic)
    return {
        "exists": known is not None,
        "partitions": len(known.partitions) if known is not None else 0,
        "incarnation": known.incarnation if known is not None else "",
        "subscribers": sorted(name for name, topics in group.subscribed.items() if topic in topics),
    }


def _configuration(member: Member) -> dict[str, Any]:
    return {
        "assignors": list(member.assignors),
        "protocols": list(member.protocols),
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms or None,
        "grace_ms": member.grace_ms,
        "legacy": member.legacy,
    }


def _member_json(group: GroupSnapshot, member: Member) -> dict[str, Any]:
    pattern = member.subscription.pattern
    host, client = _whereabouts(group, member.name)
    return {
        "consumer_id": member.name,
        "incarnation": member.incarnation,
        "instance": _instance(member),
        "host": host,
        "client_id": client,
        "library": member.library or None,
        "gateway": member.gateway or None,
        "subscription": dict(group.subscribed.get(member.name, {})),
        "pattern": (
            None if pattern is None else {"kind": pattern.kind.value, "regex": pattern.regex}
        ),
        "partitions": [[tp.topic, tp.partition] for tp in group.held_by(member.name)],
        "commands": [
            {
                "option": c.option.value,
                "epoch": c.epoch,
                "seq": c.seq,
                "generation": c.generation,
                "partitions": ranges_of(c.partitions),
            }
            for c in group.commands.get(member.name, ())
        ],
    }


def _instance(member: Member) -> str | None:
    """The instance that was named. Gateways name one for each client that names none, so that its
    place waits for it: that makes it no static member.
    """
    instance = member.instance
    return None if instance is None or is_instance_of_client(instance) else instance


def _offset_json(group: GroupSnapshot, tp: TopicPartition, ends: Ends) -> dict[str, Any]:
    current, end, owner = group.offsets.get(tp), ends.get(tp), group.owners.get(tp)
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "current_offset": current,
        "log_end_offset": end,
        "lag": end - current if end is not None and current is not None else None,
        "consumer_id": group.holders.get(tp) or None,
        "thread": str(owner.thread) if owner is not None else None,
    }


def _malformed(bad: Any) -> dict[str, str]:
    return {"what": bad.what, "name": bad.name, "reason": bad.reason}


def _whereabouts(group: GroupSnapshot, name: str) -> tuple[str, str]:
    """A member's host and client id; an old consumer's host is in its name."""
    member = group.members.get(name)
    if member is None:
        one = group.led.by_id.get(name) if group.led is not None else None
        return (
            (MISSING, MISSING) if one is None else (one.host or MISSING, one.client_id or MISSING)
        )
    return member.host or origin_of(group.group, name) or MISSING, member.client or MISSING


def _assignment(held: Sequence[TopicPartition]) -> str:
    """`orders(0,1,4), users(2)`, as Kafka's tool writes it."""
    by_topic: dict[str, list[str]] = {}
    for tp in held:
        by_topic.setdefault(tp.topic, []).append(str(tp.partition))
    return (
        ", ".join(f"{topic}({','.join(numbers)})" for topic, numbers in by_topic.items()) or MISSING
    )


def _dash(value: int | None) -> str:
    return MISSING if value is None else str(value)
