"""`zkcoord journal --traces-to`: what a collector is sent by OTLP over HTTP."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from zkcoord.cli.journal_traces import STEPS_MAX, spans_of
from zkcoord.cli.main import main

T = 1_700_000_000_000
REBALANCE: dict[str, Any] = {
    "t": T,
    "kind": "rebalance",
    "group": "billing",
    "generation": 31,
    "cause": "member joined",
    "trigger": "m2",
    "duration_ms": 40,
    "moved": 6,
    "state": "Stable",
    "decided_ms": 12,
    "steps": [
        {"member": "m1", "option": "stop-fetcher", "at_ms": 12, "ms": 20},
        {"member": "m2", "option": "start-fetcher", "at_ms": 33, "ms": 7},
    ],
}


class Collector:
    """An HTTP server that takes what exporters send."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        taken = self.spans

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        taken.extend(scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.server.shutdown()
    found.server.server_close()


def journal(folder: Path, *records: dict[str, Any]) -> str:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "5-1.000001.jsonl").write_text(lines)
    return str(folder)


def test_a_rebalance_is_a_trace_of_what_was_decided_and_who_was_told(
    tmp_path: Path, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    term = {"t": T, "kind": "term", "event": "elected", "epoch": 7}
    folder = journal(tmp_path, term, REBALANCE)
    assert main(["journal", "--dir", folder, "--traces-to", collector.url]) == 0
    assert "billing" in capsys.readouterr().out
    (whole,) = (span for span in collector.spans if not span.parent_span_id)
    assert whole.name == "rebalance" and len(collector.spans) == 4
    assert (whole.start_time_unix_nano, whole.end_time_unix_nano) == (
        (T - 40) * 10**6,
        T * 10**6,
    )
    said = {one.key: one.value for one in whole.attributes}
    assert said["messaging.consumer.group.name"].string_value == "billing"
    assert said["zkcoord.generation"].int_value == 31
    parts = {span.name: span for span in collector.spans if span.parent_span_id}
    assert all(span.parent_span_id == whole.span_id for span in parts.values())
    took = {
        name: (span.end_time_unix_nano - span.start_time_unix_nano) // 10**6
        for name, span in parts.items()
    }
    assert took == {"decide": 12, "give up": 20, "begin": 7}


@pytest.mark.parametrize(
    "more",
    [
        {"steps": "none", "decided_ms": "soon", "duration_ms": [], "generation": {}},
        {"steps": [1, None, {"member": [], "option": 7, "at_ms": -1, "ms": 2**70}]},
        {"steps": [{}] * 10_000},
        {"kind": "client-led rebalance", "cause": "x" * 10**6},
    ],
)
def test_a_record_of_another_form_is_bounded_work(more: dict[str, Any]) -> None:
    found = list(spans_of({**REBALANCE, **more}))
    assert 1 <= len(found) <= STEPS_MAX + 2
    assert all(span.begin_ns <= span.end_ns for span in found)
    assert all(len(str(value)) <= 1_000 for span in found for value in span.attributes.values())


def test_an_address_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = journal(tmp_path, REBALANCE)
    assert main(["journal", "--dir", folder, "--traces-to", "collector:4318"]) == 2
    assert "http://collector:4318/v1/traces" in capsys.readouterr().err


def test_a_collector_that_is_away_costs_the_reader_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    folder = journal(tmp_path, REBALANCE)
    assert main(["journal", "--dir", folder, "--traces-to", "http://127.0.0.1:1/v1/traces"]) == 0
    assert "billing" in capsys.readouterr().out
