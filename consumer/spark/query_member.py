"""A streaming query as a member of its group: what Spark's calls mean for it.

The barrier is Spark's question for the latest offset, which names the plan that is durably written
by now (`start`): `settle` stores its offsets, gives up what is asked back, and only then `plan`
makes the next one of what is owned. So a partition moves between two batches, never within one, and
a successor begins exactly behind what was written.

What counts as this query's doing, when a plan is found to be written and its offsets are not
stored: the stored offset is still the plan's start, and its version is the plan's (owned all the
time) or the next (this member's own start since then, and nobody else's). Any other pair means that
somebody else has owned the partition or reset it: then nothing is stored, and what was written of
it since may come again, one planned batch at most.

A plan is only made while the lease holds. A process that was stopped plans nothing before it has
proved its membership again; what it had planned is then judged like the plan of a process that is
gone (`consumer.spark.plan_recovery`).
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from consumer.assignment.subscription import subscription_of
from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
from consumer.core.phases import Phase
from consumer.errors import AgentFailedError
from consumer.fetch.choose_client import choose_client
from consumer.member.broker_discovery import find_brokers
from consumer.member.driver import MemberDriver
from consumer.member.log import MemberLog
from consumer.member.thread import MemberThread, zk_options
from consumer.observer import AssignmentObserver
from consumer.offsets.initial_offsets import InitialOffsets
from consumer.spark.decode.errors import DataLossError
from consumer.spark.end_offsets import EndOffsets
from consumer.spark.errors import SessionLostError
from consumer.spark.graceful_stop import GracefulStop
from consumer.spark.options import StreamOptions
from consumer.spark.plan import PARTITIONS_PER_PLAN_MAX, Plan, PlannedRange, plan
from consumer.spark.query_assignment import QueryAssignment
from consumer.spark.starting_offsets import StartingOffsets
from zkcoord.core.model import TopicPartition
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import READS_PER_REQUEST_MAX, GetData, Node, ReadDone
from zkcoord.znodes.paths import layout_named

log = logging.getLogger(__name__)

LOOK_S = 5.0
COMMIT_TRIES_MAX = 5
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class QuerySnapshot:
    """The member now, as the agent's thread sees it: `held` is (stored offset, its version) of what
    it owns.
    """

    name: str
    session: int
    incarnation: int
    generation: int
    epoch: int
    held: Mapping[TopicPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose a partition is: the member's name, its session, and the czxid of the owner node."""

    member: str
    session: int
    czxid: int


class QueryMember:
    """One query's membership. Made and used on the thread on which Spark calls; `close` ends it.
    Raises `BrokersUnreachableError`, `ConfigurationError`, `SessionRefusedError` where it cannot
    begin.
    """

    def __init__(self, options: StreamOptions, observer: AssignmentObserver) -> None:
        self.options = options
        configs = options.consumer()
        self.config = configs.config
        self.zk = zk_options(configs)
        self.layout = layout_named(self.config["zookeeper_layout"])
        self.brokers = self.config["bootstrap_servers"] or find_brokers(
            self.zk,
            self.layout,
            self.config["security_protocol"],
            (self.zk.connect_timeout_ms + self.zk.session_timeout_ms) / 1000,
        )
        self.data = choose_client("kafka-python", configs.kafka_configs(self.brokers))
        self.desk = QueryAssignment(
            self.data,
            MemberLog(self.config, self.layout, observer),
            self._wants,
            self._send,
            self._resolve,
        )
        self.ends = EndOffsets(self.data, self._news)
        self.agent = MemberThread(
            configs, self.zk, self.desk.receive, self._agent_ended, os.getppid()
        )
        self.running: Plan | None = None
        self.running_key: tuple[int, int] | None = None
        self.settled_key: tuple[int, int] | None = None
        self.targets: Mapping[TopicPartition, int] | None = None
        self.began_waiting = time.monotonic()
        self.drain = GracefulStop(lambda: self.agent.member_name)
        self._tokens = itertools.count(1)
        self._initial_offsets = InitialOffsets(
            StartingOffsets(self.desk, options.read.starting),
            self.data.group_offsets(options.group),
            str(self.config["initial_offsets"]),
        )
        self.agent.start()
        self._initial_offsets.check_group()
        self.agent.tell(msg.Subscribe(subscription_of(options.read.topics, options.pattern)))

    # news

    def _send(self, message: msg.FromFetcher) -> None:
        self.agent.tell(message)

    def _resolve(self, question: msg.Resolve) -> None:
        self._initial_offsets.resolve(question)

    def _wants(self) -> None:
        self.ends.want(list(self.desk.owned))

    def _news(self) -> None:
        with self.desk.lock:
            self.desk.lock.notify_all()

    def _agent_ended(self, broken: BaseException | None) -> None:
        with self.desk.lock:
            if broken is not None and self.desk.failure is None:
                self.desk.failure = AgentFailedError(
                    f"the thread that keeps the membership ended: {broken!r}; the log has the"
                    " details, restart the query"
                )
            self.desk.lock.notify_all()

    def check(self) -> None:
        """Raises `MembershipError` when this member cannot go on, or when it lost its session and
        shall not rejoin.
        """
        with self.desk.lock:
            if self.desk.failure is not None:
                raise self.desk.failure
            lost, self.desk.session_lost = self.desk.session_lost, ""
        if lost and not self.options.rejoins:
            raise SessionLostError(
                f"this query is no longer the member of group {self.options.group} that it was"
                f" ({lost}), and onSessionLoss is fail: start it again, it goes on where the group"
                " stands"
            )

    def wait(self, timeout_s: float) -> None:
        """Until something changes, or time is up."""
        with self.desk.lock:
            self.desk.lock.wait(max(0.0, timeout_s))

    def leased(self) -> bool:
        """Is what this member owns its own, for certain? The clock is read last, as in
        `GroupSession.leased_in`.
        """
        until = self.agent.lease_until(self.desk.era)
        return boot_ms() < until

    def standing(self) -> QuerySnapshot | None:
        """As of everything told before; None when the agent does not answer."""

        def at(driver: MemberDriver) -> QuerySnapshot:
            core = driver.core
            return QuerySnapshot(
                driver.name,
                driver.session_id,
                core.session.incarnation,
                core.snapshot.generation,
                core.snapshot.epoch,
                {tp: (held.committed, held.version) for tp, held in core.session.held.items()},
            )

        return self.agent.look(at, LOOK_S)

    @property
    def joined(self) -> bool:
        """Is it a member at the moment?"""
        return self.agent.standing().phase is Phase.MEMBER

    # what is written

    def settle(self, done: Plan) -> bool:
        """Everything of `done` is durably written: store that, and give up what is asked back.
        False: ZooKeeper does not answer now, ask again.
        """
        key = (done.incarnation, done.number)
        if key != self.settled_key:
            with self.desk.lock:
                self._land(self.running if key == self.running_key else None, done)
                self.running = self.running_key = None
                self.settled_key = key
            self.agent.tell(msg.Polled())
        stored = self._store()
        with self.desk.lock:
            self.desk.release()
        return stored

    def _land(self, running: Plan | None, done: Plan) -> None:
        """What was in flight is written. `running`: the same plan with the fence that this member
        gave it. What an operator reset meanwhile is owned, and in flight no more: it is left out.
        """
        for r in (running or done).ranges:
            owned = self.desk.owned.get(r.tp)
            if (
                running is None
                or owned is None
                or owned.planned != running.number
                or owned.flight is not None
            ):
                self.desk.unsettled[r.tp] = r
        self._clear()

    def _clear(self) -> None:
        for owned in self.desk.owned.values():
            owned.flight = None

    def _store(self) -> bool:
        with self.desk.lock:
            if not any(tp in self.desk.owned for tp in self.desk.unsettled):
                return True
        for _ in range(COMMIT_TRIES_MAX):
            standing = self.standing()
            if standing is None:
                return False
            with self.desk.lock:
                wanted, era = self._fitting(standing), self.desk.era
            if not wanted:
                return True
            answer = self._commit(wanted, era)
            if answer is None or answer.outcome in (
                CommitOutcome.UNAVAILABLE,
                CommitOutcome.NO_LONGER_MEMBER,
            ):
                return False
            with self.desk.lock:
                for tp, offset in wanted.items():
                    if answer.outcome is CommitOutcome.NOT_OWNED or tp in answer.partitions:
                        continue
                    self.desk.unsettled.pop(tp, None)
                    if tp in self.desk.owned:
                        self.desk.owned[tp].position = offset
                if answer.outcome is CommitOutcome.OVERRULED:
                    for tp in answer.partitions:
                        self.desk.unsettled.pop(tp, None)
        return False

    def _fitting(self, standing: QuerySnapshot) -> dict[TopicPartition, int]:
        """Next offsets to be stored; forgets what has been stored already, or is not this query's
        to say any more.
        """
        wanted: dict[TopicPartition, int] = {}
        for tp, r in list(self.desk.unsettled.items()):
            held = standing.held.get(tp)
            if held is None or tp not in self.desk.owned:
                continue
            offset, version = held
            if offset == r.start and version in (r.version, r.version + 1):
                wanted[tp] = r.end
                continue
            if offset == r.end:
                self.desk.owned[tp].position = r.end
            else:
                log.warning(
                    "offsets %d to %d of %s were written by this query, and meanwhile somebody else"
                    " has owned it or set it to %d: it goes on there, so some of them may be read"
                    " again",
                    r.start,
                    r.end - 1,
                    tp,
                    offset,
                )
            del self.desk.unsettled[tp]
        return wanted

    def _commit(self, offsets: Mapping[TopicPartition, int], era: int) -> msg.CommitDone | None:
        token = next(self._tokens)
        deadline = time.monotonic() + self.config["commit_timeout_ms"] / 1000
        self.agent.tell(msg.Commit(token, dict(offsets), era))
        with self.desk.lock:
            while (
                token not in self.desk.answers
                and self.desk.failure is None
                and time.monotonic() < deadline
            ):
                self.desk.lock.wait(max(0.0, deadline - time.monotonic()))
            return self.desk.answers.pop(token, None)

    # what comes next

    def confirmed(self, logged: Plan) -> Plan | None:
        """The plan that Spark's log has as `logged`, if this process made it, and still owns all
        that is in it; else None.
        """
        if (
            self.running is None
            or self.running_key != (logged.incarnation, logged.number)
            or not self.leased()
        ):
            return None
        with self.desk.lock:
            whole = all(
                (owned := self.desk.owned.get(r.tp)) is not None and owned.flight == r
                for r in self.running.ranges
            )
        return self.running if whole else None

    def plan(self, number: int, max_rows: int | None) -> Plan | None:
        """The next batch, of what is owned and has records; None when there is nothing to read, or
        this member may not.
        """
        if not self.leased():
            return None
        with self.desk.lock:
            behind = self._behind()
        if behind:
            self._skip(behind)
        with self.desk.lock:
            spans = self._spans(max_rows)
            for tp, (start, end) in spans.items():
                self.desk.owned[tp].flight = PlannedRange(*tp, start, end)
        return (
            self.fly(number, {tp: PlannedRange(*tp, *span) for tp, span in spans.items()})
            if spans
            else None
        )

    def fly(
        self,
        number: int,
        ranges: Mapping[TopicPartition, PlannedRange],
        key: tuple[int, int] | None = None,
    ) -> Plan | None:
        """Make these ranges, which are in flight, a plan with the fence of now: only what is owned
        and stands where its range begins. `key`: of the plan in Spark's log, where it is another.
        """
        self.agent.tell(msg.ExpectCommit({tp: r.end for tp, r in ranges.items()}))
        standing = self.standing()
        owners = self._owners(ranges, standing.session if standing is not None else 0)
        with self.desk.lock:
            found = []
            for tp, r in ranges.items():
                owned, held = (
                    self.desk.owned.get(tp),
                    standing.held.get(tp) if standing is not None else None,
                )
                if owned is None:
                    continue
                if (
                    held is None
                    or held[0] != r.start
                    or owned.position != r.start
                    or tp not in owners
                ):
                    owned.flight = None
                    # ZooKeeper's is the truth
                    owned.position = held[0] if held is not None else owned.position
                    continue
                owned.flight = PlannedRange(*tp, r.start, r.end, held[1], owners[tp])
                owned.planned = number
                found.append(owned.flight)
            if standing is None or not self.leased() or not (found or key is not None):
                self._clear()
                return None
            self.running = Plan(
                number,
                self.options.group,
                self.options.zookeeper,
                self.layout.name,
                standing.name,
                standing.incarnation,
                standing.generation,
                standing.epoch,
                tuple(sorted(found)),
            )
            self.running_key = (standing.incarnation, number) if key is None else key
            self.began_waiting = time.monotonic()
            return self.running

    def _owners(
        self, partitions: Collection[TopicPartition], session: int
    ) -> dict[TopicPartition, int]:
        """{partition: czxid of its owner node} of those that are owned here; asked once for each
        time that a partition comes.
        """
        with self.desk.lock:
            known = {
                tp: owned.owner
                for tp in partitions
                if (owned := self.desk.owned.get(tp)) is not None
            }
        unknown = sorted(tp for tp, owner in known.items() if owner < 0)
        known.update(
            {
                tp: holder.czxid
                for tp, holder in self.holders(unknown).items()
                if holder.session == session
            }
        )
        with self.desk.lock:
            for tp in unknown:
                if tp in self.desk.owned:
                    self.desk.owned[tp].owner = known[tp]
        return {tp: owner for tp, owner in known.items() if owner >= 0}

    def holders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Holder]:
        """Who owns each of these, of those that somebody owns; asks ZooKeeper."""
        listed = sorted(partitions)
        found: dict[TopicPartition, Holder] = {}
        for at in range(0, len(listed), READS_PER_REQUEST_MAX):
            part = listed[at : at + READS_PER_REQUEST_MAX]
            result = self.agent.read(
                [GetData(self.layout.owner(self.options.group, tp)) for tp in part], LOOK_S
            )
            for tp, answer in zip(
                part, result.answers if isinstance(result, ReadDone) else (), strict=False
            ):
                if isinstance(answer, Node):
                    found[tp] = Holder(
                        answer.data.decode("ascii", "replace").rpartition("-")[0],
                        answer.stat.ephemeral_owner,
                        answer.stat.czxid,
                    )
        return found

    def _spans(self, max_rows: int | None) -> dict[TopicPartition, tuple[int, int]]:
        """What to read next, under the lock."""
        now = time.monotonic()
        known = self.ends.known()
        ready: dict[TopicPartition, tuple[int, int]] = {}
        for tp, owned in self.desk.owned.items():
            if (
                tp in known
                and not owned.revoking
                and owned.flight is None
                and tp not in self.desk.unsettled
                and now >= owned.rests_until
            ):
                start, end = owned.position, known[tp][1]
                if self.targets is not None:
                    end = min(end, self.targets.get(tp, 0))
                if end > start:
                    ready[tp] = (start, end)
        if (
            self.options.min_rows is not None
            and self.targets is None
            and now - self.began_waiting < self.options.max_delay_ms / 1000
            and sum(end - start for start, end in ready.values()) < self.options.min_rows
        ):
            return {}
        longest = sorted(ready, key=lambda tp: (self.desk.owned[tp].planned, tp))[
            :PARTITIONS_PER_PLAN_MAX
        ]
        return plan({tp: ready[tp] for tp in longest}, max_rows)

    def _behind(self) -> dict[TopicPartition, tuple[int, int]]:
        """{partition: (position, where its log goes on)} of those whose position is not in their
        log, under the lock. Raises `DataLossError` unless that shall be left out.
        """
        known = self.ends.known()
        found: dict[TopicPartition, tuple[int, int]] = {}
        for tp, owned in self.desk.owned.items():
            if (
                tp not in known
                or owned.flight is not None
                or tp in self.desk.unsettled
                or known[tp][0] <= owned.position <= known[tp][1]
            ):
                continue
            (begin, end), at = known[tp], owned.position
            what = (
                f"{tp} stands at offset {at}, and its log has the offsets from {begin} to {end - 1}"
            )
            if self.options.read.fail_on_data_loss:
                raise DataLossError(
                    f"{what}: records are lost for group {self.options.group}. Set failOnDataLoss"
                    " to false to go on with what is there, or set the group's offsets with"
                    " zkcoord offsets reset"
                )
            found[tp] = (at, begin if at < begin else end)
            log.warning("%s: going on at %d, since failOnDataLoss is false", what, found[tp][1])
        return found

    def _skip(self, behind: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Store where it goes on, as if what is gone had been written."""
        standing = self.standing()
        with self.desk.lock:
            for tp, (start, to) in behind.items():
                if standing is not None and tp in standing.held:
                    self.desk.unsettled[tp] = PlannedRange(*tp, start, to, standing.held[tp][1])
        self._store()

    # the end

    def close(self) -> None:
        """Leave the group: what Spark was given last is not known to be written, so nothing more is
        stored.
        """
        with self.desk.lock:
            era, self.desk.closed = self.desk.era, True
        self.ends.stop()
        self.drain.close()
        try:
            self.agent.close(msg.Close({}, era), CLOSE_S)
        finally:
            self.data.close()
