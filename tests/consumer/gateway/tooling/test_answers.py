"""What clients and tools read of a group's offsets, on a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest
from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from consumer.gateway import frames, member_frames
from consumer.gateway.tooling.answers import commit, read_offsets
from consumer.gateway.tooling.store import GroupStore, Offsets
from consumer.gateway.wire.requests import CommitRequest
from tests.consumer.gateway.recordings import framed
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.errors import UnavailableError
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

TP = TopicPartition("t", 0)


@pytest.fixture
def store(zk_hosts: str) -> Iterator[GroupStore]:
    """On a server with nothing else."""
    found = GroupStore(ZkOptions(zk_hosts, session_timeout_ms=6_000), Layout.DRAFT)
    yield found
    found.close()


def read(
    store: GroupStore,
    version: int,
    asked_for: Sequence[int] = (0, 1),
    permitted: frozenset[str] = frozenset({"t"}),
    code: WireCode = WireCode.NONE,
) -> list[tuple[int, str]]:
    """The next offsets of two partitions, or others, and what stands beside them; none, where that
    is answered by a code.
    """
    of_topic = OffsetFetchRequest.OffsetFetchRequestTopic
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = OffsetFetchRequest(
        group_id="g",
        topics=[of_topic(name="t", partition_indexes=list(asked_for))],
        groups=[
            of_group(
                group_id="g",
                member_id=None,
                member_epoch=-1,
                topics=[
                    of_group.OffsetFetchRequestTopics(name="t", partition_indexes=list(asked_for))
                ],
            )
        ],
        require_stable=False,
    )
    frame = framed(version, asked)[4:]
    head = frames.decode_head(frame)
    body = frames.decode(head, frame)
    *_, offsets = read_offsets(store, head, body, permitted)
    assert offsets is not None
    answer = frames.fetched_offsets(head, body, offsets, permitted)
    found = OffsetFetchResponse.decode(answer[4:], version=version, header=True)
    (group,) = found.groups if version >= 8 else (found,)
    assert (group.error_code or WireCode.NONE) == code
    return [(p.committed_offset, p.metadata) for t in group.topics for p in t.partitions]


def stores(
    store: GroupStore, offsets: Mapping[TopicPartition, tuple[int, str]]
) -> dict[TopicPartition, WireCode]:
    """What becomes of these of the group."""
    codes: dict[TopicPartition, WireCode] = {}
    for _ in store.commit("g", offsets, codes):
        pass
    return codes


def stored(store: GroupStore) -> Offsets:
    """All of the group."""
    found: Offsets = {}
    for _ in store.offsets("g", None, found):
        pass
    return found


@pytest.mark.parametrize("version", [1, 5, 8, 9])
def test_where_a_client_begins_is_what_is_stored_by_whomever(
    store: GroupStore, zk_hosts: str, version: int
) -> None:
    other = GroupStore(ZkOptions(zk_hosts, session_timeout_ms=6_000), Layout.DRAFT)
    assert stores(store, {TP: (282, "")}) == {TP: WireCode.NONE}
    assert read(store, version) == [(282, ""), (-1, "")]
    assert stores(other, {TP: (399, "why")}) == {TP: WireCode.NONE}
    assert read(store, version) == [(399, "why"), (-1, "")]
    other.close()


@pytest.mark.parametrize("version", [5, 9])
def test_who_cannot_be_told_where_to_begin_is_to_ask_again(
    store: GroupStore, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """By a code after which clients do: not after COORDINATOR_NOT_AVAILABLE."""

    def away(*asked: object) -> Iterator[None]:
        raise UnavailableError("ZooKeeper is away")

    monkeypatch.setattr(store, "offsets", away)
    assert read(store, version, code=WireCode.COORDINATOR_LOAD_IN_PROGRESS) == []


@pytest.mark.parametrize("version", [5, 9])
def test_an_offset_is_answered_however_many_are_asked_for(store: GroupStore, version: int) -> None:
    """-1 would be: nothing is stored, begin at the end."""
    last = TopicPartition("t", 20_000)
    assert stores(store, {TP: (1, "why"), last: (777, "")}) == {
        TP: WireCode.NONE,
        last: WireCode.NONE,
    }
    found = read(store, version, range(20_001))
    assert (found[0], found[-1]) == ((1, "why"), (777, ""))
    assert set(found[1:-1]) == {(-1, "")}
    assert stored(store) == {TP: (1, "why"), last: (777, "")}


def committed(store: GroupStore, texts: Mapping[int, str]) -> dict[int, int]:
    """What a tool is answered that commits these texts beside the offsets of these partitions."""
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    of = of_topic.OffsetCommitRequestPartition
    asked = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            of_topic(
                name="t",
                partitions=[
                    of(
                        partition_index=n,
                        committed_offset=n,
                        committed_leader_epoch=-1,
                        committed_metadata=text,
                    )
                    for n, text in texts.items()
                ],
            )
        ],
    )
    frame = framed(8, asked)[4:]
    head = frames.decode_head(frame)
    body = frames.decode(head, frame)
    request = member_frames.member_request(head, body)
    assert isinstance(request, CommitRequest)
    *_, answer = commit(store, head, body, request, {})
    assert answer is not None
    found = OffsetCommitResponse.decode(answer[4:], version=8, header=True)
    return {p.partition_index: p.error_code for t in found.topics for p in t.partitions}


def test_a_text_that_is_too_long_beside_an_offset_is_refused_as_a_members(
    store: GroupStore,
) -> None:
    texts = {0: "x" * 4_096, 1: "x" * 4_097, 2: "\U0001f600" * 2_048, 3: "\U0001f600" * 2_049}
    bad = WireCode.OFFSET_METADATA_TOO_LARGE
    assert committed(store, texts) == {0: 0, 1: bad, 2: 0, 3: bad}
    assert stored(store) == {
        TopicPartition("t", 0): (0, texts[0]),
        TopicPartition("t", 2): (2, texts[2]),
    }


def test_the_longest_texts_are_stored_however_many(store: GroupStore) -> None:
    """More bytes than ZooKeeper takes at once: in parts."""
    texts = dict.fromkeys(range(250), "\u20ac" * 4_096)
    for _ in range(2):
        assert set(committed(store, texts).values()) == {0}
    assert stored(store) == {TopicPartition("t", n): (n, text) for n, text in texts.items()}


def test_who_describes_or_lists_holds_up_nobody_who_asks_where_it_stands(store: GroupStore) -> None:
    go_on, under_way = threading.Event(), threading.Event()

    def long(client: object) -> None:
        under_way.set()
        go_on.wait()

    lister = threading.Thread(target=store.slowly, args=(long,))
    lister.start()
    under_way.wait()
    try:
        assert stores(store, {TP: (7, "")}) == {TP: WireCode.NONE}
        assert stored(store) == {TP: (7, "")}
    finally:
        go_on.set()
        lister.join()
    assert [group.name for group in store.groups()] == ["g"]
