"""What a client says that it is: name and version of its library (ApiVersions from version 3 on,
KIP-511). For people: whoever connects can say anything, so it is what Kafka allows, or nothing.
And what speaks, where it is not Kafka's protocol.
"""

from __future__ import annotations

import re
import struct

from consumer.gateway.frames import API_VERSIONS, Head
from zkcoord.kafka_client.frames import after_tags, varint

SINCE = 3
SERIAL = frozenset({"sarama"})
JAVA, RDKAFKA = "apache-kafka-java", "rdkafka"
PART_CHARS_MAX = 100
TLS_HANDSHAKE = b"\x16\x03"
HTTP = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"CONN"})
_PART = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def software_of(head: Head, frame: bytes) -> str:
    """Name and version, with a blank between, of an ApiVersions request (without its length); ""
    where it says none. Never raises.
    """
    if head.key != API_VERSIONS or head.version < SINCE:
        return ""
    try:
        (length,) = struct.unpack_from(">h", frame, 8)
        at = after_tags(frame, 10 + max(0, length))
        name, at = _compact(frame, at)
        version, _ = _compact(frame, at)
    except (IndexError, ValueError, struct.error):
        return ""
    return f"{name} {version}" if _is_part(name) and _is_part(version) else ""


def other_protocol(begin: bytes) -> str:
    """What a client speaks whose first bytes are these, where that can be told; else ""."""
    if begin[:2] == TLS_HANDSHAKE:
        return "the client speaks TLS to a port without it (--listen-tls)"
    if begin[:4] in HTTP:
        return "the client speaks HTTP"
    return ""


def is_serial(software: str) -> bool:
    """Whether a library asks a broker for nothing else until it has an answer."""
    return software.partition(" ")[0] in SERIAL


def asks_again(software: str) -> bool:
    """Whether a library sends its next heartbeat after its `retry.backoff.ms` when one is answered
    REQUEST_TIMED_OUT, and makes nothing else of that. So do Java's (AbstractCoordinator: an error
    that it does not know is `failHeartbeat`) and librdkafka and what is built on it
    (rd_kafka_err_action: a retry).
    """
    return software.startswith(f"{JAVA} ") or RDKAFKA in software


def _is_part(text: str) -> bool:
    return len(text) <= PART_CHARS_MAX and _PART.fullmatch(text) is not None


def _compact(frame: bytes, at: int) -> tuple[str, int]:
    """A text, and where it ends."""
    size, at = varint(frame, at)
    if size == 0 or at + size - 1 > len(frame):
        raise ValueError("no text")
    end = at + size - 1
    return frame[at:end].decode("ascii"), end
