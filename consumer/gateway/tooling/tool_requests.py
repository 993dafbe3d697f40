"""Requests about groups that are no member's: a tool's, or a client's that asks where it stands.
They are answered by what blocks, on the gateway's pool (`answers.py`); those of one connection one
after the other, as by a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from kafka.protocol.admin import ListGroupsResponse

from consumer.gateway import frames, member_frames
from consumer.gateway.address import Address
from consumer.gateway.frames import Head
from consumer.gateway.kafka_offsets.deleting import deleted_too
from consumer.gateway.kafka_offsets.passing_on import names_member
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.operation.codes import OK, REFUSED, codes_of_frame
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.relay.rewriting import BadAnswerError, Surroundings
from consumer.gateway.rights.asking import OF_GROUPS, OF_TOPICS, permissions, split, topics_of
from consumer.gateway.rights.questions import Right
from consumer.gateway.tooling import answers
from consumer.gateway.tooling.both_kinds import (
    coordinators,
    is_answered_here,
    joined,
    never,
    parted,
)
from consumer.gateway.tooling.store import GroupStore
from consumer.gateway.wire.requests import CommitRequest
from consumer.member.driver import MemberDriver
from zkcoord.core.error_codes import WireCode
from zkcoord.errors import ZkcoordError
from zkcoord.event_loops import run_there
from zkcoord.znodes.names import is_group

DELETIONS = (frames.DELETE_GROUPS, frames.OFFSET_DELETE)
T = TypeVar("T")
May = Awaitable[frozenset[str]]


DeleteLed = Callable[[str, Callable[[WireCode], Any]], None]


class OnThread(Protocol):
    """Runs something on another thread, and has its result."""

    def __call__(self, work: Callable[[], Any], /) -> Awaitable[Any]:
        """See above."""


class ToolRequests:
    """See the module. `run` runs what blocks, `ask_members` what must be on the members' thread;
    all groups but those that are `is_coordinated` are Kafka's own; `delete_led`, on the members'
    thread, has one deleted whose leader is a client; `is_kept`: Kafka has its offsets.
    """

    def __init__(
        self,
        store: GroupStore,
        groups: WireGroups,
        run: OnThread,
        ask_members: OnThread,
        delete_led: DeleteLed,
        is_coordinated: Callable[[str], bool] = lambda group: True,
        is_kept: Callable[[str], bool] = never,
    ) -> None:
        self.store = store
        self.groups = groups
        self._is_coordinated = is_coordinated
        self._is_kept = is_kept
        self._run = run
        self._ask_members = ask_members
        self._delete_led = delete_led
        self._more = asyncio.Lock()

    def concerns(self, head: Head, body: Any, groups: tuple[str, ...]) -> bool:
        """Whether anything of it is not the broker's to answer as it stands."""
        kinds = self._is_coordinated, self._is_kept
        if any(is_answered_here(head.key, group, *kinds) for group in groups):
            return True
        return head.key == frames.OFFSET_FETCH and names_member(head, body.groups)

    def answer(
        self, connection: ClientConnection, head: Head, body: Any
    ) -> Coroutine[Any, Any, None]:
        """Answer a request, if its client may know or do that. What is asked about that, and what
        of it is the broker's to answer, is asked at once.
        """
        body, of_kafka = parted(head, body, self._is_coordinated, self._is_kept)
        theirs = connection.ask(*of_kafka) if of_kafka is not None else None
        named = topics_of(head, body)
        groups = permissions(connection, OF_GROUPS[head.key], frames.group_of(head, body))
        right = OF_TOPICS.get(head.key, Right.DESCRIBE_TOPIC)
        topics = permissions(connection, right, named.topics)
        deletes = head.key in DELETIONS and any(map(self._is_kept, frames.group_of(head, body)))
        if named.and_all or deletes:
            connection.hold_up(head)
        work = self._judged(connection, head, body, groups, topics)
        if deletes:
            work = self._deleted(connection, head, body, work)
        return self._alone(connection, head, self._answer(connection, head, work, theirs))

    async def _deleted(
        self,
        connection: ClientConnection,
        head: Head,
        body: Any,
        work: Awaitable[Callable[[], bytes | None]],
    ) -> Callable[[], bytes | None]:
        """Of groups whose offsets Kafka keeps: here, and then there."""
        ours = await self._in_parts(await work)
        try:
            both = await deleted_too(connection, head, body, ours, self._is_kept)
        except BadAnswerError as error:
            connection.drop(str(error))
            raise asyncio.CancelledError from error
        return lambda: both

    async def _answer(
        self,
        connection: ClientConnection,
        head: Head,
        work: Awaitable[Callable[[], bytes | None]],
        theirs: Awaitable[bytes] | None,
    ) -> None:
        ours = await work
        if theirs is None:
            return await self._blocking(connection, head, ours)
        answer = await theirs

        def both() -> bytes | None:
            mine = ours()
            return None if mine is None else joined(head, mine, answer)

        try:
            await self._blocking(connection, head, both)
        except BadAnswerError as error:
            connection.drop(str(error))
        return None

    async def _judged(
        self, connection: ClientConnection, head: Head, body: Any, may: May, topics: May
    ) -> Callable[[], bytes | None]:
        """What makes the answer, of what may be known or done."""
        groups = frames.group_of(head, body)
        permitted = await topics
        if await may != frozenset(groups):
            return partial(answers.refused, head, body)
        match head.key:
            case frames.OFFSET_FETCH:
                return await self._fetch(connection, head, body, permitted)
            case frames.DESCRIBE_GROUPS:
                known = await self._ask_members(lambda: self._known(groups))
                return partial(next, answers.describe_groups(self.store, head, body, known))
            case frames.DELETE_GROUPS:
                led = await self._deleted_led([group for group in groups if is_group(group)])
                return partial(answers.delete_groups, self.store, head, body, led)
            case _:
                return partial(answers.delete_offsets, self.store, head, body, permitted)

    async def _deleted_led(self, groups: list[str]) -> dict[str, WireCode]:
        """Of those whose leader is a client, or was: what the coordinator says."""
        try:
            led = await self._run(partial(self.store.led, groups))
        except ZkcoordError:
            return dict.fromkeys(groups, WireCode.COORDINATOR_NOT_AVAILABLE)
        events = asyncio.get_running_loop()
        said: dict[str, asyncio.Future[WireCode]] = {}
        for group in led:
            said[group] = events.create_future()
            await self._ask_members(partial(self._delete_led, group, _to(said[group], events)))
        return {group: await code for group, code in said.items()}

    async def _fetch(
        self, connection: ClientConnection, head: Head, body: Any, permitted: frozenset[str]
    ) -> Callable[[], bytes]:
        """OffsetFetch: of topics that may be described. Which they are of who asks for all is known
        when what is stored has been read.
        """
        await connection.turns.settled()
        await connection.room(head)
        reading = answers.read_offsets(self.store, head, body, permitted)
        found = await self._in_parts(partial(next, reading))
        read = [offsets for offsets in found.values() if isinstance(offsets, dict)]
        stored = {tp.topic for offsets in read for tp in offsets}
        if more := sorted(stored - permitted):
            permitted |= await permissions(connection, Right.DESCRIBE_TOPIC, more, head)
        return partial(frames.fetched_offsets, head, body, found, permitted)

    def commit(
        self, connection: ClientConnection, head: Head, body: Any, request: CommitRequest
    ) -> Coroutine[Any, Any, None]:
        """OffsetCommit without a member."""
        may = permissions(connection, Right.READ, (request.group,))
        named = {tp.topic for tp in request.offsets}
        topics = permissions(connection, Right.READ_TOPIC, named, group=request.group)
        work = self._commit(connection, head, body, request, may, topics)
        return self._alone(connection, head, work)

    async def _commit(
        self,
        connection: ClientConnection,
        head: Head,
        body: Any,
        request: CommitRequest,
        may: May,
        topics: May,
    ) -> None:
        permitted = await topics
        if not await may:
            code = WireCode.GROUP_AUTHORIZATION_FAILED
            return connection.answer_later(head, member_frames.refused(head, body, code), REFUSED)
        request, denied = split(request, permitted)
        work = answers.commit(self.store, head, body, request, denied)
        return await self._blocking(connection, head, partial(next, work))

    async def listed(
        self,
        connection: ClientConnection,
        head: Head,
        body: Any,
        names_ours: bool,
        names_alone: bool,
        answer: bytes,
    ) -> None:
        """ListGroups: what the broker has listed, but for groups whose names are coordinated here
        (described is what is of them here), with those of ours that its client may describe, where
        the port `names_ours`, and those of the broker of which nothing is here, where it
        `names_alone`. The client is held up meanwhile.
        """
        with answered(connection, head):
            kafkas = ListGroupsResponse.decode(answer, version=head.version, header=True)
            others = [group for group in kafkas.groups if not self._is_coordinated(group.group_id)]
            kept = [group for group in kafkas.groups if self._is_kept(group.group_id)]
            await connection.room(head)
            if kept and names_alone:  # those that nobody has joined yet
                here = await self._run(partial(answers.known_groups, self.store))
                others += [group for group in kept if group.group_id not in here]
            ours: list[Any] | None = []
            if names_ours:
                ours = await self._run(partial(answers.coordinated_groups, self.store, head, body))
            if ours:
                ours = [group for group in ours if self._is_coordinated(group.group_id)]
                names = [group.group_id for group in ours]
                may = await permissions(connection, Right.DESCRIBE, names, head)
                ours = [group for group in ours if group.group_id in may]
            work = partial(answers.list_groups, head, ours, kafkas, others)
            await self._blocking(connection, head, work)

    def name_coordinator(
        self,
        connection: ClientConnection,
        head: Head,
        keys: tuple[str, ...],
        at: Callable[[], tuple[int, Address]],
    ) -> Coroutine[Any, Any, None]:
        """FindCoordinator: of groups that are coordinated here."""
        may = permissions(connection, Right.DESCRIBE, keys)
        return self._name_coordinator(connection, head, keys, at, may)

    async def _name_coordinator(
        self,
        connection: ClientConnection,
        head: Head,
        keys: tuple[str, ...],
        at: Callable[[], tuple[int, Address]],
        may: May,
    ) -> None:
        permitted = await may
        node_id, address = at()
        found = frames.found_coordinator(head, keys, permitted, node_id, address)
        connection.answer_later(head, found, OK if permitted.issuperset(keys) else REFUSED)

    async def name_some(
        self,
        connection: ClientConnection,
        head: Head,
        keys: tuple[str, ...],
        at: Callable[[], tuple[int, Address]],
        around: Surroundings,
        answer: bytes,
    ) -> None:
        """FindCoordinator: `keys` are coordinated here, and others are not, of which the broker has
        answered.
        """
        with answered(connection, head):
            found = coordinators(head, keys, at(), around, answer)
            connection.answer_later(head, found, codes_of_frame(head, found))

    async def _alone(
        self, connection: ClientConnection, head: Head, work: Coroutine[Any, Any, None]
    ) -> None:
        """After those of the same connection."""
        with answered(connection, head):
            async with connection.turns.alone:
                await work

    async def _blocking(
        self,
        connection: ClientConnection,
        head: Head,
        work: Callable[[], bytes | None],
        kafkas: bytes | None = None,
    ) -> None:
        """Answer with what blocks, and with what the broker has said of groups of its own."""

        def answered() -> tuple[bytes, frozenset[int]] | None:
            frame = work()
            if frame is None:
                return None
            codes = codes_of_frame(head, frame)
            return frame if kafkas is None else joined(head, frame, kafkas), codes

        await connection.room(head)
        connection.answer_later(head, *await self._in_parts(answered))

    async def _in_parts(self, work: Callable[[], T | None]) -> T:
        """What blocks. Work that says None goes on, in turns with others of which there is more:
        they have one thread of the pool, so that there are some for what is soon done.
        """
        found: T | None = await self._run(work)
        while found is None:
            async with self._more:
                found = await self._run(work)
        return found

    def _known(self, groups: tuple[str, ...]) -> dict[str, tuple[str, str, str]]:
        found = {}
        for group in groups:
            for wire, agent in self.groups.agents(group):
                if isinstance(agent, MemberDriver):
                    found[agent.name] = (wire.member_id, wire.client_id, wire.host)
        return found


def _to(
    said: asyncio.Future[WireCode], events: asyncio.AbstractEventLoop
) -> Callable[[WireCode], object]:
    def answered(code: WireCode) -> None:
        if not said.done():
            said.set_result(code)

    return lambda code: run_there(events, lambda: answered(code))


@contextmanager
def answered(connection: ClientConnection, head: Head) -> Iterator[None]:
    """A request that cannot be answered ends its connection: its client asks again elsewhere, and
    does not wait.
    """
    answered = False
    try:
        yield
        answered = True
    finally:
        if not answered:
            connection.close()
        connection.go_on(head)
