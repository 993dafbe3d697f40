"""Clients of kafka-python that can also fail to be made.

Where no broker answers, its constructors raise, and what they have begun stays: a thread and its
sockets, which try on for as long as the process lives (kafka-python 3.0). So a process that asks
again and again, as a gateway does while brokers are away, would run out of both.

And they wait for that thread without a limit: what it does has limits of its own, but were one of
them not kept, whoever makes a client would stand still for ever.

Nor do they take a list of servers of which one cannot be read, wherever that comes from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar

from zkcoord.terminal import shown
from zkcoord.tls import kafka_tls

T = TypeVar("T")

LATE_FACTOR = 2


def kafka_client(make: Callable[..., T], config: Mapping[str, Any]) -> T:
    """`make` (KafkaAdminClient, KafkaConsumer) with these options, and TLS as `kafka_tls` makes it.
    Raises what the constructor raises, once nothing is left of it, at the latest when it has taken
    `LATE_FACTOR` times what the options permit (`bootstrap_timeout_ms`); `ConfigurationError` for
    TLS files that cannot be used. Servers that are no HOST:PORT are left out; where none is,
    it raises `KafkaConfigurationError`.
    """
    from kafka.net.compat import KafkaNetClient

    config = {**config, "bootstrap_servers": _usable(config["bootstrap_servers"])}

    with ExitStack() as watched, ExitStack() as begun:

        def begin(**options: Any) -> Any:
            client = KafkaNetClient(**options)
            begun.callback(client._net.stop)
            begun.callback(client.close)  # before that
            if limit_ms := options.get("bootstrap_timeout_ms"):
                watch = threading.Timer(LATE_FACTOR * limit_ms / 1000, client._net.stop)
                watch.daemon = True
                watched.callback(watch.cancel)
                watch.start()
            return client

        made = make(**{"kafka_client": begin, **config, **kafka_tls(config)})
        begun.pop_all()  # they are its own now
    return made


def _usable(servers: Iterable[str]) -> list[str]:
    from kafka.cluster import collect_hosts
    from kafka.errors import KafkaConfigurationError

    found, first = [], ""
    for server in servers:
        try:
            collect_hosts([server])
        except ValueError:
            first = first or server
        else:
            found.append(server)
    if first and not found:
        raise KafkaConfigurationError(f"{shown(first)} is not HOST:PORT")
    return found
