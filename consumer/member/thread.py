"""The ZooKeeper side of one consumer on a thread of its own: loop, session, driver, guardian.

The thread sleeps until ZooKeeper says something, the application says something (`tell`), or the
driver's next duty is due. What the driver has for the fetching side is handed over on this thread
(`to_fetcher`), which takes it without blocking. `close` says goodbye, waits for the end of the
session within its limit, and only then lets the guardian go: a kill in between is still noticed.
"""

from __future__ import annotations

import _thread
import logging
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from consumer.core.messages import Close, FromFetcher, NoticeKind, ToFetcher
from consumer.core.options import MemberOptions
from consumer.member.driver import MemberDriver
from consumer.member.joining.open_nodes import OpenNodes
from consumer.member.joining.unserved_asks import unserved_asks
from consumer.member.metrics import MemberMetrics
from consumer.member.quorum_probe import QuorumProbe
from consumer.options import DURATION_MS_MAX, POLLED_EVERY_MS, PROTOCOLS, ROLES, ConsumerOptions
from zkcoord.guarded import guard, guardian_tls
from zkcoord.guardian.client import Guardian, Off
from zkcoord.zk.acl.table import roles
from zkcoord.zk.bell import Bell
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import Digest, Sasl, Tls, ZkOptions
from zkcoord.zk.overlay import OverlaidEnsemble
from zkcoord.zk.port import OPEN_ACL, AclEntry, Port, Read, ReadResult
from zkcoord.znodes.names import chosen_consumer_id, consumer_id, printable, validate_group
from zkcoord.znodes.paths import layout_named
from zkcoord.znodes.registration import TEXT_CHARS_MAX

T = TypeVar("T")
GUARDIAN_STOP_S = 1.5
TLS_FILES = ("zookeeper_ssl_cafile", "zookeeper_ssl_certfile", "zookeeper_ssl_keyfile")
log = logging.getLogger(__name__)


def zk_options(options: ConsumerOptions) -> ZkOptions:
    """How to reach ZooKeeper. Raises `ConfigurationError`."""
    c = options.config
    tls = None
    if any(c[f"zookeeper_ssl_{name}"] for name in ("cafile", "certfile", "keyfile")):
        tls = Tls(
            c["zookeeper_ssl_cafile"],
            c["zookeeper_ssl_certfile"],
            c["zookeeper_ssl_keyfile"],
            c["zookeeper_ssl_password"],
        )
        tls.context(TLS_FILES)  # what is wrong is said here, and not by a thread that connects
    sasl = None
    if c["zookeeper_sasl_mechanism"]:
        sasl = Sasl(
            c["zookeeper_sasl_mechanism"],
            c["zookeeper_sasl_username"] or "",
            c["zookeeper_sasl_password"] or "",
        )
    acl: Sequence[AclEntry] = c["zookeeper_acl"] or OPEN_ACL
    who = [c[name] or "" for name in ROLES]
    return ZkOptions(
        c["zookeeper_connect"],
        session_timeout_ms=options.session_timeout_ms,
        connect_timeout_ms=int(c["zookeeper_connection_timeout_ms"]),
        digest=Digest(*c["zookeeper_auth"]) if c["zookeeper_auth"] else None,
        sasl=sasl,
        tls=tls,
        acl=tuple(acl),
        roles=roles(who[0], who[1], who[2], ROLES) if any(who) else None,
    )


def member_options(options: ConsumerOptions) -> MemberOptions:
    """The options of the member's core, which hears of a poll at most every `POLLED_EVERY_MS`: its
    limit must not count that against the application. Raises `ConfigurationError` for a bad group
    name or consumer id.
    """
    c = options.config
    group = validate_group(c["group_id"])
    if c["consumer_id"] is not None:
        chosen_consumer_id(group, c["consumer_id"], 0, "0" * 8)
    return MemberOptions(
        group=group,
        host=printable(socket.gethostname(), TEXT_CHARS_MAX),
        client=printable(c["client_id"], TEXT_CHARS_MAX),
        consumer_id=c["consumer_id"],
        process=secrets.token_hex(8),
        assignors=options.assignors,
        instance=c["group_instance_id"],
        grace_ms=int(c["group_instance_grace_ms"]),
        protocols=PROTOCOLS[c["rebalance_protocol"]],
        auto_commit=bool(c["enable_auto_commit"]),
        stores_offsets=c["offsets_storage"] != "kafka",
        tells_stored=c["offsets_storage"] == "dual",
        max_poll_interval_ms=int(c["max_poll_interval_ms"]),
        # a query asks for the next plan when it has one again, and waits for its partitions in it
        returns_with_poll=int(c["max_poll_interval_ms"]) < DURATION_MS_MAX,
        poll_slack_ms=POLLED_EVERY_MS,
        rebalance_timeout_ms=int(options.rebalance_timeout_ms),
        coordinator_warning_ms=int(c["coordinator_warning_ms"]),
        failsafe=c["failsafe"],
    )


class MemberThread:
    """One member's thread. `on_end` is called on it when it ends by a defect. `also`: a process
    that can go on with this one's work, for the guardian.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        zk: ZkOptions,
        to_fetcher: Callable[[ToFetcher], None],
        on_end: Callable[[BaseException | None], None],
        also: int | None = None,
    ) -> None:
        self.member = member_options(options)
        self._guardian = Guardian.start(
            tls=guardian_tls(zk),
            log=log.info,
            enabled=bool(options.config["guardian"]),
            sasl_demanded=zk.sasl is not None,
            also=also,
        )
        if options.config["guardian"] and isinstance(self._guardian.state, Off):
            log.info("%s", self._guardian.state)
        self._on_end = on_end
        self._loop = Loop(f"member-{self.member.group}")
        self._gone = Bell()
        self._closing = False
        ensemble = OverlaidEnsemble(KazooEnsemble(zk, self._post))
        self.layout = layout_named(options.config["zookeeper_layout"])
        self._outage = (
            QuorumProbe(
                zk.servers,
                zk.tls.context() if zk.tls else None,
                zk.session_timeout_ms,
                self._post,
                boot_ms,
            )
            if self.member.failsafe
            else None
        )
        self._open_nodes = OpenNodes(
            zk, self.layout, was_said=options.config["zookeeper_acl"] is not None
        )
        self.driver = MemberDriver(
            ensemble,
            self.layout,
            self.member,
            boot_ms,
            wall_ms,
            self._new_id,
            to_fetcher,
            self._journal,
            zk.acl,
            self._on_session,
            self._outage,
            zk.roles,
            unserved_asks(zk, self.layout),
        )

    def start(self) -> None:
        """Start the thread; the session is opened when the application subscribes."""
        self._loop.attach(self.driver)
        self._post(self.driver.start)
        self._loop.start(self._ended)

    def send(self, message: FromFetcher) -> None:
        """Send a message of the fetching side to the member; any thread."""
        self._post(lambda: self.driver.receive(message))

    def lease_until(self, assignment_epoch: int) -> int:
        """Hand out what was assigned in `assignment_epoch` only before this time (`boot_ms`); 0:
        not at all. Any thread.
        """
        return self.driver.lease_until(assignment_epoch)

    def metrics(self) -> MemberMetrics:
        """The member now; any thread."""
        now = self.driver.core.snapshot
        return MemberMetrics(
            now.phase, self.driver.name, now.generation, now.epoch, now.proof_ms, now.busy
        )

    @property
    def member_name(self) -> str:
        """The name of this session's registration ("" before the first)."""
        return self.driver.name

    def close(self, message: Close, timeout_s: float) -> bool:
        """Leave the group and end the thread. False: the session was not closed in time; ZooKeeper
        ends it by its timeout (or the guardian does, after this process).
        """
        deadline = time.monotonic() + timeout_s
        self._closing = True
        self.send(message)
        left = self._gone.wait(timeout_s)
        self._loop.stop()
        self._loop.join(max(0.0, deadline - time.monotonic()))
        if left:
            self._stop_guardian()
        else:
            self._abandon_session()
            log.warning(
                "left group %s without an answer of ZooKeeper within %.1f s: its partitions are"
                " free when the session ends",
                self.member.group,
                timeout_s,
            )
        return left

    def _stop_guardian(self) -> None:
        """On a thread of its own: all consumers of the process share what speaks to the guardian,
        and a signal handler that closes this one may have interrupted another that holds its lock.
        Not by way of `threading`, which has such a lock itself.
        """
        stopped = Bell()

        def stop() -> None:
            try:
                self._guardian.stop()
            finally:
                stopped.set()

        try:
            _thread.start_new_thread(stop, ())
        except RuntimeError:  # at the interpreter's exit, where nobody is interrupted
            stop()
        stopped.wait(GUARDIAN_STOP_S)

    def read(self, reads: Sequence[Read], timeout_s: float) -> ReadResult | None:
        """Read through the member's session; None without an answer in time (or without a
        session).
        """
        answer: list[ReadResult] = []
        done = Bell()

        def take(result: ReadResult) -> None:
            answer.append(result)
            done.set()

        def ask() -> None:
            port = self.driver.port
            if port is None:
                done.set()
            else:
                port.read(reads, take)

        self._post(ask)
        done.wait(timeout_s)
        return answer[0] if answer else None

    def query(self, reading: Callable[[MemberDriver], T], timeout_s: float) -> T | None:
        """What `reading` finds in the driver, on this thread and after everything that was sent
        before; None without an answer in time.
        """
        answer: list[T] = []
        done = Bell()

        def ask() -> None:
            answer.append(reading(self.driver))
            done.set()

        self._post(ask)
        done.wait(timeout_s)
        return answer[0] if answer else None

    def with_port(self, use: Callable[[Port], None]) -> None:
        """Run `use` on this thread with the present session's port, if there is one."""

        def run() -> None:
            if self.driver.port is not None:
                use(self.driver.port)

        self._post(run)

    def _post(self, thunk: Callable[[], None]) -> None:
        self._loop.post(lambda: self._run(thunk))

    def _run(self, thunk: Callable[[], None]) -> None:
        thunk()
        if self._closing and self.driver.finished:
            self._gone.set()

    def _ended(self) -> None:
        if self._loop.failure is not None:
            self._abandon_session()
        self._gone.set()
        self._on_end(self._loop.failure)

    def _abandon_session(self) -> None:
        """Nobody drives the session any more: close it without waiting, lest its connection keep
        partitions for this process that nobody fetches.
        """
        if self._outage is not None:
            self._outage.end()
        port = self.driver.port
        if port is not None:
            port.close()

    def _new_id(self) -> str:
        nonce = secrets.token_hex(4)
        if self.member.consumer_id is not None:
            return chosen_consumer_id(self.member.group, self.member.consumer_id, wall_ms(), nonce)
        return consumer_id(self.member.group, self.member.host, wall_ms(), nonce)

    def _on_session(self, session_id: int) -> None:
        guard(self._guardian, self.driver.port, session_id)

    def _journal(self, record: dict[str, Any]) -> None:
        log.debug("%s", record)
        if record["kind"] == NoticeKind.REGISTERED.value:
            self._open_nodes.registered(self.driver.port)
