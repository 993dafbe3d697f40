"""A process of the model whose requests and answers are those of the wire, and whose processor time
is counted.

What a session asks is encoded as the shipped one encodes it, and what it is answered is made into
the bytes that ZooKeeper would send, which are decoded as the shipped session does. So bytes are
counted, the process holds copies of its own of what it has read, and its processor time has what
encoding and decoding take. It has not what sockets and a second thread take. The model's own work
is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.sim.kernel import Host, Kernel
from tests.sim.zookeeper import HostEnsemble
from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.kazoo_port.wire_requests import (
    END_OF_READS,
    ERROR,
    GET_CHILDREN,
    GET_DATA,
    NO_NODE,
    READ_STRUCT,
    STAT_STRUCT,
)
from zkcoord.zk.port import (
    AclsResult,
    Children,
    Committed,
    Create,
    Created,
    Fired,
    MultiResult,
    Node,
    Op,
    Port,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    WatchMode,
)
from zkcoord.znodes.stat import Stat

FRAME_BYTES = 12
"""Before a request's own bytes: its length, its number, its kind."""
REPLY_BYTES = 20
"""Before an answer's: its length, its number, a transaction, an error."""
EVENT_BYTES = 32
"""Of a watch event, beside its path."""
RESULT_BYTES = 9
"""Of each result of a transaction, beside what it says."""
STAT_BYTES = 68


@dataclass
class Spent:
    """By one process: requests and their bytes, bytes of answers and events, transactions and their
    operations; commands among them; processor time, and the longest stretch of it without a look at
    anything else.
    """

    requests: int = 0
    sent: int = 0
    received: int = 0
    events: int = 0
    multis: int = 0
    ops: int = 0
    commands: int = 0
    cpu_ns: int = 0
    longest_ns: int = 0

    def since(self, before: Spent) -> Spent:
        """What has come since; the longest stretch is that of all."""
        found = Spent(**{what: now - vars(before)[what] for what, now in vars(self).items()})
        found.longest_ns = self.longest_ns
        return found


class MeasuredHost(Host):
    """A process whose work is timed."""

    def __init__(self, kernel: Kernel, name: str, spent: Spent) -> None:
        super().__init__(kernel, name)
        self.spent = spent
        self.of_others_ns = 0

    def do(self, thunk: Callable[[], None], timer: bool = False) -> None:
        """See `Host`."""
        began_ns, self.of_others_ns = time.thread_time_ns(), 0
        super().do(thunk, timer)
        took_ns = time.thread_time_ns() - began_ns - self.of_others_ns
        self.spent.cpu_ns += took_ns
        self.spent.longest_ns = max(self.spent.longest_ns, took_ns)

    def of_others(self, began_ns: int) -> None:
        """What was done since then was the model's work."""
        self.of_others_ns += time.thread_time_ns() - began_ns


class WeighedEnsemble:
    """`zkcoord.zk.port.Ensemble` of such a process. `is_command` knows a command by its path."""

    def __init__(
        self, zk: HostEnsemble, host: MeasuredHost, is_command: Callable[[str], bool]
    ) -> None:
        self.zk = zk
        self.host = host
        self.is_command = is_command

    def open(self, on_event: Callable[[PortEvent], None]) -> WeighedPort:
        """Start a new session."""
        return WeighedPort(self, on_event)


class WeighedPort:
    """A `Port` that counts, around one of the model's."""

    def __init__(self, of: WeighedEnsemble, on_event: Callable[[PortEvent], None]) -> None:
        self.of = of
        self.spent = of.host.spent
        self.on_event = on_event
        self.port: Port = of.zk.open(self._event)

    def _event(self, event: PortEvent) -> None:
        if isinstance(event, Fired):
            self.spent.events += 1
            self.spent.received += EVENT_BYTES + len(event.path)
        self.on_event(event)

    def _asks(self, request: wire_requests.WireRequest) -> None:
        self.spent.requests += 1
        self.spent.sent += FRAME_BYTES + len(request.payload)

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        self._asks(wire_requests.multi_request("", ops))
        self.spent.multis += 1
        self.spent.ops += len(ops)
        self.spent.commands += sum(
            isinstance(op, Create) and self.of.is_command(op.path) for op in ops
        )

        def answered(result: MultiResult) -> None:
            self.spent.received += REPLY_BYTES + multi_bytes(result)
            done(result)

        self.port.multi(ops, answered)

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        request = wire_requests.read_request("", reads)
        self._asks(request)
        self.port.read(reads, partial(self._read, request, done))

    def _read(
        self,
        request: wire_requests.WireRequest,
        done: Callable[[ReadResult], None],
        result: ReadResult,
    ) -> None:
        began_ns = time.thread_time_ns()
        body = b"".join(map(answer_bytes, result.answers)) if isinstance(result, ReadDone) else b""
        self.of.host.of_others(began_ns)
        if body:
            body += END_OF_READS
            self.spent.received += REPLY_BYTES + len(body)
            result = request.decode(0, body, 0)
        done(result)

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """See `Port`. Answers are not weighed: without roles nobody asks."""
        for path in paths:
            self._asks(wire_requests.get_acl_request("", path))
        self.port.acls(paths, done)

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._asks(wire_requests.sync_request(""))
        self._plain(self.port.sync, done)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._asks(wire_requests.watch_request("", path, mode))
        self._plain(partial(self.port.watch, path, mode), done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._asks(wire_requests.unwatch_request("", path))
        self._plain(partial(self.port.unwatch, path), done)

    def _plain(
        self,
        ask: Callable[[Callable[[ReadResult], None]], None],
        done: Callable[[ReadResult], None],
    ) -> None:
        def answered(result: ReadResult) -> None:
            self.spent.received += REPLY_BYTES
            done(result)

        ask(answered)

    def ignore(self, paths: Sequence[str]) -> None:
        """See `Port`."""
        self.port.ignore(paths)

    def close(self) -> None:
        """See `Port`."""
        self.port.close()


def answer_bytes(answer: ReadAnswer) -> bytes:
    """As ZooKeeper sends it within the answer to many reads."""
    if isinstance(answer, Node):
        head = READ_STRUCT.pack(GET_DATA, False, 0, len(answer.data))
        return head + answer.data + STAT_STRUCT.pack(*answer.stat[:-1])
    if isinstance(answer, Children):
        head = READ_STRUCT.pack(GET_CHILDREN, False, 0, len(answer.names))
        names = [name.encode() for name in answer.names]
        return head + b"".join(len(name).to_bytes(4, "big") + name for name in names)
    return READ_STRUCT.pack(ERROR, False, NO_NODE, NO_NODE)


def multi_bytes(result: MultiResult) -> int:
    """How long the results of a transaction are, the end of their list among them."""
    if not isinstance(result, Committed):
        return RESULT_BYTES
    said = 0
    for one in result.results:
        said += RESULT_BYTES
        if isinstance(one, Created):
            said += 4 + len(one.path)
        elif isinstance(one, Stat):
            said += STAT_BYTES
    return said + RESULT_BYTES
