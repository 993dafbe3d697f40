"""Brokers that do not answer and partitions that nobody leads, for people: one log line when that
begins, and one when it is over, however often it is tried meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable

from kafka.structs import TopicPartition

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
LEADERLESS_S = 3.0
NAMED_MAX = 5


class BrokerLog:
    """What is down. `failed` and `answered` are called by the thread that fetches, the others by
    the application's; they share nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._down: set[Hashable] = set()
        self._since: dict[TopicPartition, float] = {}
        self._told: set[TopicPartition] = set()
        self._looked_at = 0.0

    def failed(self, broker: Hashable, address: str, why: object) -> None:
        """A fetch from this broker failed."""
        if broker not in self._down:
            self._down.add(broker)
            log.warning(
                "broker %s at %s does not answer (%s): the partitions that it leads wait until it"
                " does, or until another broker leads them",
                broker,
                address,
                why,
            )

    def answered(self, broker: Hashable) -> None:
        """A fetch from this broker succeeded."""
        if broker in self._down:
            self._down.discard(broker)
            log.info("broker %s answers again", broker)

    def is_due(self) -> bool:
        """Is it time for another `leaderless`?"""
        now = self._clock()
        due = now - self._looked_at >= LOOK_EVERY_S
        if due:
            self._looked_at = now
        return due

    def leaderless(self, partitions: Collection[TopicPartition]) -> None:
        """These are assigned and have no leader now."""
        now = self._clock()
        self._since = {tp: self._since.get(tp, now) for tp in partitions}
        led = self._told.difference(partitions)
        if led:
            self._told -= led
            log.info("%s: led again, or not assigned any more", _named(led))
        lasting = {
            tp for tp, since in self._since.items() if now - since >= LEADERLESS_S
        } - self._told
        if lasting:
            self._told |= lasting
            log.warning("no broker leads %s: they wait until one does", _named(lasting))


def _named(partitions: Collection[TopicPartition]) -> str:
    first = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)[:NAMED_MAX])
    return (
        first if len(partitions) <= NAMED_MAX else f"{first} and {len(partitions) - NAMED_MAX} more"
    )
