"""A simulated gateway that also serves groups whose leader is a client, as production wires it:
`MembersEntrance` before `WireGroups` and `LedGroups`, which have its own session.
"""

from __future__ import annotations

from dataclasses import replace

from consumer.gateway.client_led.commits import Storing
from consumer.gateway.client_led.entrance import MembersEntrance
from consumer.gateway.client_led.groups import LedGroups
from consumer.gateway.wire.requests import Caller, Request
from tests.sim.change.store import SimStore
from tests.sim.wire_gateway import ADDRESSES, CLOSE_MS, LOOK_EVERY_MS, GatewayProcess
from zkcoord.zk.port import OPEN_ACL
from zkcoord.znodes.classic.paths import request_name

LIBRARY = "lib 1"


class ChangeGateway(GatewayProcess):
    """See the module."""

    def prepare(self) -> None:
        """See `GatewayProcess`."""
        self.is_at = f"{self.host.name}:9092"
        self.store = SimStore(self.host, self.zk, self.layout)
        self.led = LedGroups(
            self.session,
            self.layout,
            OPEN_ACL,
            Storing(self.store, self.store.on_pool, self._post),
            self.clock,
            self._answered,
            lambda: f"{self.kernel.rng.getrandbits(48):012x}",
            ADDRESSES,
            self.groups.times,
            self.is_at,
        )
        self.led.asking.new_name = self._new_request_name
        self.entrance = MembersEntrance(self.groups, self.led)

    def _new_request_name(self, group: str) -> str:
        return request_name(group, f"{self.kernel.rng.getrandbits(128):032x}")

    def start(self) -> None:
        """See `GatewayProcess`."""
        super().start()
        self.store.open()

    def next_wake_ms(self) -> int | None:
        """See `GatewayProcess`."""
        times = [super().next_wake_ms(), self.led.next_wake_ms()]
        return min((ms for ms in times if ms is not None), default=None)

    def tick(self) -> None:
        """See `GatewayProcess`."""
        super().tick()
        self.led.tick()

    def close(self) -> None:
        """See `GatewayProcess`."""
        self.closing = True
        self.host.after(0, self.entrance.close)
        self.host.after(0, self.groups.close)
        self.host.after(LOOK_EVERY_MS, self._close_further)
        self.host.after(CLOSE_MS, self.host.kill)

    def _close_further(self) -> None:
        super()._close_further()
        if self.groups.finished:
            self.store.end()

    def disconnected(self, connection: int) -> None:
        """See `GatewayProcess`."""
        self.entrance.disconnected(connection)

    def another_request(self, connection: int) -> None:
        """See `GatewayProcess`."""
        self.entrance.another_request(connection)

    def request(self, ticket: int, caller: Caller, request: Request) -> None:
        """See `GatewayProcess`."""
        self.entrance.request(ticket, replace(caller, library=LIBRARY), request)
