"""A streaming query as a member of its group: what Spark's calls mean for it.

The barrier is Spark's question for the latest offset, which names the plan that is durably written
by now (`start`): `commit_written` stores its offsets, gives up what is to be revoked, and only then
`QueryPlanner.next_plan` makes the next one of what is owned. So a partition moves between two
batches, never within one, and a successor begins exactly behind what was written.
"""

from __future__ import annotations

import os

from consumer.assignment.subscription import subscription_of
from consumer.core import messages as msg
from consumer.core.messages import FailureCode
from consumer.errors import AgentFailedError, MembershipError
from consumer.fetch.choose_client import choose_client
from consumer.member.broker_discovery import find_brokers
from consumer.member.cluster_check import NamedBrokers
from consumer.member.log import MemberLog
from consumer.member.thread import MemberThread, zk_options
from consumer.observer import AssignmentObserver
from consumer.offsets.initial_offsets import InitialOffsets
from consumer.spark.end_offsets import EndOffsets
from consumer.spark.graceful_stop import GracefulStop
from consumer.spark.options import StreamOptions
from consumer.spark.plan import Plan, PlannedRange
from consumer.spark.query_assignment import QueryAssignment
from consumer.spark.query_commits import QueryCommits
from consumer.spark.query_planner import QueryPlanner
from consumer.spark.query_session import QuerySession
from consumer.spark.same_application import OnlyMember
from consumer.spark.starting_offsets import StartingOffsets
from zkcoord.znodes.paths import layout_named
from zkcoord.znodes.patterns import match_patterns

CLOSE_S = 5.0


class QueryMember:
    """One query's membership. Made and used on the thread on which Spark calls; `close` ends it.
    Fields are set once. Raises `BrokersUnreachableError`, `ConfigurationError`,
    `SessionRefusedError` where it cannot begin.
    """

    def __init__(self, options: StreamOptions, observer: AssignmentObserver) -> None:
        self.options = options
        self._subscription = subscription_of(options.read.topics, options.pattern)
        configs = options.consumer()
        config = configs.config
        self.zk = zk_options(configs)
        layout = layout_named(config["zookeeper_layout"])
        # Kafka's bootstrap servers, as a list or as one text.
        self.brokers: list[str] | str = config["bootstrap_servers"] or find_brokers(
            self.zk,
            layout,
            config["security_protocol"],
            (self.zk.connect_timeout_ms + self.zk.session_timeout_ms) / 1000,
        )
        # Asks the brokers; any thread.
        self.data = choose_client("kafka-python", configs.kafka_configs(self.brokers))
        # Shared with the member's thread: under its lock.
        self.assignment = QueryAssignment(
            self.data,
            MemberLog(config, layout, observer),
            self._refresh_ends,
            self._send,
            self._resolve,
        )
        # Where the logs of what is owned begin and end; any thread.
        self.ends = EndOffsets(self.data, self._notify)
        self._named = NamedBrokers(
            config["bootstrap_servers"], lambda: self.data.cluster_id, self.zk.address
        )
        self._thread = MemberThread(
            configs, self.zk, self._receive, self._thread_ended, os.getppid()
        )
        # What is asked of the member.
        self.session = QuerySession(
            options, layout, config["commit_timeout_ms"], self._thread, self.assignment
        )
        self._commits = QueryCommits(self.session)
        # Spark's thread only.
        self.planner = QueryPlanner(self.session, self.ends, self._commits)
        # Whether the driver wants the query to be drained; any thread.
        self.drain = GracefulStop(lambda: self._thread.member_name)
        # Incarnation and number of the plan that was found to be written last. Spark's thread;
        # changed with each plan.
        self._written_key: tuple[int, int] | None = None
        # What that plan has of topics that the query does not subscribe to any more, until that was
        # said. Spark's thread.
        self._left: list[PlannedRange] = []
        self._initial_offsets = InitialOffsets(
            self.assignment,
            StartingOffsets(
                self.data,
                options.read.starting,
                options.read.fail_on_data_loss,
                lambda said: self._send(msg.GiveUp(FailureCode.RESET_POLICY, said)),
            ),
            self.data.group_offsets(options.group),
            str(config["initial_offsets"]),
            begins_unset=False,
        )
        self._thread.start()
        # Whether another source of this application is in the group.
        self._only = OnlyMember(options.group, options.zookeeper)
        self._initial_offsets.check_group()
        self._thread.send(msg.Subscribe(self._subscription))

    # called by the parts, on their threads

    def _receive(self, message: msg.ToFetcher) -> None:
        if isinstance(message, msg.Notice) and message.kind is msg.NoticeKind.REGISTERED:
            self._named.look(self._thread, self._fail)
        self.assignment.receive(message)

    def _fail(self, error: MembershipError) -> None:
        with self.assignment.lock:
            if self.assignment.failure is None:
                self.assignment.failure = error
            self.assignment.lock.notify_all()

    def _send(self, message: msg.FromFetcher) -> None:
        self._thread.send(message)

    def _resolve(self, question: msg.Resolve) -> None:
        self._initial_offsets.resolve(question)

    def _refresh_ends(self) -> None:
        self.ends.want(list(self.assignment.owned))

    def _notify(self) -> None:
        with self.assignment.lock:
            self.assignment.lock.notify_all()

    def _thread_ended(self, broken: BaseException | None) -> None:
        if broken is not None:
            self._fail(
                AgentFailedError(
                    f"the thread that keeps the membership ended: {broken!r}; the log has the"
                    " details, restart the query"
                )
            )
        self._notify()

    # called by Spark

    def commit_written(self, done: Plan) -> bool:
        """Everything of `done` is durably written: store that, and give up what is to be revoked.
        False: ZooKeeper does not answer now, ask again.
        """
        key = (done.incarnation, done.number)
        if key != self._written_key:
            with self.assignment.lock:
                self.planner.note_written(done)
                self._written_key = key
            self._thread.send(msg.Polled())
            self._left = [r for r in done.ranges if not self.reads(r.topic)]
        if self._left and self.session.leased():
            self._commits.warn_of_left_topics(self._left)
            self._left = []
        stored = self._commits.store()
        with self.assignment.lock:
            self.assignment.release()
        return stored

    def reads(self, topic: str) -> bool:
        """Whether the query subscribes to this topic."""
        pattern = self._subscription.pattern
        if pattern is None:
            return topic in self._subscription.topics
        return topic in match_patterns([pattern], [topic])[pattern]

    def close(self) -> None:
        """Leave the group: what Spark was given last is not known to be written, so nothing more is
        stored.
        """
        with self.assignment.lock:
            assignment_epoch, self.assignment.closed = self.assignment.assignment_epoch, True
        self.ends.stop()
        self.drain.close()
        self._only.close()
        try:
            self._thread.close(msg.Close({}, assignment_epoch), CLOSE_S)
        finally:
            self.data.close()
