"""Asking a server how it is, without a client library's opinions: one connection, one question, a
short limit.

`broker_probe` needs a real ZooKeeper session, which kazoo opens and which lives as long as the
probe. The chroot is part of the path it asks for, because kazoo warns of a chroot that Kafka has
yet to create.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord.errors import StackError
from zkcoord.stack.ports import HOST

ANSWER_TIMEOUT_S = 2.0
ANSWER_MAX_BYTES = 1 << 20
SESSION_TIMEOUT_S = 10.0


def four_letter(port: int, word: str) -> dict[str, str]:
    """The answer to a four-letter word as name -> value (`srvr`: split at the colon, `mntr`: at the
    tab); empty when there is none.
    """
    answer: dict[str, str] = {}
    for line in _ask(port, word).splitlines():
        name, mark, value = line.partition("\t" if "\t" in line else ": ")
        if mark:
            answer[name.strip()] = value.strip()
    return answer


def _ask(port: int, word: str) -> str:
    received = bytearray()
    try:
        with socket.create_connection((HOST, port), ANSWER_TIMEOUT_S) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.sendall(word.encode("ascii"))
            while len(received) < ANSWER_MAX_BYTES and (piece := connection.recv(65536)):
                received += piece
    except OSError:
        return ""
    return received.decode("utf-8", "replace")


@contextmanager
def broker_probe(zookeeper: str, broker_id: int) -> Iterator[Callable[[], int | None]]:
    """A question that can be asked again and again: the czxid of `brokers/ids/N` under this connect
    string (chroot included), None while there is none. StackError when ZooKeeper cannot be reached.
    """
    hosts, slash, chroot = zookeeper.partition("/")
    path = f"{slash}{chroot}/brokers/ids/{broker_id}"
    client = KazooClient(hosts=hosts, timeout=SESSION_TIMEOUT_S)

    def ask() -> int | None:
        try:
            stat = client.exists(path)
        except KazooException:
            return None
        return None if stat is None else int(stat.czxid)

    try:
        client.start(timeout=SESSION_TIMEOUT_S)
    except KazooTimeoutError:
        client.close()
        raise StackError(
            f"No ZooKeeper answers at {hosts}: start one, for instance with `zkcoord stack up"
            " --no-kafka`."
        ) from None
    try:
        yield ask
    finally:
        client.stop()
        client.close()
