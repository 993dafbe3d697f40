"""`zkcoord coordinator`: one process around one `CoordinatorDriver`.

Who does what: the loop, on the main thread, decides; kazoo's thread reads the socket; one thread
writes the journal, one the logs, a few answer HTTP; the guardian is another process. Only the loop
touches the driver: HTTP asks it through `Loop.submit`.

Beginning: options are checked, the journal and HTTP are opened, and only then is ZooKeeper called,
so that what can be known at once is refused at once. End, by SIGTERM or SIGINT: the driver resigns
and closes its session (a successor leads in milliseconds), then the guardian is told to forget it,
then the rest is closed; status 0. A second signal does not wait. A failure (one sentence on
standard error) ends the same way with status 1.

Ready means useful: this process leads and has read the world, or it is connected and knows that
another leads.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import TypeVar

from prometheus_client import disable_created_metrics

from zkcoord.assignors.pool import AssignorPool
from zkcoord.config.settings import CoordinatorSettings
from zkcoord.coordinator import gc_policy
from zkcoord.coordinator.acl_check import look_at_acls
from zkcoord.coordinator.cluster_check import look_at_cluster
from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.coordinator.http.server import METRICS_TYPE, HttpAnswer, HttpServer, document, sentence
from zkcoord.coordinator.http.shared_answer import SharedAnswer
from zkcoord.coordinator.http.summaries import SUMMARY, GroupsSeen, LedTold, seen_groups
from zkcoord.coordinator.input_recorder import InputLog
from zkcoord.coordinator.journal import Journal
from zkcoord.coordinator.logging import Logs
from zkcoord.coordinator.metrics import Metrics
from zkcoord.coordinator.monitored_session import MonitoredEnsemble, MonitoredPort
from zkcoord.coordinator.troubles.desk import TroubleDesk
from zkcoord.core.group.rebalance_log import DETAILS
from zkcoord.errors import ConfigurationError
from zkcoord.guarded import guard, guardian_tls
from zkcoord.guardian.client import Guardian
from zkcoord.terminal import err, printable
from zkcoord.topics.asking import AskingThread, ClusterAsker
from zkcoord.topics.source import ClusterSource
from zkcoord.zk.classic.classic_groups import ClassicGroups
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.kazoo_port.session import KazooEnsemble, KazooPort
from zkcoord.zk.loop import Loop, take_short_turns
from zkcoord.zk.overlay import OverlaidEnsemble, OverlaidPort
from zkcoord.zk.term.election import Candidate

log = logging.getLogger(__name__)

T = TypeVar("T")

STOP_DEADLINE_MS = 10_000
ASK_DEADLINE_MS = 2_000
ANSWER_EVERY_MS = 1_000
READINESS_EVERY_MS = 100
GROUPS_SHOWN_MAX = 2_000


class CoordinatorService:
    """One coordinator process. `run` blocks until the end and returns the exit status."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        """Raises `ConfigurationError` for what cannot be opened."""
        self.settings = settings
        self.metrics = Metrics()
        self.led_told = LedTold()
        self.loop = Loop("coordinator")
        self.stop_by_ms: int | None = None
        self.asked_to_stop = False
        self.session_id = 0
        self.journal = _journal(settings)
        self.troubles = TroubleDesk(self.journal.write if self.journal else lambda record: None)
        self.inputs = (
            InputLog(settings.inputs, self.journal)
            if settings.inputs is not None and self.journal is not None
            else None
        )
        self.http = self._http(settings)
        self.guardian = Guardian.start(
            guardian_tls(settings.zk),
            log.warning,
            enabled=settings.guardian,
            sasl_demanded=settings.zk.sasl is not None,
            report_path=settings.guardian_report_path,
        )
        ensemble = MonitoredEnsemble(
            OverlaidEnsemble(KazooEnsemble(settings.zk, self.loop.post)),
            settings.layout,
            settings.broker_id,
            lambda outcome: self.metrics.writes.labels(outcome).inc(),
            self._broker,
            bool(settings.cluster.servers),
        )
        self.shared_metrics = SharedAnswer(self._metrics, ANSWER_EVERY_MS, ASK_DEADLINE_MS)
        self.shared_groups = SharedAnswer(self._groups, ANSWER_EVERY_MS, ASK_DEADLINE_MS)
        self.shared_readiness = SharedAnswer(
            lambda: self._ask(self._readiness), READINESS_EVERY_MS, ASK_DEADLINE_MS
        )
        self.assignors = AssignorPool(settings.assignors, self.loop.post)
        self.asking = AskingThread(
            ClusterAsker(settings.cluster.servers, settings.cluster.security), self.loop.post
        )
        candidate = Candidate(
            settings.host,
            self.http.port if self.http else 0,
            settings.broker_id,
            settings.core.lease_max_ms,
        )
        self.driver = CoordinatorDriver(
            ensemble,
            settings.layout,
            settings.core,
            boot_ms,
            wall_ms,
            self.record,
            candidate,
            settings.zk.acl,
            self._session,
            settings.zk.chroot,
            self.inputs,
            self.assignors.submit,
            settings.zk.roles,
            topics=partial(
                ClusterSource,
                self.asking.ask,
                boot_ms,
                settings.zk.acl,
                settings.cluster.topics,
            ),
        )

    def _http(self, settings: CoordinatorSettings) -> HttpServer | None:
        if settings.http is None:
            return None
        names = (settings.host, *settings.http.names)
        return HttpServer(settings.http.host, settings.http.port, self.respond, names)

    def run(self) -> int:
        """Serve until a signal or a failure; 0 after a signal, 1 after a failure, which is told in
        one sentence on standard error.
        """
        log.info(
            "coordinator starts",
            extra={
                "fields": {
                    "zookeeper": self.settings.zk.address,
                    "layout": self.settings.layout.name,
                    "custom_assignors": ",".join(self.settings.core.external_assignors) or "none",
                }
            },
        )
        for note in self.settings.notes:
            log.warning("%s", note)
        before = {
            number: signal.signal(number, self._signalled)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        if self.http is not None:
            self.http.start()
            log.info(
                "http serves",
                extra={"fields": {"host": self.http.server_address[0], "port": self.http.port}},
            )
        self.troubles.start()
        self.loop.attach(self)
        self.loop.post(self.driver.start)
        try:
            self.loop.run()
        finally:
            self._close()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._status()

    def _status(self) -> int:
        if self.loop.failure is not None:
            return _say(
                f"the coordinator ended by a defect ({type(self.loop.failure).__name__}): the log"
                " has the details; please report it"
            )
        if self.driver.failure is not None:
            return _say(self.driver.failure)
        return 0

    def _close(self) -> None:
        """After the loop has ended. A session that is not closed by now (a defect, a second signal)
        is left to the guardian, which closes it when this process is gone.
        """
        if self.driver.finished:
            self.guardian.forget()
            self.guardian.stop()
        self.assignors.close()
        self.asking.close()
        self.troubles.close()
        if self.http is not None:
            self.http.stop()
        if self.journal is not None:
            self.journal.close()
        log.info("coordinator ended")

    # the loop's driver

    def tick(self) -> None:
        """The driver's tick, and the end when it has finished."""
        wake = self.driver.next_wake_ms()
        if wake is not None and wake <= boot_ms():
            self.driver.tick()
        if self.driver.finished:
            self.loop.stop()
        elif self.stop_by_ms is not None and boot_ms() >= self.stop_by_ms:
            log.error("the session could not be closed in time: it ends by its timeout")
            self.loop.stop()

    def next_wake_ms(self) -> int | None:
        """The driver's next wake, or now when it has finished."""
        if self.driver.finished or (self.driver.failure is not None and self.stop_by_ms is None):
            self._stop_soon()
            return boot_ms() if self.driver.finished else self.stop_by_ms
        times = [at for at in (self.driver.next_wake_ms(), self.stop_by_ms) if at is not None]
        return min(times) if times else None

    def _stop_soon(self) -> None:
        if self.stop_by_ms is None:
            self.stop_by_ms = boot_ms() + STOP_DEADLINE_MS

    def _signalled(self, number: int, _: FrameType | None) -> None:
        """SIGTERM or SIGINT, on the main thread, between two steps of anything: only post."""
        if self.asked_to_stop:
            self.loop.stop()
        self.asked_to_stop = True
        self.loop.post(lambda: self._stop(signal.Signals(number).name))

    def _stop(self, why: str) -> None:
        log.info("stopping", extra={"fields": {"signal": why}})
        self._stop_soon()
        self.driver.stop()

    # what the driver tells

    def _session(self, session_id: int) -> None:
        """A new session: guard it instead of the one before."""
        self.session_id = session_id
        port = self.driver.port.port if self.driver.port is not None else None
        inner = port.inner if isinstance(port, MonitoredPort) else None
        inner = inner.port if isinstance(inner, OverlaidPort) else inner
        if not isinstance(inner, KazooPort):
            return
        guard(self.guardian, inner, inner.session_id)
        asked = self.settings.zk.session_timeout_ms
        if inner.timeout_ms != asked:
            log.warning(
                "ZooKeeper granted another session timeout than asked for",
                extra={"fields": {"asked_ms": asked, "granted_ms": inner.timeout_ms}},
            )

    def _broker(self, there: bool) -> None:
        self.metrics.broker_up.set(there)
        fields = {"broker_id": self.settings.broker_id}
        if there:
            log.info("the broker is registered", extra={"fields": fields})
        else:
            log.warning("the broker is not registered any more", extra={"fields": fields})
        self.record(
            {
                "t": wall_ms(),
                "kind": "broker",
                "event": "registered" if there else "lost",
                "broker_id": self.settings.broker_id,
            }
        )

    def record(self, record: dict[str, object]) -> None:
        """One journal record: kept, counted and, in short, logged."""
        if self.journal is not None:
            self.journal.write(record)
        self.metrics.record(record)
        self.troubles.record(record)
        self.led_told.record(record)
        kind = str(record.get("kind"))
        if kind == "term":
            self._term(str(record.get("event")))
        if kind in LOGGED:
            level, text = LOGGED[kind]
            log.log(
                level,
                text,
                extra={
                    "fields": {
                        key: value
                        for key, value in record.items()
                        if key not in ("t", "kind") and key not in DETAILS
                    }
                },
            )

    def _term(self, event: str) -> None:
        if event == "elected":
            gc_policy.term_begins()
        elif event == "ready":
            gc_policy.world_is_read()
        else:
            self.loop.post(gc_policy.collect_term)

    # HTTP (on its threads)

    def respond(self, path: str) -> HttpAnswer:
        """The answer to a path of `PATHS`. Each is made at most once in a while, whoever asks."""
        if path == "/metrics":
            return self.shared_metrics.get()
        if path == "/groups":
            return self.shared_groups.get()
        words = self.shared_readiness.get()
        if path == "/live":
            return sentence(HTTPStatus.OK, "live")
        is_ready = words.partition("\n")[0] in READY
        return sentence(HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE, words)

    def _ask(self, work: Callable[[], T]) -> T:
        return self.loop.submit(work).result(ASK_DEADLINE_MS / 1000)

    def _metrics(self) -> HttpAnswer:
        status = self._ask(self.driver.status)
        lost = self.journal.lost if self.journal else 0
        self.metrics.refresh(status, self.loop.queued, lost)
        self.metrics.trouble(self.troubles.counts)
        return HttpAnswer(HTTPStatus.OK, METRICS_TYPE, self.metrics.text())

    def _readiness(self) -> str:
        """In words; one of `READY`, and what there is to say, when this process is useful."""
        driver = self.driver
        if not driver.connected or driver.closing:
            return "not connected to ZooKeeper"
        if driver.obstacles.waiting:
            return f"waiting: {driver.obstacles.waiting}"
        if driver.core.leading:
            return self._leading() if driver.core.ready else "reading the groups"
        settled = (
            driver.election is not None
            and not driver.election.busy
            and driver.restand_at_ms is None
        )
        return STANDING_BY if settled else "standing for election"

    def _leading(self) -> str:
        """And what people should know of it."""
        services = self.driver.services
        problem = services.topics_problem if services is not None else ""
        return f"{LEADING}\n{problem}" if problem else LEADING

    def _groups(self) -> HttpAnswer:
        seen = self._ask(self._summaries)
        led = self._ask(lambda: self._led_summaries(seen.led[:GROUPS_SHOWN_MAX]))
        return document(
            {
                "leading": seen.epoch is not None,
                "epoch": seen.epoch or 0,
                "waiting": seen.waiting,
                "groups": [dict(zip(SUMMARY, group, strict=True)) for group in seen.groups],
                "left_off": seen.count - len(seen.groups),
                "client_led": led,
                "client_led_left_off": max(0, len(seen.led) - GROUPS_SHOWN_MAX),
            }
        )

    def _summaries(self) -> GroupsSeen:
        """What /groups says of groups that the coordinator assigns, and which others there are. (On
        the loop's thread: no more than a line of each.)
        """
        core = self.driver.core
        return seen_groups(core, self.driver.obstacles.waiting, self._classic, GROUPS_SHOWN_MAX)

    def _led_summaries(self, names: list[str]) -> list[dict[str, object]]:
        """The same of groups whose leader is a client, of those that are still there."""
        return self.led_told.summaries(self._classic, names, GROUPS_SHOWN_MAX)

    @property
    def _classic(self) -> ClassicGroups | None:
        services = self.driver.services
        return services.classic if services is not None else None


LEADING, STANDING_BY = "leading", "standing by"
READY = (LEADING, STANDING_BY)
LOGGED = {
    "term": (logging.INFO, "term of office"),
    "rebalance": (logging.INFO, "rebalanced"),
    "client-led rebalance": (logging.INFO, "client-led group rebalanced"),
    "evicted": (logging.WARNING, "member evicted"),
    "malformed": (logging.WARNING, "malformed node left out"),
    "waiting": (logging.WARNING, "cannot lead, and waits"),
    "quarantined": (logging.WARNING, "group quarantined"),
    "released": (logging.INFO, "quarantine over"),
    "topics": (logging.WARNING, "topics and brokers"),
}


def serve(settings: CoordinatorSettings) -> int:
    """Logs on, run, logs off. Raises `ConfigurationError` for what cannot be opened, `RefusedError`
    where ACLs are not as `secure` demands, or brokers are of another cluster.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, of which nobody asks
    logs = Logs(settings.logs)
    gc_policy.collect_seldom()
    take_short_turns()
    try:
        look_at_acls(settings.zk, settings.layout, settings.secure)
        look_at_cluster(settings.zk, settings.cluster)
        return CoordinatorService(settings).run()
    finally:
        logs.stop()


def _journal(settings: CoordinatorSettings) -> Journal | None:
    if settings.journal is None:
        return None
    try:
        return Journal(settings.journal)
    except OSError as error:
        raise ConfigurationError(
            f"the journal's folder {settings.journal.dir} cannot be used ({error.strerror}): give"
            " another --journal-dir, or --no-journal"
        ) from error


def _say(text: str) -> int:
    err(f"zkcoord coordinator: {printable(text)}\n")
    return 1
