"""Members' requests on their way from the event loop to the members' loop, and their answers on the
way back: in turn, once it is known that their client may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from consumer.gateway import member_frames
from consumer.gateway.client_led.entrance import MembersEntrance
from consumer.gateway.frames import Head
from consumer.gateway.operation.codes import REFUSED, codes_of_answer
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.relay.software import asks_again
from consumer.gateway.rights.asking import is_known, needs, permissions, split
from consumer.gateway.rights.questions import Right
from consumer.gateway.turns import WaitingTurn
from consumer.gateway.wire.requests import Answer, Caller, CommitAnswer, CommitRequest, Request
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.event_loops import run_there
from zkcoord.zk.loop import Loop

Spawn = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(slots=True)
class OpenRequest:
    """A member's request that is not answered yet. `denied`: what of a commit is refused anyhow."""

    connection: ClientConnection
    head: Head
    body: Any
    denied: Mapping[TopicPartition, WireCode]


class MembersFront:
    """See the module. Everything but `answered` runs on the event loop, which is `events` once it
    is there; `spawn` runs a task on it.
    """

    def __init__(self, members: Loop, spawn: Spawn) -> None:
        self.events: asyncio.AbstractEventLoop
        self.entrance: MembersEntrance
        self._members = members
        self._spawn = spawn
        self._tickets = 0
        self._open: dict[int, OpenRequest | asyncio.Future[Answer]] = {}

    def serve(self, connection: ClientConnection, head: Head, body: Any, request: Request) -> None:
        """Answer a member's request later (`ClientConnection.answer_later`)."""
        if isinstance(request, CommitRequest):
            connection.turns.commits(head)
        need = needs(request)
        if not connection.turns and is_known(connection, need):
            return self._to_member(connection, head, body, request, need[Right.READ_TOPIC])
        # a parked heartbeat would keep the broker's answer from being read
        self.another(connection)
        group, topics = (
            partial(permissions, connection, right, names, group=request.group)
            for right, names in need.items()
        )
        stores = isinstance(request, CommitRequest)
        if connection.turns.add(head, body, request, group, topics if stores else None):
            self._spawn(self._in_turn(connection))
        return None

    async def _in_turn(self, connection: ClientConnection) -> None:
        def permitted(one: WaitingTurn, topics: frozenset[str]) -> None:
            self._to_member(connection, one.head, one.body, one.request, topics)

        def refused(one: WaitingTurn) -> None:
            code = WireCode.GROUP_AUTHORIZATION_FAILED
            connection.answer_later(
                one.head, member_frames.refused(one.head, one.body, code), REFUSED
            )

        await connection.turns.serve(permitted, refused, lambda: self.another(connection))

    def _to_member(
        self,
        connection: ClientConnection,
        head: Head,
        body: Any,
        request: Request,
        topics: frozenset[str],
    ) -> None:
        if connection.turns.is_over:
            return  # gone while it was asked whether it may
        denied: Mapping[TopicPartition, WireCode] = {}
        if isinstance(request, CommitRequest):
            request, denied = split(request, topics)
        self._post(connection, head, request, OpenRequest(connection, head, body, denied))

    async def ask(self, connection: ClientConnection, head: Head, request: Request) -> Answer:
        """What is answered to a request, which the connection's client need not have put so."""
        answer: asyncio.Future[Answer] = self.events.create_future()
        self._post(connection, head, request, answer)
        return await answer

    def _post(
        self,
        connection: ClientConnection,
        head: Head,
        request: Request,
        waits: OpenRequest | asyncio.Future[Answer],
    ) -> None:
        self._tickets += 1
        ticket = self._tickets
        self._open[ticket] = waits
        caller = Caller(
            connection.number,
            head.client_id,
            connection.peer,
            connection.software,
            connection.is_shared,
            asks_again(connection.software),
        )
        self._members.post(lambda: self.entrance.request(ticket, caller, request))

    def another(self, connection: ClientConnection) -> None:
        """A request has come that is no member's: what is parked stands in its way."""
        number = connection.number
        connection.turns.followed()
        self._members.post(lambda: self.entrance.another_request(number))

    def answered(self, ticket: int, answer: Answer) -> None:
        """On the members' thread."""
        run_there(self.events, lambda: self._send(ticket, answer))

    def _send(self, ticket: int, answer: Answer) -> None:
        waits = self._open.pop(ticket)
        if isinstance(waits, asyncio.Future):
            if not waits.done():
                waits.set_result(answer)
            return
        if waits.denied and isinstance(answer, CommitAnswer):
            answer = CommitAnswer(answer.code, {**answer.others, **waits.denied})
        frame = member_frames.encode_answer(waits.head, waits.body, answer)
        waits.connection.answer_later(waits.head, frame, codes_of_answer(answer))
