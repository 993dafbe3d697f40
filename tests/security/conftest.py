"""Coordinators, members and an operator with credentials, and a member of another application."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.harness.zookeeper import disconnect
from tests.protocol.rig import Rig, rigged
from tests.security.principals import PASSWORDS, ROLES, client_as, digest
from zkcoord.znodes.paths import Layout


@pytest.fixture
def rig(zk_hosts: str, layout: Layout) -> Iterator[Rig]:
    """Everybody has credentials; the rig's own client is an operator's."""
    with rigged(zk_hosts, layout) as rig:
        rig.zk.add_auth("digest", f"coord:{PASSWORDS['coord']}")
        rig.credentials = {
            "Coordinator": {"digest": digest("coord"), "roles": ROLES},
            "Member": {"digest": digest("app"), "roles": ROLES},
        }
        yield rig


@pytest.fixture
def app(rig: Rig) -> Iterator[KazooClient]:
    """A member of another application."""
    client = client_as(rig.hosts, "app")
    yield client
    disconnect(client)
