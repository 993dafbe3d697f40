"""What clients ask of a group's coordinator and what they are answered, whatever the version of the
request. Codes are Kafka's (`WireCode`), times are ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value


@value
class Caller:
    """Who asks: the connection; for people the client id of its requests, its address, and its
    library with its version ("": not known). `is_shared`: the connection is for records too, and
    nothing may stand in their way. `asks_again`: a heartbeat that is answered REQUEST_TIMED_OUT is
    followed by the next one a moment later, and has no other consequence.
    """

    connection: int
    client_id: str = ""
    host: str = ""
    library: str = ""
    is_shared: bool = False
    asks_again: bool = False


@value
class JoinRequest:
    """JoinGroup. `protocols`: names of assignors and what each is told (ConsumerProtocol's
    subscription), in order of preference. `named_first`: a client without a member id is first
    given one (version 4 and later, KIP-394). `may_skip`: a leader that comes back need not assign
    anew (version 9 and later, KIP-814); `reason`: for people. `is_nobodys`: no gateway has written
    its client down.
    """

    group: str
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    instance: str | None = None
    named_first: bool = True
    may_skip: bool = False
    reason: str = ""
    is_nobodys: bool = False

    def as_new(self) -> JoinRequest | None:
        """The same, of somebody who is given another id before it joins by it. None: it cannot be
        given one without joining, and must be told that it is nobody, or it would join by an id of
        which it may never hear.
        """
        if self.member_id and (self.instance is not None or not self.named_first):
            return None
        return replace(self, member_id="")


@value
class SyncRequest:
    """SyncGroup. Protocol type and name are "" where the version has none. `assignments`: what a
    client that leads its group brings for its members.
    """

    group: str
    member_id: str
    generation: int
    instance: str | None = None
    protocol_type: str = ""
    protocol_name: str = ""
    assignments: tuple[tuple[str, bytes], ...] = ()


@value
class HeartbeatRequest:
    """Heartbeat."""

    group: str
    member_id: str
    generation: int
    instance: str | None = None


@value
class LeaveRequest:
    """LeaveGroup: members by id, or by instance where the id is "". `batch`: version 3 and later,
    each is answered by itself. `reasons`: what each says why, for people.
    """

    group: str
    members: tuple[tuple[str, str | None], ...]
    batch: bool = True
    reasons: tuple[str, ...] = ()


@value
class CommitRequest:
    """OffsetCommit: next offsets, and what is to stand beside them ("": nothing). A generation
    below 0 with an empty member id is a tool's, not a member's.
    """

    group: str
    member_id: str
    generation: int
    offsets: Mapping[TopicPartition, tuple[int, str]]
    instance: str | None = None


@value
class MayCommitRequest:
    """Whether a member may store offsets now, where Kafka keeps its group's: what OffsetCommit or
    TxnOffsetCommit says of who it is. The answer is as new as ZooKeeper is when it is asked.
    """

    group: str
    member_id: str
    generation: int
    instance: str | None = None
    in_transaction: bool = False


Request = (
    JoinRequest | SyncRequest | HeartbeatRequest | LeaveRequest | CommitRequest | MayCommitRequest
)


@value
class JoinAnswer:
    """Answer to `JoinRequest`. `members`: to a client that leads its group, who is in it (id,
    instance, what it has said).
    """

    code: WireCode
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    protocol_type: str = "consumer"
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


@value
class SyncAnswer:
    """Answer to `SyncRequest`: the whole assignment. `opaque`: as a client has written it, where
    one leads its group.
    """

    code: WireCode
    partitions: tuple[TopicPartition, ...] = ()
    protocol: str | None = ""
    opaque: bytes | None = None
    protocol_type: str | None = "consumer"


@value
class BeatAnswer:
    """Answer to `HeartbeatRequest`."""

    code: WireCode


@value
class LeaveAnswer:
    """Answer to `LeaveRequest`: a code for each member that was named, in order."""

    code: WireCode
    members: tuple[WireCode, ...] = ()


@value
class CommitAnswer:
    """Answer to `CommitRequest`, and to `MayCommitRequest`: the code of all partitions but those
    in `others`.
    """

    code: WireCode
    others: Mapping[TopicPartition, WireCode] = field(default_factory=dict)


Answer = JoinAnswer | SyncAnswer | BeatAnswer | LeaveAnswer | CommitAnswer


def refused(answer: JoinAnswer | SyncAnswer, code: WireCode) -> Answer:
    """This code instead of an answer that was to be given."""
    if isinstance(answer, JoinAnswer):
        return JoinAnswer(code, answer.member_id)
    return SyncAnswer(code)


def refusal(request: Request, code: WireCode) -> Answer:
    """The answer that says this code, of all that was asked."""
    match request:
        case JoinRequest():
            return JoinAnswer(code, request.member_id)
        case SyncRequest():
            return SyncAnswer(code)
        case HeartbeatRequest():
            return BeatAnswer(code)
        case CommitRequest() | MayCommitRequest():
            return CommitAnswer(code)
        case LeaveRequest():
            return LeaveAnswer(code, tuple(code for _ in request.members))
