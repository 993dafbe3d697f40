"""Nodes that nobody of ours makes, on a real server: too many, too long, with names that are no
names. The group goes on, and no write becomes larger than it may be.
"""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Rig, tps
from tests.protocol.test_left_alone import fill
from zkcoord.core.model import Command, Option
from zkcoord.zk.port import OPS_PER_MULTI_MAX, READS_PER_REQUEST_MAX
from zkcoord.znodes import codec

T0, T1 = tps("t", 0, 1)
GHOST = "g_ghost-1-00000000"
LONG = "x" * 60_000
NAMES = (
    LONG,
    "x" * 641,
    "x" * 250,
    "a b",
    "é",
    "٣",
    "-",
    "-0",
    "00",
    "..x",
    "zookeeper2",
    "a,b",
    'a"b',
    "a\\b",
    "%2F",
)


@pytest.mark.parametrize("data", ["junk", "stale"])
def test_a_member_with_more_commands_than_a_multi_holds_is_evicted(rig: Rig, data: str) -> None:
    """Somebody filled its channel: the eviction is as small as it must be, and what is left of the
    channel is cleaned bit by bit or left alone.
    """
    rig.topic("t", 2)
    rig.ghost(GHOST, {"t": 1}, rebalance_timeout_ms=300)
    stale = Command(GHOST, 1, Option.STOP, 1, 1, 1, {}, (T0,))
    fill(
        rig.client(),
        rig.layout.channel(GROUP, GHOST),
        OPS_PER_MULTI_MAX + 100,
        b"junk" if data == "junk" else codec.encode_command(stale),
    )
    c = rig.coordinator(lease_max_ms=400, lease_margin_ms=100)
    c.wait(lambda: c.records("evicted"), "the eviction")
    m = rig.member("m", "t").fetches(T0, T1)
    assert m.commit({T0: 1}).outcome is msg.CommitOutcome.OK and len(c.terms("elected")) == 1


def test_commands_with_endless_names_are_named_and_left_alone(rig: Rig) -> None:
    """Each name is as long as ZooKeeper takes it, so that to read or delete them together would be
    too large a request: they are malformed by their names, and the member is served.
    """
    rig.topic("t", 2)
    rig.ghost(GHOST, {"t": 1})
    stale = codec.encode_command(Command(GHOST, 1, Option.STOP, 1, 1, 1, {}, (T0,)))
    channel = rig.layout.channel(GROUP, GHOST)
    for number in range(20):
        rig.zk.create(f"{channel}/1-1-{LONG}{number:02d}", stale)
    c = rig.coordinator()
    c.wait(lambda: len(c.records("malformed")) == 20, "their names")
    c.wait(
        lambda: len([name for name in rig.names(channel) if len(name) < 1_000]) == 1,
        "the member's command",
    )
    rig.member("m", "u", group="other").joined()


def test_names_that_are_no_names(rig: Rig) -> None:
    """As registrations, channels, groups, topics, owners: each is malformed or ignored, and what is
    good beside it is served.
    """
    rig.topic("t", 2)
    hand, lay = rig.client(), rig.layout
    m = rig.member("m", "t").joined()
    for name in NAMES:
        for parent in (
            lay.ids(GROUP),
            lay.channels(GROUP),
            lay.channel(GROUP, m.member),
            lay.groups_root,
            lay.topics_root,
            lay.owners(GROUP),
            lay.owner_topic(GROUP, "t"),
            lay.offsets(GROUP),
        ):
            rig.zk.ensure_path(parent)
            hand.create(f"{parent}/{name}", b"junk", ephemeral=True)
    c = rig.coordinator(channel_orphan_ms=1_000)
    m.fetches(T0, T1)
    rig.member("o", "t", group="other").fetches(T0, T1)
    for name in NAMES:
        hand.create(f"{lay.ids(GROUP)}/{name}2", b"junk", ephemeral=True)
        hand.delete(f"{lay.ids(GROUP)}/{name}")
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1, "its partition")
    assert len(c.terms("elected")) == 1 and all(len(str(r)) < 1_000 for r in c.journal), (
        "a record quotes no endless name"
    )


def test_paths_that_together_are_larger_than_any_request(rig: Rig) -> None:
    """Names as long as they may be, a thousand of them: what is asked for at once is bounded by
    bytes, not only by number.
    """
    group, member = "g" * 249, "m" * 640
    channel = rig.layout.channel(group, member)
    rig.zk.ensure_path(channel)
    fill(rig.client(), channel, READS_PER_REQUEST_MAX, suffix="-" + "n" * 240)
    c = rig.coordinator()
    c.wait(
        lambda: c.ask(lambda: c.driver.status()["malformed"]) == READS_PER_REQUEST_MAX,
        "all of them",
    )
    rig.topic("t", 2)
    rig.member("m", "t").fetches(T0, T1)
