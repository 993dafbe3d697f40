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

from zkcoord.errors import ConfigurationError
from zkcoord.znodes.kafka import BrokerData

log = logging.getLogger(__name__)

PLAINTEXT = "PLAINTEXT"
ANSWER_S = 2.0
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


def _collected(answers: queue.SimpleQueue[str], until: float) -> set[str]:
    found: set[str] = set()
    while True:
        try:
            found.add(answers.get(timeout=max(0.0, until - time.monotonic())))
        except queue.Empty:
            return found
        until = min(until, time.monotonic() + TOGETHER_S)


def _try(name: str, address: str, answers: queue.SimpleQueue[str]) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, ValueError) as e:  # the latter: no host's name
        log.debug("the listener %s at %s: %s", name, address, e)
    else:
        answers.put(name)
