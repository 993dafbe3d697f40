"""What a consumer chooses to consume: topics in a group, or partitions (or all partitions of
topics) without one.

With a `group_id` topics are chosen and the group decides which partitions; or partitions are
assigned in the group's name without a membership (`consumer.offsets.by_hand`). Without one
kafka-python's own subscription is used, and nothing is registered or stored. Topics and partitions
are not mixed. `subscribe` and `assign` replace what was chosen before; `add_topics` and
`add_partitions` add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.errors import IllegalStateError
from kafka.structs import TopicPartition

from consumer.api.group_session import GroupSession
from consumer.api.setup import ConsumerSetup
from consumer.assignment.listener import RebalanceListenerInvoker, check_listener
from consumer.assignment.subscription import python_regex, subscription_of, topics_of, wants
from consumer.core import messages as msg
from consumer.fetch.record_iterator import TakenRecords
from consumer.member.registrable import check_registrable
from consumer.member.thread import member_options
from consumer.offsets.committer import numbers_of
from consumer.options import user_data_of
from zkcoord.core.model import Subscription


class Subscriptions:
    """Of one consumer. Methods are those of `KafkaConsumer` with their errors; they are called on
    the application's thread while the consumer is open.
    """

    def __init__(
        self,
        setup: ConsumerSetup,
        session: GroupSession,
        listener: RebalanceListenerInvoker,
        records: TakenRecords,
    ) -> None:
        self._options = setup.options
        self._config = setup.config
        self._data = setup.data
        self._alone = setup.alone
        self._session = session
        self._listener = listener
        self._records = records
        # What was subscribed to last in the group; None without a subscription.
        self._wanted: Subscription | None = None

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None
    ) -> None:
        """See `KafkaConsumer.subscribe`."""
        wanted = subscription_of(topics, pattern, bool(self._config["exclude_internal_topics"]))
        check_listener(listener)
        if self._session.by_hand is not None:
            raise IllegalStateError(
                "You must choose only one way to configure your consumer: topics cannot be"
                " subscribed to after partitions were assigned, before unsubscribe()"
            )
        if self._alone:
            regex = python_regex(wanted)
            self._put_back()
            self._data.choose(list(topics), regex, wants(wanted))
            self._data.wakeup.set()
            return
        self.choose(wanted, listener)

    def choose(self, wanted: Subscription, listener: Any) -> None:
        """Join the group with this subscription, or change it. Raises what a function given as
        `assignment_user_data` raises, and what `check_registrable` raises.
        """
        user_data = user_data_of(self._config["assignment_user_data"])
        check_registrable(member_options(self._options), wanted, user_data)
        self._listener.listener = listener
        self._wanted = wanted
        self._data.prepare(topics_of(wanted))
        self._session.join()
        self._session.state.want(wants(wanted))
        self._session.send(msg.Subscribe(wanted, user_data))

    def add_topics(self, topics: Iterable[str]) -> None:
        """See `KafkaConsumer.add_topics`."""
        if self._wanted is not None and self._wanted.pattern is not None:
            raise IllegalStateError(
                "topics cannot be added to a pattern: subscribe to a pattern that covers them"
            )
        self.subscribe(
            sorted((self.subscription() or set()) | set(topics)), listener=self._listener.listener
        )

    def subscription(self) -> set[str] | None:
        """See `KafkaConsumer.subscription`."""
        if self._alone:
            return self._data.kafka.subscription()  # type: ignore[no-any-return]  # kafka-python has no types
        if self._wanted is None:
            return None
        return set(topics_of(self._wanted)) or {tp.topic for tp in self.assignment()}

    def unsubscribe(self) -> None:
        """See `KafkaConsumer.unsubscribe`."""
        by_hand = self._session.by_hand is not None
        self._session.leave(True, self._config["commit_timeout_ms"])
        self._wanted = None
        if self._alone or by_hand:
            self._put_back()
            self._data.choose_nothing()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `KafkaConsumer.assign`."""
        listed, starts = _listed(partitions), _starts(partitions)
        self._refuse_topics()
        if not listed:
            return self.unsubscribe()
        self._assign(listed, starts)

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """See `KafkaConsumer.add_partitions`."""
        listed, starts = _listed(partitions), _starts(partitions)
        self._refuse_topics()
        self._assign([*self._data.assigned(), *listed], starts)

    def _assign(
        self, partitions: list[TopicPartition], starts: Mapping[TopicPartition, int]
    ) -> None:
        session = self._session
        if session.by_hand is not None:
            # of what is left out there will be no later occasion
            session.committer.automatic_now()
        self._put_back()
        with self._data.lock:
            self._data.kafka.assign(partitions)
            for tp, offset in starts.items():
                self._data.seek(tp, offset)
        if not self._alone:
            session.assigned_by_hand()
        self._data.wakeup.set()

    def assignment(self) -> set[TopicPartition]:
        """See `KafkaConsumer.assignment`."""
        return self._session.state.announced()

    def _put_back(self) -> None:
        """What iteration has taken and not yielded is not handed out any more."""
        with self._data.lock:
            self._records.put_back()

    def _refuse_topics(self) -> None:
        if self._wanted is not None:
            raise IllegalStateError(
                "You must choose only one way to configure your consumer: partitions cannot be"
                " assigned after a subscription to topics"
            )


def _listed(partitions: Any) -> list[TopicPartition]:
    """The partitions. Raises `TypeError` for what is none."""
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise TypeError(f"partitions are given as a list of TopicPartition, not as {partitions!r}")
    listed = list(partitions)
    for tp in listed:
        if not isinstance(tp, tuple) or len(tp) != len(TopicPartition._fields):
            raise TypeError(f"partitions are given as a list of TopicPartition, not of {tp!r}")
    return [TopicPartition(*tp) for tp in listed]


def _starts(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return numbers_of(partitions) if isinstance(partitions, Mapping) else {}
