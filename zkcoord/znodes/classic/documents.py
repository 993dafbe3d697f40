"""What the nodes of groups whose leader is a client hold: requests of gateways and their answers,
what was decided last, what has happened since.

A request holds bytes of clients as base64; the coordinator keeps them as blobs, each under the
digest of its bytes, and answers and states name those. A request that is longer than a node may be
says how many parts it has. Decoding never raises: a document that is not one is `Malformed`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field

from zkcoord.core.classic.requests import (
    ClassicAnswer,
    ClassicDelete,
    ClassicDescribed,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicLeft,
    ClassicSaid,
    ClassicSync,
    ClassicSynced,
    JoinedPeer,
    Leaver,
)
from zkcoord.core.classic.state import (
    ASSIGNMENT_BYTES_MAX,
    GROUP_METADATA_BYTES_MAX,
    INSTANCE_CHARS_MAX,
    PROTOCOL_CHARS_MAX,
    PROTOCOLS_MAX,
    WORDS_CHARS_MAX,
    ClassicMember,
    ClassicPhase,
    ClassicState,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.znodes import names
from zkcoord.znodes.classic.fields import (
    at_most,
    code_in,
    flag,
    from_base64,
    listed,
    maybe,
    of_ref,
    pairs,
    ref,
    text,
    to_base64,
)
from zkcoord.znodes.strict_json import (
    JsonObject,
    UnfitField,
    free_text,
    integer,
    mapping,
    reading,
    required,
    to_bytes,
)

VERSION = 1
INT32_MAX = 2**31 - 1
MEMBER_ID_CHARS_MAX = 1_000
MEMBERS_MAX = 10_000
LEAVERS_MAX = 10_000
PART_BYTES = 512 * 1024
PARTS_MIN = 2
PARTS_MAX = 16
REQUEST_BYTES_MAX = PART_BYTES * PARTS_MAX
NODE_BYTES_MAX = 1_000_000
GENERATION_MAX = 2_000_000_000
"""Of a state: after what none has come to in earnest there must be numbers left for the next ones,
which clients are told in 32 bits.
"""

ASSIGNED_BYTES = 80
"""What a digest, a size and what parts them take, and a little more."""

AskedOfGroup = ClassicJoin | ClassicSync | ClassicLeave | ClassicDelete


@value
class ClassicAsk:
    """What a gateway asks of a group."""

    group: str
    request: AskedOfGroup


@value
class InParts:
    """A request that stands in so many further nodes."""

    parts: int


def blob_digest(data: bytes) -> str:
    """The name of a blob."""
    return hashlib.sha256(data).hexdigest()


# requests


def encode_ask(ask: ClassicAsk) -> list[bytes]:
    """The data of a request's node, and of its parts. Raises `ValueError` for one that is too long
    for all of them.
    """
    whole = to_bytes({"version": VERSION, "group": ask.group, **_of_request(ask.request)})
    if len(whole) <= PART_BYTES:
        return [whole]
    if len(whole) > REQUEST_BYTES_MAX:
        raise ValueError(f"a request of {len(whole)} bytes")
    parts = [whole[at : at + PART_BYTES] for at in range(0, len(whole), PART_BYTES)]
    return [to_bytes({"version": VERSION, "parts": len(parts)}), *parts]


def decode_ask(node: str, data: bytes) -> ClassicAsk | InParts | Malformed:
    """What the node of a request, or all its parts together, says."""

    def read(document: JsonObject) -> ClassicAsk | InParts:
        integer(document, "version", VERSION, VERSION)
        if "parts" in document:
            return InParts(integer(document, "parts", PARTS_MIN, PARTS_MAX))
        group = text(document, "group", names.NAME_CHARS_MAX)
        if not names.is_group(group):
            raise UnfitField("group is no name of a group")
        return ClassicAsk(group, _request(document))

    return reading("request of a gateway", node, data, read, REQUEST_BYTES_MAX)


def _of_request(request: AskedOfGroup) -> JsonObject:
    match request:
        case ClassicJoin():
            return {
                "ask": "join",
                "member": request.member_id,
                "fresh": request.fresh_id,
                "type": request.protocol_type,
                "protocols": [[name, to_base64(data)] for name, data in request.protocols],
                "session": request.session_timeout_ms,
                "rebalance": request.rebalance_timeout_ms,
                "instance": request.instance,
                "named_first": request.named_first,
                "may_skip": request.may_skip,
                "client": request.client_id[:WORDS_CHARS_MAX],
                "host": request.host[:WORDS_CHARS_MAX],
                "reason": request.reason[:WORDS_CHARS_MAX],
            }
        case ClassicSync():
            return {
                "ask": "sync",
                "member": request.member_id,
                "generation": request.generation,
                "instance": request.instance,
                "type": request.protocol_type,
                "protocol": request.protocol,
                "assignments": [[member, to_base64(data)] for member, data in request.assignments],
            }
        case ClassicLeave():
            return {
                "ask": "leave",
                "members": [
                    [one.member_id, one.instance, one.reason[:WORDS_CHARS_MAX]]
                    for one in request.members
                ],
            }
        case ClassicDelete():
            return {"ask": "delete"}


def _request(document: JsonObject) -> AskedOfGroup:
    ask = text(document, "ask", WORDS_CHARS_MAX)
    match ask:
        case "join":
            protocols = pairs(document, "protocols", PROTOCOLS_MAX, PROTOCOL_CHARS_MAX, from_base64)
            at_most(protocols, "protocols", GROUP_METADATA_BYTES_MAX)
            return ClassicJoin(
                text(document, "member", MEMBER_ID_CHARS_MAX),
                text(document, "fresh", MEMBER_ID_CHARS_MAX),
                text(document, "type", PROTOCOL_CHARS_MAX),
                protocols,
                integer(document, "session", 0, INT32_MAX),
                integer(document, "rebalance", 0, INT32_MAX),
                maybe(document, "instance", INSTANCE_CHARS_MAX),
                flag(document, "named_first"),
                flag(document, "may_skip"),
                free_text(document, "client", WORDS_CHARS_MAX),
                free_text(document, "host", WORDS_CHARS_MAX),
                free_text(document, "reason", WORDS_CHARS_MAX),
            )
        case "sync":
            assignments = pairs(
                document, "assignments", MEMBERS_MAX, MEMBER_ID_CHARS_MAX, from_base64
            )
            at_most(assignments, "assignments", ASSIGNMENT_BYTES_MAX)
            return ClassicSync(
                text(document, "member", MEMBER_ID_CHARS_MAX),
                integer(document, "generation", -INT32_MAX, INT32_MAX),
                maybe(document, "instance", INSTANCE_CHARS_MAX),
                maybe(document, "type", PROTOCOL_CHARS_MAX),
                maybe(document, "protocol", PROTOCOL_CHARS_MAX),
                assignments,
            )
        case "leave":
            return ClassicLeave(tuple(map(_leaver, listed(document, "members", LEAVERS_MAX))))
        case "delete":
            return ClassicDelete()
        case _:
            raise UnfitField("ask is not one of join, sync, leave, delete")


def _leaver(entry: object) -> Leaver:
    match entry:
        case [str(member_id), (None | str()) as instance, str(reason)] if (
            len(member_id) <= MEMBER_ID_CHARS_MAX
            and len(instance or "") <= INSTANCE_CHARS_MAX
            and len(reason) <= WORDS_CHARS_MAX
        ):
            return Leaver(member_id, instance, reason)
    raise UnfitField("members holds an entry that is no member")


# answers


def encode_answer(answer: ClassicAnswer) -> bytes:
    """What a request's node says once it is answered."""
    document: JsonObject = {"version": VERSION, "code": int(answer.code)}
    match answer:
        case ClassicJoined():
            document |= {
                "answer": "joined",
                "member": answer.member_id,
                "generation": answer.generation,
                "type": answer.protocol_type,
                "protocol": answer.protocol,
                "leader": answer.leader,
                "skip": answer.skip_assignment,
                "members": [
                    [one.member_id, one.instance, *of_ref(one.metadata)] for one in answer.members
                ],
            }
        case ClassicSynced():
            document |= {
                "answer": "synced",
                "type": answer.protocol_type,
                "protocol": answer.protocol,
                "assignment": of_ref(answer.assignment),
            }
        case ClassicLeft():
            document |= {"answer": "left", "members": [int(code) for code in answer.members]}
        case ClassicSaid() | ClassicDescribed():
            document |= {"answer": "said"}
    return to_bytes(document)


def decode_answer(node: str, data: bytes) -> ClassicAnswer | Malformed | None:
    """What was answered; None: nothing yet."""

    def read(document: JsonObject) -> ClassicAnswer | None:
        integer(document, "version", VERSION, VERSION)
        if "answer" not in document:
            return None
        code = code_in(required(document, "code"))
        match text(document, "answer", WORDS_CHARS_MAX):
            case "joined":
                return ClassicJoined(
                    code,
                    text(document, "member", MEMBER_ID_CHARS_MAX),
                    integer(document, "generation", -1, INT32_MAX),
                    maybe(document, "type", PROTOCOL_CHARS_MAX),
                    maybe(document, "protocol", PROTOCOL_CHARS_MAX),
                    text(document, "leader", MEMBER_ID_CHARS_MAX),
                    tuple(map(_peer, listed(document, "members", MEMBERS_MAX))),
                    flag(document, "skip"),
                )
            case "synced":
                return ClassicSynced(
                    code,
                    maybe(document, "type", PROTOCOL_CHARS_MAX),
                    maybe(document, "protocol", PROTOCOL_CHARS_MAX),
                    ref(required(document, "assignment")),
                )
            case "left":
                return ClassicLeft(
                    code, tuple(map(code_in, listed(document, "members", LEAVERS_MAX)))
                )
            case "said":
                return ClassicSaid(code)
            case _:
                raise UnfitField("answer is not one of joined, synced, left, said")

    return reading("answer to a gateway", node, data, read, NODE_BYTES_MAX)


def _peer(entry: object) -> JoinedPeer:
    match entry:
        case [str(member_id), (None | str()) as instance, *rest] if (
            len(member_id) <= MEMBER_ID_CHARS_MAX and len(instance or "") <= INSTANCE_CHARS_MAX
        ):
            return JoinedPeer(member_id, instance, ref(rest))
    raise UnfitField("members holds an entry that is no member")


# what was decided


def encode_state(state: ClassicState) -> bytes:
    """The state's data."""
    return to_bytes(
        {
            "version": VERSION,
            "phase": state.phase.value,
            "generation": state.generation,
            "type": state.protocol_type,
            "protocol": state.protocol,
            "leader": state.leader,
            "members": [_of_member(member) for member in state.members],
        }
    )


def _of_member(member: ClassicMember) -> JsonObject:
    return {
        "member": member.member_id,
        "instance": member.instance,
        "client": member.client_id,
        "host": member.host,
        "session": member.session_timeout_ms,
        "rebalance": member.rebalance_timeout_ms,
        "protocols": [[name, *of_ref(data)] for name, data in member.protocols],
        "assignment": of_ref(member.assignment),
    }


def state_bytes(member: ClassicMember) -> int:
    """How much room a member takes in the state's node, also when it has an assignment."""
    return len(to_bytes(_of_member(member))) + ASSIGNED_BYTES


def decode_state(group: str, data: bytes) -> ClassicState | Malformed:
    """What was decided last of a group."""

    def read(document: JsonObject) -> ClassicState:
        integer(document, "version", VERSION, VERSION)
        phase = _PHASES.get(text(document, "phase", WORDS_CHARS_MAX))
        if phase is None:
            raise UnfitField(f"phase is not one of {', '.join(_PHASES)}")
        members = tuple(map(_member, listed(document, "members", MEMBERS_MAX)))
        leader = text(document, "leader", MEMBER_ID_CHARS_MAX)
        ids = {one.member_id for one in members}
        if len(ids) < len(members):
            raise UnfitField("a member is there twice")
        instances = [one.instance for one in members if one.instance is not None]
        if len(set(instances)) < len(instances):
            raise UnfitField("an instance is there twice")
        if (phase is ClassicPhase.EMPTY) != (not members) or leader not in (ids or {""}):
            raise UnfitField("members, leader and phase do not fit together")
        protocol = text(document, "protocol", PROTOCOL_CHARS_MAX)
        if any(protocol not in {name for name, _ in one.protocols} for one in members):
            raise UnfitField("not every member supports the protocol")
        return ClassicState(
            phase,
            integer(document, "generation", 0, GENERATION_MAX),
            text(document, "type", PROTOCOL_CHARS_MAX),
            protocol,
            leader,
            members,
        )

    return reading("state of a group", group, data, read, NODE_BYTES_MAX)


_PHASES = {
    phase.value: phase
    for phase in (ClassicPhase.EMPTY, ClassicPhase.COMPLETING, ClassicPhase.STABLE)
}


def _member(entry: object) -> ClassicMember:
    if type(entry) is not dict:
        raise UnfitField("members holds an entry that is no member")
    return ClassicMember(
        text(entry, "member", MEMBER_ID_CHARS_MAX),
        maybe(entry, "instance", INSTANCE_CHARS_MAX),
        free_text(entry, "client", WORDS_CHARS_MAX),
        free_text(entry, "host", WORDS_CHARS_MAX),
        integer(entry, "session", 0, INT32_MAX),
        integer(entry, "rebalance", 0, INT32_MAX),
        pairs(entry, "protocols", PROTOCOLS_MAX, PROTOCOL_CHARS_MAX, ref),
        ref(required(entry, "assignment")),
    )


# what has happened since


@value
class ClassicRound:
    """What has happened since a state was decided: the generation whose members are to join again
    (None: nobody is), and who is no member any more, by digest, with the code of its next
    heartbeat.
    """

    rebalances: int | None = None
    gone: Mapping[str, WireCode] = field(default_factory=dict)


def encode_round(since: ClassicRound) -> bytes:
    """The round's data."""
    gone = {member: int(code) for member, code in since.gone.items()}
    return to_bytes({"version": VERSION, "rebalances": since.rebalances, "gone": gone})


def decode_round(group: str, data: bytes) -> ClassicRound | Malformed:
    """What has happened since. An empty node says that nothing has."""

    def read(document: JsonObject) -> ClassicRound:
        integer(document, "version", VERSION, VERSION)
        gone = mapping(document, "gone")
        if len(gone) > MEMBERS_MAX:
            raise UnfitField(f"gone are more than {MEMBERS_MAX}")
        begun = required(document, "rebalances")
        return ClassicRound(
            None if begun is None else integer(document, "rebalances", 0, INT32_MAX),
            {member: code_in(code) for member, code in gone.items()},
        )

    if not data:
        return ClassicRound()
    return reading("round of a group", group, data, read, NODE_BYTES_MAX)
