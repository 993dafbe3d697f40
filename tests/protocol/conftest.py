"""Fixtures of the protocol's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.protocol.rig import Rig, rigged
from zkcoord.znodes.paths import Layout


@pytest.fixture
def rig(zk_hosts: str) -> Iterator[Rig]:
    """A rig in the draft layout on the shared server, in a chroot of its own."""
    with rigged(zk_hosts) as made:
        yield made


@pytest.fixture
def isolated_rig(zk_hosts: str) -> Iterator[Rig]:
    """A rig in the isolated layout."""
    with rigged(zk_hosts, Layout.ISOLATED) as made:
        yield made
