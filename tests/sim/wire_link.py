"""How a simulated client reaches gateways: one connection at a time, opened anew at the same or
another gateway when it is gone, and requests whose answers may never come.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.kernel import Host, Kernel
from tests.sim.wire_gateway import (
    AnyAnswer,
    AnyRequest,
    FetchOffsets,
    FindCoordinator,
    GatewayProcess,
    WireConnection,
)
from zkcoord.core.error_codes import WireCode

RECONNECT_MS = (10, 200)
CONNECT_MS = (1, 10)
ELSEWHERE = (WireCode.NOT_COORDINATOR, WireCode.COORDINATOR_NOT_AVAILABLE)
LATER = WireCode.COORDINATOR_LOAD_IN_PROGRESS


class WireLink:
    """See the module. `find` names a gateway to try; `changed` is called when there is another
    connection or none; `unexpected` is told of answers out of order.
    """

    def __init__(
        self,
        kernel: Kernel,
        host: Host,
        find: Callable[[], GatewayProcess | None],
        changed: Callable[[], None],
        unexpected: Callable[[str], None],
    ) -> None:
        self.kernel = kernel
        self.host = host
        self.connection: WireConnection | None = None
        self.prefers: GatewayProcess | None = None  # where it goes next
        self.try_ms = 0  # when it tries again, and not before
        self.answered_ms = kernel.now  # when its member was last heard of
        self.gone_ms: int | None = None  # since when no gateway has spoken for its member
        self._find = find
        self._changed = changed
        self._unexpected = unexpected
        self._connecting = False
        self._waiting: dict[int, Callable[[AnyAnswer | None], None]] = {}
        self._tokens = 0
        self._troubled_ms = kernel.now  # when it was paused or continued last
        host.on_state.append(lambda: setattr(self, "_troubled_ms", kernel.now))

    def connect(self, group: str, patience_ms: int) -> None:
        """Connect to a gateway and ask whether it serves a group, unless that is under way."""
        if self._connecting or self.connection is not None or self.kernel.now < self.try_ms:
            return
        self._connecting = True
        gateway, self.prefers = self.prefers or self._find(), None

        def arrived() -> None:
            self._connecting = False
            if gateway is None or not gateway.listens:
                self._later()
                return
            self.connection = gateway.accept(self.host, self._lost)
            self._changed()
            self.ask(FindCoordinator(group), lambda answer: None, patience_ms)

        self.host.after(self.kernel.between(*CONNECT_MS), arrived)

    def _later(self) -> None:
        soon = self.kernel.now + self.kernel.between(*RECONNECT_MS)
        self.try_ms = max(self.try_ms, soon)

    def keep_away(self, duration_ms: int) -> None:
        """It cannot reach any gateway for so long."""
        self.try_ms = self.kernel.now + duration_ms

    def _lost(self, connection: WireConnection) -> None:
        if connection is self.connection:
            self._drop(connection)

    def disconnect(self) -> None:
        """Look for a gateway again."""
        connection = self.connection
        if connection is not None:
            connection.close()
            self._drop(connection)
        self._later()

    def _drop(self, connection: WireConnection) -> None:
        self.connection = None
        if self.gone_ms is None:
            since = connection.dead_since_ms
            self.gone_ms = self.kernel.now if since is None else since
        waiting, self._waiting = self._waiting, {}
        self._changed()
        for took in waiting.values():
            took(None)

    def ask(
        self, request: AnyRequest, took: Callable[[AnyAnswer | None], None], timeout_ms: int
    ) -> None:
        """Send a request; `took` gets its answer, or None where none will come."""
        connection = self.connection
        if connection is None:
            self.host.after(0, lambda: took(None))
            return
        self._tokens += 1
        token, asked_ms = self._tokens, self.kernel.now
        self._waiting[token] = took

        def answered(answer: AnyAnswer) -> None:
            if self.connection is not connection or token not in self._waiting:
                return
            if token != min(self._waiting):
                self._unexpected(f"{answer} comes before earlier answers")
            if not isinstance(request, (FindCoordinator, FetchOffsets)) and (
                answer.code not in (*ELSEWHERE, LATER)  # type: ignore[union-attr]
            ):
                # one that was paused since finds an answer that may be as old as its request
                paused = self._troubled_ms >= asked_ms
                self.answered_ms, self.gone_ms = asked_ms if paused else self.kernel.now, None
            self._waiting.pop(token)(answer)

        def late() -> None:
            if self.connection is connection and token in self._waiting:
                self.kernel.trace(self.host.name, f"waits no longer for {type(request).__name__}")
                self.disconnect()

        connection.ask(request, answered)
        self.host.after(timeout_ms, late, timer=True)
