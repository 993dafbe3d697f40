"""The whole I/O seam: what zkcoord asks of a ZooKeeper ensemble, and nothing else.

A `Port` is one ZooKeeper session. Every call returns at once; its outcome arrives later through the
callback given with the call. Ordering contracts, on which the protocol's safety rests:

* callbacks and session events are delivered one at a time, on the thread that runs the loop, in the
  order in which ZooKeeper answered (FIFO per session);
* a call made while the session is not connected fails at once with `Unanswered`: nothing is queued
  and run later on another session;
* when a connection is lost, every call under way ends with `Unanswered` (it may or may not have
  happened) before the next `Connected`;
* watches are persistent, and gone after each connection loss: on `Connected` the user adds them
  again and then reads (watch first, then read);
* a multi is all or nothing; its outcome is named, never raised.

Two implementations exist: `zkcoord.zk.kazoo_port.session` (kazoo, the real thing) and the model in
tests/sim. Code above this seam is the same in both.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, Protocol

from zkcoord.core.value_type import value
from zkcoord.znodes.stat import Stat


class ZkError(enum.Enum):
    """Why ZooKeeper refused an operation (a named outcome, never an exception)."""

    NO_NODE = "NoNode"
    NODE_EXISTS = "NodeExists"
    BAD_VERSION = "BadVersion"
    NOT_EMPTY = "NotEmpty"
    NO_AUTH = "NoAuth"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NO_CHILDREN_FOR_EPHEMERALS = "NoChildrenForEphemerals"
    TOO_LARGE = "TooLarge"
    OTHER = "Other"


PERMISSIONS = {"r": 1, "w": 2, "c": 4, "d": 8, "a": 16}


@dataclass(frozen=True)
class AclEntry:
    """One ZooKeeper ACL: permission bits (`PERMISSIONS`: read, write, create, delete, admin),
    scheme and id. A digest's id ends with a hash of the password, which is shown nowhere.
    """

    perms: int
    scheme: str
    id: str = field(repr=False)

    @property
    def who(self) -> str:
        """Scheme and id, for people."""
        return f"{self.scheme}:{self.id.partition(':')[0] if self.scheme == 'digest' else self.id}"


OPEN_ACL: tuple[AclEntry, ...] = (AclEntry(31, "world", "anyone"),)


@value
class Create:
    """Create a node. With `sequential`, ZooKeeper appends a 10-digit suffix to `path`. Where there
    are roles it gets the ACL of its place, but with `own_acl`.
    """

    path: str
    data: bytes
    ephemeral: bool = False
    sequential: bool = False
    acl: tuple[AclEntry, ...] = OPEN_ACL
    own_acl: bool = False


@value
class SetData:
    """Set a node's data if its version is `version` (-1: any)."""

    path: str
    data: bytes
    version: int


@value
class Delete:
    """Delete a node if its version is `version` (-1: any)."""

    path: str
    version: int = -1


@value
class Check:
    """Fail the multi unless the node exists and has this version."""

    path: str
    version: int


Op = Create | SetData | Delete | Check


@value
class Created:
    """Result of a `Create`: the path, with the suffix where it was sequential."""

    path: str


@value
class Done:
    """Result of a `Delete` or a `Check`."""


OpResult = Created | Stat | Done  # Stat is the result of a SetData


@value
class Committed:
    """A multi that happened; one result per operation, in order."""

    results: tuple[OpResult, ...]


@value
class Rejected:
    """A multi that did not happen: the first operation that failed, and why."""

    index: int
    error: ZkError


@value
class Unanswered:
    """No answer: connection lost, deadline passed, or not connected. It may or may not have
    happened.
    """


MultiResult = Committed | Rejected | Unanswered


@value
class GetData:
    """Read a node's data and stat. `frozen`: Kafka's own node, also where one of ours counts
    instead (`overlay`).
    """

    path: str
    frozen: bool = False


@value
class GetChildren:
    """Read the names of a node's children. `frozen`: see `GetData`."""

    path: str
    frozen: bool = False


Read = GetData | GetChildren


class Node(NamedTuple):
    """Answer to `GetData`."""

    data: bytes
    stat: Stat


@value
class Children:
    """Answer to `GetChildren`, sorted."""

    names: tuple[str, ...]


@value
class Missing:
    """There is no such node."""


@value
class Denied:
    """The node cannot be read (ACL or another refusal; what is larger than any answer that is taken
    is `TOO_LARGE`). `who`: by which credentials, where a tool gave some.
    """

    error: ZkError
    who: str = ""


ReadAnswer = Node | Children | Missing | Denied


def data_of(answer: ReadAnswer) -> bytes | None:
    """A node's data; None where there is none, or it may not be read."""
    return answer.data if isinstance(answer, Node) else None


@value
class ReadDone:
    """Answers of one multiRead, in the order of its reads: one snapshot of the server that
    answered.
    """

    answers: tuple[ReadAnswer, ...]


ReadResult = ReadDone | Unanswered


@value
class Acl:
    """A node's ACL, and how many children the node has."""

    entries: tuple[AclEntry, ...]
    num_children: int


AclAnswer = Acl | Missing | Denied


@value
class AclsDone:
    """The answers to `Port.acls`, in the order of its paths. They are no snapshot: each is as its
    node was at some moment in between.
    """

    answers: tuple[AclAnswer, ...]


AclsResult = AclsDone | Unanswered


class WatchMode(enum.Enum):
    """`PERSISTENT`: this node and its list of children. `RECURSIVE`: this node and everything below
    it, without lists of children.
    """

    PERSISTENT = 0
    RECURSIVE = 1


class Change(enum.Enum):
    """What a watch saw."""

    CREATED = 1
    DELETED = 2
    DATA = 3
    CHILDREN = 4


@value
class Connected:
    """The session is (again) usable. `session_id` differs from the last one after an expiry that
    went unnoticed.
    """

    session_id: int
    timeout_ms: int


@value
class Suspended:
    """The connection is gone; the session may live. All watches are gone. `answer_too_large`: it
    was dropped because an answer was larger than is taken; asking for less at once helps.
    """

    answer_too_large: bool = False


@value
class Expired:
    """The session is over for certain: it expired, or was closed by somebody. The port is dead."""


@value
class Closed:
    """The session was closed by `Port.close`. The port is dead."""


@value
class Refused:
    """The ensemble cannot be used as configured (chroot missing, authentication failed, not a
    ZooKeeper ...): one sentence for the user. The port is dead.
    """

    reason: str


@value
class Fired:
    """A watch saw a change. A hint to read, nothing to conclude from."""

    change: Change
    path: str


PortEvent = Connected | Suspended | Expired | Closed | Refused | Fired


class Port(Protocol):
    """One ZooKeeper session. See the module's ordering contracts."""

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """Run `ops` as one transaction."""

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """Run `reads` (at most `READS_PER_REQUEST_MAX`) as one multiRead."""

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """Read who may do what with these nodes: a request for each, all sent at once."""

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """Make the server that answers this session catch up with the leader; answers
        `ReadDone(())`.
        """

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """Add a persistent watch (on a path that may not exist yet); answers `ReadDone(())`."""

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """Remove this session's watch on `path`; answers `ReadDone(())`, or one `Denied` where
        there is none.
        """

    def ignore(self, paths: Sequence[str]) -> None:
        """Tell of nothing below these paths from now on, and again of what is below all others; a
        lost connection ends that. It asks nothing of the server. A hint: what is on its way is
        told, and where the server is old, everything.
        """

    def close(self) -> None:
        """Close the session: its ephemeral nodes go in one transaction. `Closed` follows, whatever
        happens.
        """


class Ensemble(Protocol):
    """Where sessions come from. `open` returns at once; `Connected` or `Refused` follows through
    `on_event`.
    """

    def open(self, on_event: Callable[[PortEvent], None]) -> Port:
        """Start a new session."""


READS_PER_REQUEST_MAX = 1_000
READS_DIVISOR = 16
READS_BYTES_MAX = 512 * 1024
READ_FIXED_BYTES = 16
OPS_PER_MULTI_MAX = 500
MULTI_BYTES_MAX = 512 * 1024


def reads_that_fit(reads: Sequence[Read], reads_max: int) -> int:
    """How many of the first of these reads go into one request: at most `reads_max` and
    `READS_BYTES_MAX` bytes (of paths that are ASCII), at least one.
    """
    sizes = accumulate([READ_FIXED_BYTES + len(read.path) for read in reads[:reads_max]])
    return max(bisect_right(list(sizes), READS_BYTES_MAX), min(len(reads), 1))


def fewer_reads(reads_max: int) -> int:
    """How many reads to put into a request, after the answer to one with so many was too large:
    nodes may hold a megabyte each, whatever they should be.
    """
    return max(1, reads_max // READS_DIVISOR)


def encoded_bytes(op: Op) -> int:
    """Upper bound of an operation's size on the wire, in bytes: what the byte cap of a multi
    counts.
    """
    overhead = 64
    data = len(op.data) if isinstance(op, (Create, SetData)) else 0
    acl = acl_bytes(op.acl) if isinstance(op, Create) else 0
    return overhead + len(op.path.encode()) + data + acl


def acl_bytes(acl: Sequence[AclEntry]) -> int:
    """Upper bound of an ACL's size on the wire, in bytes."""
    return sum(16 + len(entry.scheme.encode()) + len(entry.id.encode()) for entry in acl)
