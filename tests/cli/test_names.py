"""Commands that take names: one that nothing has is exit status 1, and said. (`migrate` and `check`
have tests of their own.)
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.admin.world import world
from zkcoord.cli.main import main


def test_a_topic_that_the_group_has_nothing_of(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(zk_hosts) as here:
        here.topic("orders", 2)
        here.group("billing", topics=("orders",))
        here.offset("billing", "orders", 0, 5)
        show = ["offsets", "show", "billing", "--zookeeper", zk_hosts, "--topic", "orders:0"]
        assert main(show) == 0
        capsys.readouterr()
        for typo in ("TYPO", "orders:7"):
            assert main([*show, "--topic", typo]) == 1
            out, err = capsys.readouterr()
            assert out == "" and typo in err and "correct --topic" in err


def test_a_group_of_which_there_is_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"t": 1, "kind": "evicted", "group": "billing", "member": "m", "reason": "r"}
    term = {"t": 2, "kind": "term", "event": "elected", "epoch": 1}
    (tmp_path / "1-1.0.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(term)}\n")
    assert main(["journal", "--dir", str(tmp_path), "--group", "billing", "-n", "1"]) == 0
    assert main(["journal", "--dir", str(tmp_path), "--group", "TYPO"]) == 1
    assert "no record of the group TYPO" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["groups", "describe", "TYPO"],
        ["groups", "delete", "TYPO"],
        ["groups", "rebalance", "TYPO"],
        ["groups", "mode", "TYPO"],
        ["offsets", "show", "TYPO"],
        ["offsets", "accept", "TYPO", "--all-topics"],
        ["check", "--only", "TYPO"],
    ],
)
def test_a_group_that_is_not_there(
    zk_hosts: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with world(zk_hosts) as here:
        here.topic("orders", 1)
        here.group("billing", topics=("orders",))
        assert main([*command, "--zookeeper", zk_hosts]) == 1
        assert "TYPO" in capsys.readouterr().err
