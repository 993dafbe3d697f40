"""Groups and offsets that a tool asks a gateway to delete and that cannot go: which code its client
is given, and what the log says, on a real server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from kazoo.security import make_digest_acl

from consumer.gateway.tooling import store as store_module
from consumer.gateway.tooling.store import GroupStore
from tests.admin.world import World, world
from zkcoord.cli.main import main
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.codec import Publication, encode_publication
from zkcoord.znodes.paths import Layout

TP = TopicPartition("orders", 0)
GROUP = "billing 1"
NOBODY = [make_digest_acl("somebody", "else", all=True)]


@pytest.fixture(params=[Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def here(zk_hosts: str, request: pytest.FixtureRequest) -> Iterator[World]:
    """A group with an offset."""
    with world(zk_hosts, request.param) as found:
        found.topic(TP.topic, 1)
        found.group(GROUP, topics=())
        found.offset(GROUP, TP.topic, TP.partition, 7)
        yield found


@pytest.fixture
def store(here: World) -> Iterator[GroupStore]:
    """Nobody in particular."""
    found = GroupStore(ZkOptions(here.hosts, session_timeout_ms=6_000), here.layout)
    yield found
    found.close()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """From warnings on."""
    caplog.set_level(logging.WARNING, store_module.__name__)
    return caplog


def sentences(said: pytest.LogCaptureFixture) -> list[str]:
    """Of the store, since they were read last."""
    found = [r.getMessage() for r in said.records if r.name == store_module.__name__]
    said.clear()
    return found


def test_batches_that_nobody_can_read_are_refused_with_the_command_that_deletes_them(
    here: World, store: GroupStore, said: pytest.LogCaptureFixture
) -> None:
    """It is run as it stands there, but for where ZooKeeper is, and then the group is gone."""
    here.put(here.layout.publication(GROUP, "junk"), b"junk")
    assert store.delete(GROUP) is WireCode.NON_EMPTY_GROUP
    (sentence,) = sentences(said)
    before, _, command = sentence.partition("to delete them with the group run ")
    why = f"{here.layout.publications(GROUP)} has nodes that cannot be read (junk)"
    assert before.startswith(f"group {GROUP!r} is not deleted, as a client asks: {why}")
    assert command == f"zkcoord groups delete --unreadable --layout {here.layout.name} 'billing 1'"
    words = [word.strip("'") for word in command.split(" ", 6)][1:]
    assert main([*words, "--zookeeper", here.hosts, "--execute"]) == 0
    assert store.delete(GROUP) is WireCode.GROUP_ID_NOT_FOUND and sentences(said) == []


def test_what_else_stands_against_it_is_in_the_log_too(
    here: World, store: GroupStore, said: pytest.LogCaptureFixture
) -> None:
    batch = here.layout.publication(GROUP, "8589934601-18")
    here.put(batch, encode_publication(Publication("file:/out", "staged/m", "0" * 64)))
    assert store.delete(GROUP) is WireCode.NON_EMPTY_GROUP
    (sentence,) = sentences(said)
    assert "make them visible first (python -m zkcoord.consumer.spark.sink)" in sentence
    here.client.delete(batch)
    other = Layout.DRAFT if here.layout is Layout.ISOLATED else Layout.ISOLATED
    here.put(other.registration(GROUP, "m"), b"{}", ephemeral=True)
    assert store.delete(GROUP) is WireCode.NON_EMPTY_GROUP
    (sentence,) = sentences(said)
    assert sentence.startswith(f"group {GROUP!r} is not deleted, as a client asks: ")


def test_a_right_that_the_gateway_has_not_is_named_and_its_client_is_not_authorized(
    here: World, store: GroupStore, said: pytest.LogCaptureFixture
) -> None:
    """The client would try again and again what is only said not to be available now."""
    for path in (here.layout.offset_topic(GROUP, TP.topic), here.layout.group(GROUP)):
        acl = make_digest_acl("somebody", "else", all=True)
        anybody = here.client.get_acls(path)[0][0]
        here.client.set_acls(path, [acl, anybody._replace(perms=1)])
    code, _ = store.delete_offsets(GROUP, [TP])
    assert code is WireCode.GROUP_AUTHORIZATION_FAILED
    (sentence,) = sentences(said)
    assert sentence.startswith(f"offsets of group {GROUP!r} are not deleted, as a client asks: ")
    assert "give credentials that may" in sentence
    assert store.delete(GROUP) is WireCode.GROUP_AUTHORIZATION_FAILED
    (sentence,) = sentences(said)
    assert "has not ZooKeeper's right to delete children of" in sentence


def test_what_cannot_be_looked_at_now_is_not_available(
    here: World, store: GroupStore, said: pytest.LogCaptureFixture
) -> None:
    here.client.set_acls(here.layout.group(GROUP), NOBODY)
    assert store.delete(GROUP) is WireCode.COORDINATOR_NOT_AVAILABLE
    assert store.delete_offsets(GROUP, [TP])[0] is WireCode.COORDINATOR_NOT_AVAILABLE
