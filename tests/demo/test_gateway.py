"""The demo through gateways: what a console consumer prints as facts, and whole runs, clean, broken
and interrupted.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.demo.faults import each_fault
from tests.demo.test_main import hear_ctrl_c
from tests.harness.wait import wait_until
from zkcoord.demo.gateway import command
from zkcoord.demo.gateway.console_output import ConsoleOutput, logging_xml, time_ns
from zkcoord.demo.options import DemoOptions
from zkcoord.demo.processes import environment
from zkcoord.errors import ScenarioError

RUN_TIMEOUT_S = 900.0
END_TIMEOUT_S = 60.0
POSITION = "FetchPosition{{offset={}, offsetEpoch=Optional[0], currentLeader=..."


def logged(millis: int, text: str) -> str:
    """A line of the console consumer's log, so long after a second."""
    return f"##2026-11-28T03:19:05.{millis:03d}000000 [Consumer clientId=j1, groupId=g] {text}\n"


def told(*parts: str) -> list[dict[str, Any]]:
    """What follows from what is printed; times as ms after the second."""
    output = ConsoleOutput("orders")
    events = [event for part in parts for event in output.feed(part.encode())]
    second = time_ns("2026-11-28T03:19:05.000000000")
    return [{**event, "t": (event["t"] - second) // 1_000_000} for event in events]


def test_what_is_printed_becomes_facts_in_its_order() -> None:
    assert told(
        logged(1, "(Re-)joining group"),
        logged(2, "(Re-)joining group"),
        logged(3, "Adding newly assigned partitions: orders-0, orders-1"),
        logged(4, f"Setting offset for partition orders-0 to the committed offset {POSITION}"
               .format(17)),
        logged(5, f"Resetting offset for partition orders-1 to position {POSITION}".format(0)),
        logged(6, "Updating fetch position from ... and returning 3 records from `poll()`"),
        "Partition:0\tOffset:17\nPartition:0\tOffset:18\nPartition:1\tOffset:0\n",
        logged(9, "Committed offset 19 for partition orders-0"),
        logged(10, f"Resetting offset for partition orders-1 to position {POSITION}".format(5)),
        logged(11, "Revoke previously assigned partitions orders-0, orders-1"),
        logged(12, "Lost previously assigned partitions orders-2"),
    ) == [
        {"event": "registered", "t": 1, "name": "console consumer"},
        {"event": "assigned", "t": 3, "offsets": {"orders-0": 17}},
        {"event": "assigned", "t": 3, "offsets": {"orders-1": 0}},
        {
            "event": "records",
            "t": 6,
            "ranges": {"orders-0": [[17, 18, 2, 0]], "orders-1": [[0, 0, 1, 0]]},
            "count": 3,
        },
        {"event": "committed", "t": 9, "offsets": {"orders-0": 19}},
        {"event": "revoked", "t": 11, "positions": {"orders-0": -1, "orders-1": -1}},
        {"event": "lost", "t": 12, "partitions": ["orders-2"], "reason": "it says so"},
    ]  # fmt: skip


def test_another_threads_line_within_a_record_and_pieces_of_lines_change_nothing() -> None:
    text = (
        logged(1, "one")
        + "Partition:0\tOff"
        + logged(2, "Sending Heartbeat request")
        + "set:3\nPartition:0\tOffset:5\n"
    )
    whole = told(text)
    assert [(event["t"], event["ranges"]) for event in whole] == [
        (2, {"orders-0": [[3, 3, 1, 0], [5, 5, 1, 0]]})
    ]
    assert [r for e in told(*text) for r in e["ranges"]["orders-0"]] == [
        [3, 3, 1, 0],
        [5, 5, 1, 0],
    ]


def test_a_partition_that_goes_before_its_begin_is_known_was_never_had() -> None:
    assert (
        told(
            logged(1, "Adding newly assigned partitions: orders-0"),
            logged(2, "Revoke previously assigned partitions orders-0"),
            logged(3, f"Setting offset for partition orders-0 to the committed offset {POSITION}"
                   .format(7)),
        )
        == [{"event": "revoked", "t": 2, "positions": {"orders-0": -1}}]
    )  # fmt: skip


def test_what_is_neither_a_record_nor_its_log_is_kept_for_an_error() -> None:
    output = ConsoleOutput("orders")
    assert not list(output.feed(b"Exception in thread main\nPartition:x\n"))
    assert output.others == ["Exception in thread main", "Partition:x"]
    assert "shutdownHook" in logging_xml() and "TRACE" in logging_xml()


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    present = command.importlib.util.find_spec

    def without(*names: str) -> None:
        monkeypatch.setattr(
            command.importlib.util,
            "find_spec",
            lambda name: None if name in names else present(name),
        )

    options, said = DemoOptions(tmp_path, tmp_path, with_spark=True), list[str]()
    without("confluent_kafka")
    with pytest.raises(ScenarioError, match="confluent-kafka, which is not installed"):
        command.prepare(options, said.append)
    without("pyarrow")
    monkeypatch.setattr(command.jars, "tools_classpath", lambda java, say: "jars")
    command.prepare(options, said.append)
    assert len(said) == 1 and said[0].startswith("No Spark application joins, because pyarrow")


def test_a_folder_that_is_not_empty_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").touch()
    assert command.main(["--dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def start(tmp_path: Path, *flags: str) -> subprocess.Popen[str]:
    """A run."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "zkcoord.demo.gateway",
            "--dir",
            str(tmp_path / "demo"),
            "--reports",
            str(tmp_path / "reports"),
            *flags,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(environment()),
        start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )


def left(tmp_path: Path) -> list[int]:
    """Processes that name the run's folder."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if str(tmp_path / "demo") in " ".join(process.info["cmdline"] or [])
    ]


@pytest.mark.kafka
@pytest.mark.nightly
def test_a_run_with_every_step_is_clean(tmp_path: Path) -> None:
    process = start(tmp_path, "--fast")
    output, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    assert process.returncode == 0, output[-4000:] + errors
    assert output.splitlines()[-1] == "VERDICT: clean" and errors == ""
    report = json.loads((tmp_path / "reports" / "demo-gateway.json").read_text())
    assert report["clean"] and report["handed_on_ms"] > 0 and report["succession_ms"] > 0
    names = " ".join(step["name"] for step in report["steps"])
    assert all(kind in names for kind in ("Java", "librdkafka", "Spark", "gateway A is killed"))
    wait_until(lambda: not left(tmp_path), END_TIMEOUT_S, "the end of all processes")


@pytest.mark.kafka
@pytest.mark.nightly
@each_fault
def test_an_injected_fault_is_found_and_named(tmp_path: Path, fault: str, named: str) -> None:
    process = start(tmp_path, "--tiny", "--break", fault)
    output, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    last = output.splitlines()[-1]
    assert process.returncode == 1 and last.startswith("VERDICT: not clean: "), output + errors
    assert named in last


@pytest.mark.kafka
@pytest.mark.nightly
def test_ctrl_c_says_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    process = start(tmp_path, "--tiny")
    assert process.stdout is not None
    assert any("> a librdkafka client joins" in line for line in process.stdout), "no such step"
    assert len(left(tmp_path)) > 3
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=END_TIMEOUT_S)
    assert process.returncode == 130
    assert errors == "Interrupted: everything that was started is stopped.\n"
    wait_until(lambda: not left(tmp_path), END_TIMEOUT_S, "the end of all processes")
