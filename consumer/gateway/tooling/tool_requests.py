"""Requests about groups that are no member's: a tool's, or a client's that asks where it stands.
They are answered by what blocks, on the gateway's pool (`answers.py`); those of one connection one
after the other, as by a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from kafka.protocol.admin import ListGroupsResponse

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.operation.codes import REFUSED, codes_of_frame
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.tooling import answers
from consumer.gateway.tooling.store import GroupStore
from consumer.gateway.wire.requests import CommitRequest, WireCode
from consumer.member.driver import MemberDriver


class OnThread(Protocol):
    """Runs something on another thread, and has its result."""

    def __call__(self, work: Callable[[], Any], /) -> Awaitable[Any]:
        """See above."""


class ToolRequests:
    """See the module. `run` runs what blocks, `ask_members` what must be on the members' thread."""

    def __init__(
        self, store: GroupStore, groups: WireGroups, run: OnThread, ask_members: OnThread
    ) -> None:
        self.store = store
        self.groups = groups
        self._run = run
        self._ask_members = ask_members
        self._more = asyncio.Lock()

    async def answer(
        self, connection: ClientConnection, head: Head, body: Any, may: Awaitable[frozenset[str]]
    ) -> None:
        """Answer a request, if its client may know or do that."""
        async with connection.turns.alone:
            await self._answer(connection, head, body, may)

    async def _answer(
        self, connection: ClientConnection, head: Head, body: Any, may: Awaitable[frozenset[str]]
    ) -> None:
        groups = frames.group_of(head, body)
        if await may != frozenset(groups):
            return await self._blocking(connection, head, partial(answers.refused, head, body))
        work: Callable[[], bytes | None]
        match head.key:
            case frames.OFFSET_FETCH:
                await connection.turns.settled()
                work = partial(next, answers.fetch_offsets(self.store, head, body))
            case frames.DESCRIBE_GROUPS:
                known = await self._ask_members(lambda: self._known(groups))
                work = partial(answers.describe_groups, self.store, head, body, known)
            case frames.DELETE_GROUPS:
                work = partial(answers.delete_groups, self.store, head, body)
            case _:
                work = partial(answers.delete_offsets, self.store, head, body)
        await self._blocking(connection, head, work)

    async def commit(
        self,
        connection: ClientConnection,
        head: Head,
        body: Any,
        request: CommitRequest,
        may: Awaitable[frozenset[str]],
    ) -> None:
        """OffsetCommit without a member."""
        async with connection.turns.alone:
            if not await may:
                code = WireCode.GROUP_AUTHORIZATION_FAILED
                return connection.answer_later(head, frames.refused(head, body, code), REFUSED)
            work = answers.commit(self.store, head, body, request)
            await self._blocking(connection, head, partial(next, work))

    async def listed(
        self, connection: ClientConnection, head: Head, body: Any, answer: bytes
    ) -> None:
        """ListGroups: what the broker has listed, with ours."""
        kafkas = ListGroupsResponse.decode(answer, version=head.version, header=True)
        work = partial(answers.list_groups, self.store, head, body, list(kafkas.groups))
        await self._blocking(connection, head, work)

    async def _blocking(
        self, connection: ClientConnection, head: Head, work: Callable[[], bytes | None]
    ) -> None:
        """A request that cannot be answered ends its connection: its client asks again elsewhere,
        and does not wait. Work that says None goes on, in turns with others of which there is more:
        they have one thread of the pool, so that there are some for what is soon done.
        """

        def answered() -> tuple[bytes, frozenset[int]] | None:
            frame = work()
            return None if frame is None else (frame, codes_of_frame(head, frame))

        await connection.room(head)
        found: tuple[bytes, frozenset[int]] | None = None
        try:
            found = await self._run(answered)
            while found is None:
                async with self._more:
                    found = await self._run(answered)
        finally:
            if found is None:
                connection.close()
        connection.answer_later(head, *found)

    def _known(self, groups: tuple[str, ...]) -> dict[str, tuple[str, str, str]]:
        found = {}
        for group in groups:
            for wire, agent in self.groups.agents(group):
                if isinstance(agent, MemberDriver):
                    found[agent.name] = (wire.member_id, wire.client_id, wire.host)
        return found
