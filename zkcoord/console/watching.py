"""The thread that looks at all groups again and again, and publishes what it saw. It asks ZooKeeper
and the brokers alone, however many pages are open: nothing that a browser does makes it look more
often.

A look that fails leaves what is known in place; the picture says what is wrong, and since when it
is of.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.cli.brokers import Brokers
from zkcoord.console.picture import Picture, lines_of
from zkcoord.console.troubles import Troubles
from zkcoord.errors import RefusedError, UnavailableError, ZkcoordError
from zkcoord.health.history import LogHistory
from zkcoord.health.log_ends import LogEnds
from zkcoord.health.monitor import HealthMonitor
from zkcoord.health.owners import with_owners
from zkcoord.health.rules import GroupHealth, HealthLimits
from zkcoord.health.sampler import Sampler
from zkcoord.health.stored_offsets import StoredOffsets
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.listeners import takes_connections
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import coordinator_seen
from zkcoord.zk.sync.led_groups import list_all_groups
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

KAFKA_DEADLINE_S = 10.0
BROKERS_AGAIN_MS = 30_000
SLOW_MS = 5_000
SERVERS_NAMED = 3
CLOSE_WAIT_S = 0.5
BUSY_PART = 2
"""A look begins this many times as long after the one before as that one took, at the earliest:
half of the time is spent looking, however many groups there are, and of that most is pauses.
"""

NO_BROKERS = "no broker is known: name some with --bootstrap-servers to see lag and verdicts"


FindBrokers = Callable[[SyncClient], Brokers]


class Watcher:
    """See the module. `published` is called on the thread with each new picture."""

    def __init__(
        self,
        options: ZkOptions,
        layout: Layout,
        find_brokers: FindBrokers,
        interval_ms: int,
        published: Callable[[Picture], None],
        troubles: Troubles | None = None,
    ) -> None:
        self._troubles = troubles
        self._options = options
        self._layout = layout
        self._find_brokers = find_brokers
        self._interval_ms = interval_ms
        self._published = published
        self._picture = Picture()
        self._monitor = HealthMonitor(HealthLimits())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zkcoord-console", daemon=True)

    @property
    def picture(self) -> Picture:
        """The newest."""
        return self._picture

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """End after the look that is under way; one that takes long ends with the process."""
        self._over.set()
        self._thread.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._with_a_session()
        except Exception:  # the thread's main: log and stop
            log.exception("the console stops looking after an error that should not happen")
            self._publish(
                replace(self._picture, problem="it looks no more: its log says why; start it again")
            )

    def _with_a_session(self) -> None:
        """Look until something has failed, or it is over."""
        try:
            with (
                SyncClient(self._options, at_ease=True) as reader,
                _Eyes(reader, self._layout) as eyes,
            ):
                while not self._over.is_set():
                    eyes.ask(self._find_brokers)
                    took = self._look(reader, eyes)
                    self._over.wait(max(self._interval_ms - took, took * (BUSY_PART - 1)) / 1000)
        except ZkcoordError as error:
            log.warning("%s", error)
            self._publish(replace(self._picture, problem=str(error)))
            self._over.wait(self._interval_ms / 1000)

    def _look(self, reader: SyncClient, eyes: _Eyes) -> int:
        """How long it took (ms), without the time that brokers did not answer."""
        began, at_ms = boot_ms(), wall_ms()
        listed = list_all_groups(reader, self._layout)
        seen = coordinator_seen(reader, self._layout)
        took_ms = boot_ms() - began
        health = eyes.look(self._monitor, [group.name for group in listed])
        health = with_owners(reader, self._layout, health)
        names = [group.name for group in listed]
        found = self._troubles.look(reader, names, health) if self._troubles is not None else {}
        if not eyes.are_slow:
            took_ms = boot_ms() - began
        self._publish(
            Picture(
                at_ms=at_ms,
                lines=lines_of(listed, health, found),
                coordinator=seen,
                no_lag=eyes.problem,
                took_ms=took_ms,
            )
        )
        return took_ms

    def _publish(self, picture: Picture) -> None:
        self._picture = replace(picture, number=self._picture.number + 1)
        self._published(self._picture)


class _Eyes:
    """What brokers are asked by, and why they are not. Where the last look has waited for them
    (`are_slow`), they are asked again when one of them takes connections: a list of groups does not
    wait for brokers that are away.
    """

    def __init__(self, reader: SyncClient, layout: Layout) -> None:
        self._reader = reader
        self._layout = layout
        self._asked: Brokers | None = None
        self._stack = ExitStack()
        self._look_at_ms = 0
        self.problem = ""
        self.are_slow = True  # nobody has asked them yet
        self._sampler: Sampler | None = None
        self._history: LogHistory | None = None

    def __enter__(self) -> _Eyes:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, find: FindBrokers) -> None:
        """Ask the brokers that there are now; which these are is looked at now and then."""
        if boot_ms() < self._look_at_ms:
            return
        self._look_at_ms = boot_ms() + BROKERS_AGAIN_MS
        try:
            found = find(self._reader)
        except (RefusedError, UnavailableError) as error:
            self._see_with(None, str(error))
            return
        if not found.servers:
            self._see_with(None, NO_BROKERS)
        elif found != self._asked:
            self._see_with(found, "")

    def _see_with(self, found: Brokers | None, problem: str) -> None:
        self._stack.close()
        self._asked, self.problem = found, problem
        self._sampler = self._history = None
        self.are_slow = True
        if found is None:
            return
        servers, security = found.servers, found.security
        kafka = self._stack.enter_context(KafkaGroups(servers, KAFKA_DEADLINE_S, security))
        usual = self._stack.enter_context(LogOffsets(servers, security))
        doubtful = self._stack.enter_context(LogOffsets(servers, security))
        self._sampler = Sampler(
            StoredOffsets(self._reader, self._layout), kafka, LogEnds(usual, doubtful)
        )
        self._history = LogHistory(usual)

    def look(self, monitor: HealthMonitor, groups: Sequence[str]) -> list[GroupHealth]:
        """Verdicts, or none, and a `problem`. Raises `UnavailableError` where ZooKeeper does not
        answer.
        """
        if self._sampler is None or self._history is None or self._asked is None:
            return []
        servers = self._asked.servers
        if self.are_slow and not takes_connections(servers):
            self.problem = f"no broker takes connections at {', '.join(servers[:SERVERS_NAMED])}"
            return []
        began, self.problem = boot_ms(), ""
        monitor.take(self._sampler.look(groups))
        self._history.complete(monitor)
        self.are_slow = boot_ms() - began > SLOW_MS
        return monitor.groups()
