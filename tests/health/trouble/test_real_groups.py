"""Trouble made on real groups, by real members: each is named, with its member or partition, and
nothing else is.
"""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.admin.world import World, world
from tests.console.running import running
from tests.harness.kafka import produce
from tests.harness.wait import wait_until
from tests.health.trouble.stage import Stage, records, stage
from tests.kafka.groups import PATIENCE_S
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
NIGHTLY = pytest.mark.nightly


class Slow:
    """A listener that takes its time to give partitions up."""

    def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            time.sleep(1.5)  # what is shown is how long it takes

    def on_partitions_assigned(self, assigned: Any) -> None:
        pass

    def on_partitions_lost(self, lost: Any) -> None:
        pass


@pytest.fixture
def here(kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path) -> Any:
    with stage(tmp_path, kafka_broker, kafka_zk_hosts) as found:
        yield found


def owned(here: Stage, group: str) -> dict[str, dict[str, str]]:
    """By member, as the journal has it of the last rebalance."""
    of = [r for r in here.coordinator.records("rebalance") if r["group"] == group]
    return of[-1]["owned"]  # type: ignore[return-value]


def stored(nodes: World, group: str, partitions: int) -> list[bytes | None]:
    """What is stored of each."""
    paths = [nodes.layout.offset(group, TopicPartition(group, n)) for n in range(partitions)]
    return [nodes.client.get(path)[0] if nodes.client.exists(path) else None for path in paths]


def kinds(here: Stage, group: str) -> set[str]:
    return {one["kind"] for one in here.judged(group)[group]}


def test_a_member_that_is_killed_and_begun_again(here: Stage, tmp_path: Path) -> None:
    """It is named everywhere: by the command, the console, the metrics and the journal."""
    group = here.topic("flaps", 4)
    steady, _ = here.polling(group, client_id="steady")
    here.owned(steady, partitions=4)
    member = here.member(group, client_id="flapper")
    for _ in range(3):
        here.owned(steady, partitions=2)
        member.kill()
        here.owned(steady, partitions=4)
        assert here.judged(group)[group] == []
        member.begin()
    here.owned(steady, partitions=2)
    member.kill()
    here.owned(steady, partitions=4)
    found = here.finds(group, "flapping-member")
    assert "flapper at " in found["evidence"] and "4 times" in found["evidence"], found
    assert found["link"] == "docs/operations.md#trouble-flapping-member"
    assert kinds(here, group) == {"flapping-member"}
    here.coordinator.metric_becomes('zkcoord_group_troubles{kind="flapping-member"}', 1)
    (told,) = here.coordinator.records("trouble")
    assert (told["group"], told["event"], told["member"]) == (group, "begins", found["member"])
    journal = ("--journal-dir", str(here.coordinator.journal))
    with running(tmp_path / "console", "--zookeeper", here.hosts, *journal) as console:
        page = console.shows(f"/group?name={group}", "What to do", found["member"])
        assert found["remedy"][:40] in page and "#trouble-flapping-member" in page
        console.shows("/?trouble=flapping-member", group, "1 trouble")


def test_a_handler_that_takes_longer_than_the_poll_interval(here: Stage) -> None:
    group = here.topic("unpolled", 2)
    naps = threading.Semaphore(0)

    def nap() -> None:
        if naps.acquire(blocking=False):
            time.sleep(2.0)  # longer than its poll interval, which is the trouble

    one, _ = here.polling(group, each=nap, client_id="sleeper", max_poll_interval_ms=1_000)
    for count in range(3):
        here.owned(one, partitions=2)
        assert here.judged(group)[group] == []
        naps.release()
        here_again(here, group, "poll-interval", count + 1)
    here.owned(one, partitions=2)
    found = here.finds(group, "poll-interval")
    assert "sleeper" in found["evidence"] and "3 times" in found["evidence"], found
    assert found["member"] == ends(here, group, "poll-interval")[-1]
    assert kinds(here, group) == {"poll-interval"}


def here_again(here: Stage, group: str, kind: str, count: int) -> None:
    """Wait until it has said so often that its membership ended so."""
    wait_until(lambda: len(ends(here, group, kind)) >= count, PATIENCE_S, f"{kind}, {count} times")


def ends(here: Stage, group: str, kind: str) -> list[str]:
    """The members that said that the membership before had ended so."""
    return [
        one["member"]
        for record in here.coordinator.records("members")
        if record["group"] == group
        for one in record["joined"]  # type: ignore[attr-defined]
        if one.get("ended", "").startswith(kind)
    ]


@NIGHTLY
def test_a_process_that_is_stopped_for_longer_than_its_session(here: Stage) -> None:
    group = here.topic("paused", 2)
    steady, _ = here.polling(group, client_id="steady")
    member = here.member(group, client_id="paused", zookeeper_session_timeout_ms=4_000)
    for count in range(3):
        here.owned(steady, partitions=1)
        assert here.judged(group)[group] == []
        member.process.send_signal(signal.SIGSTOP)
        here.owned(steady, partitions=2)
        member.process.send_signal(signal.SIGCONT)
        here_again(here, group, "session", count + 1)
    found = here.finds(group, "session-expiry")
    assert "paused at" in found["evidence"] and "stood still" in found["evidence"], found
    assert found["member"] == ends(here, group, "session")[-1]
    assert kinds(here, group) == {"session-expiry"}


def test_a_callback_that_holds_up_every_change(here: Stage) -> None:
    group = here.topic("slow", 4)
    one, _ = here.polling(group, listener=Slow(), client_id="slow")
    here.owned(one, partitions=4)
    for _ in range(3):
        assert here.judged(group)[group] == []
        other, close = here.polling(group, client_id="other")
        here.owned(other, partitions=2)
        close()
        here.owned(one, partitions=4)
    found = here.finds(group, "slow-handler")
    assert "3 rebalances" in found["evidence"], found
    (slow,) = {
        step["member"]
        for record in here.coordinator.records("rebalance")
        for step in record["steps"]  # type: ignore[attr-defined]
        if step["option"] == "stop-fetcher"
    }
    assert found["member"] == slow
    assert kinds(here, group) == {"slow-handler"}


def test_a_registration_that_nobody_can_read(here: Stage) -> None:
    group = here.topic("malformed", 1)
    one, _ = here.polling(group)
    here.owned(one, partitions=1)
    assert here.judged(group)[group] == []
    with world(here.hosts) as nodes:
        nodes.client.create(nodes.layout.registration(group, "broken"), b"{}", ephemeral=True)
        found = here.finds(group, "malformed-registration")
        assert found["member"] == "broken" and kinds(here, group) == {"malformed-registration"}
    assert here.judged(group)[group] == []


@NIGHTLY
def test_groups_that_are_badly_shared_out(here: Stage) -> None:
    """They are left to come to rest first, so this takes half a minute, for all of them at once."""
    topics = [here.topic("uneven", 1) for _ in range(4)]
    uneven, idle = topics[0], here.topic("idle", 1)
    shares = {"partition_assignment_strategy": ("range",)}
    three = [here.polling(uneven, *topics, client_id=f"c{n}", **shares)[0] for n in range(3)]
    two = [here.polling(idle, client_id=f"c{n}")[0] for n in range(2)]
    here.owned(*three, partitions=4)
    here.owned(*two, partitions=1)
    assert all(not found for found in here.judged(uneven, idle).values())
    found = here.finds(uneven, "uneven-assignment")
    assert "range" in found["evidence"] and " has 4 partitions" in found["evidence"]
    assert list(owned(here, uneven)) == [found["member"]]
    assert kinds(here, uneven) == {"uneven-assignment"}
    found = here.finds(idle, "idle-members")
    assert "1 member of 2 has no partition" in found["evidence"], found
    (busy,) = owned(here, idle)
    assert found["member"].startswith(f"{idle}_") and found["member"] != busy
    assert kinds(here, idle) == {"idle-members"}


@NIGHTLY
def test_an_owner_that_lives_and_commits_nothing(here: Stage) -> None:
    group = here.topic("stands", 2)
    hangs = threading.Event()
    one, _ = here.polling(group, each=lambda: hangs.is_set() and hangs_on.wait(), client_id="hangs")
    two, _ = here.polling(group, client_id="goes-on")
    hangs_on = threading.Event()
    here.stack.callback(hangs_on.set)
    here.owned(one, partitions=1)
    here.owned(two, partitions=1)
    with records(here, group, 2):
        assert here.judged(group, looks=15)[group] == []
        (tp,) = one.assignment()
        hangs.set()
        found = here.finds(group, "commit-stands-still", looks=40)
    hangs_on.set()
    assert found["partition"] == [tp.topic, tp.partition]
    assert owned(here, group)[found["member"]] == {group: str(tp.partition)}, found


def test_a_record_of_which_members_die(here: Stage) -> None:
    """It comes to a group that was well, into one of its partitions."""
    group = here.topic("poison", 4, records=3)
    members = [here.member(group, dies_at=(1, 5), client_id=f"c{n}") for n in range(2)]
    with world(here.hosts) as nodes:
        wait_until(lambda: stored(nodes, group, 4) == [b"3"] * 4, PATIENCE_S, "all to be consumed")
    assert here.judged(group, looks=3)[group] == []
    produce(here.broker.address, group, {1: [b"x"] * 5})
    over = threading.Event()

    def supervise() -> None:
        while not over.wait(0.1):
            for member in members:
                if member.died():
                    member.begin()

    thread = here.beside(supervise)
    try:
        found = here.finds(group, "poison-record", looks=20)
    finally:
        over.set()
        thread.join(PATIENCE_S)
    assert found["partition"] == [group, 1] and "stand at 3 " in found["evidence"], found
    assert {one["kind"] for one in here.judged(group)[group]} <= {
        "poison-record",
        "flapping-member",
    }


@NIGHTLY
def test_partitions_that_nobody_moves(here: Stage) -> None:
    """A member dies while no coordinator leads: what it had has no member."""
    group = here.topic("unowned", 2)
    one, _ = here.polling(group)
    member = here.member(group)
    wait_until(lambda: len(one.assignment()) == 1, PATIENCE_S, "that both have one")
    (kept,) = one.assignment()
    here.coordinator.signal(signal.SIGKILL)
    assert kinds(here, group) <= {"unowned-partitions"}
    member.kill()
    found = here.finds(group, "unowned-partitions")
    assert found["partition"] == [group, 1 - kept.partition], found
    assert kinds(here, group) == {"unowned-partitions"}
    assert "Start a coordinator" in found["remedy"]


@NIGHTLY
def test_many_that_come_and_go(here: Stage) -> None:
    group = here.topic("storm", 8)
    steady, _ = here.polling(group, client_id="steady")
    here.owned(steady, partitions=8)
    for _ in range(4):
        others = [here.polling(group, client_id=f"restless-{n}") for n in range(4)]
        for one, _ in others:
            wait_until(one.assignment, PATIENCE_S, "its partitions")
        assert here.judged(group)[group] == []
        for _, close in others:
            close()
    found = here.finds(group, "rebalance-storm")
    assert all(f"restless-{n} at" in found["evidence"] for n in range(4)), found
    assert "steady" not in found["evidence"]
    assert kinds(here, group) == {"rebalance-storm"}
