"""Sessions that count what goes over their connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.bench.scale_wire import WATCH_XID, Answer, Hub, WirePort
from zkcoord.zk.kazoo_port.wire_requests import MULTI, WireRequest
from zkcoord.zk.port import MultiResult, Op, PortEvent

FRAME_BYTES = 12
"""Before a request's own bytes: its length, its number, its kind."""


@dataclass
class Traffic:
    """Of all sessions of a hub: requests and their bytes, transactions among them with their
    operations and bytes, watch events; bytes received.
    """

    requests: int = 0
    sent: int = 0
    multis: int = 0
    ops: int = 0
    written: int = 0
    events: int = 0
    received: int = 0

    def since(self, before: Traffic) -> Traffic:
        """What has come since."""
        return Traffic(**{what: now - vars(before)[what] for what, now in vars(self).items()})

    def copy(self) -> Traffic:
        """As it is now."""
        return replace(self)


class CountingHub(Hub):
    """A hub that knows its `traffic`."""

    def __init__(self, address: str, timeout_ms: int) -> None:
        super().__init__(address, timeout_ms)
        self.traffic = Traffic()

    def open(self, on_event: Callable[[PortEvent], None]) -> CountedPort:
        """See `Hub`."""
        port = CountedPort(self, on_event, self.driving)
        self.ports.add(port)
        return port


class CountedPort(WirePort):
    """A session of such a hub."""

    hub: CountingHub

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        self.hub.traffic.ops += len(ops)
        super().multi(ops, done)

    def _ask(self, request: WireRequest, done: Answer) -> None:
        traffic = self.hub.traffic
        traffic.requests += 1
        traffic.sent += FRAME_BYTES + len(request.payload)
        if request.type == MULTI:
            traffic.multis += 1
            traffic.written += len(request.payload)
        super()._ask(request, done)

    def _frame(self, frame: bytes) -> None:
        self.hub.traffic.received += 4 + len(frame)
        self.hub.traffic.events += frame[:4] == WATCH_XID.to_bytes(4, "big", signed=True)
        super()._frame(frame)
