"""How many connections a process may have open files for."""

from __future__ import annotations

import resource

PER_CONNECTION = 3
"""The client's, its broker's, and, of a member, its session."""
OWN = 300
"""Of the gateway itself: ports, files, questions, guardians."""


def connections_for(wanted: int) -> tuple[int, str]:
    """How many connections of clients there may be, at most `wanted`, and a sentence where that is
    fewer. The limit is raised as far as the system lets a process raise it.
    """
    needed = OWN + PER_CONNECTION * wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted, ""
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError):
        limit = soft
    if limit >= needed:
        return wanted, ""
    fits = max(1, (limit - OWN) // PER_CONNECTION)
    return fits, (
        f"this process may open {limit} files, which is enough for {fits} clients: it lets no more"
        f" in; raise the limit (ulimit -n, LimitNOFILE of systemd) to {needed} for {wanted}"
    )
