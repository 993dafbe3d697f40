"""Whom a request takes us for: its `Host`, checked against DNS rebinding.

A page in somebody's browser may ask a name of its own that suddenly leads here, and read what we
answer: to the browser it is the page's own server. What it cannot choose is the name, which the
browser sends along. So a name that nobody has given us is not answered. An address is: a page that
was fetched from our address came from us.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence

LOOPBACK = "localhost"


class HostNames:
    """The names of a server: loopback's, those given (names or addresses), and any address."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(map(_plain, names))

    def serve(self, headers: Sequence[str]) -> bool:
        """Whether a request with these values of `Host` is meant for this server. One without is
        no browser's.
        """
        if not headers:
            return True
        name = _plain(_without_port(headers[0].strip()))
        return len(headers) == 1 and (
            name == LOOPBACK
            or name.endswith(f".{LOOPBACK}")
            or name in self._names
            or _is_address(name)
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        address, _, rest = host.partition("]")
        return f"{address}]" if not rest or rest.startswith(":") else host
    return host.partition(":")[0] if host.count(":") == 1 else host


def _plain(name: str) -> str:
    return name.removeprefix("[").removesuffix("]").removesuffix(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
