"""Which stored offsets count for a topic as it is now.

A topic that was deleted and made again is another topic, whose records begin anew: what is stored
of the one before must neither be consumed from nor written over what is there now. So the data of
offsets/[topic] says which incarnation the offsets beside it belong to, and who starts the first
partition of another incarnation writes it anew, in the multi that stores its own offsets. From then
on those count that were written in that transaction or later. What nobody has said anything about
counts, and is adopted by the first start.

Data that cannot be read is somebody else's: it is reported and left as it is, and the offsets
beside it count, because a damaged note is no reason to throw a group's progress away.
"""

from __future__ import annotations

import enum

from zkcoord.core.model import Malformed, same_incarnation
from zkcoord.core.value_type import value


@value
class TopicNote:
    """The data of offsets/[topic], as read: `incarnation` is "" where nobody has said anything;
    `written` is the transaction that wrote it, `version` what the next write must name.
    """

    incarnation: str
    newer_only: bool
    version: int
    written: int


@value
class IncarnationMark:
    """Part of a start ack: from now on the offsets of `topic` belong to `incarnation` (with
    `newer_only`, those written from now on), if nobody said otherwise since `version`.
    """

    topic: str
    incarnation: str
    newer_only: bool
    version: int


@value
class ExpectedNote:
    """What offsets/[topic] says, and at which version, since a partition was started without an
    offset. Whoever stores its first one must find it so: below a node that was deleted and made
    again, or that speaks of another topic by now, the offset would pass for one of that.
    """

    incarnation: str
    version: int


class Fate(enum.Enum):
    """What becomes of the offsets stored for a topic."""

    COUNT = "they are this topic's"
    NEWER_COUNT = "those written since the topic was made again are this topic's"
    ADOPTED = "nobody has said whose they are"
    PAST = "they belong to a topic that is gone"


def is_meant(meant: str | None, now: str | None) -> bool:
    """Whether a topic that is `now` ("": it does not exist) is the one that a command means, as far
    as anybody can tell (None: the coordinator, or the topic's node, does not say).
    """
    return meant is None or now is None or same_incarnation(meant, now)


def fate(now: str | None, beside: TopicNote | Malformed | None) -> Fate:
    """What becomes of the offsets of a topic that is `now` (None: the coordinator does not say)."""
    if now is None or beside is None or isinstance(beside, Malformed):
        return Fate.COUNT
    if not beside.incarnation:
        return Fate.ADOPTED
    if not same_incarnation(now, beside.incarnation):
        return Fate.PAST
    return Fate.NEWER_COUNT if beside.newer_only else Fate.COUNT


def counts(found: Fate, written: int, beside: TopicNote | Malformed | None) -> bool:
    """Whether an offset that was written in the transaction `written` counts."""
    if found is Fate.NEWER_COUNT:
        assert isinstance(beside, TopicNote)
        return written >= beside.written
    return found is not Fate.PAST


def mark(
    topic: str, now: str | None, beside: TopicNote | Malformed | None
) -> IncarnationMark | None:
    """What a start ack must say beside the offsets that it writes; None where it has been said."""
    found = fate(now, beside)
    if found not in (Fate.ADOPTED, Fate.PAST):
        return None
    assert now is not None and isinstance(beside, TopicNote)
    return IncarnationMark(topic, now, found is Fate.PAST, beside.version)


def expected(now: str | None, beside: TopicNote | Malformed | None) -> ExpectedNote | None:
    """The note as a start ack that has read `beside` leaves it; None where it cannot be known."""
    if now is None or not isinstance(beside, TopicNote):
        return None
    written = fate(now, beside) in (Fate.ADOPTED, Fate.PAST)
    return ExpectedNote(now, beside.version + written)


def found_again(note: ExpectedNote, beside: TopicNote) -> ExpectedNote | None:
    """What to expect from now on, after `beside` was read; None: the note is gone, or another
    topic's.
    """
    if not same_incarnation(note.incarnation, beside.incarnation):
        return None
    return ExpectedNote(note.incarnation, beside.version)
