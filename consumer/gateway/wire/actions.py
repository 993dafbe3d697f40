"""How long a wire member lets its client wait, and what it wants done."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from consumer.core import messages as msg
from zkcoord.core.error_codes import WireCode
from zkcoord.core.value_type import value

from .requests import Answer


@dataclass(frozen=True)
class GroupLimits:
    """What is asked of members, as a broker's options of these names; `members_max` is for all
    groups of a gateway.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 10_000
    members_max: int = 5_000


@value
class WireTimes:
    """How long answers wait, in ms."""

    settle_ms: int = 5
    """A SyncGroup of a member that is to have more, as the coordinator says, is answered when
    nothing has changed for so long, at least (`flux_ms`). Others wait for nothing.
    """

    forming_ms: int = 250
    """The same, of any member, while a group forms for the first time: what changes in this time
    costs nothing, later it waits for heartbeats.
    """

    flux_ms: int = 150
    """How long a SyncGroup waits at most for further partitions, of which the coordinator says that
    others give them up: to be told of them a moment later costs a client another round, at its next
    heartbeat.
    """

    flux_max_ms: int = 600
    """The same where such moves have taken longer lately (`MovesPace`)."""

    patient_ms: int = 600
    """The same where heartbeats are not parked, also for what others have still to hear that they
    give up: they hear it when their own are due, and join again after their last fetch (0.5 s).
    """

    sync_park_ms: int = 3_000
    """How long a member that has nothing waits for something."""

    heartbeat_first_ms: int = 3_000
    """How long a heartbeat is parked at most before the client's interval is known."""

    returned_beat_ms: int = 500
    """The same of the first one of a client that comes from another gateway: nobody here knows
    since when it has had no answer that keeps its session alive.
    """

    heartbeat_part: float = 0.97
    """Part of the client's interval for which a heartbeat is parked: some clients send none while
    one is under way.
    """

    disconnect_grace_ms: int = 1_000
    """A member without a connection is gone after this time."""

    member_grace_ms: int = 10_000
    """How long the partitions of a client wait for it to come to another gateway, when this one
    ends or is lost.
    """

    restore_ms: int = 30_000
    """How long a client that came from another gateway is not told that it has lost what does not
    come back.
    """

    restore_rest_ms: int = 300
    """The same once some of it has come back."""

    drain_quiet_ms: int = 300
    """A member whose client left goes when it has had nothing for so long."""

    drain_ms: int = 5_000
    """It goes in any case after this time."""


@value
class Reply:
    """Answer a request."""

    ticket: int
    answer: Answer


@value
class Tell:
    """Tell the agent."""

    message: msg.FromFetcher


@value
class Begin:
    """The agent asks where these partitions begin: what the group has committed in Kafka."""

    ask: msg.Resolve


@value
class Remember:
    """Write down what the client is about to be told, then say so (`remembered`): another gateway
    may have to go on with it.
    """

    ticket: int


class WrittenDown(enum.Enum):
    """What became of what was to be written down."""

    DONE = "it is written, or never can be"
    LATER = "ZooKeeper does not answer now"
    GONE = "the member's registration is gone, so nothing is"


class WayOut(enum.Enum):
    """What becomes of the agent of a member that is over."""

    LEAVES = "gives up everything first, so that others have it at once"
    MISSED = "the same, unless its client is at another gateway"
    WAITS = "closes, and its partitions wait for its client to come to another gateway"
    OVER = "has ended by itself"


@value
class Gone:
    """This member is over: whoever names it is unknown from now on. `code`: what its client was
    answered, if it waited.
    """

    reason: str
    ending: WayOut = WayOut.OVER
    code: WireCode = WireCode.UNKNOWN_MEMBER_ID


WireAction = Reply | Tell | Begin | Remember | Gone
