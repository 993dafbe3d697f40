"""What becomes of a commit of a client that is a member where clients lead, and old consumers own
some of its partitions: which code its client is given of each, and what the log says, on a real
server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from consumer.gateway.client_led.commits import Codes, MembersCommit
from consumer.gateway.tooling import store as store_module
from consumer.gateway.tooling.store import GroupStore, Offsets
from tests.consumer.gateway.tooling.test_deletions import sentences
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import LAYOUTS, Layout

LAY = Layout.DRAFT
GROUP = "billing 1"
LAYS = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
NOBODY = [make_digest_acl("somebody", "else", all=True)]
DENIED = WireCode.TOPIC_AUTHORIZATION_FAILED
PARTITIONS = [TopicPartition(topic, n) for topic in ("orders", "payments") for n in range(120)]


class Members:
    """A gateway that serves one member of a group that clients lead."""

    def __init__(self, hosts: str) -> None:
        self.zk: KazooClient = connect(hosts)
        paths = ClassicPaths(LAY)
        self.zk.create(paths.state(GROUP), makepath=True)
        self.zk.create(paths.presence(GROUP, "m"), ephemeral=True, makepath=True)
        self.store = GroupStore(ZkOptions(hosts, session_timeout_ms=6_000), LAY)

    def close(self) -> None:
        """End both sessions."""
        self.store.close()
        disconnect(self.zk)

    def commit(self, partitions: Sequence[TopicPartition], version: int = 0) -> Codes | None:
        """The code of each; None where it is no member any more."""
        codes: Codes = {}
        commit = MembersCommit(
            GROUP, "m", version, self.zk.client_id[0], False, dict.fromkeys(partitions, (7, ""))
        )
        return None if any(self.store.commit_of_member(commit, codes)) else codes

    def stored(self) -> set[TopicPartition]:
        """Which have an offset."""
        found: Offsets = {}
        for _ in self.store.offsets(GROUP, None, found):
            pass
        return set(found)


@pytest.fixture
def members(zk_hosts: str) -> Iterator[Members]:
    """See there."""
    found = Members(zk_hosts)
    yield found
    found.close()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """From warnings on."""
    caplog.set_level(logging.WARNING, store_module.__name__)
    return caplog


@LAYS
def test_only_what_an_old_consumer_owns_is_refused_and_nobody_loses_its_place(
    members: Members, layout: Layout, said: pytest.LogCaptureFixture
) -> None:
    one = TopicPartition("orders", 3)
    members.zk.create(layout.owner(GROUP, one), b"old-0", ephemeral=True, makepath=True)
    codes = members.commit(PARTITIONS)
    assert codes == dict.fromkeys(PARTITIONS, WireCode.NONE) | {one: DENIED}
    assert members.stored() == set(PARTITIONS) - {one}
    (line,) = sentences(said)
    assert "offsets of topic 'orders' of group 'billing 1' are not stored: " in line
    assert "an old consumer owns partition 3 ('old-0'): stop it" in line
    assert members.commit([one]) == {one: DENIED}
    assert not sentences(said), "it is said once"
    members.zk.delete(layout.owner(GROUP, one))
    assert members.commit(PARTITIONS) == dict.fromkeys(PARTITIONS, WireCode.NONE)
    assert members.commit([one], version=1) is None, "who is no member any more hears that"


@LAYS
def test_a_topic_whose_owners_are_hidden_is_refused_alone_and_named_once(
    members: Members, layout: Layout, said: pytest.LogCaptureFixture
) -> None:
    """Who owns it cannot be told."""
    hidden = layout.owner_topic(GROUP, "orders")
    members.zk.ensure_path(layout.owners(GROUP))
    members.zk.create(hidden, acl=NOBODY)
    wanted = {tp: DENIED if tp.topic == "orders" else WireCode.NONE for tp in PARTITIONS}
    assert members.commit(PARTITIONS) == wanted
    assert members.stored() == {tp for tp in PARTITIONS if tp.topic == "payments"}
    (line,) = sentences(said)
    assert "topic 'orders' of group 'billing 1'" in line and hidden in line
    assert "who owns its partitions" in line and "zkcoord acl apply" in line
    assert members.commit(PARTITIONS) == wanted and not sentences(said), "it is said once"


def test_of_many_topics_only_some_are_named(
    members: Members, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics have no end."""
    monkeypatch.setattr(store_module, "TOPICS_TOLD_MAX", 2)
    store = GroupStore(ZkOptions("127.0.0.1:1"), LAY)
    for n in (1, 2, 3, 1):
        store._not_stored(GROUP, f"t{n}", "why")
    assert [line.count("t1") for line in sentences(said)] == [1, 0]


def test_another_one_who_owns_some_of_a_topic_later_is_named_too(
    members: Members, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code alone does not say whose partition it is."""
    (tp, *_), now = PARTITIONS, [0.0]
    monkeypatch.setattr(members.store._seldom, "_clock", lambda: now[0])
    path = LAY.owner(GROUP, tp)
    for owner in ("old-0", "another-7"):
        members.zk.create(path, owner.encode(), ephemeral=True, makepath=True)
        assert members.commit([tp]) == {tp: DENIED}
        (named,) = sentences(said)
        assert owner in named
        assert members.commit([tp]) == {tp: DENIED} and not sentences(said)
        members.zk.delete(path)
        assert members.commit([tp]) == {tp: WireCode.NONE}
        now[0] += store_module.TOLD_AGAIN_S
