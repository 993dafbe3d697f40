"""The contract of the port against a real server, once at the root of its tree and once below a chroot."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.zk.port_contract import CONTRACT, PortFixture
from tests.zk.real import RealFixture


@pytest.mark.parametrize("contract", CONTRACT, ids=lambda f: f.__name__)
def test_contract(contract: Callable[[PortFixture], None], zk_hosts: str) -> None:
    with RealFixture(zk_hosts) as fixture:
        contract(fixture)
