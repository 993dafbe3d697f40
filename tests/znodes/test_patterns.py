"""Wildcards: full match, complement, internal topics, hostile expressions."""

from __future__ import annotations

import secrets
import time

import pytest

from zkcoord.core.model import Malformed, Pattern, PatternKind
from zkcoord.znodes import patterns
from zkcoord.znodes.java_patterns import Refusal
from zkcoord.znodes.patterns import (
    REGEX_CHARS_MAX,
    REGEX_PROGRAM_MAX,
    as_old_consumers_read,
    check_old_regex,
    check_regex,
    compiled,
    match_patterns,
)

BOMB = "|".join(f"((.?){{31}}){{31}}{letter}" for letter in "abcdef")
TOPICS = ["orders", "orders.eu", "my.orders", "clicks", "__consumer_offsets", "__transaction_state"]


def white(regex: str, internal: bool = False) -> Pattern:
    """A white list."""
    return Pattern(PatternKind.WHITE_LIST, regex, internal)


def black(regex: str) -> Pattern:
    """A black list."""
    return Pattern(PatternKind.BLACK_LIST, regex)


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (white("orders"), {"orders"}),
        (white(r"orders\..*"), {"orders.eu"}),
        (white("orders|clicks"), {"orders", "clicks"}),
        (white(".*"), {"orders", "orders.eu", "my.orders", "clicks"}),
        (white("__.*"), set()),
        (black("orders"), {"orders.eu", "my.orders", "clicks"}),
        (black(".*"), set()),
        (black("nothing"), {"orders", "orders.eu", "my.orders", "clicks"}),
        (white("("), set()),
        (black("("), set()),
    ],
)
def test_matches(pattern: Pattern, matched: set[str]) -> None:
    assert match_patterns([pattern], TOPICS) == {pattern: frozenset(matched)}


def test_internal_topics_are_covered_where_the_pattern_says_so() -> None:
    wide, usual = Pattern(PatternKind.WHITE_LIST, "_.*|orders", internal=True), white("_.*|orders")
    assert match_patterns([wide, usual], TOPICS) == {
        wide: frozenset({"orders", "__consumer_offsets", "__transaction_state"}),
        usual: frozenset({"orders"}),
    }
    assert match_patterns(
        [Pattern(PatternKind.BLACK_LIST, ".*s", internal=True)], TOPICS
    ).popitem()[1] == {"orders.eu", "__transaction_state"}


@pytest.mark.parametrize(
    ("given", "read"),
    [("a.*, b.*", "a.*|b.*"), ('"a b"', "ab"), (" 'a' ", "a"), ("a", "a"), ("a,b,c", "a|b|c")],
)
def test_an_old_consumers_expression(given: str, read: str) -> None:
    assert as_old_consumers_read(given) == read


def test_many_patterns_at_once() -> None:
    found = match_patterns([white("orders"), black("orders"), white("orders")], iter(TOPICS))
    assert found[white("orders")] | found[black("orders")] == set(TOPICS[:4])


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        "(?=a)",
        r"(a)\1",
        "(a{1000}){1000}",
        "",
        "a" * (REGEX_CHARS_MAX + 1),
        "\ud800",
        "*",
        "[z-a]",
        BOMB,
    ],
)
def test_what_is_refused_says_why(regex: str) -> None:
    found = check_regex(regex)
    assert isinstance(found, Malformed)
    assert found.what == "pattern" and found.reason.isprintable() and len(found.reason) < 300


@pytest.mark.parametrize(
    "regex",
    [
        "|".join(f"team{n % 7}.orders.region-{n}.v1" for n in range(100)),
        "|".join(secrets.token_hex(12) for _ in range(160)),
        r"(orders|clicks)\.(eu|us|ap)\.[0-9]{1,4}(\.dlq)?",
        "(.*[.])?[a-z]{2,20}[.](v[0-9]+|latest)",
        "[A-Za-z0-9._-]{1,249}",
        r"\p{L}+\..*",
    ],
)
def test_what_people_write_is_far_from_the_limit(regex: str) -> None:
    """Long lists of names, as old mirror makers have them, above all."""
    assert len(regex) <= REGEX_CHARS_MAX and check_regex(regex) == regex
    engine = compiled(regex)
    assert not isinstance(engine, Malformed) and engine.programsize < REGEX_PROGRAM_MAX / 3


def test_a_good_expression_is_itself() -> None:
    assert check_regex("a{1,2}") == "a{1,2}"


@pytest.mark.parametrize("regex", ["(a+)+$", "(a|a)*b", "(.*)*x", "((a*)*)*$", "(a?){250}a{250}"])
def test_bombs_do_not_go_off(regex: str) -> None:
    match_patterns([white(regex)], ["warm"])
    before = time.process_time()
    match_patterns([white(regex)], ["a" * 248 + "!"])
    # a backtracking engine takes longer than the universe has
    assert time.process_time() - before < 0.5


@pytest.mark.parametrize(
    ("regex", "found"),
    [
        (" 'a, b' ", "a|b"),
        ("", patterns.EMPTY),
        ("(?!a).*", "(?:|[^a].*)"),
        ("a" * REGEX_CHARS_MAX, "a" * REGEX_CHARS_MAX),
        ("a" * (REGEX_CHARS_MAX + 1), None),
        ("(?=a)", None),
        ("(a{1000}){1000}", None),  # RE2 refuses it
    ],
)
def test_an_old_consumers_expression_in_re2(regex: str, found: str | None) -> None:
    made = check_old_regex(regex)
    assert made == found if found is not None else isinstance(made, Refusal) and made.reason


def test_the_shortest_expression_and_the_largest_program(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = compiled("a{100}")
    assert not isinstance(engine, Malformed) and not isinstance(compiled("a"), Malformed)
    for less in (0, 1):
        compiled.cache_clear()
        monkeypatch.setattr(patterns, "REGEX_PROGRAM_MAX", engine.programsize - less)
        found = compiled("a{100}")
        assert isinstance(found, Malformed) is bool(less)
    compiled.cache_clear()


@pytest.mark.parametrize("regex", ["(?!__).*", "a(?=b).*", ".*(?<!x)", "(?<=x)y"])
def test_who_looks_ahead_is_told_what_to_write(regex: str) -> None:
    found = compiled(regex)
    assert isinstance(found, Malformed)
    assert "no look-ahead" in found.reason and "(_?[^_].*|_)" in found.reason
    instead = compiled("(_?[^_].*|_)")
    assert not isinstance(instead, Malformed)
    for topic in ("a", "_", "_a", "a__b", "__", "__consumer_offsets"):
        assert (instead.fullmatch(topic) is None) is topic.startswith("__")


def test_why_re2_refuses_an_expression(capfd: pytest.CaptureFixture[str]) -> None:
    """It says so itself, in the reason only."""
    compiled.cache_clear()
    for regex, why in (("(", "missing )"), (r"\pL{100}", "pattern too large")):
        found = compiled(regex)
        assert isinstance(found, Malformed)
        assert found.reason.startswith(f"RE2 refuses it: {why}")
    assert capfd.readouterr() == ("", "")
