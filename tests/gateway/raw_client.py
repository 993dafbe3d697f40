"""A client of one connection that sends whatever it is told to, in any version."""

from __future__ import annotations

import select
import socket
import struct
from types import TracebackType
from typing import Any

from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest

from consumer.gateway.wire.subscription import encode_assignment, encode_subscription
from tests.harness.wait import wait_until
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition

TIMEOUT_S = 60.0
SESSION_MS = 1_800_000
NOT_YET = (14, 15, 16)
VERSION = 5


class RawClient:
    """A context manager. What it asks is answered before it goes on."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._correlation = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def ask(self, request: Any, version: int, response: Any) -> Any:
        """The answer to a request, read as this kind of response."""
        self.send(request, version)
        return self.receive(response, version)

    def send(self, request: Any, version: int) -> None:
        """A request, whose answer is for later."""
        self._correlation += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation, client_id="raw")
        self._socket.sendall(bytes(request.encode(header=True, framed=True)))

    def is_answered(self) -> bool:
        """Whether there is something to be received."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def receive(self, response: Any, version: int) -> Any:
        """The answer to the earliest request that has none yet."""
        (length,) = struct.unpack(">i", self._read(4))
        return response.decode(self._read(length), version=version, header=True)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the connection was closed")
            data += more
        return data

    def join(self, group: str, topic: str, instance: str | None = None) -> tuple[str, int]:
        """Become the only member of a group, with partition 0: its id and its generation."""
        from kafka.protocol.consumer import JoinGroupResponse, SyncGroupResponse

        joined = wait_until(
            lambda: self._join(group, topic, instance, JoinGroupResponse), TIMEOUT_S, "a member"
        )
        of = SyncGroupRequest.SyncGroupRequestAssignment
        assigned = of(
            member_id=joined.member_id, assignment=encode_assignment([TopicPartition(topic, 0)])
        )
        synced = self.ask(
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=instance,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[assigned] if joined.leader == joined.member_id else [],
            ),
            VERSION,
            SyncGroupResponse,
        )
        assert synced.error_code == 0
        return joined.member_id, joined.generation_id

    def _join(self, group: str, topic: str, instance: str | None, response: Any) -> Any:
        def ask(member_id: str) -> Any:
            of = JoinGroupRequest.JoinGroupRequestProtocol
            return self.ask(
                JoinGroupRequest(
                    group_id=group,
                    session_timeout_ms=SESSION_MS,
                    rebalance_timeout_ms=SESSION_MS,
                    member_id=member_id,
                    group_instance_id=instance,
                    protocol_type="consumer",
                    protocols=[of(name="range", metadata=encode_subscription([topic]))],
                    reason=None,
                ),
                VERSION,
                response,
            )

        joined = ask("")
        if joined.error_code == WireCode.MEMBER_ID_REQUIRED:
            joined = ask(joined.member_id)
        assert joined.error_code == 0 or joined.error_code in NOT_YET, joined
        return joined if joined.error_code == 0 else None
