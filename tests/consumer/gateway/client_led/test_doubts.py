"""What others than coordinators can have written of a client-led group tells a gateway nothing, and
not that the group has no members either.
"""

from __future__ import annotations

import pytest

from consumer.gateway.client_led.waiting import SEEN_MS
from tests.consumer.gateway.client_led.led_side import LedGateway
from tests.consumer.gateway.client_led.test_members import MOMENT_MS, Scene
from tests.sim.rights import OPEN, ROLES
from tests.zk.classic.served_side import GROUP, PATHS
from zkcoord.core.error_codes import WireCode
from zkcoord.zk.port import AclEntry, Create, Delete
from zkcoord.znodes.paths import Layout


class Guarded(Scene):
    """Two clients of a group at a gateway with roles."""

    def __init__(self) -> None:
        super().__init__(2)
        self.form(1, 2)
        self.close()
        for gateway in self.gateways:
            gateway.led.watching.believe(ROLES)

    def close(self) -> None:
        """Each node has the ACL of its place."""
        for path in tuple(self.served.zk.tree.nodes):
            self.may(path, ROLES.acl(path))

    def may(self, path: str, acl: tuple[AclEntry, ...]) -> None:
        """Say who may do what with a node. Nobody hears of that."""
        for server in self.served.zk.servers:
            for tree in {id(t): t for t in (server.tree, self.served.zk.tree)}.values():
                tree.nodes[path] = tree.nodes[path]._replace(acl=acl)

    def another(self) -> LedGateway:
        """A gateway that has not looked at the group yet."""
        found = LedGateway(self.served, "another")
        found.led.watching.believe(ROLES)
        self.gateways.append(found)
        return found

    def late(self, gateway: LedGateway) -> WireCode | None:
        """What a heartbeat of the first client is answered, by and by."""
        code = self.beats(1, gateway)
        if code is None:
            self.wait(SEEN_MS + MOMENT_MS)
            code = self.code(gateway.tickets, gateway)
        return code


@pytest.fixture
def scene() -> Guarded:
    return Guarded()


def test_what_only_coordinators_can_have_written_is_believed(scene: Guarded) -> None:
    assert scene.beats(1) is WireCode.NONE
    assert scene.beats(1, scene.another()) is WireCode.NONE


@pytest.mark.parametrize(
    "place", [PATHS.groups, PATHS.root, PATHS.group(GROUP), PATHS.state(GROUP), PATHS.round(GROUP)]
)
def test_what_others_can_have_written_is_not_until_it_is_mended(scene: Guarded, place: str) -> None:
    gateway = scene.another()
    scene.may(place, (OPEN,))
    ticket = scene.joins(2, gateway)
    assert scene.late(gateway) is WireCode.COORDINATOR_NOT_AVAILABLE
    assert scene.code(ticket, gateway) is WireCode.COORDINATOR_NOT_AVAILABLE
    seen = [object()]
    gateway.led.watching.look(GROUP, lambda one: seen.__setitem__(0, one))
    gateway.settle()
    assert seen == [None], "it is not known, which is not that nobody is in it"
    scene.close()
    assert scene.late(gateway) is WireCode.NONE


def test_where_all_is_open_all_is_believed(scene: Guarded) -> None:
    gateway = scene.another()
    for path in (Layout.DRAFT.epoch, PATHS.groups, PATHS.group(GROUP), PATHS.state(GROUP)):
        scene.may(path, (OPEN,))
    assert scene.beats(1, gateway) is WireCode.NONE


def test_a_state_that_is_made_anew_is_judged_anew(scene: Guarded) -> None:
    """Whoever may make nodes there puts another one in its place."""
    assert scene.beats(1) is WireCode.NONE
    path = PATHS.state(GROUP)
    data = scene.served.data(path)
    assert data is not None
    scene.served.write([Delete(path), Create(path, data)])
    scene.wait(MOMENT_MS)
    assert scene.late(scene.one) is WireCode.COORDINATOR_NOT_AVAILABLE


def test_members_of_a_gateway_stay_where_what_was_doubted_is_mended(scene: Guarded) -> None:
    """Nothing tells of that; it is asked again for whoever wants to know."""
    assert scene.beats(1) is WireCode.NONE and scene.beats(2) is WireCode.NONE
    scene.may(PATHS.groups, (OPEN,))
    port = scene.one.led.watching._port
    assert port is not None
    scene.one.led.watching.connected(port, False)
    scene.wait(MOMENT_MS)
    scene.close()
    for _ in range(25):
        scene.wait(1_000)
        codes = scene.beats(1), scene.beats(2)
    assert codes == (WireCode.NONE, WireCode.NONE)
