"""An ensemble seen from beside: every session of the coordinator passes through here, is counted,
and looks after the broker that the coordinator lives beside.

* `on_multi` is told how each multi ended (ok, fenced, refused, unknown). Fenced means: its first
  operation was a check and failed, which is how every write of the coordinator begins.
* With a broker's id, each new connection looks at /brokers/ids. A broker that was never seen there
  is a wrong option: the session is closed and ends `Refused` with one sentence. Not so where
  ZooKeeper knows of no broker and the coordinator can ask some: which there are it finds out when
  it leads. Once it was seen, its absence is reported (`on_broker(False)`), and its return, and
  nothing else follows from it: groups are served as long as ZooKeeper is there.

Ordering: the first `Connected` is held back until the broker has been seen. Events that come
meanwhile (`Suspended`, or the end) go on at once; the look then ends unanswered, and a later
`Connected` takes the place of the one held and asks again. What the driver sees is a `Port` like
any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zkcoord.zk.port import (
    AclsResult,
    Check,
    Children,
    Closed,
    Committed,
    Connected,
    Denied,
    Ensemble,
    Expired,
    Fired,
    GetChildren,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    Port,
    PortEvent,
    Read,
    ReadDone,
    ReadResult,
    Refused,
    Rejected,
    Unanswered,
    WatchMode,
    ZkError,
)
from zkcoord.znodes.paths import Layout

CHECK_FAILED = (ZkError.BAD_VERSION, ZkError.NO_NODE)


def outcome_of(ops: Sequence[Op], result: MultiResult) -> str:
    """How a multi ended: ok, fenced, refused or unknown."""
    if isinstance(result, Committed):
        return "ok"
    if isinstance(result, Unanswered):
        return "unknown"
    assert isinstance(result, Rejected)
    return (
        "fenced"
        if result.index == 0 and isinstance(ops[0], Check) and result.error in CHECK_FAILED
        else "refused"
    )


class MonitoredEnsemble:
    """`inner`'s sessions, observed. Both callbacks run on the loop's thread; `on_broker` only on a
    change. `asks`: whether the coordinator has been told of brokers to ask.
    """

    def __init__(
        self,
        inner: Ensemble,
        layout: Layout,
        broker_id: int | None,
        on_multi: Callable[[str], None],
        on_broker: Callable[[bool], None],
        asks: bool = False,
    ) -> None:
        self.inner = inner
        self.asks = asks
        self.brokers_root = layout.brokers_root
        self.broker_path = layout.broker(broker_id) if broker_id is not None else ""
        self.broker_id = broker_id
        self.on_multi = on_multi
        self.on_broker = on_broker
        self.broker_seen: bool | None = None

    def open(self, on_event: Callable[[PortEvent], None]) -> MonitoredPort:
        """Start a new session."""
        port = MonitoredPort(self, on_event)
        port.inner = self.inner.open(port.event)
        return port

    def broker(self, there: bool) -> None:
        """The broker was looked at."""
        if there is not self.broker_seen:
            self.broker_seen = there
            self.on_broker(there)


class MonitoredPort:
    """A `Port`; `inner` is the real one."""

    inner: Port

    def __init__(self, ensemble: MonitoredEnsemble, on_event: Callable[[PortEvent], None]) -> None:
        self._ensemble = ensemble
        self._on_event = on_event
        self._held: Connected | None = None
        self._refusal = ""

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""

        def ended(result: MultiResult) -> None:
            self._ensemble.on_multi(outcome_of(ops, result))
            done(result)

        self.inner.multi(ops, ended)

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.inner.read(reads, done)

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """See `Port`."""
        self.inner.acls(paths, done)

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.inner.sync(done)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.inner.watch(path, mode, done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.inner.unwatch(path, done)

    def ignore(self, paths: Sequence[str]) -> None:
        """See `Port`."""
        self.inner.ignore(paths)

    def close(self) -> None:
        """See `Port`."""
        self.inner.close()

    # the session's events

    def event(self, event: PortEvent) -> None:
        """An event of the real port."""
        path = self._ensemble.broker_path
        if isinstance(event, Connected) and path:
            if self._ensemble.broker_seen is None:
                self._held = event
            else:
                self._on_event(event)
            self.inner.watch(path, WatchMode.PERSISTENT, lambda result: None)
            return self._look()
        if isinstance(event, Fired) and event.path == path:
            return self._look()
        if isinstance(event, (Expired, Closed)) and self._refusal:
            event = Refused(self._refusal)
        self._on_event(event)

    def _look(self) -> None:
        paths = self._ensemble.broker_path, self._ensemble.brokers_root
        self.inner.read([GetData(paths[0]), GetChildren(paths[1])], self._looked)

    def _looked(self, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        (answer, others), held, self._held = result.answers, self._held, None
        knows_none = isinstance(others, Missing) or (
            isinstance(others, Children) and not others.names
        )
        if held is None:
            if self._ensemble.broker_seen is not None or not knows_none:
                self._ensemble.broker(isinstance(answer, Node))
            return None
        if isinstance(answer, Node):
            self._ensemble.broker(True)
            return self._on_event(held)
        if knows_none and self._ensemble.asks:
            return self._on_event(held)
        assert isinstance(answer, (Missing, Denied))
        why = (
            "is not there"
            if isinstance(answer, Missing)
            else f"cannot be read ({answer.error.value})"
        )
        self._refusal = (
            f"broker {self._ensemble.broker_id} {why} in ZooKeeper ({self._ensemble.broker_path}):"
            " start it, or correct --broker-id or the chroot in --zookeeper"
        )
        self.inner.close()
