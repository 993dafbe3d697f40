"""A small world, put into the model's tree, is taken over without a command, and what is counted
of it is what it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.scale_model import Size
from tests.sim.at_scale import AtScale, lines_of, main
from tests.sim.at_scale_world import LAYOUT
from tests.sim.weighed import answer_bytes
from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.port import Children, GetChildren, GetData, Missing, Node, ReadDone
from zkcoord.znodes.stat import Stat

SIZE = Size(50, 3, 10)


def test_a_small_world_is_taken_over_and_joined(tmp_path: Path) -> None:
    rig = AtScale(SIZE, lambda text: None)
    found = rig.run(2, tmp_path / "no report")
    assert found.commanded == 0, "balanced groups are left as they are"
    nodes = [path for path in rig.zk.tree.nodes if path.startswith(LAYOUT.group("group-000007"))]
    assert len(nodes) == 5 + 2 * SIZE.members + SIZE.partitions
    assert found.takeover.received > 50 * 10 * 100, "an owner node is more than 100 bytes"
    assert found.takeover.cpu_ns > 0 and found.takeover.longest_ns <= found.takeover.cpu_ns
    assert found.join.commands >= 2 and found.leave.commands >= 1
    assert found.join.multis >= 2 and found.join.received > 0
    assert found.said == {} and len(lines_of(found)) == 13


def test_what_is_read_is_what_the_wire_says() -> None:
    answers = (
        Node(b"data", Stat(1, 2, 3, 4, 5, 6)),
        Node(b"", Stat(7, 7, 0, 0, 0, 0)),
        Children(("a", "b")),
        Children(()),
        Missing(),
    )
    reads = [GetData("/a"), GetData("/b"), GetChildren("/c"), GetChildren("/d"), GetData("/e")]
    body = b"".join(map(answer_bytes, answers)) + wire_requests.END_OF_READS
    assert wire_requests.read_request("", reads).decode(0, body, 0) == ReadDone(answers)


def test_the_command_says_what_the_unit_costs_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"what": f"takeover by one that has just started: {what}", "clock": clock, "values": [3]}
        for what in ("requests", "received", "processor time", "peak memory")
        for clock in ("per base", "per group", "per member", "per partition")
    ]
    model = tmp_path / "model.json"
    model.write_text(json.dumps({"sections": [{"name": "units", "rows": rows}]}))
    report = tmp_path / "found.json"
    sizes = ["--groups", "20", "--members", "60", "--partitions", "200", "--joins", "1"]
    assert main([*sizes, "--model", str(model), "--json", str(report)]) == 0
    out, err = capsys.readouterr()
    assert "20 x 3 x 10 groups x members x partitions: 60 members" in out
    assert "nodes in" in err
    found = json.loads(report.read_text())
    assert found["said"]["received"] == 3 * (1 + 20 + 60 + 200)
    assert found["said"]["memory"] == 3 * (20 + 60 + 200)


def test_nothing_is_no_size(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--groups", "20", "--members", "10"])
    assert "at least one group" in capsys.readouterr().err
