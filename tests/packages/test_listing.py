"""Lists of what is installed, and what is said of vulnerabilities where nobody can be asked; by a
pip-audit that answers what it is told.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.packages import listing
from tests.packages.tools import MissingToolError, PackagingError
from zkcoord import __version__

CLEAN = {"dependencies": [{"name": "kazoo", "version": "2.11.0", "vulns": []}]}
KNOWN = {"dependencies": [{"name": "kazoo", "version": "2.11.0", "vulns": [{"id": "CVE-1"}]}]}
SKIPPED = {"dependencies": [{"name": "kazoo", "skip_reason": "not found, not audited"}]}
"""As pip-audit says it with exit status 0, where an index answers and has no such list."""


class FakeAudit:
    """Answers by service: a report, or None for one that cannot be reached."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        more: Mapping[str, str] | None = None,
        timeout_s: float = 0.0,
        good: Collection[int] = (0,),
    ) -> str:
        words = [str(word) for word in command]
        service = words[words.index("--vulnerability-service") + 1]
        self.asked.append(service)
        assert "--require-hashes" in words and set(good) == {0, 1}
        answer = self.answers[service]
        if answer is None:
            raise PackagingError("pip_audit ended with 1: no such host")
        text = answer if isinstance(answer, str) else json.dumps(answer)
        Path(words[words.index("--output") + 1]).write_text(text, encoding="utf-8")
        return ""


def audited(
    answers: Mapping[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[FakeAudit, list[str]]:
    fake, said = FakeAudit(answers), list[str]()
    monkeypatch.setattr(listing, "run", fake)
    listing.audit(Path("python"), folder, said.append)
    return fake, said


def test_nothing_known_is_said_of_each_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, said = audited({"pypi": CLEAN}, tmp_path, monkeypatch)
    assert said == [
        f"{lock}: 1 packages, 0 known vulnerabilities" for lock in listing.LOCKS.values()
    ]
    assert fake.asked == ["pypi"] * len(listing.LOCKS)


def test_what_is_known_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PackagingError, match=r"kazoo 2\.11\.0: CVE-1"):
        audited({"pypi": KNOWN}, tmp_path, monkeypatch)


@pytest.mark.parametrize("broken", [None, "", "<html>", SKIPPED])
def test_where_one_cannot_be_reached_the_other_is_asked(
    broken: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, said = audited({"pypi": broken, "osv": CLEAN}, tmp_path, monkeypatch)
    assert fake.asked == ["pypi", "osv"] * len(listing.LOCKS) and len(said) == len(listing.LOCKS)


def test_where_nobody_can_be_reached_nothing_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingToolError, match="nobody was asked.*no such host"):
        audited({"pypi": None, "osv": None}, tmp_path, monkeypatch)


def test_what_was_left_out_is_not_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingToolError, match="not found, not audited"):
        audited({"pypi": SKIPPED, "osv": SKIPPED}, tmp_path, monkeypatch)
    some = {"dependencies": CLEAN["dependencies"] + SKIPPED["dependencies"]}
    with pytest.raises(PackagingError, match="not compared .*kazoo"):
        audited({"pypi": some}, tmp_path, monkeypatch)


def test_a_list_says_what_it_is_a_list_of() -> None:
    found = {
        "components": [{"bom-ref": "b", "name": "kazoo"}, {"bom-ref": "a", "name": "rich"}],
        "metadata": {"tools": "x"},
        "dependencies": [{"ref": "b"}, {"ref": "a"}],
    }
    whole = listing.whole(found, "image")
    assert whole["metadata"]["component"]["version"] == __version__
    assert whole["metadata"]["tools"] == "x" and whole["components"] == found["components"]
    assert whole["dependencies"] == [
        {"ref": "zkcoord-image", "dependsOn": ["a", "b"]},
        {"ref": "b"},
        {"ref": "a"},
    ]
