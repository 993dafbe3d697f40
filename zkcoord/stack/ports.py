"""TCP ports for servers: free now, and held for as long as the process that drew them lives.

They are drawn from below the range from which the kernel gives ports to outgoing connections: a
server that is restarted must find its port again, and a port of that range may meanwhile belong to
some client's connection.

Nor may another process draw it while the server is down (a killed ZooKeeper server could once not
bind its election port again). So the drawing process keeps a socket bound to it that never listens.
Linux lets a server bind beside that one, since both allow the address to be used again, as Java's,
asyncio's and Go's servers do (socket(7), SO_REUSEADDR); a connection is refused as on any port
where nobody listens. Other systems would keep the server out, so nothing is held there.
"""

from __future__ import annotations

import random
import socket
import sys

from zkcoord.errors import StackError

HOST = "127.0.0.1"
PORT_MIN = 20_000
PORT_MAX = 32_000
ATTEMPTS_MAX = 200

_held: list[socket.socket] = []


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
    """A free port that is not in `taken`, nor drawn by any living process; StackError if none is
    found.
    """
    draw = random.SystemRandom()
    for _ in range(ATTEMPTS_MAX):
        port = draw.randint(PORT_MIN, PORT_MAX)
        if port not in taken and _hold(port):
            return port
    raise StackError(
        f"No free TCP port was found between {PORT_MIN} and {PORT_MAX}: stop something that listens"
        " there."
    )


def free_ports(count: int) -> list[int]:
    """`count` different free ports."""
    found: list[int] = []
    for _ in range(count):
        found.append(free_port(frozenset(found)))
    return found


def _hold(port: int) -> bool:
    """Bind the port as the only one, and only then let servers bind beside it; False if it is bound
    already, be it by a server or by another process's hold.
    """
    hold = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        hold.bind((HOST, port))
    except OSError:
        hold.close()
        return False
    if sys.platform == "linux":
        hold.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _held.append(hold)
    else:
        hold.close()
    return True
