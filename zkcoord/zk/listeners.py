"""Which of the brokers' listeners to go to, where several speak the protocol that is used: one for
the network inside, one for that outside, and only one of them may answer from here.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice

from zkcoord.errors import ConfigurationError
from zkcoord.znodes.kafka import BrokerData

log = logging.getLogger(__name__)

PLAINTEXT = "PLAINTEXT"
KAFKA_PORT = 9092
ANSWER_S = 2.0
CONNECTED_MAX = 16
# of a listener whose brokers answer at the same moment, the first by name is taken
TOGETHER_S = 0.05
ASKED_MAX = 3

# A listener's name -> "host:port" of each broker.
Listeners = Mapping[str, tuple[str, ...]]


def listeners_of(brokers: Iterable[BrokerData], protocol: str) -> dict[str, tuple[str, ...]]:
    """The listeners with this security protocol, by name; those of formats without names are called
    as their protocol.
    """
    found: dict[str, tuple[str, ...]] = {}
    for broker in brokers:
        named = {
            listener: (host or broker.host, port)
            for listener, (host, port) in broker.endpoints.items()
            if broker.protocols.get(listener, listener) == protocol
        }
        if not named and protocol == PLAINTEXT and broker.host and broker.port > 0:
            named = {PLAINTEXT: (broker.host, broker.port)}
        for listener, (host, port) in named.items():
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            found[listener] = (*found.get(listener, ()), address)
    return dict(sorted(found.items()))


def none_live(protocol: str) -> str:
    """What is said where ZooKeeper names no broker that can be gone to, in whichever of its nodes
    (Kafka's, or zkcoord's of a cluster that has left ZooKeeper).
    """
    return f"ZooKeeper names no live broker with a {protocol} listener"


def chosen(listeners: Listeners, name: str) -> Listeners:
    """The listener of this name alone. Raises `ConfigurationError` where there is none."""
    if name not in listeners:
        raise ConfigurationError(
            f"no live broker has a listener called {name} with this security protocol: write"
            f" {' or '.join(listeners) or 'the name of one'}, or start the brokers"
        )
    return {name: listeners[name]}


def by_answer(listeners: Listeners) -> Listeners:
    """The same, with those first that take a connection now. Waits only where there are several,
    and no longer than until one does, or `ANSWER_S`.
    """
    if len(listeners) < 2:
        return listeners
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name, addresses in listeners.items():
        for address in addresses[:ASKED_MAX]:
            threading.Thread(target=_try, args=(name, address, answers), daemon=True).start()
    answered = _collected(answers, time.monotonic() + ANSWER_S)
    first = sorted(answered)[:1]
    rest = [name for name in listeners if name not in first]
    return {name: listeners[name] for name in (*first, *rest)}


def takes_connections(addresses: Iterable[str]) -> bool:
    """Whether one of these, `host:port` or a host alone, does now (of the first `CONNECTED_MAX`).
    Waits no longer than until one does, or `ANSWER_S`.
    """
    asked = tuple(islice(addresses, CONNECTED_MAX))
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
    for address in asked:
        threading.Thread(
            target=lambda at: answers.put(_connects(at)), args=(address,), daemon=True
        ).start()
    until = time.monotonic() + ANSWER_S
    with suppress(queue.Empty):
        return any(answers.get(timeout=max(0.0, until - time.monotonic())) for _ in asked)
    return False


def _collected(answers: queue.SimpleQueue[str], until: float) -> set[str]:
    found: set[str] = set()
    while True:
        try:
            found.add(answers.get(timeout=max(0.0, until - time.monotonic())))
        except queue.Empty:
            return found
        until = min(until, time.monotonic() + TOGETHER_S)


def _try(name: str, address: str, answers: queue.SimpleQueue[str]) -> None:
    if _connects(address):
        answers.put(name)


def _connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        host, port = address, str(KAFKA_PORT)
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, ValueError, OverflowError) as e:  # ValueError: it is no name of a host
        log.debug("the listener at %s: %s", address, e)
        return False
    return True
