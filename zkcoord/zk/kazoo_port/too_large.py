"""Answers that are larger than is taken.

Who asked for much at once asks for less after the connection was dropped. One node cannot be asked
for less: of such a request the answer is passed over, and a refusal stands in its place. Else
whoever may make nodes below one that a coordinator lists could give them names of a megabyte, of
which ZooKeeper says only how many there are, and no coordinator would ever get further.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from zkcoord.zk.kazoo_port.wire_requests import TOO_LARGE

PASSED_OVER_BYTES_MAX = 1024 * 1024 * 1024
BYTES_AT_ONCE = 1024 * 1024
HEAD = struct.Struct("!iqi")
"""How an answer begins: its request's number, a transaction, an error's code."""


def refusal_instead(
    length: int, pending: Iterable[tuple[object, object, int]], read: Callable[[int], bytes]
) -> bytes:
    """What to take an answer of this length for, which was read to its end; b"": something else
    helps. `pending` are the requests under way, the oldest first, each with its number.
    """
    request, _, number = next(iter(pending), (None, None, 0))
    if length > PASSED_OVER_BYTES_MAX or getattr(request, "reads", 0) != 1:
        return b""
    answered, zxid, _ = HEAD.unpack(read(HEAD.size))
    if answered != number:
        return b""
    left = length - HEAD.size
    while left:
        left -= len(read(min(left, BYTES_AT_ONCE)))
    return HEAD.pack(number, zxid, TOO_LARGE)
