"""Commits of who is no member, in parts that ZooKeeper takes, on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from kafka.structs import TopicPartition as KafkaPartition
from kazoo.security import make_digest_acl

from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
from consumer.offsets.committed import stored_of, stored_reads
from consumer.offsets.memberless import PARTITIONS_PER_MULTI_MAX, ByMember, MemberlessCommits
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import TopicPartition
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import OPEN_ACL, GetChildren, GetData, Missing, Read, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import LAYOUTS, Layout

LAY = Layout.DRAFT


def commit(count: int, text: str) -> msg.Commit:
    """Of so many partitions."""
    offsets = {TopicPartition("t", n): n for n in range(count)}
    return msg.Commit(0, offsets, 0, dict.fromkeys(offsets, text) if text else {})


@pytest.mark.parametrize(
    ("text", "sizes"), [("", [100, 100, 50]), ("x", [100, 100, 50]), ("\u20ac" * 4_096, None)]
)
def test_parts_are_as_large_as_zookeeper_takes(
    zk_hosts: str, text: str, sizes: list[int] | None
) -> None:
    commits = MemberlessCommits(LAY, "g", OPEN_ACL)
    whole = commit(250, text)
    parts = list(commits.parts(whole))
    assert [tp for part in parts for tp in part] == sorted(whole.offsets)
    if sizes is not None:
        assert [len(part) for part in parts] == sizes
    else:
        assert max(map(len, parts)) < PARTITIONS_PER_MULTI_MAX
    with SyncClient(ZkOptions(zk_hosts), 10_000) as client:
        for _ in range(2):
            assert [commits.store(client, whole, part) for part in parts] == [None] * len(parts)
        wanted = [KafkaPartition(*tp) for tp in whole.offsets]
        found, unreadable = stored_of(wanted, client.read(stored_reads(LAY, "g", wanted)))
    assert not unreadable
    assert {(tp.partition, one.offset, one.metadata) for tp, one in found.items()} == {
        (n, n, text) for n in range(250)
    }


def test_a_members_commit_is_of_the_gateway_that_serves_it(zk_hosts: str) -> None:
    """One that hung may have taken it long before what its client has committed elsewhere since."""
    paths, whole = ClassicPaths(LAY), commit(2, "")
    gateway, other = connect(zk_hosts), connect(zk_hosts)
    gateway.create(paths.state("g"), b"", makepath=True)
    by = ByMember("m", 0, gateway.client_id[0])
    presence = paths.presence("g", "m")

    def stored(by: ByMember) -> CommitOutcome | None:
        commits = MemberlessCommits(LAY, "g", OPEN_ACL, by_member=by)
        done = commits.store(client, whole, sorted(whole.offsets))
        return None if done is None else done.outcome

    with SyncClient(ZkOptions(zk_hosts), 10_000) as client:
        assert stored(by) is CommitOutcome.NO_LONGER_MEMBER, "nobody says that it serves it"
        other.create(presence, ephemeral=True, makepath=True)
        assert stored(by) is CommitOutcome.NO_LONGER_MEMBER
        assert client.read([GetData(LAY.offset("g", TopicPartition("t", 0)))]) == [Missing()]
        other.delete(presence)
        gateway.create(presence, ephemeral=True)
        assert stored(by) is None
        assert stored(replace(by, version=1)) is CommitOutcome.NO_LONGER_MEMBER
        further, forward = commit(2, "").offsets, replace(by, forward=True)
        assert stored(forward) is None, "no further, and no step back"
        last = TopicPartition("t", 1)
        gateway.set(LAY.offset("g", last), str(further[last] + 1).encode())
        assert stored(forward) is CommitOutcome.UNAVAILABLE
        assert gateway.get(LAY.offset("g", last))[0] == str(further[last] + 1).encode()
        assert stored(by) is None, "who has been there for a while may go back"
    disconnect(gateway)
    disconnect(other)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("ephemeral", [True, False])
def test_who_registers_beside_clients_that_lead_is_not_in_the_way_of_their_commits(
    zk_hosts: str, layout: Layout, ephemeral: bool
) -> None:
    """Nothing is assigned to it: it took their membership from all of them, again and again."""
    paths, wanted = ClassicPaths(LAY), commit(1, "")
    gateway, other = connect(zk_hosts), connect(zk_hosts)
    gateway.create(paths.state("g"), makepath=True)
    gateway.create(paths.presence("g", "m"), ephemeral=True, makepath=True)
    other.create(layout.registration("g", "junk"), b"x", ephemeral=ephemeral, makepath=True)
    by = ByMember("m", 0, gateway.client_id[0])
    with SyncClient(ZkOptions(zk_hosts), 10_000) as client:
        commits = MemberlessCommits(LAY, "g", OPEN_ACL, by_member=by)
        assert commits.store(client, wanted, sorted(wanted.offsets)) is None
        of_nobody = MemberlessCommits(LAY, "g", OPEN_ACL)
        refused = of_nobody.store(client, wanted, sorted(wanted.offsets))
        assert refused is not None and refused.outcome is CommitOutcome.GROUP_ALIVE
    for one in (gateway, other):
        disconnect(one)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_what_somebody_owns_beside_clients_that_lead_is_not_stored(
    zk_hosts: str, layout: Layout
) -> None:
    """Old consumers help themselves, and their offsets would go back."""
    paths = ClassicPaths(LAY)
    gateway, other = connect(zk_hosts), connect(zk_hosts)
    gateway.create(paths.state("g"), makepath=True)
    gateway.create(paths.presence("g", "m"), ephemeral=True, makepath=True)
    other.create(layout.owner("g", TopicPartition("t", 1)), b"old-0", ephemeral=True, makepath=True)
    other.create(layout.owner("g", TopicPartition("t", 2)), b"junk-0", makepath=True)
    by = ByMember("m", 0, gateway.client_id[0])
    wanted = commit(3, "")
    with SyncClient(ZkOptions(zk_hosts), 10_000) as client:
        commits = MemberlessCommits(LAY, "g", OPEN_ACL, by_member=by)
        refused = commits.store(client, wanted, [TopicPartition("t", 1)])
        assert refused is not None and refused.outcome is CommitOutcome.GROUP_ALIVE
        others = [TopicPartition("t", 0), TopicPartition("t", 2)]
        assert commits.store(client, wanted, others) is None
    for one in (gateway, other):
        disconnect(one)


HIDING = [make_digest_acl("old", "pw", all=True)]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_an_owner_node_that_is_hidden_is_somebodys(zk_hosts: str, layout: Layout) -> None:
    """Who makes it chooses its ACL."""
    paths, one, wanted = ClassicPaths(LAY), TopicPartition("t", 1), commit(3, "")
    gateway, other = connect(zk_hosts), connect(zk_hosts)
    gateway.create(paths.state("g"), makepath=True)
    gateway.create(paths.presence("g", "m"), ephemeral=True, makepath=True)
    other.ensure_path(layout.owner_topic("g", "t"))
    other.create(layout.owner("g", one), b"old-0", ephemeral=True, acl=HIDING)
    told: list[tuple[str, str]] = []
    by = ByMember("m", 0, gateway.client_id[0])
    with SyncClient(ZkOptions(zk_hosts), 10_000) as client:
        commits = MemberlessCommits(
            LAY, "g", OPEN_ACL, by_member=by, tell=lambda topic, why: told.append((topic, why))
        )
        refused = commits.store(client, wanted, sorted(wanted.offsets))
        assert refused is not None and refused.outcome is CommitOutcome.GROUP_ALIVE
        assert refused.partitions == (one,)
        assert (
            client.read([GetData(LAY.offset("g", tp)) for tp in wanted.offsets]) == [Missing()] * 3
        ), "of a part that is refused nothing is stored"
        ((topic, why),) = told
        assert topic == "t" and layout.owner("g", one) in why and "zkcoord acl apply" in why
        others = [tp for tp in sorted(wanted.offsets) if tp != one]
        assert commits.store(client, wanted, others) is None
    for session in (gateway, other):
        disconnect(session)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_what_somebody_stores_who_comes_while_it_is_looked_for_him_stays(
    zk_hosts: str, layout: Layout
) -> None:
    """Reads are answered one after the other by a server before 3.6: he comes after the last one
    that would have shown him.
    """
    paths, one, wanted = ClassicPaths(LAY), TopicPartition("t", 1), commit(3, "")
    gateway, other = connect(zk_hosts), connect(zk_hosts)
    gateway.create(paths.state("g"), makepath=True)
    gateway.create(paths.presence("g", "m"), ephemeral=True, makepath=True)
    gateway.create(LAY.offset("g", one), b"0", makepath=True)
    other.ensure_path(layout.owner_topic("g", "t"))
    by = ByMember("m", 0, gateway.client_id[0])

    class InOrder(SyncClient):
        def read(self, reads: Sequence[Read]) -> list[ReadAnswer]:
            answers: list[ReadAnswer] = []
            for read in reads:
                answers += super().read([read])
                looked = read == GetChildren(layout.owner_topic("g", "t"))
                if looked and not other.exists(layout.owner("g", one)):
                    other.create(layout.owner("g", one), b"old-0", ephemeral=True)
                    other.set(LAY.offset("g", one), b"50")
            return answers

    with InOrder(ZkOptions(zk_hosts), 10_000) as client:
        commits = MemberlessCommits(LAY, "g", OPEN_ACL, by_member=by)
        refused = commits.store(client, wanted, sorted(wanted.offsets))
        assert refused is not None and refused.partitions == (one,)
    assert other.get(LAY.offset("g", one))[0] == b"50"
    for session in (gateway, other):
        disconnect(session)
