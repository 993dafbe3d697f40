"""Consumers that assign their own partitions in a group's name, where nodes have ACLs: the group's
nodes are asked for as members do, and what may not be done is said as what it is, at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka.errors import CommitFailedError, GroupAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition
from kazoo.security import make_digest_acl

from consumer import KafkaConsumer
from consumer.errors import (
    CommitRefusedError,
    CommitUnavailableError,
    NotOwnedError,
    ZooKeeperDeniedError,
)
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.protocol.rig import Rig
from tests.security.principals import PASSWORDS, hashed
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

pytestmark = [pytest.mark.kafka, pytest.mark.parametrize("layout", [Layout.DRAFT])]

AT_ONCE_S = 3.0
PATIENCE_S = 60.0
RECORDS = 5
ROLES = {
    f"zookeeper_acl_{who}": f"digest:{hashed(user)}"
    for who, user in (("coordinators", "coord"), ("members", "app"), ("readers", "viewer"))
}
CLIENTS = pytest.mark.parametrize("data_client", ["kafka-python", "librdkafka"])
DID_NOT_ANSWER = "did not answer"


def known(user: str) -> dict[str, Any]:
    """The options of this user, with the roles."""
    return {"zookeeper_auth": (user, PASSWORDS[user]), **ROLES}


Make = Callable[..., KafkaConsumer]


@pytest.fixture(scope="module")
def topic(kafka_broker: KafkaBroker) -> str:
    """Two partitions with records."""
    found = create_topic(kafka_broker.address, unique("byhand"), 2)
    produce_numbered(kafka_broker.address, found, 2, RECORDS)
    return found


@pytest.fixture
def make(rig: Rig, kafka_broker: KafkaBroker, topic: str) -> Iterator[Make]:
    """Makes consumers that have assigned the topic's first partition, or those named."""
    with ExitStack() as stack:

        def made(group: str = "fresh", *numbers: int, **configs: Any) -> KafkaConsumer:
            one = KafkaConsumer(
                **{
                    "group_id": group,
                    "bootstrap_servers": kafka_broker.address,
                    "zookeeper_connect": rig.hosts,
                    "auto_offset_reset": "earliest",
                    "enable_auto_commit": False,
                    **configs,
                }
            )
            stack.callback(one.close)
            one.assign([TopicPartition(topic, n) for n in numbers or (0,)])
            return one

        yield made


def drained(one: KafkaConsumer, total: int = RECORDS) -> int:
    """Polls until so many records came."""
    found = 0

    def enough() -> bool:
        nonlocal found
        found += sum(map(len, one.poll(100).values()))
        return found >= total

    wait_until(enough, PATIENCE_S, f"{total} records")
    return found


def refusal(one: KafkaConsumer, offsets: Any = None) -> str:
    """What a commit is refused with, at once, in each form."""
    began = time.monotonic()
    with pytest.raises(CommitRefusedError) as caught:
        one.commit(offsets)
    future = one.commit_async(offsets)
    wait_until(lambda: future.is_done, PATIENCE_S, "the answer")
    assert time.monotonic() - began < 2 * AT_ONCE_S
    assert isinstance(future.exception, CommitRefusedError)
    assert isinstance(caught.value, CommitFailedError) and not caught.value.retriable
    said = str(caught.value)
    assert DID_NOT_ANSWER not in said and "Kafka refused" not in said and "\n" not in said
    return said


@CLIENTS
def test_the_first_commit_of_a_new_group_asks_for_its_nodes(
    rig: Rig, make: Make, topic: str, data_client: str
) -> None:
    """As a member does; the group is what a member would have found."""
    c = rig.coordinator()
    tp = TopicPartition(topic, 0)
    one = make(**known("app"), data_client=data_client)
    assert drained(one) == RECORDS
    began = time.monotonic()
    one.commit({tp: OffsetAndMetadata(2, "why", -1)})
    assert time.monotonic() - began < AT_ONCE_S
    assert one.committed(tp, metadata=True) == OffsetAndMetadata(2, "why", -1)
    assert c.records("group made") and rig.names(rig.layout.asks) == []
    assert all(rig.node(path) for path in rig.layout.parts("fresh"))
    one.close()
    again = make(**known("app"))
    assert drained(again, RECORDS - 2) == RECORDS - 2
    future = make("other", **known("app")).commit_async({tp: 3})
    wait_until(lambda: future.is_done, PATIENCE_S, "the answer")
    assert future.succeeded()


def test_automatic_commits_and_the_last_ones_ask_as_well(rig: Rig, make: Make, topic: str) -> None:
    rig.coordinator()
    tp = TopicPartition(topic, 0)
    automatic = {**known("app"), "enable_auto_commit": True}
    for group, interval_ms in (("soon", 100), ("last", 600_000)):
        one = make(group, **automatic, auto_commit_interval_ms=interval_ms)
        drained(one)
        if group == "soon":
            wait_until(
                lambda one=one: one.poll(20) == {} and one.committed(tp) == RECORDS,  # type: ignore[misc]  # the loop's value
                PATIENCE_S,
                "the commit",
            )
        began = time.monotonic()
        one.close()
        assert time.monotonic() - began < AT_ONCE_S
        assert make(group, **known("app")).committed(tp) == RECORDS


def test_where_nobody_serves_it_is_said_within_the_second_that_an_ask_may_take(
    rig: Rig, make: Make, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also by automatic commits, once, and by the last one."""
    rig.coordinator("first").stop()
    tp = TopicPartition(topic, 0)
    assert "no coordinator has made them yet: see that one runs" in refusal(
        make(**known("app")), {tp: 1}
    )
    with pytest.raises(
        CommitUnavailableError, match="^no coordinator made the nodes of group hasty"
    ):
        make("hasty", **known("app")).commit({tp: 1}, timeout_ms=500)
    one = make("silent", **known("app"), enable_auto_commit=True, auto_commit_interval_ms=50)
    drained(one)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        until = time.monotonic() + 4
        while time.monotonic() < until:
            one.poll(50)
        began = time.monotonic()
        one.close()
        assert time.monotonic() - began < AT_ONCE_S
    said = [r.getMessage() for r in caplog.records if r.name == "consumer.offsets.committer"]
    assert len(said) == 1 and "no coordinator has made them yet" in said[0]
    assert DID_NOT_ANSWER not in caplog.text
    rig.coordinator("second")
    late = make(**known("app"))
    late.commit({tp: 4})
    assert late.committed(tp) == 4


WRONG = {"zookeeper_auth": ("app", "wrong")}


@CLIENTS
@pytest.mark.parametrize(
    "who",
    [{}, WRONG],
)
def test_without_credentials_nothing_is_stored_and_it_is_said_why(
    rig: Rig, make: Make, topic: str, who: dict[str, Any], data_client: str
) -> None:
    rig.coordinator()
    tp = TopicPartition(topic, 0)
    make("there", **known("app")).commit({tp: 3})
    for group in ("there", "fresh"):
        said = refusal(make(group, **who, data_client=data_client), {tp: 1})
        assert "ZooKeeper does not let this consumer" in said and "/consumers/" in said
        assert said.endswith("(NoAuth): give it credentials that may")


def test_who_may_only_look_is_told_so_and_not_that_nobody_leads(
    rig: Rig, make: Make, topic: str
) -> None:
    """It may not even ask."""
    rig.coordinator()
    said = refusal(make(**known("viewer")), {TopicPartition(topic, 0): 1})
    assert "does not let this consumer create the nodes of group fresh (NoAuth)" in said
    member = make("fresh2", **known("viewer"))
    member.unsubscribe()
    member.subscribe([topic])
    with pytest.raises(Exception, match="does not let this consumer create the nodes of group"):
        wait_until(lambda: member.poll(100) is None, PATIENCE_S, "the error")


@CLIENTS
def test_what_may_not_be_read_is_named_and_the_others_go_on(
    rig: Rig, make: Make, topic: str, data_client: str
) -> None:
    """A poll says it once, whoever asks for it hears it; nothing stands in for it."""
    rig.coordinator()
    zero, one = (TopicPartition(topic, n) for n in range(2))
    make(**known("app")).commit({zero: 2, one: 3})
    node = rig.layout.offset("fresh", ModelPartition(*zero))
    before = rig.zk.get_acls(node)[0]
    rig.zk.set_acls(node, [make_digest_acl("coord", PASSWORDS["coord"], all=True)])
    c = make("fresh", 0, 1, **known("app"), data_client=data_client)
    with pytest.raises(ZooKeeperDeniedError, match=f"read {node} .NoAuth.: give it") as caught:
        c.poll(10_000)
    assert isinstance(caught.value, GroupAuthorizationFailedError) and not caught.value.retriable
    assert drained(c, RECORDS - 3) == RECORDS - 3
    assert c.position(one, timeout_ms=10_000) == RECORDS
    began = time.monotonic()
    for ask in (lambda: c.position(zero), lambda: c.committed(zero)):
        with pytest.raises(ZooKeeperDeniedError, match=node):
            ask()
    assert node in refusal(c, {zero: 1})
    assert time.monotonic() - began < AT_ONCE_S
    c.commit({one: 4})
    assert c.committed(one) == 4
    rig.zk.set_acls(node, before)
    assert drained(c, RECORDS - 2) == RECORDS - 2


def test_what_may_not_be_written_is_named(rig: Rig, make: Make, topic: str) -> None:
    rig.coordinator()
    tp = TopicPartition(topic, 0)
    c = make(**known("app"))
    c.commit({tp: 2})
    node = rig.layout.offset("fresh", ModelPartition(*tp))
    acls = rig.zk.get_acls(node)[0]
    rig.zk.set_acls(
        node,
        [
            make_digest_acl("coord", PASSWORDS["coord"], all=True),
            make_digest_acl("app", PASSWORDS["app"], read=True),
        ],
    )
    assert f"does not let this consumer write {node} (NoAuth)" in refusal(c, {tp: 3})
    rig.zk.set_acls(node, acls)
    c.commit({tp: 3})
    assert c.committed(tp) == 3


def test_automatic_commits_beside_a_living_group_are_warned_of(
    rig: Rig, make: Make, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig.topic(topic, 2)
    rig.coordinator()
    rig.member("m", topic, group="fresh").fetches(
        ModelPartition(topic, 0), ModelPartition(topic, 1)
    )
    one = make(**known("app"), enable_auto_commit=True, auto_commit_interval_ms=50)
    with caplog.at_level(logging.WARNING):
        one.seek(TopicPartition(topic, 0), 0)
        drained(one)
        wait_until(
            lambda: one.poll(20) is not None and "has live members" in caplog.text,
            PATIENCE_S,
            "the warning",
        )
        for _ in range(20):
            one.poll(20)
    assert caplog.text.count("has live members") == 1
    with pytest.raises(NotOwnedError):
        one.commit()


def test_where_nobody_answers_at_the_address_that_is_said_and_may_be_tried_again(
    make: Make, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    one = make(zookeeper_connect=nowhere, zookeeper_connection_timeout_ms=300)
    with pytest.raises(CommitUnavailableError, match=f"no ZooKeeper server answers at {nowhere}"):
        one.commit({TopicPartition(topic, 0): 1}, timeout_ms=3_000)
    assert caplog.text.count("it cannot be found out where group fresh stands") == 1
