"""What groups have stored, looked at on a real ZooKeeper; hostile nodes among it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kazoo.security import make_digest_acl

from tests.admin.world import World, world
from tests.cli.test_groups_led import Led, member, state
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.health.stored_offsets import GroupStored, StoredOffsets
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.documents import ClassicRound
from zkcoord.znodes.paths import Layout

CLOSED = [make_digest_acl("u", "p", all=True)]
Look = Callable[..., dict[str, GroupStored]]


@pytest.fixture(params=["draft", "isolated"])
def here(request: pytest.FixtureRequest, zk_hosts: str) -> Iterator[World]:
    """Two groups, one topic of three partitions, in each layout."""
    layout = Layout.DRAFT if request.param == "draft" else Layout.ISOLATED
    with world(zk_hosts, layout) as found:
        found.topic("orders", 3)
        for group in ("billing", "audit"):
            found.group(group)
            found.client.ensure_path(layout.ids(group))
            for n in range(3):
                found.offset(group, "orders", n, 10 * n)
        yield found


@pytest.fixture
def look(here: World) -> Look:
    """A look by a session that has no credentials."""

    def once(*groups: str) -> dict[str, GroupStored]:
        with SyncClient(ZkOptions(here.hosts)) as reader:
            return StoredOffsets(reader, here.layout).look(groups)

    return once


def tp(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def offsets(stored: GroupStored) -> dict[int, int]:
    return {tp.partition: seen.offset for tp, seen in stored.offsets.items()}


def test_offsets_with_the_transaction_and_the_time_that_wrote_them(here: World, look: Look) -> None:
    before = boot_ms()
    here.client.set(here.layout.offset("billing", tp(1)), b"11")
    _, stat = here.client.get(here.layout.offset("billing", tp(1)))
    found = look("billing", "audit", "nobody")
    assert offsets(found["billing"]) == {0: 0, 1: 11, 2: 20}
    assert offsets(found["audit"]) == {0: 0, 1: 10, 2: 20}
    seen = found["billing"].offsets[tp(1)]
    assert seen.mark == stat.mzxid and seen.wrote_ms is not None
    # one machine, one clock, which is read in another order
    assert before - 50 <= seen.wrote_ms <= seen.seen_ms + 50
    assert found["billing"].state is GroupState.EMPTY and found["billing"].failures == []
    assert found["nobody"] == GroupStored()


def test_a_group_that_clients_lead_has_their_state(here: World, look: Look) -> None:
    led = Led(here)
    led.group("billing", state(member("c")))
    led.group("alone", state(member("c"), phase=ClassicPhase.COMPLETING))
    led.group("was-led", state(phase=ClassicPhase.EMPTY))
    led.group("begins", state(member("c")), ClassicRound(5))
    led.group("audit", state(member("c")))
    here.client.set(here.layout.group("audit"), b"[")
    here.client.set(led.paths.state("audit"), b"{")
    led.group("both", state(member("c")))
    here.group("both", GroupState.PREPARING_REBALANCE)
    here.client.create(here.layout.ids("both") + "/a", b"", ephemeral=True, makepath=True)
    found = look("billing", "alone", "was-led", "begins", "audit", "both")
    assert {name: one.state for name, one in found.items()} == {
        "billing": GroupState.STABLE,
        "alone": GroupState.COMPLETING_REBALANCE,
        "was-led": GroupState.EMPTY,
        "begins": GroupState.PREPARING_REBALANCE,
        "audit": None,
        "both": GroupState.PREPARING_REBALANCE,
    }
    assert all(one.exists and not one.failures for one in found.values())
    assert offsets(found["billing"]) == {0: 0, 1: 10, 2: 20}


def test_junk_is_named_and_the_others_are_whole(here: World, look: Look) -> None:
    for number, junk in enumerate((b"seven", b"-3", b"\xff\x00" * 50_000)):
        here.client.set(here.layout.offset("billing", tp(number)), junk)
    here.put(here.layout.offset_topic("audit", "orders") + "/not-a-number", b"1")
    here.put(here.layout.offset_topic("audit", "orders") + "/" + "9" * 200, b"1")
    here.put(here.layout.offsets("audit") + "/no topic!/0", b"1")
    here.client.set(here.layout.group("audit"), b"[" * 1_000)
    found = look("billing", "audit")
    assert sorted(found["billing"].unreadable) == [tp(0), tp(1), tp(2)]
    assert offsets(found["billing"]) == {}
    assert offsets(found["audit"]) == {0: 0, 1: 10, 2: 20} and found["audit"].state is None


def test_what_may_not_be_read_is_named_and_the_others_are_whole(here: World, look: Look) -> None:
    layout = here.layout
    here.client.set_acls(layout.offset("billing", tp(1)), CLOSED)
    here.client.set_acls(layout.offsets("audit"), CLOSED)
    for group in ("half", "other"):
        here.offset(group, "orders", 0, 7)
        here.offset(group, "users", 0, 8)
    here.topic("users", 1)
    here.client.set_acls(layout.offset_topic("half", "users"), CLOSED)
    found = look("billing", "audit", "half", "other")
    assert offsets(found["billing"]) == {0: 0, 2: 20}
    assert "may" in found["billing"].hidden[tp(1)] or "let" in found["billing"].hidden[tp(1)]
    assert found["audit"].offsets == {} and "offsets" in found["audit"].failures[0]
    assert list(found["half"].offsets) == [tp(0)] and "users" in found["half"].failures[0]
    assert len(found["other"].offsets) == 2 and found["other"].failures == []


def test_only_what_counts(here: World, look: Look) -> None:
    """Not partitions that a topic has not, nor offsets of a topic that is gone or made again."""
    layout = here.layout
    here.offset("billing", "orders", 7, 1)
    here.offset("billing", "gone", 0, 1)
    here.topic("again", 1)
    here.offset("billing", "again", 0, 5)
    here.client.set(layout.offset_topic("billing", "again"), b"12345")
    here.topic("same", 1)
    here.offset("billing", "same", 0, 5)
    _, stat = here.client.get(layout.topic("same"))
    here.client.set(layout.offset_topic("billing", "same"), str(stat.czxid).encode())
    found = look("billing")["billing"]
    assert sorted(found.offsets) == [*map(tp, range(3)), TopicPartition("same", 0)]


def test_an_offset_that_is_deleted_is_gone(here: World) -> None:
    with SyncClient(ZkOptions(here.hosts)) as reader:
        stored = StoredOffsets(reader, here.layout)
        assert len(stored.look(["billing"])["billing"].offsets) == 3
        here.client.delete(here.layout.offset("billing", tp(1)))
        assert sorted(stored.look(["billing"])["billing"].offsets) == [tp(0), tp(2)]


def test_too_many_nodes_are_not_listed_but_named(
    here: World, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zkcoord.health.stored_offsets.CHILDREN_LISTED_MAX", 3)
    here.put(here.layout.offset_topic("billing", "orders") + "/3", b"1")
    found = look("billing", "audit")
    assert found["billing"].offsets == {} and "4 nodes" in found["billing"].failures[0]
    assert len(found["audit"].offsets) == 3


def test_a_step_of_the_wall_clock_does_not_move_commits(here: World) -> None:
    walls = iter((1_000_000_000_000, 5))
    with SyncClient(ZkOptions(here.hosts)) as reader:
        stored = StoredOffsets(reader, here.layout, boot_ms, lambda: next(walls))
        first = stored.look(["billing"])["billing"].offsets[tp(0)]
        assert stored.look(["billing"])["billing"].offsets[tp(0)].wrote_ms == first.wrote_ms
    assert next(walls) == 5, "it is read once"
