"""Offsets that clients of a gateway store without being a member, where nodes have ACLs and the
gateway is nobody who may make a group's nodes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from consumer.gateway.tooling import store as store_module
from consumer.gateway.tooling.store import GroupStore, Offsets
from tests.harness.wait import wait_until
from tests.protocol.rig import Rig
from tests.security.older import OPEN, acl_of
from tests.security.principals import ROLES, digest
from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.classic.documents import encode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout

LAYOUTS = pytest.mark.parametrize(
    "layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda lay: lay.name
)
PATIENCE_S = 60.0
TP = TopicPartition("t", 0)


@pytest.fixture
def store(rig: Rig) -> Iterator[GroupStore]:
    """Of a gateway with a member's credentials."""
    zk = ZkOptions(rig.hosts, session_timeout_ms=6_000, digest=digest("app"), roles=ROLES)
    found = GroupStore(zk, rig.layout)
    yield found
    found.close()


def stores(store: GroupStore, group: str, offset: int = 7) -> WireCode:
    """What becomes of an offset of a group, with a text beside it."""
    codes: dict[TopicPartition, WireCode] = {}
    for _ in store.commit(group, {TP: (offset, "why")}, codes):
        pass
    return codes[TP]


def stored(store: GroupStore, group: str) -> Offsets:
    """All of a group."""
    found: Offsets = {}
    for _ in store.offsets(group, None, found):
        pass
    return found


@LAYOUTS
def test_the_first_offset_of_a_new_group_asks_for_its_nodes(rig: Rig, store: GroupStore) -> None:
    c = rig.coordinator()
    assert stores(store, "fresh") is WireCode.NONE
    assert stored(store, "fresh") == {TP: (7, "why")}
    assert c.records("group made") and rig.names(rig.layout.asks) == []
    assert all(rig.node(path) for path in rig.layout.parts("fresh"))
    assert stores(store, "fresh", 8) is WireCode.NONE and stored(store, "fresh")[TP][0] == 8


@LAYOUTS
def test_where_nobody_makes_them_it_is_said_once_and_the_client_comes_again(
    rig: Rig, store: GroupStore, caplog: pytest.LogCaptureFixture
) -> None:
    rig.coordinator("first").stop()
    with caplog.at_level(logging.WARNING, store_module.__name__):
        assert stores(store, "fresh") is WireCode.COORDINATOR_NOT_AVAILABLE
    (said,) = [r.getMessage() for r in caplog.records if r.name == store_module.__name__]
    assert "offsets of group 'fresh' are not stored: " in said
    assert "no coordinator has made them yet: see that one runs" in said
    rig.coordinator("second")
    assert stores(store, "fresh") is WireCode.NONE


@LAYOUTS
def test_while_nodes_are_asked_for_others_go_on(
    rig: Rig, store: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks, however slowly: only another new group has to come again."""
    rig.coordinator()
    assert stores(store, "there") is WireCode.NONE
    asked, go_on = threading.Event(), threading.Event()
    really = store_module.have_made

    def slowly(zk: ZkOptions, layout: Layout, group: str) -> str:
        asked.set()
        assert go_on.wait(PATIENCE_S)
        return really(zk, layout, group)

    monkeypatch.setattr(store_module, "have_made", slowly)
    codes: list[WireCode] = []
    first = threading.Thread(target=lambda: codes.append(stores(store, "fresh")))
    first.start()
    try:
        assert asked.wait(PATIENCE_S)
        assert stored(store, "there") == {TP: (7, "why")}
        assert stores(store, "there", 8) is WireCode.NONE
        assert stores(store, "fresh too") is WireCode.COORDINATOR_NOT_AVAILABLE
    finally:
        go_on.set()
        first.join(PATIENCE_S)
    assert codes == [WireCode.NONE]
    wait_until(lambda: stores(store, "fresh too") is WireCode.NONE, PATIENCE_S, "its turn")


@LAYOUTS
def test_what_may_be_forged_does_not_say_that_nobody_leads_a_group(
    rig: Rig, store: GroupStore
) -> None:
    """An empty group's state, say, in the place of one whose clients would lose what is written."""
    rig.coordinator()
    assert stores(store, "led") is WireCode.NONE
    paths = ClassicPaths(rig.layout)
    empty = encode_state(ClassicState(ClassicPhase.EMPTY, 7, "connect"))
    for path in (paths.group("led"), paths.state("led")):
        rig.zk.create(path, empty if path == paths.state("led") else b"", acl=acl_of("r"))
    assert stores(store, "led", 8) is WireCode.NONE
    for path in (paths.group("led"), paths.state("led")):
        was = rig.zk.get_acls(path)[0]
        rig.zk.set_acls(path, OPEN)
        assert stores(store, "led", 9) is WireCode.COORDINATOR_NOT_AVAILABLE, path
        assert "led" not in store.led(["led"])
        rig.zk.set_acls(path, was)
    assert stored(store, "led")[TP][0] == 8
    assert set(store.led(["led"])) == {"led"}
