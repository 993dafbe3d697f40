"""The scenarios of classic groups, played against a real broker: it answers what the machine does,
but for the differences that are listed here.

The broker's options are those of the scenarios; time is real, so each waits, and several are played
at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from tests.core.classic.scenario import OPTIONS, Play, Scenario, ScenarioError, all_scenarios
from tests.gateway.classic_broker import BrokerSide
from tests.gateway.raw_client import RawClient
from tests.harness.kafka import CHROOT, KEPT_FOR_EVER, create_topic, unique
from tests.harness.wait import wait_until
from zkcoord.core.classic.requests import ClassicDescribe
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

AT_ONCE = 6
READY_S = 60.0
GROUPS_TO_BEGIN_WITH = 40
PLAYED_MIN = 120
FIND_VERSION = 3
TRIES = 2  # time is real: what a busy machine was too late for is played once more

# A scenario in which a broker answers something else, and why the machine does not do the same.
DIFFERENCES = {
    "joining/an_id_that_was_given_out_with_an_instance": (
        "Kafka's coordinator raises an exception (IllegalStateException), which clients read as"
        " UNKNOWN_SERVER_ERROR; here the id is unknown as that of this instance"
    ),
    "leaving/all_at_once_while_preparing": (
        "Kafka looks after each leaver whether all others have joined: a generation of those who"
        " leave next begins, and is over. Here a batch is one decision, and one state is persisted"
    ),
}


@pytest.fixture(scope="module")
def broker(
    zk_server: ZooKeeperServer, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """One with the options of the scenarios."""
    options = {
        **KEPT_FOR_EVER,
        "group.initial.rebalance.delay.ms": str(OPTIONS.initial_delay_ms),
        "group.min.session.timeout.ms": str(OPTIONS.min_session_timeout_ms),
        "group.max.session.timeout.ms": str(OPTIONS.max_session_timeout_ms),
        "group.max.size": str(OPTIONS.max_size),
    }
    one = KafkaBroker(
        tmp_path_factory.mktemp("classic"),
        free_port(),
        f"{zk_server.address}{CHROOT}-{unique('classic')}",
        java,
        owned=True,
        config=options,
    )
    one.start()
    yield one
    one.kill()


def _is_ready(address: str, group: str) -> bool:
    """Asked for a coordinator, a broker begins to be one."""
    with RawClient(address) as client:
        find = FindCoordinatorRequest(key=group, key_type=0)
        if client.ask(find, FIND_VERSION, FindCoordinatorResponse).error_code:
            return False
    side = BrokerSide(address, group, "")
    try:
        ticket = side.send(ClassicDescribe(), 0)
        return side.answer(ticket, True).code == 0
    finally:
        side.close()


def _wrong(scenario: Scenario, address: str, topic: str) -> str:
    """What a broker answers otherwise than expected."""
    side = BrokerSide(address, unique("classic"), topic)
    try:
        Play(side, is_broker=True).run(scenario)
    except ScenarioError as error:
        return str(error)
    finally:
        side.close()
    return ""


def test_a_broker_answers_so(broker: KafkaBroker) -> None:
    scenarios = [one for one in all_scenarios() if not one.only_machine]
    assert len(scenarios) >= PLAYED_MIN
    topic = create_topic(broker.address, unique("classic"), 1)
    for number in range(GROUPS_TO_BEGIN_WITH):
        group = f"begin-{number}"
        wait_until(lambda: _is_ready(broker.address, group), READY_S, "a coordinator")
    wrong: list[str] = []
    for _ in range(TRIES):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda one: _wrong(one, broker.address, topic), scenarios))
        wrong = [text for text in found if text]
        scenarios = [one for one, text in zip(scenarios, found) if text]
    assert not wrong, "\n" + "\n".join(wrong)


def test_differences_are_those_that_are_listed() -> None:
    assert {one.name for one in all_scenarios() if one.differs} == set(DIFFERENCES)
