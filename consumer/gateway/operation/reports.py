"""What a gateway says over HTTP: /live /ready /metrics /groups, by the coordinator's server. This
runs on the server's threads and asks both of the gateway's loops, each question once in a while,
whoever asks.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from http import HTTPStatus
from typing import Protocol, TypeVar

from consumer.gateway.address import Address
from consumer.gateway.client_led.groups import LedGroups
from consumer.gateway.cluster import ClusterSeen
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.neighbours import Neighbours
from consumer.gateway.operation.direct_members import DirectMembers
from consumer.gateway.operation.ending import GatewayEnd
from consumer.gateway.operation.exposition import GatewaySeen, metrics_text
from consumer.gateway.operation.figures import RelayFigures
from consumer.gateway.operation.leader_watch import LeaderWatch
from consumer.gateway.operation.led.seen import led_groups_seen, led_served
from consumer.gateway.operation.members_seen import group_names, groups_seen, members_seen
from consumer.gateway.own_session import OwnSession
from zkcoord.config.settings import HttpOptions
from zkcoord.coordinator.http.server import METRICS_TYPE, HttpAnswer, HttpServer, document, sentence
from zkcoord.coordinator.http.shared_answer import SharedAnswer
from zkcoord.event_loops import run_there
from zkcoord.zk.loop import Loop

log = logging.getLogger(__name__)

T = TypeVar("T")

ASK_DEADLINE_MS = 2_000
ANSWER_EVERY_MS = 1_000
READINESS_EVERY_MS = 100
SERVING = "serving"
SILENT_S = 30.0


class Watched(Protocol):
    """What is said of a gateway. `silent_since_s`: since when no broker answers the gateway's own
    questions (monotonic); None: one does.
    """

    figures: RelayFigures
    groups: WireGroups
    led: LedGroups
    members: Loop
    direct: DirectMembers
    leader: LeaderWatch
    ending: GatewayEnd
    session: OwnSession
    seen: ClusterSeen
    silent_since_s: float | None
    gateways: Sequence[tuple[int, Address]]
    neighbours: Neighbours
    own: Address

    @property
    def listening(self) -> bool:
        """Whether clients can begin."""

    @property
    def connections(self) -> int:
        """How many there are of clients."""


def readiness(gateway: Watched) -> str:
    """In words; `SERVING` where clients are served. On the event loop."""
    if gateway.ending.stopping.is_set():
        return "stopping"
    if gateway.session.port is None:
        return "not connected to ZooKeeper"
    if not gateway.listening:
        return "no broker has answered yet"
    since_s = gateway.silent_since_s
    if since_s is not None and time.monotonic() >= since_s + SILENT_S:
        return "no broker answers"
    return SERVING


def seen_now(gateway: Watched) -> GatewaySeen:
    """What there is at this moment. On the event loop."""
    return GatewaySeen(
        readiness(gateway) == SERVING,
        gateway.session.port is not None,
        gateway.connections,
        len(gateway.seen.brokers),
        sum(where != gateway.own for _, where in gateway.gateways),
        gateway.members.queued,
        len(gateway.direct.split),
        gateway.leader.leads,
        gateway.neighbours.differing,
    )


class Reports:
    """See the module. Raises `ConfigurationError` when the address cannot be served on."""

    def __init__(self, options: HttpOptions | None, gateway: Watched) -> None:
        self.gateway = gateway
        self.http = (
            HttpServer(
                options.host, options.port, self.respond, (socket.gethostname(), *options.names)
            )
            if options is not None
            else None
        )
        self._events: asyncio.AbstractEventLoop | None = None
        self._metrics = SharedAnswer(self._make_metrics, ANSWER_EVERY_MS, ASK_DEADLINE_MS)
        self._groups = SharedAnswer(self._make_groups, ANSWER_EVERY_MS, ASK_DEADLINE_MS)
        self._readiness = SharedAnswer(self._make_readiness, READINESS_EVERY_MS, ASK_DEADLINE_MS)

    def start(self, events: asyncio.AbstractEventLoop) -> None:
        """Serve, where that is wanted."""
        self._events = events
        if self.http is not None:
            self.http.start()
            log.info("http serves at %s:%s", self.http.server_address[0], self.http.port)

    def stop(self) -> None:
        """Serve no longer."""
        if self.http is not None:
            self.http.stop()

    def groups_here(self) -> list[str]:
        """The groups with members here, sorted; on any thread that may wait. Raises
        `TimeoutError`.
        """
        return self._ask_members(lambda: group_names(self.gateway.groups))

    # on the server's threads

    def respond(self, path: str) -> HttpAnswer:
        """The answer to a path of the server's `PATHS`. Raises `TimeoutError` where a loop does not
        answer.
        """
        if path == "/metrics":
            return self._metrics.get()
        if path == "/groups":
            return self._groups.get()
        words = self._readiness.get()
        if path == "/live":
            return sentence(HTTPStatus.OK, "live")
        good = words == SERVING
        return sentence(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, words)

    def _make_metrics(self) -> HttpAnswer:
        members = self._ask_members(lambda: members_seen(self.gateway.groups))
        seen = self._ask_events(lambda: seen_now(self.gateway))
        led = self._ask_members(lambda: led_served(self.gateway.led))
        text = metrics_text(self.gateway.figures, members, seen, led)
        return HttpAnswer(HTTPStatus.OK, METRICS_TYPE, text)

    def _make_groups(self) -> HttpAnswer:
        split = self.gateway.direct.split
        groups, count = self._ask_members(lambda: groups_seen(self.gateway.groups, split))
        led, led_count = self._ask_members(lambda: led_groups_seen(self.gateway.led))
        return document(
            {
                "groups": [asdict(one) for one in groups],
                "left_off": count - len(groups),
                "client_led": [asdict(one) for one in led],
                "client_led_left_off": led_count - len(led),
            }
        )

    def _make_readiness(self) -> str:
        """Both loops must answer."""
        self._ask_members(lambda: None)
        return self._ask_events(lambda: readiness(self.gateway))

    def _ask_members(self, work: Callable[[], T]) -> T:
        return self.gateway.members.submit(work).result(ASK_DEADLINE_MS / 1000)

    def _ask_events(self, work: Callable[[], T]) -> T:
        future: Future[T] = Future()

        def run() -> None:
            if not future.cancelled():
                future.set_result(work())

        if self._events is None or not run_there(self._events, run):
            raise TimeoutError
        return future.result(ASK_DEADLINE_MS / 1000)
