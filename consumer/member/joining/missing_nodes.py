"""Making nodes that are missing above those that a multi writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zkcoord.zk.port import AclEntry, Create, Port, Unanswered
from zkcoord.znodes.paths import parents


def with_parents(paths: Iterable[str]) -> list[str]:
    """These and all above them, from the root down, each once."""
    wanted = dict.fromkeys(p for path in paths for p in (*parents(path), path))
    return sorted(wanted, key=lambda p: (p.count("/"), p))


def make_missing(
    port: Port, paths: list[str], acl: tuple[AclEntry, ...], then: Callable[[], None]
) -> None:
    """Make these, one node at a time in their order, then call `then`; one that exists by now is as
    good. Nothing more happens when the connection is lost.
    """
    if not paths:
        then()
        return
    first, rest = paths[0], paths[1:]
    port.multi(
        [Create(first, b"", acl=acl)],
        lambda result: (
            None if isinstance(result, Unanswered) else make_missing(port, rest, acl, then)
        ),
    )
