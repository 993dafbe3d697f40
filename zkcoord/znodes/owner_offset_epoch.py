"""The small nodes: owner, offset, a topic's incarnation beside its offsets, epoch, leader. Owners
and offsets are plain text, byte for byte what old consumers write.
"""

from __future__ import annotations

import re

from zkcoord.core.model import Malformed, Owner, Thread, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.znodes import names
from zkcoord.znodes.stat import Stat
from zkcoord.znodes.strict_json import (
    INT64_MAX,
    JsonObject,
    decimal,
    integer,
    reading,
    string,
    to_bytes,
)

OFFSET_MAX = INT64_MAX
EPOCH_MAX = 2**53 - 1
"""An epoch begins at the wall clock's milliseconds and rises by one with each election: this is
beyond any. A larger one, somebody's mistake or malice, must not be gone on from: its successors
could not be stored.
"""

LEASE_MS_MAX = 2**31 - 1
PORT_MAX = 65_535
TEXT_CHARS_MAX = 255
OFFSET_BYTES_MAX = 100
OWNER_BYTES_MAX = names.MEMBER_CHARS_MAX + 10

INCARNATION_CHARS_MAX = 84
NEWER_ONLY = "+"

_INCARNATION = re.compile(r"[0-9]{1,19}(\.[A-Za-z0-9_-]{1,64})?", re.ASCII)
_OFFSET = re.compile(rb"[0-9]{1,19}")
# as Java's Long.parseLong, which takes any script's digits
_SIGNED = re.compile(r"[+-]?\d{1,80}")


@value
class Vacant:
    """A node that exists without data: nobody has filled it yet."""


@value
class OffsetsOf:
    """Which incarnation of a topic the offsets stored beside it belong to: all of them, or, with
    `newer_only` (the topic was made again), those that were written in or after the transaction
    that wrote this (an older one belongs to the topic before, and counts as absent).
    """

    incarnation: str
    newer_only: bool = False


@value
class EpochData:
    """The epoch node: the newest epoch, the protocol's version, and the longest lease that its
    coordinator lets members have. `older_lease_ms` is the longest that an earlier one did, where
    that is longer (0: it is not): a member that has not been commanded since counts on it still.
    """

    epoch: int
    protocol: int
    lease_max_ms: int
    older_lease_ms: int = 0

    def older_than(self, lease_max_ms: int) -> int:
        """What the next coordinator, whose own lease is `lease_max_ms`, has to say of older
        ones.
        """
        longest = max(self.lease_max_ms, self.older_lease_ms)
        return longest if longest > lease_max_ms else 0


@value
class LeaderData:
    """The leader node: who coordinates. `brokerid` names the broker it lives beside ("" = none),
    host and port its HTTP endpoint (port 0 = none).
    """

    brokerid: str
    host: str
    port: int
    epoch: int
    timestamp_ms: int


def decode_owner(name: str | TopicPartition, data: bytes, stat: Stat) -> Owner | Malformed:
    """The owner of the partition `name`. Never raises."""
    if stat.ephemeral_owner == 0:
        return Malformed(
            "owner", str(name), "it is not ephemeral, so it would outlive its consumer"
        )
    if not 0 < len(data) <= OWNER_BYTES_MAX or not data.isascii():
        return Malformed("owner", str(name), f"not 1 to {OWNER_BYTES_MAX} bytes of ASCII")
    thread = names.parse_thread(data.decode("ascii"))
    return (
        Malformed("owner", str(name), "not a thread id, <member>-<n>")
        if thread is None
        else Owner(stat.ephemeral_owner, thread, stat.version, stat.czxid)
    )


def encode_owner(thread: Thread) -> bytes:
    """An owner node's data: the thread id."""
    return str(thread).encode("ascii")


def decode_offset(name: str, data: bytes) -> int | Malformed:
    """The next offset to consume of the partition `name`, as old consumers read it: decimal digits,
    perhaps behind a sign, up to 2^63-1 and not below 0. Never raises.
    """
    if _OFFSET.fullmatch(data) is not None and int(data) <= OFFSET_MAX:
        return int(data)
    if not data:
        return Malformed("offset", name, "it is empty")
    text = data[:OFFSET_BYTES_MAX].decode("utf-8", "replace")
    if len(data) <= OFFSET_BYTES_MAX and _SIGNED.fullmatch(text) and int(text) <= OFFSET_MAX:
        if int(text) >= 0:
            return int(text)
        return Malformed("offset", name, f"{names.shown(text)} is below 0")
    return Malformed("offset", name, f"{names.shown(text)} is no number from 0 to 2^63-1")


def encode_offset(offset: int) -> bytes:
    """An offset node's data."""
    assert 0 <= offset <= OFFSET_MAX, offset
    return b"%d" % offset


def is_incarnation(text: str) -> bool:
    """Whether a text can say which incarnation of a topic: `<czxid>` or `<czxid>.<topic id>`."""
    return _INCARNATION.fullmatch(text) is not None


def decode_incarnation(name: str, data: bytes) -> OffsetsOf | Vacant | Malformed:
    """Which incarnation of the topic `name` its stored offsets belong to (the data of
    offsets/[topic]); `Vacant` where an old consumer made the node. Never raises.
    """
    if not data:
        return Vacant()
    text = data[: INCARNATION_CHARS_MAX + 2].decode("ascii", "replace")
    newer = text.endswith(NEWER_ONLY)
    text = text.removesuffix(NEWER_ONLY)
    if not is_incarnation(text):
        return Malformed(
            "offsets",
            name,
            f"not a topic's incarnation of at most {INCARNATION_CHARS_MAX} characters",
        )
    return OffsetsOf(text, newer)


def encode_incarnation(offsets: OffsetsOf) -> bytes:
    """The data of offsets/[topic]."""
    assert is_incarnation(offsets.incarnation), offsets
    return (offsets.incarnation + (NEWER_ONLY if offsets.newer_only else "")).encode("ascii")


def decode_epoch(data: bytes) -> EpochData | Vacant | Malformed:
    """The epoch node's data; `Vacant` where it is empty, as a member or a tool that only made the
    path leaves it. Never raises.
    """
    return reading("epoch", "epoch", data, _epoch) if data else Vacant()


def encode_epoch(epoch: EpochData) -> bytes:
    """The epoch node's data."""
    older = {"older_lease_ms": epoch.older_lease_ms} if epoch.older_lease_ms else {}
    return to_bytes(
        {
            "version": 1,
            "epoch": epoch.epoch,
            "protocol": epoch.protocol,
            "lease_max_ms": epoch.lease_max_ms,
            **older,
        }
    )


def decode_leader(data: bytes) -> LeaderData | Malformed:
    """The leader node's data. Never raises."""
    return reading("leader", "leader", data, _leader)


def encode_leader(leader: LeaderData) -> bytes:
    """The leader node's data."""
    return to_bytes(
        {
            "version": 1,
            "brokerid": leader.brokerid,
            "host": leader.host,
            "port": leader.port,
            "epoch": leader.epoch,
            "timestamp": str(leader.timestamp_ms),
        }
    )


def _epoch(document: JsonObject) -> EpochData:
    integer(document, "version", 1, 1)
    older = (
        integer(document, "older_lease_ms", 0, LEASE_MS_MAX) if "older_lease_ms" in document else 0
    )
    return EpochData(
        integer(document, "epoch", 1, EPOCH_MAX),
        integer(document, "protocol", 1),
        integer(document, "lease_max_ms", 1, LEASE_MS_MAX),
        older,
    )


def _leader(document: JsonObject) -> LeaderData:
    integer(document, "version", 1, 1)
    return LeaderData(
        brokerid=string(document, "brokerid", TEXT_CHARS_MAX),
        host=string(document, "host", TEXT_CHARS_MAX),
        port=integer(document, "port", 0, PORT_MAX),
        epoch=integer(document, "epoch", 1),
        timestamp_ms=decimal(document, "timestamp"),
    )
