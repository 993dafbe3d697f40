"""What a classic group is told, and what it wants done.

Whatever rests on a state is answered when that state is persisted: `Persist` is out, at most one at
a time, until `Persisted` or `NotPersisted` comes with its token. `NotPersisted` says that it surely
was not and will not be written; whoever does not know has to find out first.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkcoord.core.error_codes import WireCode

from .requests import ClassicAnswer, ClassicRequest
from .state import ClassicPhase, ClassicState


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. Each ticket is answered once."""

    ticket: int
    request: ClassicRequest


@dataclass(frozen=True, slots=True)
class Persisted:
    """The state with this token is persisted."""

    token: int


@dataclass(frozen=True, slots=True)
class NotPersisted:
    """It is not; `code` is what those are answered who wait for it (a retriable one)."""

    token: int
    code: WireCode = WireCode.COORDINATOR_NOT_AVAILABLE


@dataclass(frozen=True, slots=True)
class ClassicTick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class Unload:
    """Another coordinator has the group: whoever waits is told so."""


ClassicInput = Asked | Persisted | NotPersisted | ClassicTick | Unload


@dataclass(frozen=True, slots=True)
class Persist:
    """Write this (None: delete what is written) instead of what is written."""

    token: int
    state: ClassicState | None


@dataclass(frozen=True, slots=True)
class ClassicReply:
    """The answer to a request."""

    ticket: int
    answer: ClassicAnswer


@dataclass(frozen=True, slots=True)
class Rejoin:
    """A rebalance has begun: to be told to these members, whose heartbeats may be parked."""

    member_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dismissed:
    """No member any more: what its next heartbeat, or one that is parked, is answered."""

    member_id: str
    code: WireCode


@dataclass(frozen=True, slots=True)
class Moved:
    """For people: another state, and why (with the words that the client gave, KIP-800)."""

    before: ClassicPhase
    after: ClassicPhase
    generation: int
    reason: str


ClassicAction = Persist | ClassicReply | Rejoin | Dismissed | Moved
