"""What was received of each partition and not handed out yet. Pure: messages are anything with an
`offset()`.

A `PartitionQueue` holds every message of its partition from `begin` up to `end`, so any position in
between can be handed out from, also one before what was handed out last (`begin` stays behind it by
what the last take gave): positions that are put back, and records that came another way meanwhile,
need no new fetch. A position outside means that the stream has to be begun anew there.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any


class PartitionQueue:
    """One partition's messages, in order. `fault` is what librdkafka said in place of the message
    at `end`; nothing follows it.
    """

    __slots__ = ("at", "begin", "end", "fault", "messages", "size")

    def __init__(self, position: int) -> None:
        self.begin = position
        self.end = position
        self.messages: list[Any] = []
        self.at = 0
        self.size = 0
        self.fault: Any = None

    def add(self, messages: list[Any], size: int) -> None:
        """Append messages of `size` bytes; the first is at `end` or after it."""
        self.messages.extend(messages)
        self.size += size
        self.end = messages[-1].offset() + 1

    def ends(self, offset: int) -> None:
        """There is nothing between what was received and `offset`."""
        self.end = max(self.end, offset)

    def jump(self, position: int) -> bool:
        """Everything before `position` was handed out another way: what is still to come of it is
        not wanted. False where what is still to come leaves something out after `position`: the
        stream has to be begun anew there.
        """
        if self.move(position):
            return True
        if position < self.begin or self.fault is not None:
            return False
        self.messages.clear()
        self.at = self.size = 0
        self.begin = self.end = position
        return True

    @property
    def ready(self) -> int:
        """How many messages are not handed out."""
        return len(self.messages) - self.at

    def move(self, position: int) -> bool:
        """Go on at this position; False when the stream does not hold it."""
        if not self.begin <= position <= self.end:
            return False
        self.at = bisect_left(self.messages, position, key=_offset)
        return True

    def take(self, count: int) -> list[Any]:
        """Up to `count` messages. They are kept until the next take, for a position that is put
        back.
        """
        del self.messages[: self.at]
        self.begin = self.messages[0].offset() if self.messages else self.end
        taken = self.messages[:count]
        self.at = len(taken)
        return taken

    def trim(self, size: int) -> None:
        """What is left is so many bytes."""
        self.size = max(0, size) if self.ready else 0

    @property
    def exhausted(self) -> bool:
        """Is everything handed out that was received?"""
        return self.at == len(self.messages)


def _offset(message: Any) -> int:
    return int(message.offset())
