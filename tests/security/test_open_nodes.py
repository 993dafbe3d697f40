"""A member that has credentials and was told nothing of ACLs, where nodes are not everybody's."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kazoo.security import make_acl

from consumer.core import messages as msg
from consumer.member.joining import open_nodes
from consumer.member.thread import MemberThread, zk_options
from consumer.options import check
from tests.harness.command import PATIENCE_S
from tests.harness.wait import wait_until
from tests.harness.zookeeper import disconnect
from tests.security.principals import PASSWORDS, client_as, flags, hashed
from zkcoord.core.model import Subscription
from zkcoord.znodes.paths import Layout

LAY = Layout.DRAFT
WORDS = "set zookeeper_acl_coordinators and zookeeper_acl_members"


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if WORDS in one.getMessage()]


def registers(zk_hosts: str, group: str, asked: list[bool], **given: Any) -> None:
    """A member, from its start until it has registered and what it asked then is answered."""
    options = check({"group_id": group, "zookeeper_connect": zk_hosts, "guardian": False, **given})
    thread = MemberThread(options, zk_options(options), lambda message: None, lambda error: None)
    thread.start()
    try:
        thread.send(msg.Subscribe(Subscription({"t": 1})))
        wait_until(lambda: thread.driver.registered, PATIENCE_S, "the registration")
        if asked:
            place = thread._open_nodes._place
            wait_until(lambda: place in open_nodes._looked_at, PATIENCE_S, "the look")
        assert thread.read([], PATIENCE_S) is not None, "what was asked before is answered"
    finally:
        thread.close(msg.Close({}, 0), 10)


@pytest.fixture
def hosts(zk_hosts: str) -> str:
    """Where nobody but these users may make groups."""
    client = client_as(zk_hosts, "coord")
    everything = [make_acl("digest", hashed(user), all=True) for user in ("coord", "app")]
    client.create(LAY.epoch, b"", acl=everything, makepath=True)
    disconnect(client)
    return zk_hosts


CREDENTIALS = {"zookeeper_auth": ("app", PASSWORDS["app"])}


def test_it_is_said_once(hosts: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        registers(hosts, "g", [True], **CREDENTIALS)
        registers(hosts, "h", [True], **CREDENTIALS)
    (sentence,) = said(caplog)
    assert f"while {LAY.epoch} is not" in sentence and "docs/security.md" in sentence
    assert PASSWORDS["app"] not in sentence


@pytest.mark.parametrize("given", ["open", "roles"])
def test_who_was_told_of_acls_asks_nothing(
    hosts: str, caplog: pytest.LogCaptureFixture, given: str
) -> None:
    _, coordinators, _, members, _, _ = flags()
    roles = {"zookeeper_acl_coordinators": coordinators, "zookeeper_acl_members": members}
    options = roles if given == "roles" else {"zookeeper_acl": "open"}
    checked = check({"group_id": "g", "zookeeper_connect": hosts, **CREDENTIALS, **options})
    zk = zk_options(checked)
    wanted = open_nodes.OpenNodes(zk, LAY, was_said=checked.config["zookeeper_acl"] is not None)
    assert not wanted._is_open


def test_in_an_open_installation_nothing_is_said(
    zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        registers(zk_hosts, "g", [True], **CREDENTIALS)
        registers(zk_hosts, "h", [])
    assert not said(caplog)
