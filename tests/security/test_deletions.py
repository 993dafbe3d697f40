"""Client-led groups are deleted for who may write them: members may ask for their clients, with
requests of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.harness.wait import wait_until
from tests.harness.zookeeper import disconnect
from tests.protocol.rig import GROUP, Rig
from tests.security.older import BOTH, acl_of
from tests.security.principals import client_as
from tests.security.test_tools_believe import closed, tool
from zkcoord.core.classic.requests import ClassicDelete
from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed
from zkcoord.znodes.classic.documents import (
    ClassicAsk,
    ClassicRound,
    decode_answer,
    encode_ask,
    encode_round,
    encode_state,
)
from zkcoord.znodes.classic.paths import ClassicPaths, request_name

PATIENCE_S = 60.0
pytestmark = BOTH
EMPTY = ClassicState(ClassicPhase.EMPTY, 7, "connect")


@pytest.fixture
def paths(rig: Rig) -> ClassicPaths:
    """Of a group that clients have led, as a coordinator makes it; one that leads."""
    closed(rig)
    found = ClassicPaths(rig.layout)
    said = dict.fromkeys(found.parts(GROUP), b"")
    said[found.state(GROUP)] = encode_state(EMPTY)
    said[found.round(GROUP)] = encode_round(ClassicRound())
    for path, data in said.items():
        rig.zk.create(path, data, acl=acl_of("r"))
    rig.coordinator()
    return found


@pytest.fixture
def app(rig: Rig) -> Iterator[KazooClient]:
    """A member."""
    found = client_as(rig.hosts, "app")
    yield found
    disconnect(found)


def answered(rig: Rig, zk: KazooClient, paths: ClassicPaths, group: str = GROUP) -> WireCode:
    """What a request for its deletion is answered."""
    path, ask = paths.request(request_name(group)), ClassicAsk(group, ClassicDelete())
    zk.create(path, encode_ask(ask)[0], acl_of("rd"), ephemeral=True)

    def answer() -> WireCode | None:
        node = rig.node(path)
        found = None if node is None else decode_answer(path, node[0])
        return None if found is None or isinstance(found, Malformed) else found.code

    code = wait_until(lambda: answer() is not None and answer(), PATIENCE_S, "an answer")
    assert isinstance(code, WireCode)
    return code


def test_a_member_has_none_deleted(rig: Rig, app: KazooClient, paths: ClassicPaths) -> None:
    """Whether a coordinator wrote there before, or not."""
    assert answered(rig, app, paths) is WireCode.GROUP_AUTHORIZATION_FAILED
    rig.zk.set(paths.proof(GROUP), b"")
    assert answered(rig, app, paths) is WireCode.GROUP_AUTHORIZATION_FAILED
    assert rig.node(paths.state(GROUP)) is not None


def test_an_operator_has(rig: Rig, paths: ClassicPaths, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = tool(rig, capsys, "groups", "delete", GROUP, "--execute")
    assert status == 0, (out, err)
    wait_until(lambda: rig.node(paths.group(GROUP)) is None, PATIENCE_S, "that it is gone")


def test_of_a_group_that_is_not_there_everybody_may_hear_that(
    rig: Rig, app: KazooClient, paths: ClassicPaths
) -> None:
    assert answered(rig, app, paths, "another") is WireCode.GROUP_ID_NOT_FOUND
