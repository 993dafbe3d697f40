"""The backup of a run in the hands of the tools of Kafka 1.1.1, which know nothing of zkcoord."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.legacy.tools import Tools
from tests.migrations.conftest import Run
from tests.migrations.groups import BothStores, run_folder
from zkcoord.stack.java import Java

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

THERE = {0: 10, 1: 20, 2: 30}


def test_the_backup_is_what_the_old_export_writes_and_the_old_import_reads(
    stores: BothStores, kafka_zk_hosts: str, java: Java, tmp_path: Path, run: Run
) -> None:
    """The same lines as ExportZkOffsets; and ImportZkOffsets puts back what was there, also where
    the node is gone.
    """
    groups = [stores.group("billing", THERE), stores.group("audit", {0: 1}, {0: 5, 1: 6})]
    tools = Tools(tmp_path / "tools", kafka_zk_hosts, java)
    exported = tmp_path / "exported"
    assert tools.export(exported).status == 0
    assert run("apply", "1", "--take", "highest")[0] == 0
    backup = run_folder(tmp_path) / "zookeeper-offsets.txt"
    assert sorted(backup.read_text().splitlines()) == sorted(exported.read_text().splitlines())
    assert stores.in_zookeeper(groups[1]) == {0: 5, 1: 6}
    stores.client.delete(f"/consumers/{groups[0]}/offsets/{stores.topic}/2")
    stores.set(groups[0], 1, 99)
    assert tools.restore(backup).status == 0
    assert stores.in_zookeeper(groups[0]) == THERE and stores.in_zookeeper(groups[1]) == {
        0: 1,
        1: 6,
    }, "the old tool does not delete"
    marked = tools.export(tmp_path / "again", groups[0])
    assert marked.status == 0 and len((tmp_path / "again").read_text().splitlines()) == 3, (
        "what zkcoord writes beside the offsets is out of its sight"
    )
