"""TCP ports for servers: free now, unlikely to be taken by chance later.

They are drawn from below the range from which the kernel gives ports to outgoing connections. A server that is restarted must find its port again, and a port of that range may meanwhile
belong to some client's connection.
"""

from __future__ import annotations

import random
import socket

from zkcoord.errors import StackError

HOST = "127.0.0.1"
PORT_MIN = 20_000
PORT_MAX = 32_000
ATTEMPTS_MAX = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(taken: frozenset[int] = frozenset()) -> int:
    """A free port that is not in `taken`; StackError if none is found."""
    draw = random.SystemRandom()
    for _ in range(ATTEMPTS_MAX):
        port = draw.randint(PORT_MIN, PORT_MAX)
        if port not in taken and is_free(port):
            return port
    raise StackError(f"No free TCP port was found between {PORT_MIN} and {PORT_MAX}: stop something that listens there.")


def free_ports(count: int) -> list[int]:
    """`count` different free ports."""
    found: list[int] = []
    for _ in range(count):
        found.append(free_port(frozenset(found)))
    return found
