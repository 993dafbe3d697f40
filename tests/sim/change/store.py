"""`consumer.gateway.tooling.store.GroupStore` of a simulated gateway: what blocks in production is
done here once its answers are there.

Work is begun again from its beginning whenever an answer has come, with all answers so far, until
it needs no more (what it does besides asking is thrown away with each try). One work is done at a
time, as the session is for one at a time. Reads are repeated until they are answered or their time
is over; a multi is sent once, when there is a connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, cast

from consumer.gateway.tooling.store import READ_DEADLINE_MS, GroupStore
from tests.sim.kernel import Host
from tests.sim.zookeeper import HostEnsemble
from zkcoord.errors import UnavailableError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import (
    Closed,
    Connected,
    Expired,
    MultiResult,
    Op,
    Port,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    Refused,
    Unanswered,
)
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

AGAIN_MS = 50
NOWHERE = ZkOptions("nowhere:2181")
NO_ANSWER = UnavailableError("ZooKeeper does not answer")

Send = Callable[[Port, Callable[[object], None]], None]


class MustAsk(BaseException):
    """What is asked is not answered yet. `is_read`: it may be asked again; `is_sent`: it was."""

    def __init__(self, send: Send, is_read: bool) -> None:
        super().__init__()
        self.send = send
        self.is_read = is_read
        self.is_sent = False


class KnownAnswers:
    """`SyncClient` of one try: answers what is known."""

    def __init__(self, known: Sequence[object]) -> None:
        self._known = iter(known)

    def _one(self, send: Send, is_read: bool) -> object:
        for answer in self._known:
            if isinstance(answer, Exception):
                raise answer
            return answer
        raise MustAsk(send, is_read)

    def sync(self) -> None:
        """See `SyncClient`."""
        self._one(lambda port, done: port.sync(done), True)

    def read(self, reads: Sequence[Read]) -> list[ReadAnswer]:
        """See `SyncClient`."""
        done = self._one(lambda port, done: port.read(tuple(reads), done), True)
        assert isinstance(done, ReadDone)
        return list(done.answers)

    def multi(self, ops: Sequence[Op]) -> MultiResult:
        """See `SyncClient`."""
        found = self._one(lambda port, done: port.multi(tuple(ops), done), False)
        return cast(MultiResult, found)


class SimStore(GroupStore):
    """See the module."""

    def __init__(self, host: Host, ensemble: HostEnsemble, layout: Layout) -> None:
        super().__init__(NOWHERE, layout)
        self._host = host
        self._ensemble = ensemble
        self._port: Port | None = None
        self._connected = False
        self._works: deque[tuple[Callable[[], object], list[object]]] = deque()
        self._client = KnownAnswers(())
        self._number = 0  # of what is asked last
        self._closing = False
        self.using = self.slowly = self._using  # type: ignore[assignment,method-assign]

    def _using(self, use: Callable[[SyncClient], Any]) -> Any:
        return use(cast(SyncClient, self._client))

    # the session

    def open(self) -> None:
        """Begin one."""
        holder: list[Port] = []
        port = self._ensemble.open(lambda event: self._event(holder, event))
        holder.append(port)
        self._port, self._connected = port, False

    def end(self) -> None:
        """End it."""
        self._closing = True
        if self._port is not None:
            self._port.close()

    def _event(self, holder: list[Port], event: PortEvent) -> None:
        if holder and holder[0] is self._port:
            self._connected = isinstance(event, Connected)
            if isinstance(event, Expired | Closed | Refused) and not self._closing:
                self._host.after(AGAIN_MS, self.open)

    # work

    def on_pool(self, work: Callable[[], Any]) -> Future[Any]:
        """See `OnPool`."""
        self._works.append((work, []))
        if len(self._works) == 1:
            self._host.after(0, self._try)
        return Future()

    def _try(self) -> None:
        work, known = self._works[0]
        self._client = KnownAnswers(known)
        try:
            work()
        except MustAsk as must:
            self._number += 1
            return self._ask_in_time(must, self._number)
        self._works.popleft()
        if self._works:
            self._host.after(0, self._try)
        return None

    def _ask_in_time(self, must: MustAsk, number: int) -> None:
        def late() -> None:
            unknown = must.is_sent and not must.is_read
            self._answered(number, Unanswered() if unknown else NO_ANSWER)

        self._host.after(READ_DEADLINE_MS, late, timer=True)
        self._ask(must, number)

    def _ask(self, must: MustAsk, number: int) -> None:
        def again() -> None:
            self._ask(must, number)

        def done(result: object) -> None:
            if must.is_read and not isinstance(result, ReadDone):
                self._host.after(AGAIN_MS, again, timer=True)
            else:
                self._answered(number, result)

        if number != self._number:
            return
        if self._port is None or not self._connected:
            self._host.after(AGAIN_MS, again, timer=True)
        else:
            must.is_sent = True
            must.send(self._port, done)

    def _answered(self, number: int, result: object) -> None:
        if number == self._number:
            self._number += 1
            self._works[0][1].append(result)
            self._try()
