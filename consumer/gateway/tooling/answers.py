"""Requests that are no member's: OffsetFetch, a tool's OffsetCommit, OffsetDelete, DescribeGroups,
ListGroups, DeleteGroups. Answered from ZooKeeper, on the gateway's pool.

A member here is described as its client knows itself (member id, client id, address); one that is
elsewhere (a shim, a Spark application, another gateway's) by its registration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from kafka.protocol.admin import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from kafka.protocol.consumer import OffsetDeleteResponse

from consumer.gateway import frames, member_frames
from consumer.gateway.frames import Head
from consumer.gateway.tooling.store import GroupStore, Offsets
from consumer.gateway.wire.committing import judged
from consumer.gateway.wire.requests import CommitAnswer, CommitRequest
from consumer.gateway.wire.subscription import encode_assignment, encode_subscription
from zkcoord.core.classic.requests import BlobRef, ClassicDescribed, Opaque
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.errors import ZkcoordError
from zkcoord.znodes.gateway_nodes import is_instance_of_client
from zkcoord.znodes.names import is_group, is_partition

CONSUMER = "consumer"
CLASSIC = "classic"
GROUPS_PER_PART = 50
KAFKAS_STATES = {
    GroupState.EMPTY: "Empty",
    GroupState.PREPARING_REBALANCE: "PreparingRebalance",
    GroupState.STABLE: "Stable",
    GroupState.DEAD: "Dead",
}
SINCE_NOT_FOUND = 6
"""DescribeGroups says of a group that is not there that it is Dead before this version."""


def describe_groups(
    store: GroupStore, head: Head, body: Any, known: Mapping[str, tuple[str, str, str]]
) -> Iterator[bytes | None]:
    """Answer to DescribeGroups. `known`: name of a registration -> member id, client id and address
    of the wire members of this gateway. None before it, as in `read_offsets`.
    """
    groups = []
    for number, group in enumerate(body.groups):
        if number and number % GROUPS_PER_PART == 0:
            yield None
        groups.append(_described(store, head, group, known))
    yield frames.encode(head, throttle_time_ms=0, groups=groups)


def _described(
    store: GroupStore, head: Head, group: str, known: Mapping[str, tuple[str, str, str]]
) -> Any:
    of = DescribeGroupsResponse.DescribedGroup
    of_member = of.DescribedGroupMember
    try:
        led = store.led([group]).get(group) if is_group(group) else None
        found = store.describe(group) if is_group(group) else None
        if led is not None and (led.view.state.members or found is None or not found.members):
            return _led(store, of, group, led.view.described())
    except ZkcoordError:
        return _no_group(of, group, WireCode.COORDINATOR_NOT_AVAILABLE, "")
    if found is None:
        there = head.version >= SINCE_NOT_FOUND
        code = WireCode.GROUP_ID_NOT_FOUND if there else WireCode.NONE
        return _no_group(of, group, code, "Dead")
    members = []
    for name, member in sorted(found.members.items()):
        owned = found.held_by(name)
        topics = sorted({*found.subscribed.get(name, {}), *(tp.topic for tp in owned)})
        member_id, client_id, host = known.get(name, (name, member.client, member.host))
        members.append(
            of_member(
                member_id=member_id,
                group_instance_id=_named(member.instance),
                client_id=client_id,
                client_host=f"/{host}",
                member_metadata=encode_subscription(topics),
                member_assignment=encode_assignment(owned),
            )
        )
    return of(
        error_code=0,
        error_message=None,
        group_id=group,
        group_state=KAFKAS_STATES.get(found.state, found.state.value),
        protocol_type=CONSUMER,
        protocol_data=found.metadata.assignor if members else "",
        members=members,
    )


def _led(store: GroupStore, of: Any, group: str, said: ClassicDescribed) -> Any:
    """A group whose leader is a client: what its clients have said and have is as they wrote it."""
    blobs = store.brought(group, said)

    def data(held: Opaque) -> bytes:
        return blobs.get(held.digest, b"") if isinstance(held, BlobRef) else held

    members = [
        of.DescribedGroupMember(
            member_id=one.member_id,
            group_instance_id=one.instance,
            client_id=one.client_id,
            client_host=f"/{one.host}",
            member_metadata=data(one.metadata),
            member_assignment=data(one.assignment),
        )
        for one in said.members
    ]
    return of(
        error_code=int(said.code),
        error_message=None,
        group_id=group,
        group_state=said.state,
        protocol_type=said.protocol_type,
        protocol_data=said.protocol,
        members=members,
    )


def _named(instance: str | None) -> str | None:
    """The instance that a client has named."""
    return None if instance is None or is_instance_of_client(instance) else instance


def _no_group(of: Any, group: str, code: WireCode, state: str) -> Any:
    return of(
        error_code=int(code),
        error_message=None,
        group_id=group,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def refused(head: Head, body: Any) -> bytes:
    """GROUP_AUTHORIZATION_FAILED for all groups of a request: of several, each that is permitted
    can be asked for by itself.
    """
    code = WireCode.GROUP_AUTHORIZATION_FAILED
    match head.key:
        case frames.OFFSET_FETCH:
            asked = frames.group_of(head, body)
            return frames.fetched_offsets(head, body, dict.fromkeys(asked, code))
        case frames.DESCRIBE_GROUPS:
            of = DescribeGroupsResponse.DescribedGroup
            described = [_no_group(of, group, code, "") for group in body.groups]
            return frames.encode(head, throttle_time_ms=0, groups=described)
        case frames.DELETE_GROUPS:
            of_result = DeleteGroupsResponse.DeletableGroupResult
            results = [of_result(group_id=g, error_code=int(code)) for g in body.groups_names]
            return frames.encode(head, throttle_time_ms=0, results=results)
        case _:
            return frames.encode(head, error_code=int(code), throttle_time_ms=0, topics=[])


def coordinated_groups(store: GroupStore, head: Head, body: Any) -> list[Any] | None:
    """Those that ListGroups asks for; None: ZooKeeper cannot be asked."""
    of = ListGroupsResponse.ListedGroup
    states = {state.lower() for state in (body.states_filter or ())} if head.version >= 4 else set()
    types = {kind.lower() for kind in (body.types_filter or ())} if head.version >= 5 else set()
    try:
        listed = store.groups()
        led = store.listed_led()
    except ZkcoordError:
        return None
    found = {
        group.name: (CONSUMER, KAFKAS_STATES.get(group.state, group.state.value))
        for group in listed
    }
    members = {group.name for group in listed if group.members}
    for name, seen in led.items():
        if seen.view.state.members or name not in members:
            found[name] = (seen.view.state.protocol_type, seen.view.phase.value)
    return [
        of(group_id=name, protocol_type=kind, group_state=state, group_type=CLASSIC)
        for name, (kind, state) in found.items()
        if not states or state.lower() in states
        if not types or CLASSIC in types
    ]


def known_groups(store: GroupStore) -> frozenset[str]:
    """All of which something is here. Where that cannot be asked: none."""
    try:
        return frozenset(store.listed_led()) | {group.name for group in store.groups()}
    except ZkcoordError:
        return frozenset()


def list_groups(head: Head, ours: list[Any] | None, kafkas: Any, others: list[Any]) -> bytes:
    """Answer to ListGroups: ours (None: ZooKeeper cannot be asked), and `others` of those that the
    broker has listed in its answer, `kafkas`.
    """
    code = kafkas.error_code if ours is not None else int(WireCode.COORDINATOR_NOT_AVAILABLE)
    groups = [*(ours or ()), *others]
    return frames.encode(head, throttle_time_ms=0, error_code=code, groups=groups)


def delete_groups(store: GroupStore, head: Head, body: Any, led: Mapping[str, WireCode]) -> bytes:
    """Answer to DeleteGroups. `led`: what the coordinator says of those whose leader is a client;
    of one that it has deleted offsets may be left.
    """
    of = DeleteGroupsResponse.DeletableGroupResult
    results = []
    for group in body.groups_names:
        code = led.get(group, WireCode.NONE)
        if not is_group(group):
            code = WireCode.INVALID_GROUP_ID
        elif code is WireCode.NONE:
            code = store.delete(group)
            if group in led and code is WireCode.GROUP_ID_NOT_FOUND:
                code = WireCode.NONE
        results.append(of(group_id=group, error_code=int(code)))
    return frames.encode(head, throttle_time_ms=0, results=results)


def delete_offsets(store: GroupStore, head: Head, body: Any, permitted: Set[str]) -> bytes:
    """Answer to OffsetDelete: of the topics that are permitted."""
    of_topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
    of_partition = of_topic.OffsetDeleteResponsePartition
    asked = [TopicPartition(t.name, p.partition_index) for t in body.topics for p in t.partitions]
    if not is_group(body.group_id):
        code, codes = WireCode.INVALID_GROUP_ID, dict.fromkeys(asked, WireCode.NONE)
    else:
        fit = [tp for tp in asked if _is_partition(tp) and tp.topic in permitted]
        code, deleted = store.delete_offsets(body.group_id, fit)
        codes = dict.fromkeys(asked, WireCode.UNKNOWN_TOPIC_OR_PARTITION) | deleted
        denied = [tp for tp in asked if tp.topic not in permitted]
        codes |= dict.fromkeys(denied, WireCode.TOPIC_AUTHORIZATION_FAILED)
    topics = [
        of_topic(
            name=topic.name,
            partitions=[
                of_partition(
                    partition_index=p.partition_index,
                    error_code=int(codes[TopicPartition(topic.name, p.partition_index)]),
                )
                for p in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    if code is not WireCode.NONE:
        topics = []
    return frames.encode(head, error_code=int(code), throttle_time_ms=0, topics=topics)


def read_offsets(
    store: GroupStore, head: Head, body: Any, permitted: Set[str]
) -> Iterator[dict[str, Offsets | WireCode] | None]:
    """What OffsetFetch asks for, of each group, by what is stored: what a member here believes to
    hold may be another gateway's by now, which has stored more. Of topics that are named those that
    are permitted. None before it, where others are to have their turn.
    """
    asked = (
        {group.group_id: group.topics for group in body.groups}
        if head.version >= 8
        else {body.group_id: body.topics}
    )
    found: dict[str, Offsets | WireCode] = {}
    for group, topics in asked.items():
        if not is_group(group):
            found[group] = WireCode.INVALID_GROUP_ID
            continue
        if found:
            yield None
        wanted = (
            [TopicPartition(t.name, p) for t in topics for p in t.partition_indexes]
            if topics is not None
            else None
        )
        rest = (
            [tp for tp in wanted if _is_partition(tp) and tp.topic in permitted]
            if wanted is not None
            else None
        )
        stored: Offsets = {}
        found[group] = stored
        try:
            yield from store.offsets(group, rest, stored)
        except ZkcoordError:
            # by which clients ask again: by COORDINATOR_NOT_AVAILABLE librdkafka never begins
            found[group] = WireCode.COORDINATOR_LOAD_IN_PROGRESS
    yield found


def commit(
    store: GroupStore,
    head: Head,
    body: Any,
    request: CommitRequest,
    denied: Mapping[TopicPartition, WireCode],
) -> Iterator[bytes | None]:
    """Answer to the OffsetCommit of who is no member; `denied`: what of it is refused anyhow. None
    before it, as in `read_offsets`.
    """
    if not is_group(request.group):
        yield member_frames.refused(head, body, WireCode.INVALID_GROUP_ID)
        return
    fit = {tp: value for tp, value in request.offsets.items() if _is_partition(tp)}
    codes = {**dict.fromkeys(request.offsets, WireCode.UNKNOWN_TOPIC_OR_PARTITION), **denied}
    stored, bad = judged(fit, lambda tp, offset: WireCode.NONE)
    codes |= bad
    yield from store.commit(request.group, stored, codes)
    yield member_frames.encode_answer(head, body, CommitAnswer(WireCode.NONE, codes))


def _is_partition(tp: TopicPartition) -> bool:
    """Whether a partition may be called so: what cannot be must not become a path."""
    return is_partition(tp.topic, str(tp.partition))
