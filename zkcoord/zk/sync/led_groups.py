"""Groups whose leader is a client, read from outside beside those that the coordinator assigns: a
group is what its members are. Offsets are at one place for both.

Bounded: names that are listed, members that are shown, bytes of assignments that are read. What
cannot be read of a group is said of that group; the others are shown.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace

from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicMember, ClassicState
from zkcoord.core.model import GroupMetadata, GroupState, Malformed, Topic
from zkcoord.core.value_type import value
from zkcoord.errors import UnavailableError, UnknownGroupError
from zkcoord.zk.classic.blobs import parts_of
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Missing, Node, Read, ReadAnswer
from zkcoord.zk.sync.beliefs import doubts
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.zk.sync.group_snapshot import (
    CHILDREN_LISTED_MAX,
    GroupListed,
    GroupSnapshot,
    coordinator_seen,
    describe_group,
    list_groups,
)
from zkcoord.zk.sync.in_kafka import kept_in_kafka
from zkcoord.zk.sync.led_seen import LedMemberSnapshot, LedSnapshot
from zkcoord.zk.sync.read_pins import read_pins
from zkcoord.znodes import codec, names
from zkcoord.znodes.classic.assigned import partitions_of
from zkcoord.znodes.classic.consumer_blobs import CONSUMER
from zkcoord.znodes.classic.documents import ClassicRound, decode_round, decode_state
from zkcoord.znodes.classic.paths import ClassicPaths, member_digest
from zkcoord.znodes.classic.pin import PINS_MAX, Machine, Pin
from zkcoord.znodes.classic.presence import ServedBy, decode_presence
from zkcoord.znodes.classic.report import decode_report
from zkcoord.znodes.classic.view import NEVER, ClassicView
from zkcoord.znodes.paths import Layout

GROUPS_PER_READ = 200
STATE = "state of a group"
DOUBTED_LED = "client-led group that is not believed"
ASSIGNED_BYTES_MAX = 8 * 1024 * 1024
"""Of all assignments of a group that are read: more than a coordinator keeps."""

TOPICS_MAX = 2_000
MEMBERS_OF_BOTH_KINDS = (
    "it has members that the coordinator assigns and members of a leader of its own: stop those of"
    " one kind"
)


@value
class _Decided:
    view: ClassicView
    since: ClassicRound
    malformed: tuple[Malformed, ...]
    unknown: str = ""


def list_all_groups(reader: SyncClient, layout: Layout) -> list[GroupListed]:
    """All groups of the ensemble, of both kinds, sorted by name. Raises `UnavailableError`."""
    listed = {group.name: group for group in list_groups(reader, layout)}
    for name, found in _all_decided(reader, ClassicPaths(layout)):
        listed[name] = _merged(name, listed.get(name), found)
    return [listed[name] for name in sorted(listed)]


def led_views(
    reader: SyncClient, layout: Layout, wanted: Container[str]
) -> dict[str, ClassicView | Malformed]:
    """Of these groups those that clients lead, or have led. `Malformed`: what was decided cannot be
    read, or is not believed, because of what is above all of them. Raises `UnavailableError`.
    """
    found = _all_decided(reader, ClassicPaths(layout), wanted)
    return {name: one.malformed[0] if one.malformed else one.view for name, one in found}


def led_doubts(reader: SyncClient, layout: Layout, groups: Iterable[str]) -> dict[str, str]:
    """Why what is said of clients that lead some of these is not believed, by name. Raises
    `UnavailableError`.
    """
    paths = ClassicPaths(layout)
    return doubts(reader, layout, paths.above_groups(), {name: paths.said(name) for name in groups})


def _all_decided(
    reader: SyncClient, paths: ClassicPaths, wanted: Container[str] | None = None
) -> Iterator[tuple[str, _Decided]]:
    (head,) = reader.read([GetData(paths.groups)])
    if isinstance(head, Denied):
        raise UnavailableError(not_allowed(paths.groups, head))
    if not isinstance(head, Node) or not 0 < head.stat.num_children <= CHILDREN_LISTED_MAX:
        return  # as those of a group: more than people can read
    (answer,) = reader.read([GetChildren(paths.groups)])
    found = answer.names if isinstance(answer, Children) else ()
    groups = [n for n in found if names.is_group(n) and (wanted is None or n in wanted)]
    # who may write the nodes of each of them is asked where one is described
    above = {"": ()} if groups else {}
    why = doubts(reader, paths.layout, paths.above_groups(), above).get("", "")
    for at in range(0, len(groups), GROUPS_PER_READ):
        part = groups[at : at + GROUPS_PER_READ]
        answers = iter(reader.read([read for name in part for read in _reads(paths, name)]))
        for name, state, since in zip(part, answers, answers, strict=False):
            decided = _decided(paths, name, state, since)
            if decided is not None and why:
                bad = (_doubted(name, why),)
                decided = _Decided(ClassicView(NEVER), ClassicRound(), bad, why)
            if decided is not None:
                yield name, decided


def _reads(paths: ClassicPaths, group: str) -> tuple[Read, Read]:
    return GetData(paths.state(group)), GetData(paths.round(group))


def _decided(
    paths: ClassicPaths, group: str, state: ReadAnswer, since: ReadAnswer
) -> _Decided | None:
    """What these nodes say; None: there is no such group."""
    bad: list[Malformed] = []
    decided: ClassicState | Malformed = NEVER
    if isinstance(state, Node):
        decided = decode_state(group, state.data)
    elif isinstance(state, Denied):
        decided = Malformed(STATE, group, not_allowed(paths.state(group), state))
    else:
        return None
    told = decode_round(group, since.data) if isinstance(since, Node) else ClassicRound()
    unknown = decided.reason if isinstance(decided, Malformed) else ""
    if isinstance(decided, Malformed):
        bad.append(decided)
        decided = NEVER
    if isinstance(told, Malformed):
        bad.append(told)
        told = ClassicRound()
    return _Decided(ClassicView(decided, told), told, tuple(bad), unknown)


def _doubted(group: str, why: str) -> Malformed:
    return Malformed(DOUBTED_LED, group, why)


def _merged(name: str, other: GroupListed | None, found: _Decided) -> GroupListed:
    """A group is what its members are; of what was there before only what cannot be read is
    told.
    """
    state = found.view.state
    malformed = (*(other.malformed if other is not None else ()), *found.malformed)
    if other is not None and other.members:
        if state.members:
            malformed += (Malformed("group", name, MEMBERS_OF_BOTH_KINDS),)
        return replace(other, malformed=malformed)
    return GroupListed(
        name,
        GroupState(found.view.phase.value),
        len(state.members),
        state.generation,
        (),
        malformed,
        state.protocol_type,
        state.protocol,
        True,
        unknown=bool(found.unknown),
    )


def all_pins(reader: SyncClient, layout: Layout) -> dict[str, Pin | Malformed]:
    """Who is to run which groups, as far as that is taken; `Malformed`: nobody can read it, or it
    is not believed. Raises `UnavailableError`.
    """
    paths = ClassicPaths(layout)
    reader.sync()
    (answer,) = reader.read([GetChildren(paths.pins)])
    if isinstance(answer, Denied):
        raise UnavailableError(not_allowed(paths.pins, answer))
    listed = answer.names if isinstance(answer, Children) else ()
    groups = sorted(filter(names.is_group, listed))[:PINS_MAX]
    return read_pins(reader, layout, groups)


def pinned(reader: SyncClient, layout: Layout, group: str) -> Machine | None:
    """Who is to run a group; None: nobody has said that, or nobody can read or believe it."""
    pin = pin_of(reader, layout, group)
    return pin.machine if isinstance(pin, Pin) else None


def pin_of(reader: SyncClient, layout: Layout, group: str) -> Pin | Malformed | None:
    """What was said, as `all_pins` has it."""
    reader.sync()
    return read_pins(reader, layout, [group]).get(group)


def describe_any_group(reader: SyncClient, layout: Layout, group: str) -> GroupSnapshot:
    """Everything about one group, whoever leads it. Raises as `describe_group`."""
    names.validate_group(group)
    try:
        found = describe_group(reader, layout, group)
    except UnknownGroupError:
        led = see_led(reader, layout, group)
        if led is None:
            raise
        seen = coordinator_seen(reader, layout)
        found = GroupSnapshot(group, layout, seen, GroupMetadata(), {}, {}, {}, {}, {}, {})
    else:
        led = see_led(reader, layout, group)
    pin = pin_of(reader, layout, group)
    said = pin.machine if isinstance(pin, Pin) else None
    in_kafka = kept_in_kafka(reader, layout, group) if said is Machine.COORDINATED else ""
    found = replace(found, pinned="" if said is None else said.value, in_kafka_at=in_kafka)
    if isinstance(pin, Malformed):
        found = replace(found, malformed=(*found.malformed, pin))
    if led is None:
        return found
    bad = led.malformed
    if found.members and not led.members:
        return replace(found, malformed=(*found.malformed, *bad))
    if found.members and led.members:
        bad += (Malformed("group", group, MEMBERS_OF_BOTH_KINDS),)
    topics = {**_topics(reader, found, led), **found.topics}
    return replace(found, led=led, topics=topics, malformed=(*found.malformed, *bad))


def _topics(reader: SyncClient, found: GroupSnapshot, led: LedSnapshot) -> dict[str, Topic]:
    """Those of assignments, as far as nothing was read of them yet."""
    assigned = {tp.topic for one in led.members for tp in one.partitions or ()}
    wanted = sorted(assigned - found.topics.keys())[:TOPICS_MAX]
    answers = reader.read([GetData(found.layout.topic(name)) for name in wanted])
    topics = {}
    for name, node in zip(wanted, answers, strict=True):
        topic = codec.decode_topic(name, node.data, node.stat) if isinstance(node, Node) else None
        if isinstance(topic, Topic):
            topics[name] = topic
    return topics


def see_led(reader: SyncClient, layout: Layout, group: str) -> LedSnapshot | None:
    """A group that clients lead, or have led; where that is not believed, or cannot be read, it is
    `unknown` who is in it, and `malformed` says so. None: no client ever has. Raises
    `UnavailableError`.
    """
    paths = ClassicPaths(layout)
    state, since, head = reader.read([*_reads(paths, group), GetData(paths.group(group))])
    found = _decided(paths, group, state, since)
    if found is None and isinstance(head, Missing):
        return None
    view = found.view if found is not None else ClassicView(None)
    bad = list(found.malformed) if found is not None else []
    report = decode_report(group, head.data) if isinstance(head, Node) else None
    if isinstance(report, Malformed):
        bad.append(report)
        report = None
    if found is None and report is None:
        return None
    for why in led_doubts(reader, layout, [group]).values():
        return LedSnapshot(NEVER.phase, 0, malformed=(_doubted(group, why),), unknown=why)
    decided = view.state
    members = _members(reader, paths, group, decided, bad)
    gone = found.since.gone if found is not None else {}
    return LedSnapshot(
        view.phase,
        decided.generation,
        decided.protocol_type,
        decided.protocol,
        decided.leader,
        tuple(replace(one, gone=member_digest(one.member_id) in gone) for one in members),
        report,
        tuple(bad),
        found.unknown if found is not None else "",
    )


def _members(
    reader: SyncClient,
    paths: ClassicPaths,
    group: str,
    decided: ClassicState,
    bad: list[Malformed],
) -> list[LedMemberSnapshot]:
    served = reader.read([GetData(paths.presence(group, m.member_id)) for m in decided.members])
    blobs = _assigned(reader, paths, group, decided)
    found = []
    for member, node in zip(decided.members, served, strict=True):
        told: ServedBy | Malformed = ServedBy()
        if isinstance(node, Node):
            told = decode_presence(member_digest(member.member_id), node.data)
        if isinstance(told, Malformed):
            bad.append(told)
            told = ServedBy()
        found.append(_member(member, told, isinstance(node, Node), blobs))
    return found


def _member(
    member: ClassicMember, told: ServedBy, is_served: bool, blobs: dict[str, bytes]
) -> LedMemberSnapshot:
    ref = member.assignment
    data = blobs.get(ref.digest) if isinstance(ref, BlobRef) else None
    return LedMemberSnapshot(
        member.member_id,
        member.instance,
        member.client_id,
        member.host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        tuple(name for name, _ in member.protocols),
        told.library,
        told.gateway,
        is_served,
        None if data is None else partitions_of(data),
        len(ref),
    )


def _assigned(
    reader: SyncClient, paths: ClassicPaths, group: str, decided: ClassicState
) -> dict[str, bytes]:
    """What members have, by digest, where it can be read at all."""
    if decided.protocol_type != CONSUMER:
        return {}
    refs = dict.fromkeys(m.assignment for m in decided.members if isinstance(m.assignment, BlobRef))
    found: dict[str, bytes] = {}
    for part in parts_of(_within(refs)):
        answers = reader.read([GetData(paths.blob(group, ref.digest)) for ref in part])
        for ref, node in zip(part, answers, strict=True):
            if isinstance(node, Node):
                found[ref.digest] = node.data
    return found


def _within(refs: Sequence[BlobRef] | dict[BlobRef, None]) -> Iterator[BlobRef]:
    left = ASSIGNED_BYTES_MAX
    for ref in refs:
        left -= len(ref)
        if left < 0:
            return
        yield ref
