"""What the member (the ZooKeeper side of a consumer) and the fetching side say to each other.

The member decides what this member may fetch; the fetching side (kafka-python behind the shim,
Spark's source, or the simulator's application) fetches, hands out and processes. They share no
state but the lease and talk through two queues of the values below. Messages that change what may
be fetched, or from where (`Assigned`, `Lost`, `Seek`), carry a rising *assignment epoch*; the
fetching side remembers the latest that it took and names it when it asks for the lease
(`Lease.until`, before every hand-out) and when it commits. So nothing is handed out while a `Lost`
waits to be taken, however new the lease, and no commit speaks of an earlier assignment of a
partition, or overrules an operator's reset that the application has not heard of. Contracts:

* The fetching side obeys in order. `Assigned` gives a partition for the first time (or again, after
  `Lost` or an answered `Revoke`); until then it must not be fetched.
* `Revoke` is answered by exactly one `Revoked` with the same token, after every record handed out
  before is processed; from the moment `Revoke` is taken nothing more of these partitions is handed
  out. `positions` are next offsets (last processed + 1). With `in_part` what is still worked on may
  be left to a later `Revoke`, so that the others need not wait: it is named in `busy`, never
  everything that was asked for; nothing more of it is handed out until `Resumed` follows. If
  `Resumed` or `Lost` follows for a partition, that partition's part of the answer is void.
* `Lost` needs no answer: the partitions are somebody else's already. Nothing may be handed out or
  committed for them.
* `Resolve` asks where to begin where no offset is stored (auto_offset_reset); answered by
  `Resolved`, or by `GiveUp`.
* Every `Commit` is answered by exactly one `CommitDone`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field

from zkcoord.core.model import Subscription, TopicPartition
from zkcoord.core.value_type import value


@value
class Assigned:
    """Fetch these partitions from these offsets; call on_partitions_assigned. `streams`: which of
    this member's streams owns a partition, where it is not stream 0. `metadata`: what was committed
    beside these offsets, where there is any. `unset` are assigned, too, and nothing says where they
    begin (`Resolved.unset`): they are fetched once the application has sought. `more`: further
    ones are to come, as soon as others have given them up.
    """

    offsets: Mapping[TopicPartition, int]
    assignment_epoch: int = 0
    streams: Mapping[TopicPartition, int] = field(default_factory=dict)
    metadata: Mapping[TopicPartition, str] = field(default_factory=dict)
    unset: tuple[TopicPartition, ...] = ()
    more: bool = False


@value
class Revoke:
    """Give these partitions up; call on_partitions_revoked; answer `Revoked(token, ...)`.
    `in_part`: what is left out is asked for again. `more`: others are to come.
    """

    token: int
    partitions: tuple[TopicPartition, ...]
    in_part: bool = False
    more: bool = False


@value
class Resumed:
    """A revocation was withdrawn: go on where these partitions stand (on_partitions_assigned if
    on_partitions_revoked was called).
    """

    partitions: tuple[TopicPartition, ...]


@value
class Lost:
    """These partitions are gone without notice; call on_partitions_lost."""

    partitions: tuple[TopicPartition, ...]
    reason: str = ""
    assignment_epoch: int = 0


@value
class Seek:
    """An operator reset the stored offset: continue from there."""

    partition: TopicPartition
    offset: int
    assignment_epoch: int = 0


@value
class Resolve:
    """No offset is stored for these partitions: where do they begin (what the group has committed
    in Kafka, else auto_offset_reset)? Those in `earliest` begin at their first record whatever that
    says: what is stored belongs to a topic of that name that is gone. Where the fetching side keeps
    the offsets it is asked for all, and `stored` is what is stored here nevertheless.
    """

    token: int
    partitions: tuple[TopicPartition, ...]
    earliest: tuple[TopicPartition, ...] = ()
    stored: Mapping[TopicPartition, int] = field(default_factory=dict)


class CommitOutcome(enum.Enum):
    """How a commit ended. `OVERRULED`: an operator reset these offsets before the application had
    heard of it; the others of the commit are stored. `NOT_OWNED` and `NO_LONGER_MEMBER` are final
    for the partitions named, `UNAVAILABLE` may be tried again. The fetching side alone says
    `REFUSED`, where it keeps the offsets, and `GROUP_ALIVE`, where it commits without a member.
    """

    OK = "ok"
    REFUSED = "Kafka refused it"
    OVERRULED = "an operator reset it"
    NOT_OWNED = "not owned"
    GROUP_ALIVE = "the group has members"
    NO_LONGER_MEMBER = "no longer a member"
    UNAVAILABLE = "ZooKeeper did not answer"


@value
class CommitDone:
    """Answer to `Commit`. `partitions` are those concerned when the outcome is not OK; `why` is
    what Kafka says, where offsets are kept there.
    """

    token: int
    outcome: CommitOutcome
    partitions: tuple[TopicPartition, ...] = ()
    why: str = ""


@value
class Stored:
    """These next offsets are stored in ZooKeeper now, by this member (or, for what it holds, by an
    operator). `given`: it gave the partitions up with them. Told only where
    `MemberOptions.tells_stored` asks for it; nothing to obey. `metadata` is what is stored beside
    them, where there is any.
    """

    offsets: Mapping[TopicPartition, int]
    given: bool = False
    metadata: Mapping[TopicPartition, str] = field(default_factory=dict)


@value
class Starting:
    """These are `Assigned` next, and no more after them, if nothing comes in between: it is being
    written. Told only where `MemberOptions.tells_starts` asks for it; nothing to obey.
    """

    partitions: tuple[TopicPartition, ...]


@value
class Failed:
    """The member cannot go on: raise this out of poll. `code` is one of `FailureCode`; `rejection`
    is the coordinator's code where it rejected the member.
    """

    code: FailureCode
    message: str
    rejection: str = ""


class FailureCode(enum.Enum):
    """Why a member gave up for good."""

    REJECTED = "rejected by the coordinator"
    DUPLICATE_CONSUMER_ID = "the consumer id is in use"
    FENCED_INSTANCE_ID = "the instance id was taken over"
    OTHER_LAYOUT = "the ensemble is used with the other layout"
    REFUSED = "ZooKeeper refused the session"
    RESET_POLICY = "no offset is stored and auto_offset_reset gives none"
    KAFKA_GROUP_ACTIVE = "members of Kafka's own protocol hold the group"
    KAFKA_GROUP_DENIED = "what the group has committed in Kafka may not be read"


class NoticeKind(enum.Enum):
    """Things worth one log line or a metric; nothing to obey."""

    REGISTERED = "registered"
    SESSION_LOST = "session lost"
    EVICTED = "evicted"
    LEASE_LAPSED = "lease lapsed"
    LEASE_BACK = "lease back"
    FAILSAFE = "failsafe"
    NO_COORDINATOR = "no coordinator"
    COORDINATOR_BACK = "coordinator back"
    TOPIC_MISSING = "topic missing"
    MALFORMED = "malformed"
    TOPIC_RECREATED = "topic made again"
    COMMAND = "command"
    SENT_AWAY = "sent away for a while"
    REBALANCE_FAILED = "the group cannot be rebalanced"
    REBALANCE_OVER = "the group is rebalanced again"
    GROUP_MODE = "the group's mode changed"
    RELEASING = "old consumers move: everything is given up"
    FOREIGN_OFFSET = "an offset of ours was overwritten"
    UNREADABLE_OFFSET = "what is stored for a partition is no offset"
    GROUP_NOT_READY = "the group's nodes cannot be used yet"


@value
class Notice:
    """Something happened; `detail` holds flat, printable values."""

    kind: NoticeKind
    detail: Mapping[str, str | int | float] = field(default_factory=dict)


@value
class UserData:
    """What a custom assignor has for this member; it belongs to the assignment that the next
    messages bring about.
    """

    text: str


ToFetcher = (
    Assigned
    | Revoke
    | Resumed
    | Lost
    | Seek
    | Resolve
    | CommitDone
    | Stored
    | Starting
    | Failed
    | Notice
    | UserData
)


@value
class Subscribe:
    """The application's (new) subscription, and what it tells a custom assignor."""

    subscription: Subscription
    user_data: str = ""


@value
class Revoked:
    """Answer to `Revoke`. `busy` are not given up now."""

    token: int
    positions: Mapping[TopicPartition, int]
    busy: tuple[TopicPartition, ...] = ()


@value
class Resolved:
    """Answer to `Resolve`; a partition may be left out when it cannot be resolved yet (it is asked
    again). `unset`: nothing says where these begin. They are owned without an offset, which the
    first commit makes.
    """

    token: int
    offsets: Mapping[TopicPartition, int]
    unset: tuple[TopicPartition, ...] = ()


@value
class GiveUp:
    """This member must not go on: leave, and fail with this. So it is where no answer to `Resolve`
    may be made up, or where the group is in use elsewhere.
    """

    code: FailureCode
    message: str


@value
class Commit:
    """Store these next offsets, as known in `assignment_epoch`, and `metadata`
    beside those that it names; beside the others there is none from then on. Answered by
    `CommitDone`.
    """

    token: int
    offsets: Mapping[TopicPartition, int]
    assignment_epoch: int
    metadata: Mapping[TopicPartition, str] = field(default_factory=dict)


@value
class ExpectCommit:
    """Somebody may store these next offsets on this member's behalf, each at the version held now
    (a sink that publishes a batch and its offsets in one multi): found so, they are no operator's
    reset. A later `ExpectCommit` of a partition replaces the earlier one.
    """

    offsets: Mapping[TopicPartition, int]


@value
class Polled:
    """The application polled: it is alive (max_poll_interval)."""


@value
class Close:
    """Leave the group: commit `positions`, as known in `assignment_epoch`, where the commit is
    automatic, then close the session.
    """

    positions: Mapping[TopicPartition, int]
    assignment_epoch: int


FromFetcher = Subscribe | Revoked | Resolved | GiveUp | Commit | ExpectCommit | Polled | Close
