"""What a member is busy with: the command it carries out, the writes that are due, and the one
request under way.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from zkcoord.core.model import Command, TopicPartition

from .events import Ack, StartPartition
from .messages import CommitDone, CommitOutcome
from .topic_incarnations import IncarnationMark


class CommandStage(enum.Enum):
    """How far a command is."""

    READING = "reading owners and offsets"
    RESOLVING = "asking where to begin"
    REVOKING = "waiting for the application"
    READY = "to be acked"


@dataclass(slots=True)
class CommandInProgress:
    """The command being carried out. `ask` is the token of the question that the fetching side has
    not answered yet; `afresh` are partitions of topics that were made again; `marks` is what the
    ack says of the offsets of whole topics; `stored` is what is stored where it does not decide,
    because the fetching side keeps the offsets. `void`: nothing is to be taken any more.
    """

    command: Command
    stage: CommandStage
    ask: int = 0
    takes: dict[TopicPartition, StartPartition] = field(default_factory=dict)
    unresolved: set[TopicPartition] = field(default_factory=set)
    afresh: set[TopicPartition] = field(default_factory=set)
    marks: dict[str, IncarnationMark] = field(default_factory=dict)
    stored: dict[TopicPartition, int] = field(default_factory=dict)
    resolve_again_ms: int | None = None
    void: bool = False

    def begin_anew(self) -> None:
        """Everything was read again: forget what was made of an earlier reading."""
        for found in (self.takes, self.unresolved, self.afresh, self.marks, self.stored):
            found.clear()


@dataclass(slots=True)
class CommitIntent:
    """Offsets to store for the application (`token`), or at the end of a member's life (None).
    `overruled`: taken out, because an operator reset them meanwhile.
    """

    token: int | None
    offsets: dict[TopicPartition, int]
    tries: int = 0
    overruled: set[TopicPartition] = field(default_factory=set)

    def done(self) -> CommitDone:
        """The answer when nothing is left to store. Only for a commit of the application."""
        assert self.token is not None
        return CommitDone(
            self.token,
            CommitOutcome.OVERRULED if self.overruled else CommitOutcome.OK,
            tuple(sorted(self.overruled)),
        )


@dataclass(frozen=True, slots=True)
class DropIntent:
    """Delete our owner node of a partition that shall be started anew: its offset node was deleted
    by somebody, or it was started for a topic that is gone.
    """

    partition: TopicPartition


class DueWrite(enum.Enum):
    """Writes without parameters of their own."""

    ACK = "ack"
    RESUBSCRIBE = "resubscribe"


Intent = CommitIntent | DropIntent | DueWrite


class InFlightKind(enum.Enum):
    """What the request under way is for."""

    DOUBT = "settle a doubt"
    START = "look before a start"
    TOPICS = "look at the topics of what was started"
    EPOCH = "learn the epoch"
    CHANNEL = "read the channel"
    LEADER = "look for a coordinator"
    AROUND = "look at the registrations of a shared group"
    ACK = "ack"
    COMMIT = "commit"
    RENEW = "prove membership"
    DROP = "drop an owner node"
    RESUBSCRIBE = "change the subscription"


@dataclass(frozen=True, slots=True)
class RequestInFlight:
    """The one request under way."""

    asked: InFlightKind
    token: int
    intent: Intent | None = None
    values: dict[TopicPartition, int] = field(default_factory=dict)
    ack: Ack | None = None
