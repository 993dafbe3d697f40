"""The alerts and the dashboard: they ask for what there is, all that is worth an alarm has one, and
what they refer to can be read.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.monitoring.files import (
    ALERT_TESTS,
    ALERTS,
    CONFIG,
    ROOT,
    alerts,
    dashboard,
    exported,
    series_of,
)

TABLES = {
    "operations.md": ("## Metrics", "## Logs"),
    "gateway.md": ("<!-- metrics: begin", "end -->"),
}
OF_PROMETHEUS = {"job"}
ELSEWHERE = {
    "zkcoord_epoch": "zkcoord_terms_total, which counts the same and is there while nobody leads",
    "zkcoord_quarantines_total": "zkcoord_groups, which goes back when the group is tried again",
    "zkcoord_malformed_total": "zkcoord_malformed_nodes, which goes back when they are mended",
    "zkcoord_gateway_client_led_groups": "the coordinator's zkcoord_client_led_groups",
}
"""What is worth an alarm, and which other metric has it."""
PROMTOOL = shutil.which("promtool")


def table(page: str) -> list[tuple[set[str], str]]:
    """The rows of a page of the documentation: metrics, and what of them is worth an alarm."""
    begin, end = TABLES[page]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    rows = [row.split("|") for row in text.splitlines() if row.startswith("| `zkcoord_")]
    return [
        (set(re.findall(r"`(zkcoord_\w+)(?:\{\w+\})?`", row[1])), row[-2].strip()) for row in rows
    ]


def anchors(page: str) -> set[str]:
    """The headings of a page, as GitHub links them."""
    heads = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


def asked() -> list[tuple[str, str]]:
    """Who asks, and what."""
    return [
        *((alert.name, alert.expression) for alert in alerts()),
        *((query.panel, query.expression) for query in dashboard()),
    ]


def test_what_is_asked_for_is_exported() -> None:
    text = exported()
    for who, expression in asked():
        asks = list(series_of(expression))
        assert asks or who in ("ZkcoordCoordinatorGone", "ZkcoordNoCoordinatorAnswers")
        for name, labels in asks:
            families = name, re.sub(r"_bucket$", "", name), re.sub(r"_total$", "", name)
            assert any(f"# HELP {family} " in text for family in families), (who, name)
            for label, value in labels:
                assert label in OF_PROMETHEUS or re.search(
                    rf'^{name}\{{.*\b{label}="{re.escape(value)}"', text, re.MULTILINE
                ), (who, name, label, value)


@pytest.mark.parametrize("page", TABLES)
def test_what_is_worth_an_alarm_has_one(page: str) -> None:
    worth = [names for names, alarm in table(page) if alarm]
    assert len(worth) > 15
    used = {name for alert in alerts() for name, _ in series_of(alert.expression)}
    used |= {re.sub(r"_bucket$", "", name) for name in used}
    assert [names for names in worth if not names & used and not names & ELSEWHERE.keys()] == []


def test_the_documentation_names_what_coordinators_export_and_nothing_else() -> None:
    kinds = set(re.findall(r"^# HELP (zkcoord_\w+)", exported(), re.MULTILINE))
    coordinators = {
        name
        for name in kinds
        if not name.startswith("zkcoord_gateway_") and name[-8:] != "_created"
    }
    assert set().union(*(names for names, _ in table("operations.md"))) == coordinators


def test_each_alert_has_a_test_and_says_where_to_read_on() -> None:
    names = [alert.name for alert in alerts()]
    assert len(set(names)) == len(names)
    tested = re.findall(r"^  - name: (\w+)$", ALERT_TESTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert tested == ["healthy", *names]
    for alert in alerts():
        page, _, anchor = alert.runbook.partition("#")
        assert (ROOT / page).is_file(), alert.runbook
        assert not anchor or anchor in anchors(page), alert.runbook


@pytest.mark.nightly
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not here: apt-get install prometheus")
def test_promtool_finds_nothing_wrong() -> None:
    assert PROMTOOL is not None
    for what in (
        ("check", "config", CONFIG),
        ("check", "rules", ALERTS),
        ("test", "rules", ALERT_TESTS),
    ):
        done = subprocess.run(
            [PROMTOOL, *map(str, what)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
