"""How long a look at many groups takes on a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.admin.world import World, world
from tests.health.test_sampler import Brokers, Kafka
from zkcoord.health.log_ends import LogEnds
from zkcoord.health.monitor import HealthMonitor
from zkcoord.health.rules import HealthLimits
from zkcoord.health.sampler import Sampler
from zkcoord.health.stored_offsets import StoredOffsets
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
GROUPS, TOPICS, PARTITIONS = 10_000, 100, 10
ROUND_S_MAX = 60.0
OPS_PER_MULTI = 400


def nodes(layout: Layout) -> Iterator[tuple[str, bytes]]:
    for n in range(GROUPS):
        group, topic = f"group-{n}", f"topic-{n % TOPICS}"
        yield f"/consumers/{group}", b""
        yield layout.offsets(group), b""
        yield layout.offset_topic(group, topic), b""
        for p in range(PARTITIONS):
            yield f"{layout.offset_topic(group, topic)}/{p}", b"%d" % n
        yield layout.group(group), b""


def fill(here: World) -> None:
    here.client.ensure_path(here.layout.groups_root)
    for n in range(TOPICS):
        here.topic(f"topic-{n}", PARTITIONS)
    transaction = here.client.transaction()
    for path, data in nodes(here.layout):
        transaction.create(path, data)
        if len(transaction.operations) >= OPS_PER_MULTI:
            transaction.commit()
            transaction = here.client.transaction()
    transaction.commit()


def test_ten_thousand_groups_on_a_real_server(zk_hosts: str) -> None:
    with world(zk_hosts) as here:
        fill(here)
        with SyncClient(ZkOptions(zk_hosts)) as reader:
            usual = Brokers(20_000)
            sampler = Sampler(
                StoredOffsets(reader, here.layout), Kafka(), LogEnds(usual, Brokers())
            )
            monitor, took = HealthMonitor(HealthLimits()), []
            names = [f"group-{n}" for n in range(GROUPS)]
            for _ in range(3):
                began = time.perf_counter()
                look = sampler.look(names)
                looked = time.perf_counter()
                monitor.take(look)
                judged = monitor.groups()
                took.append((looked - began, time.perf_counter() - looked))
        assert sum(len(g.partitions) for g in judged) == GROUPS * PARTITIONS
        print("look, judgement:", [tuple(round(s, 2) for s in one) for one in took])
        assert max(look_s + judge_s for look_s, judge_s in took) < ROUND_S_MAX
