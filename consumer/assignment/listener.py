"""The application's rebalance listener: called on its thread, in order.

A listener is kafka-python's `ConsumerRebalanceListener`: `on_partitions_revoked` before partitions
are given up, `on_partitions_assigned` after they came and before any of their records, and
`on_partitions_lost` when they are gone without notice (kafka-python's default calls
`on_partitions_revoked`). All are called inside poll, iteration, unsubscribe and close, with a set
of `TopicPartition`: an empty one where the group is balanced and nothing is left for this member
(`on_partitions_assigned`), and in the eager form before the first assignment
(`on_partitions_revoked`). An error raised in one does not stop the hand-over; it is raised out of
that call as `KafkaError`, as kafka-python does.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

from kafka.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from kafka.structs import TopicPartition

from consumer.errors import ListenerError

log = logging.getLogger(__name__)

CALLBACKS = ("on_partitions_revoked", "on_partitions_assigned")


def check_listener(listener: Any) -> None:
    """Raises `TypeError` for what cannot be a listener, as kafka-python does."""
    if listener is None:
        return
    if isinstance(listener, AsyncConsumerRebalanceListener):
        raise TypeError(
            "an AsyncConsumerRebalanceListener cannot be used: callbacks run on the application's"
            " thread, so give a ConsumerRebalanceListener"
        )
    if not isinstance(listener, ConsumerRebalanceListener) and not all(
        callable(getattr(listener, name, None)) for name in CALLBACKS
    ):
        raise TypeError("listener must be a ConsumerRebalanceListener")


class RebalanceListenerInvoker:
    """The application's listener, called in order; remembers the last error until it is raised."""

    def __init__(self) -> None:
        self.listener: Any = None
        self._error: BaseException | None = None

    def __bool__(self) -> bool:
        return self.listener is not None

    def call(self, name: str, partitions: set[TopicPartition]) -> None:
        """Call one method, if there is a listener."""
        method = getattr(self.listener, name, None)
        if name == "on_partitions_lost" and method is None:
            method = getattr(self.listener, "on_partitions_revoked", None)
        if method is None:
            return
        try:
            outcome = method(partitions)
            if inspect.iscoroutine(outcome):
                outcome.close()
                raise TypeError(
                    f"{name} is a coroutine function: callbacks run on the application's thread and"
                    " must be plain functions"
                )
        # The application's own code may raise anything: it is kept, and raised out of poll after
        # the hand-over.
        except Exception as e:  # thread main of the application's code
            log.exception(
                "the rebalance listener %s failed in %s", type(self.listener).__name__, name
            )
            self._error = e

    def raise_error(self) -> None:
        """Raise what the last callbacks raised, once."""
        error, self._error = self._error, None
        if error is not None:
            raise ListenerError("User rebalance callback throws an error") from error
