"""Who owns what is not well."""

from __future__ import annotations

import pytest

from tests.admin.world import world
from zkcoord.core.model import TopicPartition
from zkcoord.health.owners import NOBODY, with_owners
from zkcoord.health.rules import HealthVerdict, PartitionHealth, of_group
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
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
