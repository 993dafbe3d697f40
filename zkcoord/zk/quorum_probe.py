"""Whether the servers of an ensemble serve anybody, asked without a session.

A server that belongs to a quorum takes connections and answers the four-letter command srvr with
its mode. One that does not run refuses the connection; one that runs without a quorum answers "This
ZooKeeper instance is not currently serving requests" (ZooKeeper 3.4 to 3.9; srvr is allowed by
default). Everything else proves nothing: silence, an unknown name, a command that is not allowed, a
TLS error.
"""

from __future__ import annotations

import enum
import socket
import ssl
import threading
from collections.abc import Collection, Sequence
from typing import Any

from .options import Server

NOT_SERVING = b"not currently serving requests"
MODE = b"Mode: "
ANSWER_BYTES_MAX = 65_536


class ServerAnswer(enum.Enum):
    """What a server said, or what refusing to listen says."""

    SERVES = "serves"
    SERVES_NOT = "serves nobody"
    UNKNOWN = "unknown"


def nobody_serves(answers: Collection[ServerAnswer]) -> bool:
    """Most servers say that they serve nobody, and none says that it serves."""
    said = list(answers)
    return ServerAnswer.SERVES not in said and 2 * said.count(ServerAnswer.SERVES_NOT) > len(said)


def ask_all(
    servers: Sequence[Server], tls: ssl.SSLContext | None, timeout_s: float
) -> list[ServerAnswer]:
    """What each of the servers says now; all are asked at the same time, and each step of each has
    `timeout_s`.
    """
    answers = [ServerAnswer.UNKNOWN] * len(servers)

    def put(number: int, server: Server) -> None:
        answers[number] = ask(server, tls, timeout_s)

    asking = [
        threading.Thread(target=put, args=(number, server), name="zookeeper-srvr", daemon=True)
        for number, server in enumerate(servers)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    return answers


def ask(server: Server, tls: ssl.SSLContext | None, timeout_s: float) -> ServerAnswer:
    """What one server says. A name with several addresses serves if one of them does, and serves
    nobody if none does.
    """
    host, port = server
    try:
        addresses = {
            (family, address)
            for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        }
    except OSError:
        return ServerAnswer.UNKNOWN
    said = {_ask(family, address, host, tls, timeout_s) for family, address in addresses}
    if ServerAnswer.SERVES in said:
        return ServerAnswer.SERVES
    return ServerAnswer.SERVES_NOT if said == {ServerAnswer.SERVES_NOT} else ServerAnswer.UNKNOWN


def _ask(
    family: int, address: Any, host: str, tls: ssl.SSLContext | None, timeout_s: float
) -> ServerAnswer:
    with socket.socket(family, socket.SOCK_STREAM) as plain:
        plain.settimeout(timeout_s)
        try:
            plain.connect(address)
            answer = srvr(plain, host, tls)
        except ConnectionRefusedError:
            return ServerAnswer.SERVES_NOT
        except OSError:
            return ServerAnswer.UNKNOWN
    if NOT_SERVING in answer:
        return ServerAnswer.SERVES_NOT
    return ServerAnswer.SERVES if MODE in answer else ServerAnswer.UNKNOWN


def srvr(connected: socket.socket, host: str, tls: ssl.SSLContext | None) -> bytes:
    """What a server answers to that command, over a connection that is made. Raises `OSError`."""
    wrapped = tls.wrap_socket(connected, server_hostname=host) if tls is not None else connected
    with wrapped as asked:
        asked.sendall(b"srvr")
        answer = b""
        while len(answer) < ANSWER_BYTES_MAX and (more := asked.recv(4096)):
            answer += more
    return answer
