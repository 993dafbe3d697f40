"""`zkcoord coordinator step-down` with real coordinators, and what refuses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.admin.world import world
from tests.harness.command import PATIENCE_S, Running, run
from tests.harness.proxy import Op as ZkOp
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from zkcoord.cli.main import main
from zkcoord.zk.port import MultiResult, Op
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout


def told(coordinator: Running, event: str, count: int) -> list[dict[str, object]]:
    """What its journal, which is written a moment later, says of an event of its terms, once it
    says so often.
    """

    def found() -> list[dict[str, object]]:
        return [record for record in coordinator.records("term") if record["event"] == event]

    wait_until(lambda: len(found()) >= count, PATIENCE_S, f"{event} in the journal, {count} times")
    return found()


def elected(coordinator: Running, count: int) -> list[object]:
    """The epochs that it won."""
    return [record["epoch"] for record in told(coordinator, "elected", count)]


def test_another_one_leads_and_a_single_one_leads_again(tmp_path: Path, zk_hosts: str) -> None:
    with Running(tmp_path / "a", "--zookeeper", zk_hosts) as a:
        a.ready("leading")
        with Running(tmp_path / "b", "--zookeeper", zk_hosts) as b:
            b.ready("standing by")
            done = run(tmp_path, "coordinator", "step-down", "--zookeeper", zk_hosts)
            assert done.returncode == 0, done.stderr
            a.ready("standing by")
            b.ready("leading")
            assert (
                f":{b.port} (epoch" in done.stdout.split(" leads after ")[0]
                and f":{a.port} (epoch" in done.stdout
                and " ms later" in done.stdout
            )
            # it does not win the seat again for a moment
            assert told(a, "resigned", 1)[-1]["reason"] == "the leader node is gone or another's"
            terms = elected(a, 1)
            first, second = terms[-1], elected(b, 1)[-1]
            assert second == first + 1, "no epoch is spent in between"
            b.signal()
        a.ready("leading")
        done = run(tmp_path, "coordinator", "step-down", "--zookeeper", zk_hosts, "--json")
        found = json.loads(done.stdout)
        assert found["same"] is True and found["old"] != found["new"] and found["took_ms"] >= 0
        a.ready("leading")
        assert elected(a, len(terms) + 2)[-3:] == [first, second + 1, second + 2]


def test_without_a_coordinator_and_with_the_other_layout_it_is_one_sentence(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coordinator", "step-down", "--zookeeper", zk_hosts]) == 1
    assert "nobody leads" in capsys.readouterr().err
    with world(zk_hosts, Layout.DRAFT) as found:
        found.put(Layout.DRAFT.leader, b"junk")
        assert main(["coordinator", "step-down", "--zookeeper", zk_hosts]) == 1
        assert "which replaces it" in capsys.readouterr().err
        found.put(f"{Layout.DRAFT.leader}/x")
        assert main(["coordinator", "step-down", "--zookeeper", zk_hosts]) == 1
        assert "delete it with all that is below it" in capsys.readouterr().err
        found.client.delete(Layout.DRAFT.leader, recursive=True)
    with world(zk_hosts, Layout.ISOLATED) as found:
        found.leader()
        assert main(["coordinator", "step-down", "--zookeeper", zk_hosts]) == 1
        assert "--layout isolated" in capsys.readouterr().err and found.client.exists(
            Layout.ISOLATED.leader
        )


def patched(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[SyncClient, list[Op]], MultiResult | None]
) -> None:
    """`act` answers a multi instead of the server; None: the server does."""
    real = SyncClient.multi
    monkeypatch.setattr(SyncClient, "multi", lambda self, ops: act(self, ops) or real(self, ops))


def test_a_successor_that_came_in_between_is_not_deleted(
    zk_hosts: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader node is version 0 each time; the epoch beside it is not."""
    with world(zk_hosts) as found:
        found.leader(7)

        def succeed(_self: SyncClient, ops: list[Op]) -> None:
            if (
                found.client.exists(found.layout.leader)
                and found.client.get(found.layout.epoch)[1].version == 1
            ):
                found.client.delete(found.layout.leader)
                found.leader(8)

        patched(monkeypatch, succeed)
        assert main(["coordinator", "step-down", "--zookeeper", zk_hosts]) == 1
        err = capsys.readouterr().err
        assert (
            "(epoch 7) does not lead any more" in err
            and "(epoch 8) does" in err
            and found.client.exists(found.layout.leader)
        )


@pytest.mark.parametrize("happened", [True, False])
def test_a_lost_answer_and_a_seat_that_stays_empty(
    zk_hosts: str, zk_proxy: Proxy, capsys: pytest.CaptureFixture[str], happened: bool
) -> None:
    with world(zk_hosts) as found:
        found.leader()
        lost = (
            zk_proxy.swallow_replies(1, (ZkOp.MULTI,))
            if happened
            else zk_proxy.drop_requests(1, (ZkOp.MULTI,))
        )
        assert (
            main(
                [
                    "coordinator",
                    "step-down",
                    "--timeout-ms",
                    "300",
                    "--zookeeper",
                    f"{zk_proxy.address}/{zk_hosts.partition('/')[2]}",
                ]
            )
            == 1
        )
        assert (
            "stepped down, but nobody leads after" in capsys.readouterr().err
            and found.client.exists(found.layout.leader) is None
            and lost.fired == 1
        )
