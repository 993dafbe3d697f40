"""Watch events as they stand in the bytes that were received.

Those that arrived together are taken together: a transaction may fire hundreds at once, and one
turn of kazoo's loop and one of the owner's for each take longer than all else does. Those that
nobody wants to hear of are not even decoded: a group that is left alone may have thousands of them
a second.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from kazoo.protocol import serialization as wire
from kazoo.protocol.connection import WATCH_XID

from zkcoord.zk.port import Change

AT_ONCE_MAX = 64
FRAME_BEGINS = struct.Struct("!ii")
LENGTH_BYTES = 4
HEADER_BYTES = 16
"""A frame is its length, then a header (the number of the request that it answers, a transaction,
an error), then the body.
"""
PATH_AT = 12
"""An event's body is its type, the session's state, the length of the path, and the path."""


def events_together(
    frame: bytes,
    body_at: int,
    received: bytearray,
    read: Callable[[int], bytes],
    ignored: tuple[bytes, ...],
) -> Iterator[tuple[Change, str]]:
    """The event in `frame` (its body begins at `body_at`), then those right behind it in
    `received`, `AT_ONCE_MAX` at most; `read` takes so many bytes of them. Paths that begin with one
    of `ignored` are left out. Raises what kazoo's decoder raises, and `ValueError` for an event
    that is not known.
    """
    found = 0
    while True:
        if not frame.startswith(ignored, body_at + PATH_AT):
            event, _ = wire.Watch.deserialize(frame, body_at)
            yield Change(event.type), event.path
            found += 1
        size = _ahead(received)
        if not size or found == AT_ONCE_MAX:
            return
        frame, body_at = read(size), LENGTH_BYTES + HEADER_BYTES


def _ahead(received: bytearray) -> int:
    """The size of the next frame in bytes, where it is a watch event that was received to its end;
    else 0.
    """
    if len(received) < LENGTH_BYTES + HEADER_BYTES:
        return 0
    length, xid = FRAME_BEGINS.unpack_from(received)
    size: int = LENGTH_BYTES + length
    return size if xid == WATCH_XID and LENGTH_BYTES + HEADER_BYTES < size <= len(received) else 0
