"""What a classic group is told, and what it wants done.

Whatever rests on a state is answered when that state is persisted: `Persist` is out, at most one at
a time, until `Persisted` or `NotPersisted` comes with its token. `NotPersisted` says that it surely
was not and will not be written; whoever does not know has to find out first.
"""

from __future__ import annotations

import enum

from zkcoord.core.error_codes import WireCode
from zkcoord.core.value_type import value

from .requests import ClassicAnswer, ClassicRequest
from .state import ClassicPhase, ClassicState


@value
class Asked:
    """A request. Each ticket is answered once."""

    ticket: int
    request: ClassicRequest


@value
class Persisted:
    """The state with this token is persisted."""

    token: int


@value
class NotPersisted:
    """It is not; `code` is what those are answered who wait for it (a retriable one)."""

    token: int
    code: WireCode = WireCode.COORDINATOR_NOT_AVAILABLE


@value
class ClassicTick:
    """Time passed."""


@value
class Unload:
    """Another coordinator has the group: whoever waits is told so."""


ClassicInput = Asked | Persisted | NotPersisted | ClassicTick | Unload


@value
class Persist:
    """Write this (None: delete what is written) instead of what is written."""

    token: int
    state: ClassicState | None


@value
class ClassicReply:
    """The answer to a request."""

    ticket: int
    answer: ClassicAnswer


@value
class Rejoin:
    """A rebalance has begun: to be told to these members, whose heartbeats may be parked."""

    member_ids: tuple[str, ...]


@value
class Dismissed:
    """No member any more: what its next heartbeat, or one that is parked, is answered."""

    member_id: str
    code: WireCode


@value
class Moved:
    """For people: another state, and why (with the words that the client gave, KIP-800)."""

    before: ClassicPhase
    after: ClassicPhase
    generation: int
    reason: str


class CauseKind(enum.Enum):
    """Why a rebalance began."""

    JOINED = "member joined"
    JOINED_AGAIN = "member joined again"
    CHANGED = "member joined again with other metadata"
    LEFT = "member left"
    SILENT = "member was silent"
    REPLACED = "instance came back with another protocol"
    NOT_SYNCED = "no SyncGroup in time"
    TOO_LARGE = "assignment too large"
    NOT_WRITTEN = "assignment not written"
    TOO_MANY = "more members than a group may have"
    TAKEN_OVER = "coordinator took over"


@value
class ClassicCause:
    """The same, with the member that it was ("": nobody), and in words."""

    kind: CauseKind
    trigger: str = ""
    words: str = ""


@value
class Rebalanced:
    """For people: a rebalance has ended. Times in ms: `duration` from its beginning, `joins` until
    all had joined, of whom `last` was the last; then the `leader` assigned. `out` are those who did
    not come in time; it began `again` so many times before it ended, of the first time are
    beginning and cause.
    """

    cause: ClassicCause
    generation: int
    members: int
    duration_ms: int
    joins_ms: int
    last: str
    leader: str
    out: tuple[str, ...]
    again: int


ClassicAction = Persist | ClassicReply | Rejoin | Dismissed | Moved | Rebalanced
