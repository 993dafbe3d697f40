"""The contract of the port against a real server, once at the root of its tree and once below a
chroot.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.zookeeper import since_3_6
from tests.zk.port_contract import CONTRACT, SINCE_3_6, PortFixture
from tests.zk.real import RealFixture

KEPT_SINCE_3_6 = since_3_6(
    "watches that fire once cannot keep this part of the contract"
    " (tests/zk/kazoo_port/test_old_servers.py has what they keep)"
)


@pytest.mark.parametrize(
    "contract",
    [
        pytest.param(rule, id=rule.__name__, marks=KEPT_SINCE_3_6 if rule in SINCE_3_6 else ())
        for rule in CONTRACT
    ],
)
def test_contract(contract: Callable[[PortFixture], None], zk_hosts: str) -> None:
    with RealFixture(zk_hosts) as fixture:
        contract(fixture)
