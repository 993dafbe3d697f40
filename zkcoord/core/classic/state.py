"""What is persisted of a classic group, and how large it may be.

What is too large is refused with a code that clients understand:

* a member's metadata, and that of all: GROUP_MAX_SIZE_REACHED. The group has no room for this
  member, which every client raises to its application;
* too many protocols, or a name that is too long: INCONSISTENT_GROUP_PROTOCOL, as for every list
  that cannot be used;
* ids that have been given out and are not used yet: GROUP_MAX_SIZE_REACHED;
* an assignment: UNKNOWN_SERVER_ERROR, and another rebalance, as Kafka does when a group does not
  fit its log;
* an instance: INVALID_REQUEST. What is only for people (client id, host, reason) is cut.
"""

from __future__ import annotations

import enum

from zkcoord.core.error_codes import WireCode
from zkcoord.core.value_type import value

from .requests import ClassicDescribed, ClassicJoin, DescribedPeer, Opaque, Protocols

MEMBER_METADATA_BYTES_MAX = 262_144
GROUP_METADATA_BYTES_MAX = 4_194_304
ASSIGNMENT_BYTES_MAX = 4_194_304
PROTOCOLS_MAX = 64
PROTOCOL_CHARS_MAX = 255
INSTANCE_CHARS_MAX = 249
PENDING_MAX = 1_000
WORDS_CHARS_MAX = 255

# New members do not know their id and send no heartbeats; their client, if it still lives, asks
# again after this.
NEW_MEMBER_MS = 300_000


class ClassicPhase(enum.Enum):
    """The state of a group, in Kafka's words."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@value
class ClassicOptions:
    """A broker's options of the same meaning. `waiting_max` and `waiting_bytes_max`: requests that
    wait until something is persisted; those beyond are to be sent again.
    """

    initial_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 10_000
    waiting_max: int = 20_000
    waiting_bytes_max: int = 16_777_216


@value
class ClassicMember:
    """A member, as it is persisted."""

    member_id: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: Opaque = b""

    def metadata(self, protocol: str) -> Opaque:
        """What it says for this protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")


@value
class ClassicState:
    """A group, as it is persisted: empty, in a generation that waits for its assignment, or stable.
    A rebalance that has begun is not: who is told of it joins again, whoever coordinates then.
    """

    phase: ClassicPhase
    generation: int
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: tuple[ClassicMember, ...] = ()


def described(state: ClassicState | None) -> ClassicDescribed:
    """Answer to DescribeGroups. None: nobody knows the group."""
    if state is None:
        return ClassicDescribed(WireCode.NONE, ClassicPhase.DEAD.value)
    tells = state.phase is ClassicPhase.STABLE
    members = tuple(
        DescribedPeer(
            one.member_id,
            one.instance,
            one.client_id,
            one.host,
            one.metadata(state.protocol) if tells else b"",
            one.assignment if tells else b"",
        )
        for one in state.members
    )
    protocol = state.protocol if tells else ""
    return ClassicDescribed(
        WireCode.NONE, state.phase.value, state.protocol_type, protocol, members
    )


def size_of(protocols: Protocols) -> int:
    """Bytes of a member's metadata, for all its protocols."""
    return sum(len(data) for _, data in protocols)


def too_large(join: ClassicJoin, others_bytes: int) -> WireCode:
    """Why a member is refused that brings too much; NONE if it does not."""
    names = (join.protocol_type, *(name for name, _ in join.protocols))
    if len(join.protocols) > PROTOCOLS_MAX or max(map(len, names)) > PROTOCOL_CHARS_MAX:
        return WireCode.INCONSISTENT_GROUP_PROTOCOL
    if len(join.instance or "") > INSTANCE_CHARS_MAX:
        return WireCode.INVALID_REQUEST
    size = size_of(join.protocols)
    if size > MEMBER_METADATA_BYTES_MAX or others_bytes + size > GROUP_METADATA_BYTES_MAX:
        return WireCode.GROUP_MAX_SIZE_REACHED
    return WireCode.NONE


def words_of(reason: str) -> str:
    """What a client says why, for people."""
    return f"its client says: {reason[:WORDS_CHARS_MAX]}" if reason else "no reason given"
