"""Where the brokers are, from ZooKeeper: `bootstrap_servers` for those who do not give them, and
again when none of the known ones can be reached any more.

At the start a short session of its own reads their nodes, Kafka's or zkcoord's (the member's
session does not exist yet). Later the member's session is used. A broker counts with its listeners
whose security protocol is the configured one; where it has several, the first that answers is used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from consumer.errors import ConsumerOptionError, SessionRefusedError, not_let
from consumer.member.one_query import ask
from zkcoord.core.model import Malformed
from zkcoord.errors import ConfigurationError
from zkcoord.zk.listeners import Listeners, by_answer, chosen, listeners_of
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import (
    Children,
    Denied,
    GetChildren,
    GetData,
    Node,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
)
from zkcoord.znodes.kafka import BrokerData, decode_broker
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

BROKERS_MAX = 1_000
FOLLOW_EVERY_MS = 2_000
UNREACHED_MS = 1_000


class BrokerReader:
    """Reads all live brokers through a port, in two reads; `done` gets the listeners with the
    security protocol `protocol`, by name, with the brokers' addresses in the order of their ids.
    """

    def __init__(
        self, port: Port, layout: Layout, protocol: str, done: Callable[[Listeners], object]
    ) -> None:
        self.port = port
        self.layout = layout
        self.protocol = protocol
        self.done = done
        # A node that may not be read: what is hidden is not absent.
        self.hidden = ""

    def begin(self) -> None:
        """Start; on the thread of the port's loop."""
        self.port.read([GetChildren(self.layout.brokers_root)], self._ids)

    def _note(self, path: str, answer: ReadAnswer) -> None:
        if isinstance(answer, Denied):
            self.hidden = path

    def _ids(self, result: ReadResult) -> None:
        answer = result.answers[0] if isinstance(result, ReadDone) else None
        if answer is not None:
            self._note(self.layout.brokers_root, answer)
        ids = answer.names[:BROKERS_MAX] if isinstance(answer, Children) else ()
        if ids:
            self.port.read(
                [GetData(self.layout.broker(i)) for i in ids], lambda r: self._data(ids, r)
            )
        else:
            self.done({})

    def _data(self, ids: Iterable[str], result: ReadResult) -> None:
        answers = result.answers if isinstance(result, ReadDone) else ()
        for i, answer in zip(ids, answers, strict=False):
            self._note(self.layout.broker(i), answer)
        brokers = [
            broker
            for i, a in zip(ids, answers, strict=False)
            if isinstance(a, Node) and (broker := _broker(i, a.data)) is not None
        ]
        self.done(listeners_of(brokers, self.protocol))


def _broker(name: str, data: bytes) -> BrokerData | None:
    value = decode_broker(name, data)
    if isinstance(value, Malformed):
        log.warning("the node of broker %s cannot be used: %s", name, value.reason)
        return None
    return value


def find_listeners(
    zk: ZkOptions, layout: Layout, protocol: str, timeout_s: float, listener: str | None = None
) -> Listeners:
    """The listeners of the live brokers to try, one after the other: those first that take a
    connection; `listener` alone where it is given. Raises `SessionRefusedError` when ZooKeeper
    cannot be used or does not let it read them, `ConsumerOptionError` when no broker, or no such
    listener, is there.
    """

    readers: list[BrokerReader] = []

    def read(port: Port, done: Callable[[Listeners], None]) -> None:
        readers.append(BrokerReader(port, layout, protocol, done))
        readers[-1].begin()

    found = ask(zk, read, timeout_s)
    if not found and readers and readers[-1].hidden:
        raise SessionRefusedError(not_let(readers[-1].hidden))
    if not found:
        raise ConsumerOptionError(
            f"no live broker with a {protocol} listener is registered under"
            f" {zk.chroot}{layout.brokers_root} of {zk.address}: start Kafka, correct the chroot of"
            " zookeeper_connect, or give bootstrap_servers (where brokers have no ZooKeeper"
            " underneath a coordinator that is given them tells all members)"
        )
    if listener is None:
        return by_answer(found)
    try:
        return chosen(found, listener)
    except ConfigurationError as e:
        raise ConsumerOptionError(f"bootstrap_listener is {listener!r}: {e}") from e


def find_brokers(zk: ZkOptions, layout: Layout, protocol: str, timeout_s: float) -> list[str]:
    """["host:port", ..] of the live brokers, at the first of `find_listeners`. Raises the same."""
    return list(next(iter(find_listeners(zk, layout, protocol, timeout_s).values())))


class BrokerDiscovery:
    """Notices that no broker can be reached, and looks where they are now. `look` starts a look at
    ZooKeeper and must return at once.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._stuck_since: float | None = None
        self._looked_at = 0.0

    def note(self, stuck: bool) -> None:
        """Whether, right now, there is something to fetch and no broker to ask."""
        now = time.monotonic()
        if not stuck:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif (
            now - self._stuck_since > UNREACHED_MS / 1000
            and now - self._looked_at > FOLLOW_EVERY_MS / 1000
        ):
            self._looked_at = now
            self._look()
