"""The part of the public surface that chooses what to consume: topics in a group, or partitions (or
all partitions of topics) without one.

With a `group_id` topics are chosen and the group says which partitions. Without one kafka-python's
own subscription is used, and nothing is registered or stored. The two are not mixed: nothing would
fence the offsets of a consumer that has a group's name and no membership. `subscribe` and `assign`
replace what was chosen before; `add_topics` and `add_partitions` add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.errors import IllegalStateError
from kafka.structs import TopicPartition

from consumer.assignment.listener import RebalanceListenerInvoker, check_listener
from consumer.assignment.state import AssignmentState
from consumer.assignment.subscription import python_regex, subscription_of, topics_of
from consumer.core import messages as msg
from consumer.fetch.client import FetchClient
from consumer.fetch.record_iterator import RecordIterator
from consumer.offsets.committer import numbers_of
from consumer.options import user_data_of
from zkcoord.core.model import Subscription


class SubscriptionMethods:
    """Mix-in of `KafkaConsumer`."""

    _data: FetchClient
    _cursor: RecordIterator
    _listening: RebalanceListenerInvoker
    _member: AssignmentState
    _wanted: Subscription | None
    config: dict[str, Any]

    def _check(self) -> None:
        raise AssertionError("overridden by KafkaConsumer")

    def _join(self) -> None:
        raise AssertionError("overridden by KafkaConsumer")

    def _leave(self, autocommit: bool, timeout_ms: float) -> None:
        raise AssertionError("overridden by KafkaConsumer")

    def _tell(self, message: msg.FromFetcher) -> None:
        raise AssertionError("overridden by KafkaConsumer")

    @property
    def _alone(self) -> bool:
        """Is there no group?"""
        return self.config["group_id"] is None

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None
    ) -> None:
        """Join the group for these topics, or for all that `pattern` (RE2, full match) covers;
        replaces an earlier subscription, and partitions that stay subscribed do not stop. Without a
        group all partitions of the topics are consumed.

        Raises `ValueError` (neither, or a bad topic name), `IllegalStateError` (both, or after
        `assign`), `TypeError` (a listener that is none), `ConfigurationError`, and what a function
        given as `assignment_user_data`, which is called here, raises.
        """
        self._check()
        wanted = subscription_of(topics, pattern, bool(self.config["exclude_internal_topics"]))
        check_listener(listener)
        if self._alone:
            self._put_back()
            self._data.choose(list(topics), python_regex(wanted))
            self._data.bell.set()
            return
        self._choose(wanted, listener)

    def _choose(self, wanted: Subscription, listener: Any) -> None:
        """Join the group with this subscription, or change it."""
        user_data = user_data_of(self.config["assignment_user_data"])
        self._listening.listener = listener
        self._wanted = wanted
        self._data.prepare(topics_of(wanted))
        self._join()
        self._tell(msg.Subscribe(wanted, user_data))

    def add_topics(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics too, with the listener there is. Raises what `subscribe`
        raises, `IllegalStateError` after a subscription by pattern.
        """
        self._check()
        if self._wanted is not None and self._wanted.pattern is not None:
            raise IllegalStateError(
                "topics cannot be added to a pattern: subscribe to a pattern that covers them"
            )
        self.subscribe(
            sorted((self.subscription() or set()) | set(topics)), listener=self._listening.listener
        )

    def subscription(self) -> set[str] | None:
        """Topics subscribed to (for a pattern: those of the assigned partitions); None without a
        subscription.
        """
        self._check()
        if self._alone:
            return self._data.kafka.subscription()  # type: ignore[no-any-return]  # kafka-python has no types
        if self._wanted is None:
            return None
        return set(topics_of(self._wanted)) or {tp.topic for tp in self.assignment()}

    def unsubscribe(self) -> None:
        """Leave the group, or forget what was chosen without one; `subscribe` joins again."""
        self._check()
        self._leave(True, self.config["commit_timeout_ms"])
        self._wanted = None
        if self._alone:
            self._put_back()
            self._data.choose_nothing()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions without a group, from where each stands, or from the offsets
        given in {partition: offset}; replaces what was assigned. Raises `IllegalStateError` with a
        group, or after `subscribe`; `TypeError` and `ValueError` for offsets that are none.
        """
        self._check()
        self._refuse_group()
        listed, starts = [TopicPartition(*tp) for tp in partitions], _starts(partitions)
        if not listed:
            return self.unsubscribe()
        self._put_back()
        with self._data.lock:
            self._data.kafka.assign(listed)
            for tp, offset in starts.items():
                self._data.seek(tp, offset)
        self._data.bell.set()

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions too; as `assign`."""
        self._check()
        self._refuse_group()
        starts = _starts(partitions)
        added = [TopicPartition(*tp) for tp in partitions]
        self._put_back()
        with self._data.lock:
            self._data.kafka.assign([*self._data.assigned(), *added])
            for tp, offset in starts.items():
                self._data.seek(tp, offset)
        self._data.bell.set()

    def assignment(self) -> set[TopicPartition]:
        """Partitions that this consumer consumes now."""
        self._check()
        return self._member.announced()

    def _put_back(self) -> None:
        """What iteration has taken and not yielded is not handed out any more."""
        with self._data.lock:
            self._cursor.put_back()

    def _refuse_group(self) -> None:
        if self._wanted is not None:
            raise IllegalStateError(
                "You must choose only one way to configure your consumer: partitions cannot be"
                " assigned after a subscription to topics"
            )
        if not self._alone:
            raise IllegalStateError(
                "partitions are assigned without a group, and nothing could be stored for group"
                f" {self.config['group_id']!r}: leave group_id out, or subscribe to the topics"
            )


def _starts(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return numbers_of(partitions) if isinstance(partitions, Mapping) else {}
