"""What goes into the coordinator's core and what comes out.

In: what was read from ZooKeeper (never what a watch hinted at), how a write ended, and the time.
Out: writes of one group, each one multi; reads that are needed because an outcome is not known;
things worth recording; and the wish to resign. Times are milliseconds of the process's own clock,
which never goes back.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field, replace

from .assignment import Assignment, AssignmentInput
from .model import (
    Command,
    GroupMetadata,
    Malformed,
    Member,
    Mode,
    Owner,
    Pattern,
    Request,
    Topic,
    TopicPartition,
)
from .shared import KEEPER, KEEPS_OUT
from .value_type import value


@value
class Elected:
    """A term begins: forget everything."""

    now_ms: int
    epoch: int


@value
class TopicsChanged:
    """Topics read; None = gone. `matches` holds, for every wildcard whose matches changed, all
    topics that it matches now.
    """

    now_ms: int
    topics: Mapping[str, Topic | Malformed | None]
    matches: Mapping[Pattern, frozenset[str]] = field(default_factory=dict)


@value
class GroupDelta:
    """What was read of a group. With `full`, whatever is not named here is gone. None = gone.
    `channels` maps a member to whether its channel exists; `commands` maps (member, node) to the
    command, `requests` the node of an operator's request to it; `mode` has the group's mode, where
    it was read, under "mode". What one ack changes together is always in one delta.
    """

    full: bool = False
    members: Mapping[str, Member | Malformed | None] = field(default_factory=dict)
    channels: Mapping[str, bool] = field(default_factory=dict)
    commands: Mapping[tuple[str, str], Command | Malformed | None] = field(default_factory=dict)
    owners: Mapping[TopicPartition, Owner | Malformed | None] = field(default_factory=dict)
    requests: Mapping[str, Request | Malformed | None] = field(default_factory=dict)
    metadata: GroupMetadata | None = None
    mode: Mapping[str, Mode | Malformed | None] = field(default_factory=dict)


@value
class GroupChanged:
    """A group was read, whole or in part. `matches` as in `TopicsChanged`, for wildcards of members
    that are new here.
    """

    now_ms: int
    group: str
    delta: GroupDelta
    matches: Mapping[Pattern, frozenset[str]] = field(default_factory=dict)


@value
class GroupGone:
    """The group's node is gone."""

    now_ms: int
    group: str


@value
class Ready:
    """The world has been read, at the beginning of a term or again after `Paused`: decide from now
    on.
    """

    now_ms: int


@value
class Paused:
    """The connection is gone: decide nothing before the next `Ready`."""

    now_ms: int


@value
class GroupUnread:
    """A group must be read as a whole (it is new, or its node was deleted or made again). The core
    asks for it once no write of the group is under way: what a whole read says must not be older
    than a write that is known to have happened.
    """

    now_ms: int
    group: str


@value
class GroupLeftAlone:
    """A group has more nodes than are read: nothing is known of it any more, and it is left alone.
    Its next changes are not told; the core asks again by and by.
    """

    now_ms: int
    group: str
    why: Malformed


class Outcome(enum.Enum):
    """How a write ended. `FENCED`: another epoch exists. `UNKNOWN`: it may have happened."""

    OK = "ok"
    FENCED = "fenced"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@value
class Written:
    """How the write `token` of `group` ended. For OK, `nodes` are the names of the commands
    created, in the order of the write; else `why` says what refused.
    """

    now_ms: int
    group: str
    token: int
    outcome: Outcome
    nodes: tuple[str, ...] = ()
    why: str = ""


@value
class AssignorAnswered:
    """What an assignor said to the `Assign` with this token; without an `answer`, `failure` is a
    sentence.
    """

    now_ms: int
    group: str
    token: int
    answer: Assignment | None
    failure: str = ""


@value
class Spent:
    """So much time of the thread that decides was spent on groups, in us; see `FairQueue`."""

    now_ms: int
    groups: Mapping[str, int]


@value
class Tick:
    """Time passed."""

    now_ms: int


Event = (
    Elected
    | TopicsChanged
    | GroupChanged
    | GroupGone
    | GroupUnread
    | GroupLeftAlone
    | Ready
    | Paused
    | Written
    | AssignorAnswered
    | Spent
    | Tick
)


@value
class Send:
    """Create this command in its member's channel."""

    command: Command


@value
class DeleteCommand:
    """Delete a command: its member is gone, or another incarnation, or an older epoch wrote it."""

    member: str
    node: str


@value
class DeleteRegistration:
    """Evict: delete a member's registration."""

    member: str


@value
class DeleteOwner:
    """Delete an orphaned owner node (only with the version of a node of ours)."""

    partition: TopicPartition
    version: int


@value
class DeleteChannel:
    """Delete the empty channel of a member that is gone."""

    member: str


@value
class DeleteRequest:
    """Delete an operator's request: it was taken up."""

    node: str


@value
class Rescue:
    """Have old consumers look again: make and delete a registration in the one multi. Alone in its
    write.
    """


@value
class KeepOut:
    """Make (`there`), or delete, the registration that keeps old consumers out of a coordinated
    group. It goes with the coordinator's session. Alone in its write.
    """

    there: bool


@value
class PutMetadata:
    """Write the group node's data. The edge fills in `since_ms`, and turns the times of static
    instances that left into wall clock.
    """

    metadata: GroupMetadata


WriteOp = (
    Send
    | DeleteCommand
    | DeleteRegistration
    | DeleteOwner
    | DeleteChannel
    | DeleteRequest
    | Rescue
    | KeepOut
    | PutMetadata
)


@value
class Write:
    """One fenced multi for a group. At most one is outstanding per group; `Written` with this token
    answers it.
    """

    group: str
    token: int
    ops: tuple[WriteOp, ...]


@value
class ReadGroup:
    """Sync, then read the whole group, then `GroupChanged(full)`."""

    group: str
    why: str


@value
class Assign:
    """Ask an assignor elsewhere: a custom one, or one of ours for a wide group;
    `AssignorAnswered` with this token follows. A later `Assign` of the same group supersedes it.
    """

    group: str
    token: int
    assignor: str
    given: AssignmentInput


@value
class Resign:
    """Stop leading: close the session."""

    reason: str


@value
class Record:
    """Something for the journal and the metrics: flat, printable values."""

    kind: str
    group: str
    detail: Mapping[str, object] = field(default_factory=dict)


Action = Write | ReadGroup | Assign | Resign | Record


def effects(ops: tuple[WriteOp, ...], nodes: tuple[str, ...]) -> GroupDelta:
    """What a write that happened did, as if it had been read again. `nodes`: the names that the
    sequential nodes got, in order.
    """
    created = iter(nodes)
    commands: dict[tuple[str, str], Command | Malformed | None] = {}
    for op in ops:
        if isinstance(op, Send):
            node = next(created)
            commands[(op.command.member, node)] = replace(op.command, node=node)
        elif isinstance(op, DeleteCommand):
            commands[(op.member, op.node)] = None
    members: dict[str, Member | Malformed | None] = {
        op.member: None for op in ops if isinstance(op, DeleteRegistration)
    }
    for op in ops:
        if isinstance(op, KeepOut):
            members[KEEPER] = KEEPS_OUT if op.there else None
    return GroupDelta(
        members=members,
        commands=commands,
        channels={op.member: False for op in ops if isinstance(op, DeleteChannel)},
        owners={op.partition: None for op in ops if isinstance(op, DeleteOwner)},
        requests={op.node: None for op in ops if isinstance(op, DeleteRequest)},
    )
