"""The rig on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.rig import Rig
from tests.harness.zookeeper import connect, disconnect
from zkcoord.errors import StackError
from zkcoord.stack.java import Java


def test_a_server_that_was_killed_before_it_noted_its_epoch_begins_anew_and_no_other(
    tmp_path: Path, java: Java
) -> None:
    with Rig(tmp_path, java) as rig, rig.ensemble as ensemble:
        client = connect(ensemble.hosts)
        client.create("/kept", b"by the others")
        victim = ensemble.followers()[0]
        victim.kill()
        noted = victim.home / "data" / "version-2" / "currentEpoch"
        epoch = noted.read_text()
        noted.write_text("0")
        victim.launch()
        rig.wait_serving()
        assert victim.mode() == "follower"
        disconnect(client)
        client = connect(victim.address)
        assert client.get("/kept")[0] == b"by the others"
        disconnect(client)
        victim.kill()
        noted.write_text("no number")
        victim.launch()
        with pytest.raises(StackError):
            rig.wait_serving()
        assert noted.read_text() == "no number" and epoch != "0"
