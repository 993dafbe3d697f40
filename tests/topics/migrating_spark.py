"""A Spark application, alone in a group of its own: who owns what, and what it has written."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from kazoo.exceptions import NoNodeError

from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.spark.applications import Application, cleaned, written
from zkcoord.znodes.paths import Layout

GROUP = "spark"
STEP_S = 240.0
Owners = Mapping[int, tuple[bytes, int]]
"""Partition -> its owner, and the transaction that made it so."""


class SparkGroup:
    """See the module; `folder` holds the checkpoint. What runs ends with the block."""

    def __init__(self, zookeeper: str, topic: str, partitions: int, folder: Path) -> None:
        self._zookeeper = zookeeper
        self._topic = topic
        self._partitions = partitions
        self._folder = folder
        self._ends = ExitStack()
        self._runs: list[Application] = []
        self._begun: Owners = {}
        self.faults: list[str] = []

    def __enter__(self) -> SparkGroup:
        self._runs = self._ends.enter_context(cleaned())
        return self

    def __exit__(self, *of: object) -> None:
        self._ends.close()

    def begin(self) -> None:
        """A run; it goes on from the checkpoint where there is one."""
        self._runs.append(Application(self._zookeeper, GROUP, self._topic, self._folder))
        before = len(self._runs[-1].batches())
        wait_until(
            lambda: len(self._owners()) == self._partitions and self._writes(before),
            STEP_S,
            "the Spark application to own everything, and to write",
        )
        self._begun = self._owners()

    def end(self) -> None:
        """It drains and stops. Nobody has taken anything from it before."""
        run = self._runs[-1]
        now = self._owners()
        if now != self._begun:
            self.faults.append(f"Spark's partitions were assigned anew: {self._begun} -> {now}")
        self.faults += [f"Spark: {one}" for one in run.events if one["event"] == "again"]
        if run.ask(signal.SIGTERM):
            self.faults.append(f"the Spark application failed: {run.tail()}")

    def judge(self, acknowledged: Mapping[int, set[int]]) -> None:
        """All of these records have been written, once it was given time for it; none twice."""
        wanted = {(n, offset) for n, offsets in acknowledged.items() for offset in offsets}

        def all_written() -> Counter[tuple[int, int]]:
            times = written(self._runs)
            return times if wanted <= times.keys() else Counter()

        times = wait_until(all_written, STEP_S, "all records to be written by Spark")
        again = sum(count - 1 for count in times.values())
        if again:
            self.faults.append(f"Spark: {again} records were written twice")

    def _writes(self, before: int) -> bool:
        run = self._runs[-1]
        assert run.process.poll() is None, run.tail()
        return any(batch["offsets"] for batch in run.batches()[before:])

    def _owners(self) -> Owners:
        client = connect(self._zookeeper)
        path = Layout.DRAFT.owner_topic(GROUP, self._topic)
        found = {}
        try:
            for name in client.get_children(path):
                data, stat = client.get(f"{path}/{name}")
                found[int(name)] = (data, stat.czxid)
        except NoNodeError:  # nobody owns anything, or it is just given up
            pass
        finally:
            disconnect(client)
        return found
