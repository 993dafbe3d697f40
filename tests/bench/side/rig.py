"""The rig of the other benchmarks with two kinds of brokers, and with old consumers, whose lines
come from their own processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.rig import Rig, Worker
from tests.bench.side.flow import Flow, Line
from tests.bench.side.ground import Ground
from tests.harness.zookeeper import fresh_chroot, srvr_stats
from zkcoord.errors import ConditionTimeoutError
from zkcoord.stack.java import Java

SETTLE_TIMEOUT_S = 90.0
NS_PER_S = 1_000_000_000


class SideRig(Rig):
    """One group's processes on this ground. Made anew for each group, because what processes say is
    followed to the end of the rig.
    """

    def __init__(
        self,
        folder: Path,
        ground: Ground,
        java: Java,
        seed: int,
        say: Callable[[str], None],
        asks_brokers: bool = False,
    ) -> None:
        """`asks_brokers`: groups are those of a place in ZooKeeper that knows of no broker."""
        hosts = fresh_chroot(ground.zookeeper.address) if asks_brokers else ground.hosts
        super().__init__(folder, hosts, ground.classic.data.address, seed, say)
        self.asks_brokers = asks_brokers
        self.ground = ground
        self.java = java
        self._old: dict[str, Callable[[Line], None]] = {}

    def unique(self, prefix: str) -> str:
        """A name that nothing else has on this ground."""
        return f"{super().unique(prefix)}-{self.folder.name}"

    def _line(self, name: str, line: Line) -> None:
        told = self._old.get(name)
        if told is not None:
            told(line)
        else:
            super()._line(name, dict(line))

    def follow_old(self, name: str, folder: Path, told: Callable[[Line], None]) -> None:
        """Lines of a Java process in `folder` go to `told`."""
        with self.children.lock:
            self._old[name] = told
        self.children.follow_folder(name, folder)

    @contextmanager
    def brokers(self, bootstrap: str) -> Iterator[None]:
        """Inside the block producers write there."""
        before, self.kafka = self.kafka, bootstrap
        try:
            yield
        finally:
            self.kafka = before

    def dismiss(self, worker: Worker) -> None:
        """End a worker and forget it."""
        self.end(worker.child)
        self.buried(worker)
        worker.forget()
        with self.children.lock:
            self.workers.pop(worker.name, None)

    def settle(self, flow: Flow, members: list[str], since_ns: int) -> None:
        """Until exactly these members hand out everything, evenly, and nothing changes any more."""
        try:
            self.wait(
                lambda: flow.settled(members, since_ns),
                f"a settled group of {len(members)}",
                SETTLE_TIMEOUT_S,
            )
        except ConditionTimeoutError as error:
            raise ConditionTimeoutError(f"{error}: {flow.shown()}") from error

    @staticmethod
    def sleep_until(at_ns: int) -> None:
        """A moment of the wall clock."""
        time.sleep(max(0, at_ns - time.time_ns()) / NS_PER_S)

    def received(self) -> int:
        """Packets that ZooKeeper has received, but for this question."""
        return srvr_stats(self.zookeeper_port).received - 1

    @staticmethod
    def now_ns() -> int:
        """The wall clock."""
        return time.time_ns()
