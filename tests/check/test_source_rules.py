"""What `zkcoord check` says of where topics and brokers come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.check.old_world import OldWorld, old_world
from zkcoord.check.examination import Examination
from zkcoord.check.source_rules import SourceSeen, read_source, sources
from zkcoord.core.model import Malformed
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.cluster_identity import encode_source
from zkcoord.znodes.cluster_tree import CLUSTER_TREE

ONE, TWO = frozenset({"1"}), frozenset({"1", "2"})
IN_ZOOKEEPER = SourceSeen(theirs=TWO, ours=TWO, cluster="c", topics=True)
IN_KRAFT = SourceSeen(ours=TWO, source="c", cluster="c", topics=True, is_led=True)
NEVER = SourceSeen()


@pytest.mark.parametrize(
    ("seen", "codes"),
    [
        (IN_ZOOKEEPER, []),
        (IN_KRAFT, []),
        (replace(IN_KRAFT, cluster="", topics=False), []),
        (replace(IN_ZOOKEEPER, theirs=ONE), []),  # one is down, or the first in KRaft mode
        (replace(IN_ZOOKEEPER, theirs=frozenset()), ["brokers-left-zookeeper"]),
        (replace(IN_ZOOKEEPER, theirs=frozenset(), topics=False), ["brokers-left-zookeeper"]),
        (NEVER, ["no-broker-known"]),
        (replace(IN_KRAFT, ours=frozenset()), ["no-broker-known"]),
        (replace(IN_KRAFT, source="d"), ["source-of-another-cluster"]),
        (replace(IN_KRAFT, source=Malformed("source", "source", "no")), ["source-unreadable"]),
        (replace(IN_KRAFT, is_led=False), ["source-unkept"]),
        (replace(IN_KRAFT, theirs=TWO), ["brokers-came-back"]),
        (replace(IN_KRAFT, theirs=ONE), ["brokers-of-both-kinds"]),
        (replace(NEVER, is_whole=False), []),
    ],
)
def test_what_is_said(seen: SourceSeen, codes: list[str]) -> None:
    assert [one.code for one in sources(seen, 1)] == codes


def test_an_ensemble_that_nobody_uses_needs_no_broker() -> None:
    assert list(sources(NEVER, 0)) == []


def test_a_coordinator_that_knows_no_broker_is_named_before_there_is_a_group() -> None:
    (found,) = sources(replace(NEVER, is_led=True), 0)
    assert found.code == "no-broker-known"


@pytest.mark.parametrize(("seen", "is_said"), [(IN_KRAFT, True), (IN_ZOOKEEPER, False)])
def test_old_consumers_find_no_broker_without_zookeeper(seen: SourceSeen, is_said: bool) -> None:
    said = [one.code for one in sources(seen, 1, old_members=2)]
    assert ("old-consumers-without-brokers" in said) is is_said


@pytest.fixture
def here(zk_hosts: str) -> Iterator[OldWorld]:
    """A broker, a topic without leaders, a group."""
    with old_world(zk_hosts) as made:
        made.broker(version=5)
        made.topic("orders", 2)
        made.healthy("sound", "orders", 2)
        yield made


def codes(zk_hosts: str) -> set[str]:
    """Of one examination."""
    with SyncClient(ZkOptions(zk_hosts)) as reader:
        examination = Examination(reader, lambda name: True, None, 0, lambda: 0.0, lambda s: None)
        return {one.code for one in examination.findings()}


def test_it_is_read_whichever_nodes_count(here: OldWorld, zk_hosts: str) -> None:
    with SyncClient(ZkOptions(zk_hosts)) as reader:
        before = read_source(reader, pytest.fail)
        here.put(CLUSTER_TREE.broker(7), b"{}")
        here.put(CLUSTER_TREE.source, encode_source("c"))
        after = read_source(reader, pytest.fail)
    assert not before.counts and before.theirs and before.topics and not before.ours
    assert after.counts and (after.theirs, after.source) == (before.theirs, "c")
    assert after.ours == {"7"} and not after.is_led


def test_kafkas_nodes_are_not_judged_where_ours_count(here: OldWorld, zk_hosts: str) -> None:
    here.put("/admin/delete_topics/orders", b"")
    assert "topic-being-deleted" in codes(zk_hosts)
    here.put(CLUSTER_TREE.topic("orders"), b'{"version":3,"partitions":{"0":[],"1":[]}}')
    here.put(CLUSTER_TREE.source, encode_source("c"))
    found = codes(zk_hosts)
    assert "topic-being-deleted" not in found and "partition-without-leader" not in found
    assert {"no-broker-known", "source-unkept"} <= found
