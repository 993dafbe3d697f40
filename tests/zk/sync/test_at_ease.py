"""Many reads at ease: the same answers, in small requests."""

from __future__ import annotations

import pytest

from tests.harness.zookeeper import connect, disconnect
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import GetData, Node
from zkcoord.zk.sync import client as module
from zkcoord.zk.sync.client import SyncClient


@pytest.mark.parametrize("at_ease", [False, True])
def test_many_reads(zk_hosts: str, monkeypatch: pytest.MonkeyPatch, at_ease: bool) -> None:
    monkeypatch.setattr(module, "AT_EASE_READS", 10)
    client = connect(zk_hosts)
    try:
        for number in range(25):
            client.create(f"/n{number}", str(number).encode())
    finally:
        disconnect(client)
    requests: list[int] = []
    with SyncClient(ZkOptions(zk_hosts), at_ease=at_ease) as reader:
        one = reader._one
        monkeypatch.setattr(reader, "_one", lambda reads: requests.append(len(reads)) or one(reads))
        answers = reader.read([GetData(f"/n{number}") for number in range(25)])
    found = [answer.data for answer in answers if isinstance(answer, Node)]
    assert found == [str(number).encode() for number in range(25)]
    assert requests == ([10, 10, 5] if at_ease else [25])
