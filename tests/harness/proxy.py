"""A TCP proxy between ZooKeeper clients and one server that breaks connections on purpose.

It runs one event loop in one thread; the methods may be called from any thread and have taken
effect when they return. It understands ZooKeeper's framing (a 4-byte length, then a request or a
reply), so that a fault hits whole requests: "the server has executed it, the client never hears of
it" is one named fault and not a matter of luck.

Faults of connections (of one `Link`, or of all through the `Proxy`):
* `cut`          both ends get a reset; a new connection works.
* `black_hole`   nothing passes, nobody is told, not even of an end: as when a cable is pulled.
  `heal` delivers what was held, as TCP would. One direction or both.
* `delay_ms`     every frame arrives that much later, in each direction; order is kept and
  throughput is not limited.
* `refuse`       new connections are reset at once; those that exist go on (add `cut` for both).

Faults of requests (`swallow_replies`, `drop_requests`): the next `count` ones, of the given
operations if any are given, on any connection. By default the connection is cut right after,
because a client that waits for a lost answer on a living connection is a different experiment (and
kazoo takes the next answer for a protocol error). Each returns a `Fault` whose `fired` says how
often it has happened.

A moment (`hold`): the connection on which a request of a certain text comes stands still just
before the server gets that, or just before its client hears of it, until `release` or `drop`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TypeVar

from zkcoord.stack.ports import HOST

T = TypeVar("T")

CONTROL_TIMEOUT_S = 30.0
FRAME_MAX_BYTES = 64 << 20
FRAME_HEAD = struct.Struct(">i")
REQUEST_HEAD = struct.Struct(">ii")
PING_XID = -2
EVENT_XID = -1


class Op(IntEnum):
    """Operation codes of ZooKeeper's requests. CONNECT is what every connection begins with and has
    no code of its own on the wire.
    """

    CONNECT = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET = 4
    SET = 5
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    MULTI_READ = 22
    ADD_WATCH = 106
    CLOSE = -11


class Way(Enum):
    """The direction of a frame."""

    TO_SERVER = "to server"
    TO_CLIENT = "to client"


BOTH_WAYS = (Way.TO_SERVER, Way.TO_CLIENT)


@dataclass(slots=True)
class Fault:
    """A fault of requests that waits for its chance: `left` more times; `fired` so far. No
    `operations` means any but a ping and a connect.
    """

    operations: frozenset[int]
    left: int
    cut: bool
    fired: int = 0

    def hits(self, operation: int) -> bool:
        wanted = (
            operation in self.operations
            if self.operations
            else operation not in (Op.PING, Op.CONNECT)
        )
        if not wanted or self.left == 0:
            return False
        self.left -= 1
        self.fired += 1
        return True


@dataclass(eq=False, slots=True)
class Hold:
    """A connection that is to stand still at a certain request. `reached`: it does."""

    matches: Callable[[bytes], bool]
    executed: bool
    reached: threading.Event = field(default_factory=threading.Event)
    link: Link | None = None
    xid: int | None = None

    def release(self) -> None:
        """Let it go on."""
        assert self.link is not None
        self.link.heal()

    def drop(self) -> None:
        """Reset it: what stood still is lost."""
        assert self.link is not None
        self.link.cut()


class _Pipe:
    """One direction of a link: a reader fills the queue, a deliverer empties it when the gate is
    open and a frame is due. `None` in the queue is the sender's end.
    """

    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()


class Link:
    """One client's connection through the proxy."""

    def __init__(
        self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._writers = {Way.TO_SERVER: server, Way.TO_CLIENT: client}
        self._pipes = {way: _Pipe() for way in BOTH_WAYS}
        # (xid, operation) of requests whose answer is not back, in order
        self._waiting: deque[tuple[int, int]] = deque()
        self._delay_s = 0.0
        self._begun = False

    def cut(self) -> None:
        """Reset both ends."""
        self._proxy.control(self.do_cut)

    def black_hole(self, ways: Iterable[Way] = BOTH_WAYS) -> None:
        self._proxy.control(lambda: self.do_gates(ways, False))

    def delay_ms(self, milliseconds: float) -> None:
        self._proxy.control(lambda: self.do_delay(milliseconds / 1000))

    def heal(self) -> None:
        """Open again what `black_hole` closed and end the delay (what is on its way still arrives
        when it is due).
        """
        self._proxy.control(self.do_heal)

    # What follows runs in the proxy's loop.

    def do_cut(self) -> None:
        for writer in self._writers.values():
            _reset(writer)

    def do_gates(self, ways: Iterable[Way], is_open: bool) -> None:
        for way in ways:
            gate = self._pipes[way].gate
            if is_open:
                gate.set()
            else:
                gate.clear()

    def do_delay(self, seconds: float) -> None:
        self._delay_s = seconds

    def do_heal(self) -> None:
        self.do_gates(BOTH_WAYS, True)
        self.do_delay(0.0)

    async def run(
        self, from_client: asyncio.StreamReader, from_server: asyncio.StreamReader
    ) -> None:
        """Both directions until both have ended."""
        readers = {Way.TO_SERVER: from_client, Way.TO_CLIENT: from_server}
        work = [self._read(way, reader) for way, reader in readers.items()] + [
            self._deliver(way) for way in BOTH_WAYS
        ]
        try:
            await asyncio.gather(*work)
        finally:
            for writer in self._writers.values():
                writer.close()

    async def _read(self, way: Way, reader: asyncio.StreamReader) -> None:
        loop, queue = asyncio.get_running_loop(), self._pipes[way].queue
        while True:
            try:
                head = await reader.readexactly(FRAME_HEAD.size)
                (size,) = FRAME_HEAD.unpack(head)
                if not 0 <= size <= FRAME_MAX_BYTES:
                    break
                frame = head + await reader.readexactly(size)
            except (asyncio.IncompleteReadError, OSError):
                break
            queue.put_nowait((loop.time() + self._delay_s, frame))
        queue.put_nowait((loop.time() + self._delay_s, None))

    async def _deliver(self, way: Way) -> None:
        pipe, writer, loop = self._pipes[way], self._writers[way], asyncio.get_running_loop()
        while True:
            due, frame = await pipe.queue.get()
            await pipe.gate.wait()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await pipe.gate.wait()  # it may have been closed meanwhile
            if frame is not None and self._proxy.holds and self._is_held(way, frame):
                await pipe.gate.wait()
            if frame is None:
                writer.close()
                return
            if self._is_lost(way, frame):
                continue
            try:
                writer.write(frame)
                await writer.drain()
            except OSError:
                return

    def _is_held(self, way: Way, frame: bytes) -> bool:
        """Whether a moment is here that was waited for: everything of this link stands still."""
        for hold in self._proxy.holds:
            (xid,) = FRAME_HEAD.unpack_from(frame, FRAME_HEAD.size)
            if way is Way.TO_SERVER and hold.xid is None and hold.matches(frame):
                hold.link, hold.xid = self, xid
                here = not hold.executed
            else:
                here = way is Way.TO_CLIENT and hold.link is self and hold.xid == xid
            if here:
                self._proxy.holds.remove(hold)
                self.do_gates(BOTH_WAYS, False)
                hold.reached.set()
                return True
        return False

    def _is_lost(self, way: Way, frame: bytes) -> bool:
        fault = self._request_fault(frame) if way is Way.TO_SERVER else self._reply_fault(frame)
        if fault is not None and fault.cut:
            self.do_cut()
        return fault is not None

    def _request_fault(self, frame: bytes) -> Fault | None:
        if self._begun:
            xid, operation = REQUEST_HEAD.unpack_from(frame, FRAME_HEAD.size)
        else:
            xid, operation = 0, int(Op.CONNECT)
            self._begun = True
        self._proxy.requests[operation] += 1
        fault = self._proxy.hit(self._proxy.request_faults, operation)
        if fault is None:
            self._waiting.append((xid, operation))
        return fault

    def _reply_fault(self, frame: bytes) -> Fault | None:
        """Answers come in the order of the requests, except those of pings; events belong to no
        request.
        """
        if not self._waiting:
            return None
        (xid,) = FRAME_HEAD.unpack_from(frame, FRAME_HEAD.size)
        if self._waiting[0][1] == Op.CONNECT:
            _, operation = self._waiting.popleft()
            return self._proxy.hit(self._proxy.reply_faults, operation)
        found = next((entry for entry in self._waiting if entry[0] == xid), None)
        if xid == EVENT_XID or found is None:
            return None
        self._waiting.remove(found)
        return self._proxy.hit(self._proxy.reply_faults, found[1])


class Proxy:
    """A proxy in front of the server on `server_port` of the loopback address. Use as a context
    manager; `port` stays the same until it is closed.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.requests: Counter[int] = Counter()
        self.request_faults: list[Fault] = []
        self.reply_faults: list[Fault] = []
        self.holds: list[Hold] = []
        self._links: list[Link] = []
        self._refusing = False
        self._closed_ways: set[Way] = set()
        self._delay_s = 0.0
        self._loop = asyncio.new_event_loop()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name=f"proxy-{self.port}", daemon=True)
        self._thread.start()
        self._acceptor: asyncio.Server = asyncio.run_coroutine_threadsafe(
            self._serve(), self._loop
        ).result(CONTROL_TIMEOUT_S)

    @property
    def address(self) -> str:
        """`host:port` for a client."""
        return f"{HOST}:{self.port}"

    def links(self) -> list[Link]:
        """The connections that are open now, oldest first."""
        return self.control(lambda: list(self._links))

    def cut(self) -> None:
        """Reset every connection; the next attempt works (unless `refuse`)."""
        self.control(lambda: [link.do_cut() for link in self._links])

    def refuse(self, refusing: bool = True) -> None:
        """Reset every new connection at once, until `heal` or `refuse(False)`."""

        def change() -> None:
            self._refusing = refusing

        self.control(change)

    def black_hole(self, ways: Iterable[Way] = BOTH_WAYS) -> None:
        """Let nothing pass, on existing and on new connections."""
        closed = set(ways)

        def change() -> None:
            self._closed_ways |= closed
            for link in self._links:
                link.do_gates(closed, False)

        self.control(change)

    def delay_ms(self, milliseconds: float) -> None:
        """Delay every frame, on existing and on new connections."""

        def change() -> None:
            self._delay_s = milliseconds / 1000
            for link in self._links:
                link.do_delay(self._delay_s)

        self.control(change)

    def heal(self) -> None:
        """Back to passing everything. Faults of requests that have not fired are forgotten."""

        def change() -> None:
            self._refusing = False
            self._closed_ways.clear()
            self._delay_s = 0.0
            self.request_faults.clear()
            self.reply_faults.clear()
            self.holds.clear()
            for link in self._links:
                link.do_heal()

        self.control(change)

    def swallow_replies(
        self, count: int = 1, operations: Iterable[int] = (), cut: bool = True
    ) -> Fault:
        """The server executes the next `count` requests (of these operations); the client never
        hears of it.
        """
        return self._add(self.reply_faults, Fault(frozenset(operations), count, cut))

    def drop_requests(
        self, count: int = 1, operations: Iterable[int] = (), cut: bool = True
    ) -> Fault:
        """The next `count` requests (of these operations) never reach the server."""
        return self._add(self.request_faults, Fault(frozenset(operations), count, cut))

    def hold(self, matches: Callable[[bytes], bool], executed: bool) -> Hold:
        """Have the next connection on which such a request comes stand still: before the server
        gets it, or, `executed`, before the client hears that it was done.
        """
        hold = Hold(matches, executed)
        self.control(lambda: self.holds.append(hold))
        return hold

    def close(self) -> None:
        """Reset everything and end the thread."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(CONTROL_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONTROL_TIMEOUT_S)
        self._loop.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def control(self, action: Callable[[], T]) -> T:
        """Run `action` in the loop and return its result."""

        async def act() -> T:
            return action()

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(CONTROL_TIMEOUT_S)

    def hit(self, faults: list[Fault], operation: int) -> Fault | None:
        """The first waiting fault that this operation meets."""
        return next((fault for fault in faults if fault.hits(operation)), None)

    def _add(self, faults: list[Fault], fault: Fault) -> Fault:
        self.control(lambda: faults.append(fault))
        return fault

    def _run(self) -> None:  # thread main
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _serve(self) -> Coroutine[None, None, asyncio.Server]:
        return asyncio.start_server(self._accept, sock=self._listener)

    async def _accept(
        self, from_client: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        if self._refusing:
            _reset(client)
            return
        try:
            from_server, server = await asyncio.open_connection(HOST, self.server_port)
        except OSError:
            _reset(client)
            return
        link = Link(self, client, server)
        link.do_gates(self._closed_ways, False)
        link.do_delay(self._delay_s)
        self._links.append(link)
        try:
            await link.run(from_client, from_server)
        except asyncio.CancelledError:
            # the proxy is being closed; the streams library would report a cancelled handler as an
            # error
            return
        finally:
            self._links.remove(link)

    async def _shut(self) -> None:
        self._acceptor.close()
        for link in self._links:
            link.do_cut()
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset instead of a polite end: the peer learns it at once, and what was under
    way is lost.
    """
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
