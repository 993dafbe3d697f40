"""A streaming query's questions to its member: whether it still is one, what it owns with which
versions, who owns the rest; and its commits.

Everything here is called on the thread on which Spark calls, and asks the member's thread.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping

from consumer.core import messages as msg
from consumer.core.phases import Phase
from consumer.member.driver import MemberDriver
from consumer.member.thread import MemberThread
from consumer.spark.errors import SessionLostError
from consumer.spark.option_names import in_sparks_words
from consumer.spark.options import StreamOptions
from consumer.spark.query_assignment import QueryAssignment
from zkcoord.core.model import Owner, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import READS_PER_REQUEST_MAX, GetData, Node, ReadDone
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout

LOOK_S = 5.0


@value
class QuerySnapshot:
    """The member at one moment, made on the member's thread."""

    name: str
    # The id of its ZooKeeper session.
    session: int
    # The czxid of its registration.
    incarnation: int
    # The generation and the epoch of the latest command.
    generation: int
    epoch: int
    # What it owns: the stored offset, and the version of its node.
    held: Mapping[TopicPartition, tuple[int, int]]


class QuerySession:
    """What Spark's thread asks of the member. Fields are set once; their objects are safe for any
    thread, `assignment` under its lock.
    """

    def __init__(
        self,
        options: StreamOptions,
        layout: Layout,
        commit_timeout_ms: int,
        thread: MemberThread,
        assignment: QueryAssignment,
    ) -> None:
        self.options = options
        self.layout = layout
        self.thread = thread
        self.assignment = assignment
        # How long a commit may take.
        self._commit_timeout_s = commit_timeout_ms / 1000
        # Numbers of commits. Spark's thread.
        self._tokens = itertools.count(1)

    def check(self) -> None:
        """Raises `MembershipError` when this member cannot go on, or when it lost its session and
        must not rejoin.
        """
        with self.assignment.lock:
            if self.assignment.failure is not None:
                said = self.assignment.failure
                raise type(said)(in_sparks_words(str(said.args[0])))
            lost, self.assignment.session_lost = self.assignment.session_lost, ""
        if lost and not self.options.rejoins:
            raise SessionLostError(
                f"this query is no longer the member of group {self.options.group} that it was"
                f" ({lost}), and onSessionLoss is fail: start it again, it goes on where the group"
                " stands"
            )

    def wait(self, timeout_s: float) -> None:
        """Until something changes, or time is up."""
        with self.assignment.lock:
            self.assignment.lock.wait(max(0.0, timeout_s))

    def leased(self) -> bool:
        """Whether the lease holds: nobody else can own what this member owns. The clock is read
        last, as in `GroupSession.leased_in`.
        """
        until = self.thread.lease_until(self.assignment.assignment_epoch)
        return boot_ms() < until

    @property
    def joined(self) -> bool:
        """Whether it is a member at the moment."""
        return self.thread.metrics().phase is Phase.MEMBER

    def snapshot(self) -> QuerySnapshot | None:
        """The member after every message that was sent before; None when its thread does not
        answer within 5 s.
        """

        def at(driver: MemberDriver) -> QuerySnapshot:
            core = driver.core
            return QuerySnapshot(
                driver.name,
                driver.session_id,
                core.session.incarnation,
                core.snapshot.generation,
                core.snapshot.epoch,
                {
                    tp: (held.committed, held.version)
                    for tp, held in core.session.held.items()
                    if held.committed is not None and held.version is not None
                },
            )

        return self.thread.query(at, LOOK_S)

    def read_owners(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Owner]:
        """Who owns each of these, of those that have a readable owner node; asks ZooKeeper."""
        listed = sorted(partitions)
        found: dict[TopicPartition, Owner] = {}
        for at in range(0, len(listed), READS_PER_REQUEST_MAX):
            part = listed[at : at + READS_PER_REQUEST_MAX]
            result = self.thread.read(
                [GetData(self.layout.owner(self.options.group, tp)) for tp in part], LOOK_S
            )
            for tp, answer in zip(
                part, result.answers if isinstance(result, ReadDone) else (), strict=False
            ):
                owner = (
                    codec.decode_owner(tp, answer.data, answer.stat)
                    if isinstance(answer, Node)
                    else None
                )
                if isinstance(owner, Owner):
                    found[tp] = owner
        return found

    def read_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """{partition: (stored offset, czxid of its node)} of those that have one that can be read;
        asks ZooKeeper.
        """
        listed = sorted(partitions)
        found: dict[TopicPartition, tuple[int, int]] = {}
        for at in range(0, len(listed), READS_PER_REQUEST_MAX):
            part = listed[at : at + READS_PER_REQUEST_MAX]
            result = self.thread.read(
                [GetData(self.layout.offset(self.options.group, tp)) for tp in part], LOOK_S
            )
            answers = result.answers if isinstance(result, ReadDone) else ()
            for tp, answer in zip(part, answers, strict=False):
                if isinstance(answer, Node):
                    offset = codec.decode_offset(str(tp), answer.data)
                    if isinstance(offset, int):
                        found[tp] = (offset, answer.stat.czxid)
        return found

    def commit(
        self, offsets: Mapping[TopicPartition, int], assignment_epoch: int
    ) -> msg.CommitDone | None:
        """Store these next offsets; None without an answer in time."""
        token = next(self._tokens)
        deadline = time.monotonic() + self._commit_timeout_s
        self.thread.send(msg.Commit(token, dict(offsets), assignment_epoch))
        with self.assignment.lock:
            while (
                token not in self.assignment.answers
                and self.assignment.failure is None
                and time.monotonic() < deadline
            ):
                self.assignment.lock.wait(max(0.0, deadline - time.monotonic()))
            return self.assignment.answers.pop(token, None)
