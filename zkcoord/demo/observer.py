"""Looks at ZooKeeper from outside, as no member does: the stored offsets twice a second, and when a
topic changed. It also injects the fault `offset-back`, as a stray script would.

A sample is written down with the time just before it was asked for, so a commit that was
acknowledged earlier must be in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord.core.model import TopicPartition
from zkcoord.errors import ScenarioError
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.paths import Layout

SAMPLE_S = 0.5
CONNECT_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 5.0
SESSION_TIMEOUT_S = 30.0

Seen = Callable[[int, Mapping[int, int]], None]


@contextmanager
def asking() -> Iterator[None]:
    """What kazoo raises, as `ScenarioError`."""
    try:
        yield
    except (KazooException, KazooTimeoutError) as error:
        raise ScenarioError(
            f"ZooKeeper did not answer the demo's observer ({type(error).__name__}): the servers'"
            " logs say why"
        ) from error


class OffsetObserver:
    """Samples on a thread of its own until `close`: `seen(t_ns, {partition: offset})` is called for
    each sample. Methods raise `ScenarioError` where ZooKeeper does not answer.
    """

    def __init__(
        self, zookeeper: str, group: str, topic: str, partitions: Callable[[], int], seen: Seen
    ) -> None:
        self.group = group
        self.topic = topic
        self._partitions = partitions
        self._seen = seen
        self._client = KazooClient(hosts=zookeeper, timeout=SESSION_TIMEOUT_S)
        with asking():
            self._client.start(timeout=CONNECT_TIMEOUT_S)
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._sample_until_closed, name="observer", daemon=True
        )
        self._thread.start()

    def sample(self) -> None:
        """Read all stored offsets once."""
        t_ns = time.time_ns()
        offsets: dict[int, int] = {}
        asked = {
            number: self._client.get_async(self._path(number))
            for number in range(self._partitions())
        }
        for number, answer in asked.items():
            with asking():
                try:
                    data, _ = answer.get(timeout=ANSWER_TIMEOUT_S)
                except NoNodeError:
                    continue
            if data.isdigit():
                offsets[number] = int(data)
        self._seen(t_ns, offsets)

    def topic_changed_ns(self) -> int:
        """When the topic's partitions were written last (ZooKeeper's time, to the millisecond)."""
        with asking():
            try:
                _, stat = self._client.get(CLUSTER_TREE.topic(self.topic))
            except NoNodeError:  # Kafka has ZooKeeper underneath, and a node of its own
                _, stat = self._client.get(Layout.DRAFT.topic(self.topic))
        return int(stat.mtime) * 1_000_000

    def gateways(self) -> int:
        """How many gateways are there, as they themselves say in ZooKeeper."""
        with asking():
            try:
                return len(self._client.get_children(Layout.DRAFT.gateways))
            except NoNodeError:
                return 0

    def set_back(self, number: int, by: int) -> tuple[int, int]:
        """Overwrite a stored offset with one lower by `by`, as no member would; (before, after)."""
        with asking():
            data, _ = self._client.get(self._path(number))
            before = int(data)
            after = max(0, before - by)
            self._client.set(self._path(number), str(after).encode())
        return before, after

    def _path(self, number: int) -> str:
        return Layout.DRAFT.offset(self.group, TopicPartition(self.topic, number))

    def _sample_until_closed(self) -> None:
        while not self._stopping.wait(SAMPLE_S):
            try:
                self.sample()
            except ScenarioError:
                continue  # the next sample tells as much

    def close(self) -> None:
        """Stop sampling; safe to call twice."""
        self._stopping.set()
        self._thread.join(ANSWER_TIMEOUT_S * 2)
        self._client.stop()
        self._client.close()
