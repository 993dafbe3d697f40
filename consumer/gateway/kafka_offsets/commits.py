"""OffsetCommit and TxnOffsetCommit of groups whose offsets Kafka keeps.

They are checked here, by member, instance and generation, and stored by Kafka's own coordinator of
the group, on the client's own connection: so whether its user may is the broker's to say. For that
FindCoordinator leads clients of such a group to the port of that broker.

Offsets of a transaction are pending until it ends. After the broker has said that they are it is
looked again whether the member is still one of that generation: if so, whoever has its partitions
later was given them when these offsets were pending already, and hears UNSTABLE_OFFSET_COMMIT until
the transaction has ended; if not, the producer is told so, and aborts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, Protocol

from consumer.gateway import frames, member_frames
from consumer.gateway.frames import Head
from consumer.gateway.kafka_offsets.passing_on import may_commit, of_nobody, passed_on
from consumer.gateway.operation.codes import codes_of_frame
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.rights.asking import permissions
from consumer.gateway.rights.questions import Right
from consumer.gateway.tooling.tool_requests import OnThread, answered
from consumer.gateway.wire.requests import Answer, CommitAnswer, MayCommitRequest, Request
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.names import is_group


class AsksMembers(Protocol):
    """Asks what is known of members."""

    def ask(self, connection: ClientConnection, head: Head, request: Request) -> Awaitable[Answer]:
        """See `MembersFront`."""


class KafkaCommits:
    """See the module. `run` runs what takes long on another thread."""

    def __init__(self, members: AsksMembers, run: OnThread) -> None:
        self._members = members
        self._run = run

    def serve(
        self, connection: ClientConnection, head: Head, body: Any
    ) -> Coroutine[Any, Any, None]:
        """Answer one later. Nothing more of the client is read until then: what comes behind must
        not overtake it, and the broker may have to be asked.
        """
        connection.hold_up(head)
        asked = may_commit(head, body)
        group = frames.text_of(body.group_id)
        may = permissions(connection, Right.READ, (group,))
        return self._serve(connection, head, body, asked, may)

    async def _serve(
        self,
        connection: ClientConnection,
        head: Head,
        body: Any,
        asked: MayCommitRequest | None,
        may: Awaitable[frozenset[str]],
    ) -> None:
        with answered(connection, head):
            code = WireCode.NONE
            if not await may:
                code = WireCode.GROUP_AUTHORIZATION_FAILED
            elif not is_group(frames.text_of(body.group_id)):
                code = WireCode.INVALID_GROUP_ID
            elif asked is not None:
                code = await self._standing(connection, head, asked)
            if code is not WireCode.NONE:
                return self._refuse(connection, head, body, code)
            answer = await connection.ask(*of_nobody(head, body), before=head)
            if asked is not None and asked.in_transaction:
                code = await self._standing(connection, head, asked)
            if code is not WireCode.NONE:
                return self._refuse(connection, head, body, code)
            frame = passed_on(head, answer)
            codes = await self._run(partial(codes_of_frame, head, frame))
            return connection.answer_later(head, frame, codes)

    async def _standing(
        self, connection: ClientConnection, head: Head, asked: MayCommitRequest
    ) -> WireCode:
        answer = await self._members.ask(connection, head, asked)
        assert isinstance(answer, CommitAnswer)
        return answer.code

    @staticmethod
    def _refuse(connection: ClientConnection, head: Head, body: Any, code: WireCode) -> None:
        if head.key == frames.TXN_OFFSET_COMMIT:
            frame = frames.refused_transaction(head, body, code)
        else:
            frame = member_frames.refused(head, body, code)
        connection.answer_later(head, frame, (int(code),))
