"""What clients ask of the coordinator of a classic group, and what they are answered, whatever the
version of the request. Codes are Kafka's (`WireCode`), times are ms.
"""

from __future__ import annotations

from zkcoord.core.error_codes import WireCode
from zkcoord.core.value_type import value


@value
class BlobRef:
    """Bytes that are kept elsewhere, under their digest; `len` is how many they are. Groups compare
    metadata and measure it, and never look into it.
    """

    digest: str
    size: int

    def __len__(self) -> int:
        return self.size


Opaque = bytes | BlobRef
Protocols = tuple[tuple[str, Opaque], ...]


@value
class ClassicJoin:
    """JoinGroup. `protocols` in order of preference. `fresh_id` is the id that a new member gets.
    `named_first`: one without id and instance is first told its id (version 4 and later, KIP-394);
    `may_skip`: version 9 and later (KIP-814); `reason`: for people (KIP-800).
    """

    member_id: str
    fresh_id: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance: str | None = None
    named_first: bool = True
    may_skip: bool = True
    client_id: str = ""
    host: str = ""
    reason: str = ""


@value
class ClassicSync:
    """SyncGroup: the leader brings what it assigns. Type and name of the protocol are None where
    the version has none.
    """

    member_id: str
    generation: int
    instance: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, Opaque], ...] = ()


@value
class ClassicBeat:
    """Heartbeat."""

    member_id: str
    generation: int
    instance: str | None = None


@value
class Leaver:
    """Who leaves: by id, or by instance where the id is ""."""

    member_id: str
    instance: str | None = None
    reason: str = ""


@value
class ClassicLeave:
    """LeaveGroup."""

    members: tuple[Leaver, ...]


@value
class CommitCheck:
    """Whether an OffsetCommit may be stored (`in_transaction`: a TxnOffsetCommit)."""

    member_id: str
    generation: int
    instance: str | None = None
    in_transaction: bool = False


@value
class ClassicDescribe:
    """DescribeGroups."""


@value
class ClassicDelete:
    """DeleteGroups."""


ClassicRequest = (
    ClassicJoin
    | ClassicSync
    | ClassicBeat
    | ClassicLeave
    | CommitCheck
    | ClassicDescribe
    | ClassicDelete
)


@value
class JoinedPeer:
    """A member, as its leader is told of it."""

    member_id: str
    instance: str | None
    metadata: Opaque


@value
class ClassicJoined:
    """Answer to `ClassicJoin`."""

    code: WireCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedPeer, ...] = ()
    skip_assignment: bool = False


@value
class ClassicSynced:
    """Answer to `ClassicSync`."""

    code: WireCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: Opaque = b""


@value
class ClassicSaid:
    """Answer that is a code: to `ClassicBeat`, `CommitCheck` and `ClassicDelete`."""

    code: WireCode


@value
class ClassicLeft:
    """Answer to `ClassicLeave`: a code for each that was named, in order; none where `code` is of
    all of them.
    """

    code: WireCode
    members: tuple[WireCode, ...] = ()


@value
class DescribedPeer:
    """A member, as people are told of it."""

    member_id: str
    instance: str | None
    client_id: str
    host: str
    metadata: Opaque = b""
    assignment: Opaque = b""


@value
class ClassicDescribed:
    """Answer to `ClassicDescribe`. Protocol, metadata and assignments are said of a stable group
    only.
    """

    code: WireCode
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedPeer, ...] = ()


ClassicAnswer = ClassicJoined | ClassicSynced | ClassicSaid | ClassicLeft | ClassicDescribed


def classic_refusal(request: ClassicRequest, code: WireCode) -> ClassicAnswer:
    """The answer that says this code, of all that was asked."""
    match request:
        case ClassicJoin():
            return ClassicJoined(code, request.member_id)
        case ClassicSync():
            return ClassicSynced(code)
        case ClassicLeave():
            return ClassicLeft(code)
        case ClassicDescribe():
            return ClassicDescribed(code)
        case ClassicBeat() | CommitCheck() | ClassicDelete():
            return ClassicSaid(code)


def while_loading(request: ClassicRequest) -> ClassicAnswer:
    """What is answered before a group was read: old clients know COORDINATOR_LOAD_IN_PROGRESS
    neither as an answer to SyncGroup (they join again) nor to Heartbeat (the next one will tell).
    """
    match request:
        case ClassicSync():
            return ClassicSynced(WireCode.REBALANCE_IN_PROGRESS)
        case ClassicBeat():
            return ClassicSaid(WireCode.NONE)
        case _:
            return classic_refusal(request, WireCode.COORDINATOR_LOAD_IN_PROGRESS)
