"""The four stages of a rebalance of a client-led group, and a kill -9 at each of them: of the
coordinator, or of the gateway that serves the members.

    python -m tests.gateway.led_stages [--kills N] [--seed N] [--stage NAME ...]

One broker, two coordinators (each behind a proxy that stops it at the moment that is wanted), two
gateways, two or three consumers with an assignor of their own that take what is produced all the
while. Each kill happens in a rebalance that a consumer begins which joins or leaves. After it

* the consumers share everything, in the generation that was under way. After two of them a client
  may join once more, as with Kafka, and it is said how often one did (one or two generations):
  where the generation was not written down, a client that had been given an id, and was in none
  yet, asks the next coordinator for another; and a leader whose gateway took the answer to its
  SyncGroup with it joins again, which begins a rebalance in a group that is stable by then. After
  the others nobody has to; but kafka-python's leader at times joins again by itself as soon as its
  SyncGroup is answered, where a poll of it has ended meanwhile (3.0.12, on a busy machine);
* each consumer that was there has heard of as many rebalances: assigned once for each;
* at the end every record has been taken by somebody, and the coordinators' tapes replay.

The stages are those of a group coordinator: before and after the generation is
written down, before and after what its leader has assigned is. The exit status is 0 where all that
holds.
"""

from __future__ import annotations

import argparse
import enum
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kazoo.client import KazooClient

from tests.gateway.clients import PATIENCE_S, GatewayProcess, shared
from tests.gateway.own_assignor import OwnAssignor
from tests.harness.command import Running
from tests.harness.kafka import CHROOT, create_topic, produce_numbered, start_broker, unique
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import start_server
from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.stack.java import find_java
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.classic.documents import decode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.gateway_nodes import AnnouncedGateway, decode_gateway
from zkcoord.znodes.paths import Layout

PARTITIONS = 6
EACH = 20
MEMBERS_MAX = 3
KNOWN = 3  # the broker and two gateways, as Metadata says
REFRESH_MS = 500


class Stage(enum.Enum):
    """When the kill comes."""

    BEFORE_GENERATION = "before the generation is written down"
    AFTER_GENERATION = "after the generation is written down"
    BEFORE_SYNC = "before the assignment is written down"
    AFTER_SYNC = "after the assignment is written down"

    @property
    def phase(self) -> ClassicPhase:
        """What the state says then, or is about to."""
        of_generation = self in (Stage.BEFORE_GENERATION, Stage.AFTER_GENERATION)
        return ClassicPhase.COMPLETING if of_generation else ClassicPhase.STABLE

    @property
    def executed(self) -> bool:
        """Whether it is written."""
        return self in (Stage.AFTER_GENERATION, Stage.AFTER_SYNC)


class Victim(enum.Enum):
    """Who is killed."""

    COORDINATOR = "coordinator"
    GATEWAY = "gateway"


AGAIN_MAX = {
    (Stage.BEFORE_GENERATION, Victim.COORDINATOR): 2,
    (Stage.BEFORE_SYNC, Victim.GATEWAY): 2,
    (Stage.AFTER_SYNC, Victim.GATEWAY): 2,
}
"""How many generations later a group may be after a kill."""
BY_ITSELF_MAX = 1
"""The same after others."""


@dataclass
class Candidate:
    """A coordinator and the proxy before it."""

    process: Running
    proxy: Proxy
    stack: ExitStack


@dataclass
class Outcome:
    """What was found wrong, how long each kill held the group up, in ms, and after how many of them
    a client joined once more.
    """

    wrong: list[str] = field(default_factory=list)
    took_ms: dict[tuple[Stage, Victim], list[float]] = field(default_factory=dict)
    again: Counter[tuple[Stage, Victim]] = field(default_factory=Counter)


class LedGroupUnderFire:
    """See the module. A context manager: everything that runs, and ends with it."""

    def __init__(self, broker: KafkaBroker, hosts: str, home: Path) -> None:
        self.broker, self.hosts, self.home = broker, hosts, home
        self.group, self.topic = unique("g"), unique("stages")
        self.outcome = Outcome()
        self.clients: list[OwnAssignor] = []
        self.gone: list[OwnAssignor] = []
        self.produced = 0
        self._stack = ExitStack()
        self._begun = 0
        self._paths = ClassicPaths(Layout.DRAFT)

    def __enter__(self) -> LedGroupUnderFire:
        with ExitStack() as stack:
            create_topic(self.broker.address, self.topic, PARTITIONS)
            self.zk = KazooClient(self.hosts)
            self.zk.start()
            stack.callback(self.zk.close)
            stack.callback(self.zk.stop)
            self.leader = self._candidate(stack)
            self.leader.process.ready("leading")
            self.standby = self._candidate(stack)
            stack.callback(lambda: [one.stack.close() for one in (self.leader, self.standby)])
            self.gateways = [
                stack.enter_context(
                    GatewayProcess(self.home / name, self.hosts, self.broker.address)
                )
                for name in ("gateway-a", "gateway-b")
            ]
            stack.callback(lambda: [one.kill() for one in self.clients])
            self._join()
            self._join()
            self._settled()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        if raised[0] is None:
            self._stack.__exit__(None, None, None)
        else:
            self._abandon()

    def _abandon(self) -> None:
        """A test has failed already: nothing that ends may hide that."""
        for one in (self.leader, self.standby):
            one.process.process.kill()
        try:
            self._stack.close()
        except Exception as e:
            print(f"while everything ended: {e}", file=sys.stderr)

    def _candidate(self, stack: ExitStack) -> Candidate:
        self._begun += 1
        own = ExitStack()
        proxy = own.enter_context(Proxy(int(self.hosts.partition("/")[0].rpartition(":")[2])))
        address = f"{proxy.address}/{self.hosts.partition('/')[2]}"
        process = own.enter_context(
            Running(self.home / f"coordinator-{self._begun}", "--zookeeper", address)
        )
        return Candidate(process, proxy, own)

    def _join(self) -> None:
        self._begun += 1
        bootstrap = [one.address for one in self.gateways]
        home = self.home / f"client-{self._begun}"
        self.clients.append(
            OwnAssignor(home, bootstrap, self.group, self.topic, metadata_max_age_ms=REFRESH_MS)
        )

    def _settled(self) -> None:
        self._produce()
        shared(self.clients, PARTITIONS)
        wait_until(self._is_stable, PATIENCE_S, "a stable group whose members know that")

    def _is_stable(self) -> bool:
        state = self.state()
        known = all(one.generation == state.generation for one in self.clients)
        return state.phase is ClassicPhase.STABLE and known

    def _all_known(self) -> bool:
        return all(one.brokers == KNOWN for one in self.clients)

    def _produce(self) -> None:
        produce_numbered(self.broker.address, self.topic, PARTITIONS, EACH)
        self.produced += EACH

    def state(self) -> ClassicState:
        """What was decided last."""
        data, _ = self.zk.get(self._paths.state(self.group))
        state = decode_state(self.group, data)
        assert isinstance(state, ClassicState), state
        return state

    def _serving(self) -> GatewayProcess:
        """The gateway that serves most of the members."""
        sessions = [
            self.zk.get(f"{self._paths.presences(self.group)}/{name}")[1].ephemeralOwner
            for name in self.zk.get_children(self._paths.presences(self.group))
        ]
        most = max(sessions, key=sessions.count)
        above = Layout.DRAFT.gateways
        for node in self.zk.get_children(above):
            data, stat = self.zk.get(f"{above}/{node}")
            found = decode_gateway(node, data)
            if stat.ephemeralOwner == most and isinstance(found, AnnouncedGateway):
                return next(one for one in self.gateways if one.port == found.port)
        raise AssertionError("the members are of no gateway that is there")

    def kill(self, stage: Stage, victim: Victim) -> None:
        """One rebalance, and a kill in it."""
        before = self.state().generation
        where = self._paths.state(self.group).encode()
        said = f'"generation":{before + 1},'.encode(), f'"phase":"{stage.phase.value}"'.encode()
        hold = self.leader.proxy.hold(
            lambda frame: where in frame and all(one in frame for one in said), stage.executed
        )
        serving, dead = self._serving(), self.leader
        stay, calls = list(self.clients), {}
        if len(self.clients) < MEMBERS_MAX:
            self._join()
        else:
            # not the leader: kafka-python's next one joins again by itself, once
            leaver = self.clients.pop()
            stay.remove(leaver)
            self.gone.append(leaver)
            leaver.close()
        calls = {id(one): len(one.calls) for one in stay}
        assert hold.reached.wait(PATIENCE_S), f"nothing was written: {stage.value}"
        begun = time.monotonic()
        if victim is Victim.COORDINATOR:
            self.leader.process.process.kill()
            self.leader.process.process.wait(PATIENCE_S)
            hold.drop()
            self.leader = self.standby
        else:
            serving.process.kill()
            serving.process.wait()
            hold.release()
        self._settled()
        took_ms = (time.monotonic() - begun) * 1000
        self.outcome.took_ms.setdefault((stage, victim), []).append(took_ms)
        if victim is Victim.GATEWAY:
            serving.restart()
            # a client that knows of one gateway only, and loses it, finds none any more
            wait_until(self._all_known, PATIENCE_S, "clients that know both gateways")
        else:
            dead.stack.close()  # not before: its companion closes its session through that proxy
            self.standby = self._candidate(self._stack)
        self._judge(stage, victim, before + 1, {one: calls[id(one)] for one in stay})

    def _judge(
        self, stage: Stage, victim: Victim, generation: int, heard: dict[OwnAssignor, int]
    ) -> None:
        what = f"{victim.value} killed {stage.value}"
        found = self.state().generation
        self.outcome.again[stage, victim] += found != generation
        if not generation <= found <= generation + AGAIN_MAX.get((stage, victim), BY_ITSELF_MAX):
            self.outcome.wrong.append(f"{what}: generation {found}, not {generation}")
        for client, calls in heard.items():
            told = [kind for kind, _ in client.calls[calls:]].count("assigned")
            if not 1 <= told <= 1 + found - generation:
                self.outcome.wrong.append(
                    f"{what}: a client that was there was assigned {told} times"
                )

    def all_taken(self) -> None:
        """Wait until every record has been taken by somebody."""
        wanted = {(n, offset) for n in range(PARTITIONS) for offset in range(self.produced)}

        def taken() -> bool:
            return wanted <= {r for one in (*self.clients, *self.gone) for r in one.taken}

        try:
            wait_until(taken, PATIENCE_S, "every record")
        except AssertionError as e:
            self.outcome.wrong.append(f"records are lost: {e}")


def order_of(
    kills: int, rng: random.Random, stages: Collection[Stage] = tuple(Stage)
) -> list[tuple[Stage, Victim]]:
    """So many kills of each victim at each stage, in any order."""
    order = [(stage, victim) for stage in stages for victim in Victim for _ in range(kills)]
    rng.shuffle(order)
    return order


@contextmanager
def everything(home: Path) -> Iterator[tuple[KafkaBroker, str]]:
    """A server and a broker of one's own."""
    java = find_java()
    server = start_server(home / "zookeeper", java)
    broker = start_broker(home / "kafka", server.address + CHROOT, java)
    try:
        yield broker, broker.zookeeper
    finally:
        broker.kill()
        server.kill()


def run(
    broker: KafkaBroker,
    hosts: str,
    home: Path,
    kills: int,
    seed: int,
    say: Callable[[str], object] = lambda _: None,
    stages: Collection[Stage] = tuple(Stage),
) -> Outcome:
    """All kills."""
    with LedGroupUnderFire(broker, hosts, home) as under_fire:
        order = order_of(kills, random.Random(seed), stages)
        for n, (stage, victim) in enumerate(order, 1):
            under_fire.kill(stage, victim)
            say(f"{n} of {len(order)}: {victim.value} killed {stage.value}")
        under_fire.all_taken()
        for client in list(under_fire.clients):
            client.close()
        under_fire.clients.clear()
        return under_fire.outcome


def main() -> int:
    """See the module."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m tests.gateway.led_stages",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=20, help="of each victim, at each stage")
    parser.add_argument("--seed", type=int, default=1)
    names = [stage.name.lower() for stage in Stage]
    parser.add_argument("--stage", nargs="+", choices=names, default=names)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, everything(Path(folder)) as (broker, hosts):
        outcome = run(
            broker,
            hosts,
            Path(folder),
            given.kills,
            given.seed,
            lambda line: print(line, file=sys.stderr, flush=True),
            [Stage[name.upper()] for name in given.stage],
        )
    print(
        "| killed | when | kills | ms until all share everything again: median | max "
        "| a client joined once more |"
    )
    print("|---|---|---|---|---|---|")
    for (stage, victim), took in sorted(outcome.took_ms.items(), key=str):
        middle = sorted(took)[len(took) // 2]
        print(
            f"| {victim.value} | {stage.value} | {len(took)} | {middle:,.0f} | {max(took):,.0f} "
            f"| {outcome.again[stage, victim]} |"
        )
    for wrong in outcome.wrong:
        print(wrong)
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
