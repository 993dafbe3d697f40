"""Who asks for much has no thread of the pool to himself, and nobody waits for all of it."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse
from kafka.protocol.consumer import (
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from consumer.gateway import frames
from consumer.gateway.client_led.watching import LedSeen
from consumer.gateway.frames import Head
from consumer.gateway.tooling.store import GroupStore, Offsets
from consumer.gateway.tooling.tool_requests import ToolRequests
from consumer.gateway.turns import Turns
from consumer.gateway.wire.requests import CommitRequest
from tests.consumer.gateway.recordings import framed, requests
from tests.consumer.gateway.rights.broker import GuardedConnection
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.errors import UnavailableError
from zkcoord.zk.sync.group_snapshot import GroupListed

LARGE, PARTS, THREADS = 20, 30, 4
PART_S = 0.005
FETCH_V = 5
LIST_V = 4


def is_ours(group: str) -> bool:
    """Whether it is coordinated here."""
    return not group.startswith("kafkas")


class Store:
    """Reads a part of group "large" after the other, one at a time for all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.parts = 0
        self.names: list[str] | None = []

    def groups(self) -> list[GroupListed]:
        """Those of `names`."""
        if self.names is None:
            raise UnavailableError("gone")
        return [GroupListed(name, GroupState.EMPTY, 0, 0, ()) for name in self.names]

    def offsets(
        self, group: str, partitions: list[TopicPartition] | None, found: Offsets
    ) -> Iterator[None]:
        """See `GroupStore`."""
        for part in range(PARTS if group == "large" else 1):
            if part:
                yield
            with self.lock:
                time.sleep(PART_S)
                self.parts += 1
        if partitions is None:
            partitions = [TopicPartition(topic, 0) for topic in ("s", "t")]
        found |= dict.fromkeys(partitions, (self.parts, ""))

    def listed_led(self) -> dict[str, LedSeen]:
        """The same: clients lead none."""
        return {}

    def commit(
        self,
        group: str,
        offsets: dict[TopicPartition, tuple[int, str]],
        codes: dict[TopicPartition, WireCode],
    ) -> Iterator[None]:
        """The same."""
        yield from self.offsets(group, [], {})
        codes |= dict.fromkeys(offsets, WireCode.NONE)


class Client(GuardedConnection):
    """A connection with room, whose user may use all but what is `denied`."""

    def __init__(self, *denied: str, is_there: bool = True) -> None:
        super().__init__(*denied)
        self.turns = Turns()
        self.answer: bytes | None = None
        self.closed = False
        self.holding: Head | None = None
        self.has_room = asyncio.Event()
        if is_there:
            self.has_room.set()

    async def room(self, head: Head) -> None:
        """When it has."""
        await self.has_room.wait()

    def answer_later(self, head: Head, frame: bytes, codes: Any) -> None:
        """Noted."""
        assert struct.unpack_from(">ii", frame) == (len(frame) - 4, head.correlation_id)
        self.answer = frame

    def close(self) -> None:
        """Noted."""
        self.closed = True

    @property
    def held_up(self) -> bool:
        """Whether what comes behind is not read."""
        return self.holding is not None

    def hold_up(self, head: Head) -> None:
        """Noted."""
        assert not self.held_up
        self.holding = head

    def go_on(self, head: Head) -> None:
        """Noted."""
        if self.holding is head:
            self.holding = None


class Scene:
    """Tools on a pool."""

    def __init__(self) -> None:
        self.store = Store()
        self.pool = ThreadPoolExecutor(THREADS)
        self.tools = ToolRequests(
            cast("GroupStore", self.store),
            cast("Any", None),
            self._run,
            self._run,
            lambda group, said: None,
            is_ours,
            lambda group: group.startswith("kept"),
        )

    async def _run(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)

    def asks(self, client: Client, group: str, *topics: str) -> asyncio.Task[None]:
        """OffsetFetch of partition 0 of these topics, or of all."""
        of = OffsetFetchRequest.OffsetFetchRequestTopic
        named = [of(name=topic, partition_indexes=[0]) for topic in topics] or None
        frame = framed(FETCH_V, OffsetFetchRequest(group_id=group, topics=named))[4:]
        head = frames.decode_head(frame)
        answering = self.tools.answer(cast("Any", client), head, frames.decode(head, frame))
        return asyncio.ensure_future(answering)

    def lists(
        self,
        client: Client,
        *kafkas: str,
        names_ours: bool = True,
        names_alone: bool = True,
        code: int = 0,
    ) -> asyncio.Task[None]:
        """ListGroups, where the broker has these."""
        frame = framed(LIST_V, ListGroupsRequest(states_filter=[]))[4:]
        head = frames.decode_head(frame)
        of = ListGroupsResponse.ListedGroup
        said = ListGroupsResponse(
            throttle_time_ms=0,
            error_code=code,
            groups=[of(group_id=name, protocol_type="", group_state="Dead") for name in kafkas],
        )
        said.API_VERSION = LIST_V
        said.with_header(correlation_id=head.correlation_id)
        answer = bytes(said.encode(header=True, framed=False))
        body = frames.decode(head, frame)
        names = names_ours, names_alone
        listing = self.tools.listed(cast("Any", client), head, body, *names, answer)
        return asyncio.ensure_future(listing)

    def commits(self, client: Client, group: str) -> asyncio.Task[None]:
        """OffsetCommit without a member."""
        version, asked = next((v, r) for k, v, r in requests() if k == frames.OFFSET_COMMIT)
        frame = framed(version, asked)[4:]
        head = frames.decode_head(frame)
        request = CommitRequest(group, "", -1, {TopicPartition("t", 1): (1, "")})
        body = frames.decode(head, frame)
        return asyncio.ensure_future(self.tools.commit(cast("Any", client), head, body, request))


@pytest.mark.parametrize("asks", [Scene.asks, Scene.commits])
def test_who_asks_for_much_holds_up_nobody(
    asks: Callable[[Scene, Client, str], asyncio.Task[None]],
) -> None:
    async def run() -> None:
        scene = Scene()
        large = [Client() for _ in range(LARGE)]
        asked = [asks(scene, client, "large") for client in large]
        await asyncio.sleep(0.05)
        for _ in range(5):
            before = scene.store.parts
            small = Client()
            await asks(scene, small, "small")
            assert small.answer is not None
            # at first the first part of each is before it
            assert scene.store.parts - before < 2 * LARGE
        await asyncio.gather(*asked)
        assert all(client.answer is not None for client in large)
        assert scene.store.parts == LARGE * PARTS + 5

    asyncio.run(run())


def test_nothing_is_made_for_whom_there_is_no_room() -> None:
    async def run() -> None:
        scene = Scene()
        client = Client(is_there=False)
        asked = scene.asks(client, "small", "t")
        await asyncio.sleep(0.1)
        assert (scene.store.parts, client.answer) == (0, None)
        client.has_room.set()
        await asked
        assert (scene.store.parts, client.closed) == (1, False)
        assert client.answer is not None

    asyncio.run(run())


def test_what_cannot_be_answered_ends_the_connection_also_in_the_middle() -> None:
    async def run() -> None:
        scene = Scene()
        client = Client()
        asked = scene.asks(client, "large", "t")
        while scene.store.parts < 3:
            await asyncio.sleep(PART_S)
        asked.cancel()
        await asyncio.wait([asked])
        assert client.closed and client.answer is None

    asyncio.run(run())


def test_who_may_not_is_told_so_and_nothing_is_read() -> None:
    async def run() -> None:
        scene = Scene()
        client = Client("small")
        await scene.asks(client, "small", "t")
        assert scene.store.parts == 0
        assert client.answer is not None

    asyncio.run(run())


def told(client: Client) -> dict[str, tuple[int, int]]:
    """Of each topic that an OffsetFetch was answered with, the offset and the code."""
    assert client.answer is not None and not client.held_up
    found = OffsetFetchResponse.decode(client.answer[4:], version=FETCH_V, header=True)
    assert found.error_code == 0
    return {t.name: (p.committed_offset, p.error_code) for t in found.topics for p in t.partitions}


def test_of_topics_that_are_named_those_are_told_that_may_be_described() -> None:
    async def run() -> None:
        scene = Scene()
        client = Client("s")
        await scene.asks(client, "small", "s", "t")
        assert told(client) == {"s": (-1, 29), "t": (1, 0)}
        assert client.counts == {"describe": 1, "describe_topic": 1}
        await scene.asks(client, "small", "t")
        assert client.counts == {"describe": 1, "describe_topic": 1}, "it is known"

    asyncio.run(run())


def test_who_asks_for_all_is_told_of_what_may_be_described_and_is_held_up() -> None:
    async def run() -> None:
        scene = Scene()
        client = Client("s")
        asked = scene.asks(client, "large")
        await asyncio.sleep(0.05)
        assert client.held_up
        await asked
        assert told(client) == {"t": (PARTS, 0)}
        *_, (key, names, before) = client.asked
        assert (key, names) == (frames.LIST_OFFSETS, ["s", "t"]) and before is not None

    asyncio.run(run())


def test_a_tools_commit_stores_what_is_of_topics_that_may_be_read() -> None:
    async def run() -> None:
        scene = Scene()
        client = Client("t")
        await scene.commits(client, "small")
        assert client.answer is not None
        found = OffsetCommitResponse.decode(client.answer[4:], version=0, header=True)
        assert [p.error_code for t in found.topics for p in t.partitions] == [29]
        assert client.counts == {"read": 1, "read_topic": 1}

    asyncio.run(run())


def names_in(client: Client) -> tuple[int, dict[str, str]]:
    """The code that ListGroups was answered with; group -> state."""
    assert client.answer is not None and not client.held_up
    found = ListGroupsResponse.decode(client.answer[4:], version=LIST_V, header=True)
    return found.error_code, {group.group_id: group.group_state for group in found.groups}


def test_each_group_is_listed_by_whom_it_can_be_described() -> None:
    """Those of ZooKeeper on one port, those of Kafka's on that of each broker."""

    async def run() -> None:
        scene = Scene()
        scene.store.names = ["here", "both", "kafkas-shim"]
        for names_ours, ours in ((True, {"here": "Empty", "both": "Empty"}), (False, {})):
            client = Client()
            await scene.lists(client, "both", "old", "kafkas", names_ours=names_ours)
            assert names_in(client) == (0, {**ours, "kafkas": "Dead"})
            assert client.counts == ({"describe": 1} if names_ours else {})

    asyncio.run(run())


def test_a_group_whose_offsets_kafka_has_is_listed_once() -> None:
    """By ZooKeeper if anything of it is there; else by the broker, but not where clients begin."""

    async def run() -> None:
        scene = Scene()
        scene.store.names = ["kept-joined"]
        for names_ours, names_alone, expected in (
            (True, True, {"kept-joined": "Empty", "kept-alone": "Dead"}),
            (False, True, {"kept-alone": "Dead"}),
            (False, False, {}),
        ):
            client = Client()
            names = {"names_ours": names_ours, "names_alone": names_alone}
            await scene.lists(client, "kept-joined", "kept-alone", **names)
            assert names_in(client) == (0, expected)

    asyncio.run(run())


def test_a_broker_that_cannot_list_its_own_groups_yet_is_heard() -> None:
    async def run() -> None:
        scene = Scene()
        scene.store.names = ["here"]
        client = Client()
        await scene.lists(client, code=int(WireCode.COORDINATOR_LOAD_IN_PROGRESS))
        assert names_in(client) == (WireCode.COORDINATOR_LOAD_IN_PROGRESS, {"here": "Empty"})
        scene.store.names = None
        client = Client()
        await scene.lists(client, "kafkas")
        assert names_in(client) == (WireCode.COORDINATOR_NOT_AVAILABLE, {"kafkas": "Dead"})

    asyncio.run(run())
