"""What a member is busy with: the command it carries out, the writes that are due, and the one
request under way.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from zkcoord.core.model import Command, TopicPartition
from zkcoord.core.value_type import value

from .events import Ack, StartPartition
from .messages import CommitDone, CommitOutcome
from .topic_incarnations import IncarnationMark


class CommandStage(enum.Enum):
    """How far a command is."""

    READING = "reading owners and offsets"
    RESOLVING = "asking where to begin"
    UNREADABLE = "waiting before offsets are read again that were no offsets"
    REVOKING = "waiting for the application"
    READY = "to be acked"


@dataclass(slots=True)
class CommandInProgress:
    """The command being carried out."""

    command: Command
    """As it was read; without a node: a release that nobody commanded."""

    stage: CommandStage
    """How far it is."""

    question: int = 0
    """The token of the question that the fetching side has not answered yet."""

    starts: dict[TopicPartition, StartPartition] = field(default_factory=dict)
    """What the ack will start."""

    unresolved: set[TopicPartition] = field(default_factory=set)
    """Those of `starts` for which it is not known where they begin."""

    afresh: set[TopicPartition] = field(default_factory=set)
    """Those of `unresolved` whose topic was made again: they begin at the first record."""

    marks: dict[str, IncarnationMark] = field(default_factory=dict)
    """What the ack will say of the offsets of whole topics, by topic."""

    stored: dict[TopicPartition, int] = field(default_factory=dict)
    """Next offsets that are stored where that does not decide, because the fetching side keeps the
    offsets.
    """

    resolve_again_ms: int | None = None
    """When to ask again for what could not be resolved (ms; None: an answer is outstanding), or to
    have done with what could not be read.
    """

    void: bool = False
    """Nothing is to be started any more."""

    def restart(self) -> None:
        """Everything was read again: forget what was made of an earlier reading."""
        for found in (self.starts, self.unresolved, self.afresh, self.marks, self.stored):
            found.clear()

    def waits_for(self, stage: CommandStage, token: int) -> bool:
        """Whether the answer to this question is what it waits for in this stage."""
        return self.stage is stage and self.question == token


@dataclass(slots=True)
class CommitIntent:
    """Offsets to store for the application, or for the member itself."""

    token: int | None
    """The application's token, which the answer names; None: nobody waits for an answer."""

    offsets: dict[TopicPartition, int]
    """Next offsets that are still to be stored."""

    metadata: Mapping[TopicPartition, str] = field(default_factory=dict)
    """What is to be stored beside them; nothing for a partition that is not named."""

    tries: int = 0
    """How many writes of it did not end well."""

    overruled: set[TopicPartition] = field(default_factory=set)
    """Partitions that are not stored, because an operator reset them meanwhile."""

    def done(self) -> CommitDone:
        """The answer when nothing is left to store. Only for a commit of the application."""
        assert self.token is not None
        return CommitDone(
            self.token,
            CommitOutcome.OVERRULED if self.overruled else CommitOutcome.OK,
            tuple(sorted(self.overruled)),
        )


@value
class DropIntent:
    """Delete our owner node of a partition that is to be started anew: its offset node was deleted
    by somebody, or it was started for a topic that is gone.
    """

    partition: TopicPartition


class DueWrite(enum.Enum):
    """Writes without parameters."""

    ACK = "ack"
    RESUBSCRIBE = "resubscribe"


Intent = CommitIntent | DropIntent | DueWrite


class InFlightKind(enum.Enum):
    """What the request under way is for."""

    DOUBT = "settle a doubt"
    START = "read before a start"
    TOPICS = "read the topics of what was started"
    EPOCH = "learn the epoch"
    CHANNEL = "read the channel"
    LEADER = "read whether a coordinator leads"
    LEGACY_GROUP = "read the registrations of a shared group"
    ACK = "ack"
    COMMIT = "commit"
    RENEW = "prove membership"
    DROP = "drop an owner node"
    RESUBSCRIBE = "change the subscription"


@value
class RequestInFlight:
    """The one request under way."""

    kind: InFlightKind
    """What it is for."""

    token: int
    """The token by which its answer is known."""

    intent: Intent | None = None
    """The due write that it carries out: due again where the outcome is not known."""

    values: dict[TopicPartition, int] = field(default_factory=dict)
    """The next offsets that a commit stores."""

    ack: Ack | None = None
    """What was requested, where it is an ack."""
