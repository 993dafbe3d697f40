"""Who owns what is not well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.admin.world import world
from tests.cli.test_groups_led import Led, member, state
from tests.znodes.classic.test_report import assignment
from zkcoord.core.model import TopicPartition
from zkcoord.health.owners import NOBODY, with_owners
from zkcoord.health.rules import HealthVerdict, PartitionHealth, of_group
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.documents import encode_state
from zkcoord.znodes.paths import Layout


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=["draft", "isolated"])
def test_owners_of_what_is_not_well(zk_hosts: str, layout: Layout) -> None:
    verdicts = [HealthVerdict.STOP, HealthVerdict.STALL, HealthVerdict.OK, HealthVerdict.WARN]
    parts = [
        PartitionHealth(TopicPartition("orders", n), verdict, "why")
        for n, verdict in enumerate(verdicts)
    ]
    with world(zk_hosts, layout) as here:
        here.group("billing")
        here.member("billing", "billing_a", {"orders": 1})
        for n in (0, 2):
            here.owner("billing", "orders", n, "billing_a")
        here.put(layout.owner("billing", TopicPartition("orders", 3)), b"\xff")
        with SyncClient(ZkOptions(zk_hosts)) as reader:
            groups = [of_group(name, "Stable", "", parts) for name in ("billing", "other")]
            kafka = of_group("in-kafka", "", "kafka", parts)
            billing, other, same = with_owners(reader, layout, [*groups, kafka])
            assert with_owners(reader, layout, []) == []
    assert [p.owner for p in billing.partitions] == ["billing_a-0", NOBODY, "", ""]
    assert [p.owner for p in other.partitions] == [NOBODY, NOBODY, "", NOBODY]
    assert same == kafka and billing.why == groups[0].why


def test_owners_in_groups_that_clients_lead(zk_hosts: str) -> None:
    parts = [
        PartitionHealth(TopicPartition("orders", n), HealthVerdict.STOP, "why") for n in range(2)
    ]
    with world(zk_hosts) as here:
        led = Led(here)
        for group, data in (
            ("apps", assignment(("orders", (0,)))),
            ("opaque", b"\xff\xff"),
            ("junk", assignment(("orders", (0,)))),
        ):
            led.group(group, state())
            has = replace(member("c"), assignment=led.blob(group, data))
            decided = encode_state(state(has, member("new")))
            led.world.client.set(led.paths.state(group), decided)
        led.world.client.set(led.paths.state("junk"), b"{")
        with SyncClient(ZkOptions(zk_hosts)) as reader:
            names = ("apps", "opaque", "junk")
            groups = [of_group(name, "Stable", "", parts) for name in names]
            found = with_owners(reader, here.layout, groups)
    owners = [[p.owner for p in group.partitions] for group in found]
    assert owners == [["c", NOBODY], ["", ""], ["", ""]]
