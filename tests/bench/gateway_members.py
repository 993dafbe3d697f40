"""Many light members in one process: raw protocol clients with the cooperative-sticky assignor,
each with a connection and no more than Kafka's group requests, as kafka-python encodes them. They
fetch no records.

    python -m tests.bench.gateway_members HOST:PORT TOPIC

Orders come as lines on standard input, "join NAME GROUP" and "leave NAME"; what happens is said in
lines "NANOSECONDS NAME PARTITIONS" of the monotonic clock: what the member owns from then on.
"left" stands in place of the partitions when it has left, "failed WHY" when it cannot go on.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from typing import Any

from kafka.protocol.consumer import (
    ConsumerProtocolAssignment,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

from consumer.gateway.wire.subscription import encode_subscription
from zkcoord.core.model import TopicPartition

SESSION_MS, REBALANCE_MS = 30_000, 60_000
INTERVAL_S = 3.0
ASSIGNOR = "cooperative-sticky"
VERSIONS = {JoinGroupRequest: 7, SyncGroupRequest: 5, HeartbeatRequest: 4, LeaveGroupRequest: 4}
OK, REBALANCES, NEEDS_ID = 0, 27, 79
AGAIN = (22, 25, REBALANCES)  # an old generation, unknown, others change


def say(name: str, text: str) -> None:
    """One line."""
    sys.stdout.write(f"{time.monotonic_ns()} {name} {text}\n")
    sys.stdout.flush()


class Failed(Exception):
    """A member cannot go on."""


class Member:
    """One connection. `owned` are numbers of partitions of the one topic."""

    def __init__(self, name: str, group: str, topic: str) -> None:
        self.name, self.group, self.topic = name, group, topic
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self._leaves = asyncio.Event()
        self._correlation = 0
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    def leave(self) -> None:
        """As soon as what it waits for is answered."""
        self._leaves.set()

    async def run(self, host: str, port: int) -> None:
        """Until it is told to leave."""
        try:
            self._reader, self._writer = await asyncio.open_connection(host, port)
            await self._join()
            await self._serve()
        except (Failed, OSError, asyncio.IncompleteReadError) as error:
            say(self.name, f"failed {error!r}")

    async def _serve(self) -> None:
        next_s = time.monotonic() + INTERVAL_S
        while not await self._told_within(next_s - time.monotonic()):
            next_s = time.monotonic() + INTERVAL_S
            beat = HeartbeatRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
            )
            answer = await self._ask(beat, HeartbeatResponse)
            if answer.error_code in AGAIN:
                await self._join()
            elif answer.error_code != OK:
                raise Failed(f"a heartbeat: {answer.error_code}")
        of = LeaveGroupRequest.MemberIdentity
        who = of(member_id=self.member_id, group_instance_id=None, reason=None)
        await self._ask(LeaveGroupRequest(group_id=self.group, members=[who]), LeaveGroupResponse)
        self._writer.close()
        say(self.name, "left")

    async def _told_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._leaves.wait(), max(0.0, seconds))
        except asyncio.TimeoutError:
            return False
        return True

    async def _join(self) -> None:
        """Until it has an assignment of which nothing is to be given up."""
        while True:
            joined = await self._ask(self._join_request(), JoinGroupResponse)
            if joined.error_code == NEEDS_ID:
                self.member_id = joined.member_id
                continue
            if joined.error_code in AGAIN:
                self.member_id = "" if joined.error_code != REBALANCES else self.member_id
                continue
            if joined.error_code != OK:
                raise Failed(f"a join: {joined.error_code}")
            self.member_id, self.generation = joined.member_id, joined.generation_id
            synced = await self._ask(self._sync_request(), SyncGroupResponse)
            if synced.error_code in AGAIN:
                continue
            if synced.error_code != OK:
                raise Failed(f"a sync: {synced.error_code}")
            given = self._numbers(synced.assignment)
            revoked, self.owned = self.owned - given, given
            say(self.name, ",".join(map(str, sorted(given))))
            if not revoked:
                return

    def _join_request(self) -> JoinGroupRequest:
        owned = [TopicPartition(self.topic, n) for n in sorted(self.owned)]
        of = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[of(name=ASSIGNOR, metadata=encode_subscription([self.topic], owned))],
        )

    def _sync_request(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name=ASSIGNOR,
            assignments=[],
        )

    def _numbers(self, blob: Any) -> frozenset[int]:
        parts = ConsumerProtocolAssignment.decode(bytes(blob)).assigned_partitions
        return frozenset(n for part in parts if part.topic == self.topic for n in part.partitions)

    async def _ask(self, request: Any, answer: Any) -> Any:
        self._correlation += 1
        version = VERSIONS[type(request)]
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation, client_id="light")
        self._writer.write(bytes(request.encode(header=True, framed=True)))
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(length)
        return answer.decode(frame, version=version, header=True)


async def main(address: str, topic: str) -> int:
    """Until standard input ends."""
    host, _, port = address.rpartition(":")
    members: dict[str, Member] = {}
    tasks: set[asyncio.Task[None]] = set()
    reader = asyncio.StreamReader()
    events = asyncio.get_running_loop()
    await events.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say("-", "ready")
    while line := await reader.readline():
        order, name, *rest = line.decode().split()
        if order == "join":
            members[name] = Member(name, rest[0], topic)
            task = asyncio.create_task(members[name].run(host, int(port)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        elif name in members:
            members.pop(name).leave()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
