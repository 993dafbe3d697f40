"""What the benchmark of the gateway makes of what its clients say, and of what is not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench import gateway
from tests.bench.figures import Section, cells_of
from tests.bench.gateway_changes import fill, is_missing
from tests.bench.gateway_clients import KINDS, Client, running, shares, strategies, when
from tests.bench.gateway_stuck import silence_s
from tests.gateway import foreign
from zkcoord.errors import UnavailableError

FOREIGN = ("franz-go", "kafkajs", "sarama")


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_missing_toolchain_is_a_row_that_says_so(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "which", lambda _: None)
    section = Section(kind, kind)
    place: Any = _Nothing()
    fill(section, place, kind, "roundrobin", 1)
    (row,) = section.rows
    assert "there is no" in cells_of(row)[-1] and is_missing(section) and not section.failure


def test_every_kind_of_client_has_an_assignor() -> None:
    assert all(map(strategies, KINDS))


def test_the_exit_status_tells_of_a_missing_toolchain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(foreign, "which", lambda _: None)
    monkeypatch.setattr(gateway, "running_stack", _Nothing)
    monkeypatch.setattr(gateway, "running_place", _Nothing)
    report = tmp_path / "report.json"
    monkeypatch.setattr(gateway, "report_named", lambda *_: report)
    assert gateway.main(["--part", "changes", "--only", "franz-go"]) == gateway.MISSING
    rows = [row for part in json.loads(report.read_text())["sections"] for row in part["rows"]]
    assert {row["what"] for row in rows} == {"not measured"}


class _Nothing:
    """In place of servers, and of what they are."""

    def __init__(self, *_: object, **__: object) -> None:
        self.java: Any = None

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> _Nothing:
        return self

    def __call__(self) -> _Nothing:
        return self


def test_a_silence_is_the_longest_gap_its_ends_included() -> None:
    assert silence_s([1.0, 2.0, 2.5, 9.0], since=1.5, until=4.0) == 1.5
    assert silence_s([], since=1.0, until=4.0) == 3.0


SAYS = """
import sys
print("10 ready ", flush=True)
print("20 assigned 0,1", "30 took 0,5,7", "40 revoked 1", "50 goes on ", sep="\\n", flush=True)
sys.stdin.readline()
"""


def test_what_a_client_says_becomes_events(tmp_path: Path) -> None:
    with running() as clients:
        client = Client("it", ["python3", "-c", SAYS], tmp_path)
        clients.append(client)
        when(lambda _: client.said("goes on") is not None, 0.0, "all of it")
        assert client.is_ready()
        assert client.owned(30e-9) == {0, 1} and client.owned(45e-9) == {0}
        assert client.took() == [(0, 5), (0, 6), (0, 7)]
        assert shares([client], 1)(45e-9)


def test_a_client_that_ends_before_it_is_ready_says_why(tmp_path: Path) -> None:
    with running() as clients:
        client = Client("it", ["python3", "-c", "raise SystemExit('no such broker')"], tmp_path)
        clients.append(client)
        client.process.wait()
        with pytest.raises(UnavailableError, match="no such broker"):
            client.is_ready()
