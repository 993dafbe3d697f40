"""`python -m tests.docs`: its exit status, and what it reports of links to other hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs import __main__, building
from tests.packages.tools import MissingToolError, PackagingError


def linkchecked(monkeypatch: pytest.MonkeyPatch, *links: tuple[str, str]) -> None:
    """As if Sphinx had followed these: (address, status)."""

    def build(out: Path, **_: object) -> Path:
        out.mkdir(parents=True)
        lines = [
            json.dumps(
                {"filename": "a.md", "lineno": 1, "uri": uri, "status": status, "info": "404"}
            )
            for uri, status in links
        ]
        (out / "output.json").write_text("\n".join(lines), encoding="utf-8")
        return out

    monkeypatch.setattr(building, "build", build)


@pytest.mark.parametrize(
    ("raised", "status"), [(MissingToolError("no network"), 4), (PackagingError("gone.md"), 1)]
)
def test_what_is_missing_or_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    raised: Exception,
    status: int,
) -> None:
    def build(out: Path) -> Path:
        raise raised

    monkeypatch.setattr(building, "build", build)
    assert __main__.main(["--out", str(tmp_path / "site")]) == status
    assert str(raised) in capsys.readouterr().err


def test_links_to_other_hosts_are_reported_and_fail_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    linkchecked(
        monkeypatch,
        ("https://gone.example/", "broken"),
        ("https://there.example/", "working"),
        ("docs/consumer.md", "local"),
    )
    assert __main__.main(["--external", "--out", str(tmp_path / "site")]) == 0
    said = capsys.readouterr().out
    assert "a.md:1 https://gone.example/ 404" in said and "1 links to other hosts" in said


def test_where_no_host_can_be_reached_nothing_is_said_of_links(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    linkchecked(monkeypatch, ("https://a.example/", "broken"), ("https://b.example/", "timeout"))
    assert __main__.main(["--external", "--out", str(tmp_path / "site")]) == 4
    assert "none of 2 links" in capsys.readouterr().err
