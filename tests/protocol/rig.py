"""Coordinators and members on real servers, each with a loop of its own, and a scripted fetching
side in Kafka's place.

Everything but the fetching side is what ships: `CoordinatorDriver`, `MemberDriver`, `Loop`,
`KazooEnsemble`. Topics are nodes written by hand. A test may also be the coordinator itself
(`Rig.reign`, `Rig.command`), or a member that only exists as nodes (`Rig.ghost`).
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import ZnodeStat

from consumer.core import messages as msg
from consumer.core.options import MemberOptions
from consumer.member.driver import MemberDriver
from tests.harness.proxy import Proxy
from tests.harness.tape import Tape
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.protocol.spy import Spy
from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.core.model import Command, Option, Subscription, Thread, TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import ZkOptions, parse_hosts
from zkcoord.zk.port import (
    OPEN_ACL,
    Change,
    Connected,
    Fired,
    PortEvent,
    ReadDone,
    ReadResult,
    WatchMode,
)
from zkcoord.zk.term.election import Candidate
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData, LeaderData
from zkcoord.znodes.paths import Layout, parents

WAIT_S = 60.0
SESSION_MS = 30_000
SHORT_SESSION_MS = 3_000  # a pause of the machine must not end it before the test does
GROUP = "g"


def tps(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    """Partitions of a topic."""
    return tuple(TopicPartition(topic, n) for n in numbers)


class Proc:
    """What coordinators and members share: a loop, a spied session, an optional proxy of its own in
    front of the server.
    """

    driver: CoordinatorDriver | MemberDriver

    def __init__(self, rig: Rig, name: str, session_ms: int, proxy: Proxy | None) -> None:
        self.rig = rig
        self.name = name
        self.proxy = proxy
        self.loop = Loop(name)
        hosts = proxy.address + rig.chroot if proxy is not None else rig.hosts
        self.roles = rig.credentials.get(type(self).__name__, {}).get("roles")
        self.spy = Spy(
            KazooEnsemble(
                ZkOptions(
                    **{
                        "hosts": hosts,
                        "session_timeout_ms": session_ms,
                        "connect_timeout_ms": 0,
                        **rig.credentials.get(type(self).__name__, {}),
                    }
                ),
                self.loop.post,
            )
        )
        self.journal: list[dict[str, object]] = []
        self.sessions: list[int] = []
        self._gates: list[threading.Event] = []

    def begin(self) -> None:
        """Start the loop and the driver."""
        self.loop.attach(self.driver)
        self.loop.post(self.driver.start)
        self.loop.start()

    def ask(self, work: Callable[[], object]) -> object:
        """Run on the loop's thread, and give the result."""
        return self.loop.submit(work).result(WAIT_S)

    def stall(self) -> None:
        """Stop the loop (as a long pause of the interpreter does; the session is kept alive) until
        `go`.
        """
        gate, stalled = threading.Event(), threading.Event()
        self._gates.append(gate)
        self.loop.post(lambda: (stalled.set(), gate.wait(WAIT_S)) and None)
        assert stalled.wait(WAIT_S)

    def go(self) -> None:
        """Let the loop run again."""
        for gate in self._gates:
            gate.set()

    def wait(self, predicate: Callable[[], object], what: str) -> None:
        """Until it is true; fails at once when the loop ends by a defect."""
        wait_until(
            lambda: self.loop.failure is not None or predicate(), WAIT_S, f"{self.name}: {what}"
        )
        assert self.loop.failure is None, self.loop.failure

    def goodbye(self) -> None:
        """Begin a clean end."""

    def end(self) -> None:
        """End it, whatever its state; AssertionError when it had a defect."""
        self.go()
        if self.proxy is not None:
            self.proxy.heal()
        self.loop.post(self.spy.release)
        self.goodbye()
        wait_until(
            lambda: self.driver.finished or self.loop.failure is not None,
            WAIT_S,
            f"the end of {self.name}",
        )
        self.loop.stop()
        assert self.loop.join(WAIT_S), self.name
        assert self.loop.failure is None, f"{self.name}: {self.loop.failure!r}"


class Coordinator(Proc):
    """One coordinator."""

    driver: CoordinatorDriver

    def __init__(
        self,
        rig: Rig,
        name: str,
        options: CoordinatorOptions,
        session_ms: int,
        proxy: Proxy | None,
        layout: Layout,
    ) -> None:
        super().__init__(rig, name, session_ms, proxy)
        self.tape = Tape()
        self.driver = CoordinatorDriver(
            self.spy,
            layout,
            options,
            boot_ms,
            wall_ms,
            self.journal.append,
            Candidate("host", 0, None, options.lease_max_ms),
            rig.acl,
            on_session=self.sessions.append,
            chroot=rig.chroot,
            inputs=self.tape,
            roles=self.roles,
        )

    @property
    def leads(self) -> bool:
        """Whether it decides now."""
        return self.driver.core.leading and self.driver.core.ready

    def stop(self) -> None:
        """Resign and close, as SIGTERM does."""
        self.goodbye()
        self.wait(lambda: self.driver.finished, "the clean stop")

    def goodbye(self) -> None:
        self.loop.post(self.driver.stop)

    def terms(self, event: str) -> list[dict[str, object]]:
        """What the journal says of terms."""
        return [r for r in list(self.journal) if r["kind"] == "term" and r["event"] == event]

    def records(self, kind: str) -> list[dict[str, object]]:
        """Records of one kind."""
        return [r for r in list(self.journal) if r["kind"] == kind]


class Member(Proc):
    """One member with a scripted fetching side: it answers `Revoke` and `Resolve` at once unless
    told to keep silent, and remembers all that it heard. `positions` is what it fetches from.
    """

    driver: MemberDriver

    def __init__(
        self,
        rig: Rig,
        name: str,
        session_ms: int,
        proxy: Proxy | None,
        layout: Layout,
        options: MemberOptions,
    ) -> None:
        super().__init__(rig, name, session_ms, proxy)
        self.options = options
        self.heard: list[msg.ToFetcher] = []
        self.positions: dict[TopicPartition, int] = {}
        self.assignment_epoch = 0
        self.answers_revokes = True
        self.resolves_to: int | None = 0
        self.names: list[str] = []
        self.done: dict[int, msg.CommitDone] = {}
        self._tokens = 0
        self.driver = MemberDriver(
            self.spy,
            layout,
            options,
            boot_ms,
            wall_ms,
            self._new_id,
            self._hear,
            self.journal.append,
            rig.acl,
            on_session=self.sessions.append,
            roles=self.roles,
        )

    def _new_id(self) -> str:
        self.names.append(f"{self.options.group}_{self.name}-{wall_ms()}-{secrets.token_hex(4)}")
        return self.names[-1]

    def _hear(self, message: msg.ToFetcher) -> None:
        self.heard.append(message)
        if isinstance(message, (msg.Assigned, msg.Lost, msg.Seek)):
            self.assignment_epoch = message.assignment_epoch
        if isinstance(message, msg.Assigned):
            self.positions.update(message.offsets)
        elif isinstance(message, msg.Lost):
            for tp in message.partitions:
                self.positions.pop(tp, None)
        elif isinstance(message, msg.Seek):
            self.positions[message.partition] = message.offset
        elif isinstance(message, msg.Revoke) and self.answers_revokes:
            self.loop.post(lambda: self.answer(message))
        elif isinstance(message, msg.Resolve) and self.resolves_to is not None:
            offsets = dict.fromkeys(message.partitions, self.resolves_to)
            self.loop.post(lambda: self.driver.receive(msg.Resolved(message.token, offsets)))
        elif isinstance(message, msg.CommitDone):
            self.done[message.token] = message

    def answer(self, revoke: msg.Revoke) -> None:
        """Give up what a revocation names (on the loop's thread)."""
        self.driver.receive(
            msg.Revoked(
                revoke.token,
                {tp: self.positions[tp] for tp in revoke.partitions if tp in self.positions},
            )
        )

    def subscribe(self, *topics: str, streams: int = 1) -> Member:
        """Say what it wants; the first time this makes it join."""
        self.tell(msg.Subscribe(Subscription(dict.fromkeys(topics, streams))))
        return self

    def tell(self, message: msg.FromFetcher) -> None:
        """Say something to the driver."""
        self.loop.post(lambda: self.driver.receive(message))

    def commit(
        self, offsets: Mapping[TopicPartition, int], assignment_epoch: int | None = None
    ) -> msg.CommitDone:
        """Store offsets and wait for the answer."""
        self._tokens += 1
        token = self._tokens
        self.tell(
            msg.Commit(
                token,
                dict(offsets),
                self.assignment_epoch if assignment_epoch is None else assignment_epoch,
            )
        )
        self.wait(lambda: token in self.done, "the answer to a commit")
        return self.done[token]

    def leave(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Close, as an application does."""
        self.tell(msg.Close(dict(positions or {}), self.assignment_epoch))
        self.wait(lambda: self.driver.finished, "the end of its session")

    def goodbye(self) -> None:
        self.tell(msg.Close({}, self.assignment_epoch))

    def said(self, kind: type[msg.ToFetcher]) -> list:  # type: ignore[type-arg]
        """All that it heard of one kind."""
        return [m for m in list(self.heard) if isinstance(m, kind)]

    def notices(self, kind: msg.NoticeKind) -> list[msg.Notice]:
        """Notices of one kind."""
        return [m for m in self.said(msg.Notice) if m.kind is kind]

    def joined(self) -> Member:
        """Wait until it is registered."""
        self.wait(lambda: self.notices(msg.NoticeKind.REGISTERED), "its registration")
        return self

    def fetches(self, *partitions: TopicPartition) -> Member:
        """Wait until it fetches exactly these."""
        self.wait(
            lambda: self.driver.core.session.held.keys() == set(partitions) == set(self.fetching()),
            f"the partitions {[str(tp) for tp in partitions]}",
        )
        return self

    def fetching(self) -> list[TopicPartition]:
        """What it was told to fetch, less what it was told to give up or that is lost."""
        out: set[TopicPartition] = set()
        for m in list(self.heard):
            if isinstance(m, msg.Assigned):
                out |= {*m.offsets, *m.unset}
            elif isinstance(m, (msg.Revoke, msg.Lost)):
                out -= set(m.partitions)
            elif isinstance(m, msg.Resumed):
                out |= set(m.partitions)
        return sorted(out)

    def may_hand_out(self) -> bool:
        """What the fetching side asks before each hand-out."""
        return boot_ms() < self.driver.lease_until(self.assignment_epoch)

    @property
    def member(self) -> str:
        """The present name."""
        return self.names[-1]


class Rig:
    """A chroot of a real ensemble, a plain client to look and to interfere (`zk`), and the
    processes of one test. `trace` is every change below the groups' root that happened before it is
    asked for, in order. `credentials`: options of `ZkOptions` for a kind of process, by the name of
    its class.
    """

    def __init__(self, hosts: str, layout: Layout = Layout.DRAFT) -> None:
        self.credentials: dict[str, dict[str, Any]] = {}
        self.hosts = hosts
        self.servers, self.chroot = parse_hosts(hosts)
        self.layout = layout
        self.acl = OPEN_ACL
        self.zk: KazooClient = connect(hosts)
        self.procs: list[Proc] = []
        self.ghosts: list[KazooClient] = []
        self._trace: list[tuple[Change, str]] = []
        self._watcher = Loop("watcher")
        self._watch()

    def _watch(self) -> None:
        ready = threading.Event()
        ensemble = KazooEnsemble(
            ZkOptions(self.hosts, session_timeout_ms=SESSION_MS), self._watcher.post
        )

        def see(event: PortEvent) -> None:
            if isinstance(event, Fired):
                self._trace.append((event.change, event.path))
            elif isinstance(event, Connected):
                self.port.watch(self.layout.groups_root, WatchMode.RECURSIVE, lambda r: ready.set())

        self.port = ensemble.open(see)
        self._watcher.start()  # not earlier: what it hears first uses the port
        assert ready.wait(WAIT_S)

    def close(self) -> None:
        """End everything; a defect of any process fails the test, and a coordinator whose inputs do
        not replay to what it did.
        """
        try:
            for proc in self.procs:
                if not proc._gates:
                    proc.goodbye()
            for proc in self.procs:
                proc.end()
            for proc in self.procs:
                if isinstance(proc, Coordinator):
                    proc.tape.assert_replays()
        finally:
            for proc in self.procs:
                if proc.proxy is not None:
                    proc.proxy.close()
            self._watcher.post(self.port.close)
            for client in (*self.ghosts, self.zk):
                disconnect(client)
            self._watcher.stop()
            self._watcher.join(WAIT_S)

    # processes

    def proxy(self) -> Proxy:
        """A proxy in front of the first server; given to a process, it is closed with it."""
        return Proxy(self.servers[0][1])

    def coordinator(
        self,
        name: str = "c",
        session_ms: int = SESSION_MS,
        proxy: Proxy | None = None,
        layout: Layout | None = None,
        lead: bool = True,
        **options: object,
    ) -> Coordinator:
        """A coordinator; with `lead`, wait until it leads."""
        made = Coordinator(
            self, name, CoordinatorOptions(**options), session_ms, proxy, layout or self.layout
        )  # type: ignore[arg-type]
        self.procs.append(made)
        made.begin()
        if lead:
            made.wait(lambda: made.leads, "the lead")
        return made

    def member(
        self,
        name: str = "m",
        *topics: str,
        session_ms: int = SESSION_MS,
        proxy: Proxy | None = None,
        layout: Layout | None = None,
        group: str = GROUP,
        **options: object,
    ) -> Member:
        """A member; with `topics`, it subscribes at once."""
        made = Member(
            self,
            name,
            session_ms,
            proxy,
            layout or self.layout,
            MemberOptions(group=group, host=name, **options),
        )  # type: ignore[arg-type]
        self.procs.append(made)
        made.begin()
        if topics:
            made.subscribe(*topics)
        return made

    # nodes

    def topic(self, name: str, partitions: int) -> tuple[TopicPartition, ...]:
        """A topic as a broker writes it; its partitions."""
        data = json.dumps(
            {"version": 2, "partitions": {str(n): [0] for n in range(partitions)}}
        ).encode()
        if self.zk.exists(self.layout.topic(name)):
            self.zk.set(self.layout.topic(name), data)
        else:
            self.zk.create(self.layout.topic(name), data, makepath=True)
        return tps(name, *range(partitions))

    def node(self, path: str) -> tuple[bytes, ZnodeStat] | None:
        """A node's data and stat; None where there is none."""
        self.zk.retry(self.zk.sync, "/")
        try:
            data, stat = self.zk.retry(self.zk.get, path)
        except NoNodeError:
            return None
        return data, stat

    def names(self, path: str) -> list[str]:
        """Names below a node, sorted; none where there is no node."""
        self.zk.retry(self.zk.sync, "/")
        try:
            return sorted(self.zk.retry(self.zk.get_children, path))
        except NoNodeError:
            return []

    def offset(self, tp: TopicPartition, group: str = GROUP) -> tuple[int, int] | None:
        """A stored offset with its node's version."""
        node = self.node(self.layout.offset(group, tp))
        return None if node is None else (int(node[0]), node[1].version)

    def put_offset(self, tp: TopicPartition, value: int, group: str = GROUP) -> None:
        """What an operator does."""
        path = self.layout.offset(group, tp)
        if self.zk.exists(path):
            self.zk.set(path, str(value).encode())
        else:
            self.zk.create(path, str(value).encode(), makepath=True)

    def owners(self, topic: str, group: str = GROUP) -> dict[int, tuple[str, int]]:
        """Partition -> (thread, session) of the owner nodes."""
        found = {}
        for number in self.names(self.layout.owner_topic(group, topic)):
            node = self.node(self.layout.owner(group, TopicPartition(topic, int(number))))
            if node is not None:
                found[int(number)] = (node[0].decode(), node[1].ephemeralOwner)
        return found

    def commands(self, member: str, group: str = GROUP) -> list[str]:
        """The nodes in a member's channel."""
        return self.names(self.layout.channel(group, member))

    @property
    def trace(self) -> list[tuple[Change, str]]:
        """See the class. The watcher has heard all of it when a sync on its session is answered,
        since the events of what was before stand before that answer.
        """

        def caught_up() -> bool:
            answers: queue.SimpleQueue[ReadResult] = queue.SimpleQueue()
            self._watcher.post(lambda: self.port.sync(answers.put))
            return isinstance(answers.get(timeout=WAIT_S), ReadDone)

        wait_until(caught_up, WAIT_S, "the watcher to hear everything")
        return list(self._trace)

    def created(self, part: str) -> list[str]:
        """Paths containing `part` that were created, in order."""
        return [path for change, path in self.trace if change is Change.CREATED and part in path]

    # the test as coordinator, or as a member

    def reign(self, epoch: int = 5, lease_max_ms: int = 12_000) -> None:
        """Lead by hand: the epoch node and a leader node of the test's own session."""
        self.zk.ensure_path(self.layout.groups_root)
        self.zk.set(self.layout.epoch, codec.encode_epoch(EpochData(epoch, 1, lease_max_ms)))
        if self.zk.exists(self.layout.leader) is None:
            self.zk.create(
                self.layout.leader,
                codec.encode_leader(LeaderData("", "hand", 0, epoch, wall_ms())),
                ephemeral=True,
            )

    def incarnation(self, member: str, group: str = GROUP) -> int:
        """The czxid of a registration."""
        node = self.node(self.layout.registration(group, member))
        assert node is not None, member
        return int(node[1].czxid)

    def command(
        self,
        member: str,
        seq: int,
        start: tuple[TopicPartition, ...] = (),
        stop: tuple[TopicPartition, ...] = (),
        epoch: int = 5,
        incarnation: int | None = None,
        more: bool = False,
    ) -> str:
        """Send a command by hand; its node."""
        czxid = self.incarnation(member) if incarnation is None else incarnation
        command = Command(
            member,
            czxid,
            Option.START if start else Option.STOP,
            epoch,
            seq,
            1,
            {tp: Thread(member, 0) for tp in start},
            stop,
            more=more,
        )
        path = self.zk.create(
            self.layout.command_prefix(GROUP, member, epoch, seq),
            codec.encode_command(command),
            sequence=True,
        )
        return str(path).rsplit("/", 1)[1]

    def client(self) -> KazooClient:
        """One more session of the test's own; it ends with the test."""
        client = connect(self.hosts, SESSION_MS / 1000)
        self.ghosts.append(client)
        return client

    def owner(self, client: KazooClient, tp: TopicPartition, thread: str, version: int = 1) -> None:
        """An owner node of this session."""
        path = self.layout.owner(GROUP, tp)
        self.zk.ensure_path(path.rsplit("/", 1)[0])
        client.create(path, thread.encode(), ephemeral=True)
        for _ in range(version):
            client.set(path, thread.encode())

    def ghost(
        self,
        name: str,
        topics: Mapping[str, int],
        owns: tuple[TopicPartition, ...] = (),
        rebalance_timeout_ms: int = 60_000,
    ) -> KazooClient:
        """A member that does nothing: its session lives, it answers no command."""
        client = self.client()
        for path in (
            *parents(self.layout.channel(GROUP, name)),
            self.layout.channel(GROUP, name),
            self.layout.ids(GROUP),
            self.layout.owners(GROUP),
            self.layout.offsets(GROUP),
        ):
            self.zk.ensure_path(path)
        data = codec.encode_registration(
            Subscription(dict(topics)),
            timestamp_ms=wall_ms(),
            assignors=("sticky",),
            process="p",
            rebalance_timeout_ms=rebalance_timeout_ms,
        )
        for tp in owns:
            self.owner(client, tp, f"{name}-0")
        client.create(self.layout.registration(GROUP, name), data, ephemeral=True)
        return client


@contextmanager
def rigged(hosts: str, layout: Layout = Layout.DRAFT) -> Iterator[Rig]:
    """A rig whose processes end with the block."""
    rig = Rig(hosts, layout)
    try:
        yield rig
    finally:
        rig.close()
