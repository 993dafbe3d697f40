"""A root of asks that nobody serves costs one group its wait, is named once, and the next groups of
the process do not wait: on a real server.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from consumer.core import messages as msg
from consumer.member.joining import unserved_asks as module
from consumer.member.joining.group_nodes import ASK_WAIT_MS
from consumer.member.joining.unserved_asks import UNSERVED_MS, UnservedAsks, unserved_asks
from consumer.member.joining.without_member import have_made
from consumer.member.thread import MemberThread, zk_options
from consumer.options import check
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import Subscription
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

LAY = Layout.DRAFT
WAIT_S = ASK_WAIT_MS / 1000
PATIENCE_S = 30.0


@pytest.fixture
def zk(zk_hosts: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[KazooClient]:
    """A client where the root of asks was left behind."""
    monkeypatch.setattr(module, "_KNOWN", {})
    client = connect(zk_hosts)
    client.ensure_path(LAY.asks)
    yield client
    disconnect(client)


def took(hosts: str, group: str) -> float:
    """Seconds until the group's nodes are there."""
    began = time.monotonic()
    assert have_made(ZkOptions(hosts), LAY, group) == ""
    return time.monotonic() - began


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if LAY.asks in r.getMessage()]


def test_the_first_group_waits_and_the_next_do_not(
    zk: KazooClient, zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert took(zk_hosts, "first") >= WAIT_S
        (said,) = named(caplog)
        assert said.startswith("group first: no coordinator made its nodes") and "delete" in said
        assert took(zk_hosts, "second") < WAIT_S / 2
        unserved_asks(ZkOptions(zk_hosts), LAY).forget()
        assert took(zk_hosts, "third") >= WAIT_S
    assert len(named(caplog)) == 1
    assert all(zk.exists(LAY.ids(group)) for group in ("first", "second", "third"))


def test_who_may_not_make_them_asks_after_all(zk: KazooClient, zk_hosts: str) -> None:
    """What was known does not count where it takes somebody who serves."""
    options = ZkOptions(zk_hosts)
    known = unserved_asks(options, LAY)
    known.found(boot_ms(), LAY.asks, "other", 1)
    zk.set_acls(LAY.groups_root, [make_acl("world", "anyone", read=True)])
    asked: list[str] = []
    zk.ChildrenWatch(LAY.asks, lambda names: asked.extend(names))
    assert "no coordinator has made them yet" in have_made(options, LAY, "g")
    wait_until(lambda: "g" in asked, PATIENCE_S, "the ask")
    assert not known.known(boot_ms())


def test_members_that_join_new_groups(
    zk: KazooClient, zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each on a thread of its own."""
    registered: list[str] = []
    with ExitStack() as stack, caplog.at_level(logging.WARNING):
        for group in ("first", "second"):
            options = check({"group_id": group, "zookeeper_connect": zk_hosts, "guardian": False})
            thread = MemberThread(
                options, zk_options(options), lambda message: None, lambda error: None
            )
            thread.start()
            stack.callback(lambda thread=thread: thread.close(msg.Close({}, 0), 10))  # type: ignore[misc]  # the loop's value
            began = time.monotonic()
            thread.send(msg.Subscribe(Subscription({"t": 1})))
            ids = LAY.ids(group)
            wait_until(
                lambda ids=ids: zk.exists(ids) and zk.get_children(ids),  # type: ignore[misc]  # the loop's value
                PATIENCE_S,
                "the registration",
            )
            registered.append(group)
            assert (time.monotonic() - began >= WAIT_S) == (group == "first")
    assert registered == ["first", "second"] and len(named(caplog)) == 1


def test_it_is_known_for_a_while() -> None:
    known = UnservedAsks()
    assert not known.known(0)
    known.found(1_000, LAY.asks, "g", ASK_WAIT_MS)
    assert known.known(1_000 + UNSERVED_MS - 1) and not known.known(1_000 + UNSERVED_MS)
    known.forget()
    assert not known.known(1_000)
