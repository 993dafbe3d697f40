"""A client of a client-led group: joins, assigns where it leads, sends heartbeats, leaves, dies.

What it assigns is a text that says who assigned, in which generation and at which try, and to whom;
so everybody can tell whether two members live by one assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from consumer.gateway.wire.requests import (
    Answer,
    BeatAnswer,
    Caller,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveRequest,
    Request,
    SyncAnswer,
    SyncRequest,
)
from zkcoord.core.error_codes import WireCode

if TYPE_CHECKING:
    from tests.sim.led.world import GatewayProcess, LedWorld

SESSION_MS = 6_000
REBALANCE_MS = 8_000
BEAT_MS = 700
PATIENCE_MS = 30_000
AGAIN_MS = (20, 300)
NONE = WireCode.NONE
ANEW = (WireCode.UNKNOWN_MEMBER_ID, WireCode.FENCED_INSTANCE_ID)


class LedClient:
    """See the module. `told` are the ids that it was given; `holds`: generation and assignment that
    it lives by.
    """

    def __init__(self, world: LedWorld, name: str, group: str, instance: str | None) -> None:
        self.world = world
        self.kernel = world.kernel
        self.name = name
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.holds: tuple[int, str] | None = None
        self.alive = True
        self.leaving = False
        self.fenced = False
        self.hangs_until_ms = 0
        self.tries = 0
        self._gateway: GatewayProcess | None = None
        self._connection = 0
        self._asked = 0
        self._then: Callable[[Answer], None] | None = None
        self._begin_again()

    # connections

    def _connect(self) -> bool:
        living = [one for one in self.world.gateways if one.running]
        if self._gateway is None and living:
            self._gateway = self.kernel.rng.choice(living)
            self._connection = self.world.new_connection()
        return self._gateway is not None

    def lost(self, gateway: GatewayProcess) -> None:
        """Its gateway is gone, or has closed the connection."""
        if self._gateway is gateway:
            self.disconnect()

    def disconnect(self) -> None:
        """It has no connection any more, and what it asked was not answered."""
        gateway, connection = self._gateway, self._connection
        self._gateway, self._then = None, None
        if gateway is not None:
            gateway.hang_up(connection)
        self._later(*AGAIN_MS, self._go_on)

    def _send(self, request: Request, then: Callable[[Answer], None]) -> None:
        if not self._connect() or self._gateway is None:
            return self._later(*AGAIN_MS, self._go_on)
        self._asked += 1
        asked, self._then = self._asked, then
        caller = Caller(self._connection, self.name, "host", "lib 1")

        def answered(answer: Answer) -> None:
            if self.alive and asked == self._asked and self._then is not None:
                if self.kernel.now < self.hangs_until_ms:
                    return self.kernel.at(self.hangs_until_ms, lambda: answered(answer))
                self._then = None
                then(answer)
            return None

        def impatient() -> None:
            if self.alive and asked == self._asked and self._then is not None:
                self.disconnect()

        self._gateway.ask(caller, request, answered)
        return self.kernel.after(PATIENCE_MS, impatient)

    def _later(self, low: int, high: int, work: Callable[[], None]) -> None:
        asked = self._asked

        def do() -> None:
            if self.alive and self._then is None and asked == self._asked:
                work()

        self.kernel.after(self.kernel.between(low, high), do)

    # its life

    def _begin_again(self) -> None:
        self.member_id, self.generation, self.holds = "", -1, None
        self._later(*AGAIN_MS, self._join)

    def _go_on(self) -> None:
        """After what was not answered: as libraries do, what is next by what it knows."""
        if self.leaving:
            self._leave()
        elif self.holds is not None:
            self._beat()
        else:
            self._join()

    def _join(self) -> None:
        protocols = (("own", self.name.encode()),)
        request = JoinRequest(
            self.group,
            self.member_id,
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            protocols,
            self.instance,
        )
        self._send(request, self._joined)

    def _joined(self, answer: Answer) -> None:
        assert isinstance(answer, JoinAnswer)
        if answer.code is NONE:
            self.world.witness.joined(self, answer)
            self.member_id, self.generation = answer.member_id, answer.generation
            self.holds = None
            return self._sync(answer)
        if answer.code is WireCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        return self._refused(answer.code, self._join)

    def _refused(self, code: WireCode, again: Callable[[], None]) -> None:
        if code is WireCode.FENCED_INSTANCE_ID:
            self.fenced = True
            return self.die()
        if code is WireCode.UNKNOWN_MEMBER_ID:
            return self._begin_again()
        if code is WireCode.NOT_COORDINATOR:
            return self.disconnect()
        return self._later(*AGAIN_MS, again)

    def _sync(self, joined: JoinAnswer) -> None:
        given: tuple[tuple[str, bytes], ...] = ()
        if joined.leader == joined.member_id:
            self.tries += 1
            by = f"{joined.member_id} {joined.generation} {self.tries}"
            given = tuple((one[0], f"{by}|{one[0]}".encode()) for one in joined.members)
        request = SyncRequest(
            self.group,
            self.member_id,
            joined.generation,
            self.instance,
            "consumer",
            "own",
            given,
        )
        self._send(request, self._synced)

    def _synced(self, answer: Answer) -> None:
        assert isinstance(answer, SyncAnswer)
        if answer.code is not NONE:
            return self._refused(answer.code, self._join)
        self.holds = self.generation, (answer.opaque or b"").decode()
        self.world.witness.synced(self)
        return self._later(BEAT_MS // 2, BEAT_MS, self._beat)

    def _beat(self) -> None:
        request = HeartbeatRequest(self.group, self.member_id, self.generation, self.instance)
        self._send(request, self._beaten)

    def _beaten(self, answer: Answer) -> None:
        assert isinstance(answer, BeatAnswer)
        if self.leaving:
            return self._leave()
        if answer.code is NONE or answer.code is WireCode.REQUEST_TIMED_OUT:
            return self._later(BEAT_MS // 2, BEAT_MS, self._beat)
        if answer.code is WireCode.COORDINATOR_NOT_AVAILABLE:
            return self._later(*AGAIN_MS, self._beat)
        self.holds = None
        return self._refused(answer.code, self._join)

    def leave(self) -> None:
        """In order, with its next request."""
        self.leaving = True

    def _leave(self) -> None:
        request = LeaveRequest(self.group, ((self.member_id, self.instance),))
        self._send(request, lambda answer: self.die())

    def die(self) -> None:
        """kill -9, or after the last answer."""
        self.alive, self.holds = False, None
        gateway, connection = self._gateway, self._connection
        self._gateway = None
        if gateway is not None:
            gateway.hang_up(connection)

    def hang(self, ms: int) -> None:
        """It is stopped for so long."""
        self.hangs_until_ms = self.kernel.now + ms
