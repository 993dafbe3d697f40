"""How values are written on pages."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from zkcoord.console.views.texts import duration, iso, number, plain, printed, short, utc
from zkcoord.core.model import TopicPartition


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 ms"),
        (0.85, "850 ms"),
        (3.21, "3.2 s"),
        (59, "59 s"),
        (60, "1 min"),
        (7_500, "2 h 5 min"),
        (356_400, "4 d 3 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_times_and_those_that_no_calendar_has() -> None:
    assert utc(1_769_853_600_123) == "2026-01-31 10:00:00 UTC"
    assert iso(1_769_853_600_123) == "2026-01-31T10:00:00.123Z"
    for at in (10**17, -(10**17), 10**40):
        assert utc(at) == iso(at) == ""


def test_numbers() -> None:
    assert number(None) == "-" and number(7) == "7"
    assert number(1_234_567) == "1&#8239;234&#8239;567"


def test_what_changes_how_others_look_is_escaped() -> None:
    assert plain("a\u202eb") == "a\\u202eb" and plain("a\x1b[2J") == "a\\x1b[2J"
    assert plain(TopicPartition("a\u202e", 1)) == "a\\u202e-1", "also in what is no text"
    assert plain(Markup("<b>\u202e</b>")) == "<b>\u202e</b>", "what a template has made stays"
    assert plain(3) == 3 and plain(None) is None and plain(True) is True


def test_long_texts_are_cut() -> None:
    assert short("a" * 400, 10) == "aaaaaaaaa…" and short("abc", 3) == "abc"
    assert short({"a": "\u202e"}) == r"{'a': '\u202e'}" and short(5) == "5"


def test_what_a_command_printed_keeps_its_lines_and_nothing_else() -> None:
    assert printed("A  B\n1\t<b>\n\u202e\x1b[31m\n") == "A  B\n1\t&lt;b&gt;\n\\u202e\\x1b[31m"
