"""Fixtures of every suite. Servers are started once per test process, and only when a test asks for
one; with pytest-xdist each worker has its own, so nothing is shared between workers.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from zkcoord.core import value_type

# before anything is imported that makes classes with it: that values are not changed is checked
# here, not in production
value_type.FREEZE = True

from tests.harness import kafka as kafka_harness
from tests.harness import parsing
from tests.harness.proxy import Proxy
from tests.harness.quick_java import quick_java
from tests.harness.zookeeper import OLDEST, Ensemble, fresh_chroot, of_release, start_server
from zkcoord.stack import ports
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

# as a shell's `make test &` leaves it, and children would inherit: tests that interrupt them need
# the usual handling
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


parsing.install()

# how fast the machine is is nobody's property
settings.register_profile("roaming", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# a change is judged by the same examples as the one before; new ones are drawn in the night
settings.register_profile("busy", settings.get_profile("roaming"), derandomize=True)
settings.load_profile("busy")


def draw_ports_of_ones_own() -> None:
    """Each of pytest-xdist's workers draws the ports of its servers from a part of the range: a
    port that one has drawn and does not listen at yet, or no more until it starts a server again,
    is nobody else's.
    """
    width = (ports.PORT_MAX - ports.PORT_MIN) // int(
        os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    )
    ports.PORT_MIN += width * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports.PORT_MAX = ports.PORT_MIN + width - 1


draw_ports_of_ones_own()

HANGS_AFTER_S = 600
"""So long takes no test of `make test`, not even on a machine that is starved: it hangs, and fails
with the stacks of all threads, so that the rest of the run goes on. Nightly ones take hours.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that hangs has a name."""
    for item in items:
        if item.get_closest_marker("nightly") is None and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(HANGS_AFTER_S))


@pytest.fixture(scope="session", autouse=True)
def state_of_ones_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the programs that tests run keep for their user (journals, ...) is neither written to
    the home of who runs the tests nor read from there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def levels_of_logs() -> Iterator[None]:
    """What a test, or a command that it runs in this process, makes louder or quieter is as before
    for the next one.
    """
    loggers = [logging.getLogger(name) for name in (None, "kafka", "kazoo", "zkcoord", "consumer")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before):
        logger.setLevel(level)


HANDLED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD)


@pytest.fixture(autouse=True)
def handlers_of_signals() -> Iterator[None]:
    """A test leaves the handling of signals as it was: an ignored one stays ignored in all that the
    tests after it start, which then do not end when they are told to.
    """
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    changed = {n: now for n in HANDLED if (now := signal.getsignal(n)) != before[n]}
    for number in changed:
        signal.signal(number, before[number])
    assert not changed, f"the test has changed how signals are handled, and not back: {changed}"


@pytest.fixture(scope="session")
def java() -> Java:
    """The Java that runs the servers."""
    return quick_java()


@pytest.fixture(scope="session")
def zk_server(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper server for the whole test process (tickTime 500 ms, sessions 1 s to 60 s). Do not
    stop or pause it: start your own for that (`own_zk_server`).
    """
    server = start_server(tmp_path_factory.mktemp("zookeeper"), java)
    yield server
    server.kill()


@pytest.fixture
def zk_hosts(zk_server: ZooKeeperServer) -> str:
    """A connect string with a fresh, empty chroot on the shared server."""
    return fresh_chroot(zk_server.address)


@pytest.fixture
def own_zk_server(java: Java, tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper server that this test may kill, pause and start again."""
    server = start_server(tmp_path / "zookeeper", java)
    yield server
    if server.alive():
        server.kill()


@pytest.fixture(scope="session")
def old_zk_server(
    java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperServer]:
    """A server of the oldest release that is served, for the whole test process. Do not stop or
    pause it.
    """
    server = start_server(tmp_path_factory.mktemp("old-zookeeper"), java, of_release(OLDEST, java))
    yield server
    server.kill()


@pytest.fixture
def ensemble(java: Java, tmp_path: Path) -> Iterator[Ensemble]:
    """Three running servers with a quorum that this test may treat as it likes."""
    with Ensemble(tmp_path / "ensemble", java) as servers:
        yield servers


@pytest.fixture
def zk_proxy(zk_server: ZooKeeperServer) -> Iterator[Proxy]:
    """A proxy in front of the shared server; a client reaches the server through
    `zk_proxy.address`.
    """
    with Proxy(zk_server.port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def kafka_broker(
    zk_server: ZooKeeperServer, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """A Kafka broker for the whole test process, registered under the chroot /kafka of the shared
    ZooKeeper.
    """
    broker = kafka_harness.start_broker(
        tmp_path_factory.mktemp("kafka"), zk_server.address + kafka_harness.CHROOT, java
    )
    yield broker
    broker.kill()


@pytest.fixture
def kafka_zk_hosts(kafka_broker: KafkaBroker) -> Iterator[str]:
    """The connect string under which the broker is registered, with nothing beside Kafka's own
    znodes; what the test leaves is removed after it.
    """
    kafka_harness.clean_groups(kafka_broker.zookeeper)
    yield kafka_broker.zookeeper
    kafka_harness.clean_groups(kafka_broker.zookeeper)
