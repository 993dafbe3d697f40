"""How kafka-python's own tests are judged, and that each difference is a line of the docs."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.compat import upstream
from tests.compat.upstream import DIFFERENCES, NotThereError, judge, outcomes

PAGE = Path(__file__).parents[2] / "docs" / "consumer.md"
GOOD, BAD, SKIPPED = "passed", "failed", "skipped"


@pytest.mark.parametrize(
    ("theirs", "ours", "known", "said"),
    [
        (GOOD, GOOD, "", ""),
        (GOOD, BAD, "a line", ""),
        (GOOD, BAD, "", "does not say why"),
        (GOOD, "error", "", "does not say why"),
        (GOOD, SKIPPED, "", "does not say why"),
        (GOOD, "", "", "it was not run"),
        (GOOD, GOOD, "a line", "passes with ours by now"),
        (BAD, BAD, "", ""),
        (BAD, GOOD, "", ""),
        (SKIPPED, SKIPPED, "", ""),
        ("", "", "a line", "there is no such test"),
    ],
)
def test_what_is_not_as_it_is_written_down(theirs: str, ours: str, known: str, said: str) -> None:
    found = judge(
        {"a": theirs} if theirs else {}, {"a": ours} if ours else {}, {"a": known} if known else {}
    )
    assert len(found) == bool(said) and all(said in sentence for sentence in found)


def test_outcomes_are_read_from_the_report() -> None:
    report = ElementTree.fromstring(
        "<testsuites><testsuite>"
        '<testcase classname="test.integration.test_a" name="test_x[1]"/>'
        '<testcase classname="test.integration.test_a" name="test_y"><failure/></testcase>'
        '<testcase classname="test.integration.test_b" name="test_z"><error/></testcase>'
        '<testcase classname="test.integration.test_b" name="test_s"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    assert dict(outcomes(report)) == {
        "test_a.py::test_x[1]": "passed",
        "test_a.py::test_y": "failed",
        "test_b.py::test_z": "error",
        "test_b.py::test_s": "skipped",
    }


def test_each_difference_is_a_line_of_the_table() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| difference |")[2].partition("\n\n")[0]
    lines = {line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]}
    assert set(DIFFERENCES.values()) <= lines


def test_without_the_source_package_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kafka.__version__", "0.0.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(NotThereError, match="source package of kafka-python==0.0.0"):
        upstream.fetch(tmp_path)
    assert upstream.main() == 2 and "not run: pip does not give" in capsys.readouterr().err
