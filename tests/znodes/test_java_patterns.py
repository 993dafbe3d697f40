"""Old consumers' expressions beside what a real java.util.regex covers (a table, made by
`python -m tests.legacy.patterns --write`; `tests/legacy/test_patterns.py` makes one anew at night).
"""

from __future__ import annotations

import json

import pytest

from tests.legacy.patterns import BY_HAND, NAMES, TABLE, differences, ours
from zkcoord.znodes.java_patterns import Refusal, follow

EXPRESSIONS: dict[str, str] = json.loads(TABLE.read_text(encoding="ascii"))["expressions"]


def test_the_same_names_as_java_or_not_at_all() -> None:
    drawn = EXPRESSIONS.keys() - set(BY_HAND)
    assert set(BY_HAND) <= EXPRESSIONS.keys() and len(BY_HAND) >= 60 and len(drawn) >= 2_000
    assert list(differences(EXPRESSIONS)) == []


def test_much_is_followed() -> None:
    """Nothing is gained by refusing everything."""
    taken = [regex for regex, java in EXPRESSIONS.items() if set(java) <= {"0", "1"}]
    followed = [regex for regex in taken if not isinstance(ours(regex), Refusal)]
    assert len(followed) > 0.4 * len(taken)


@pytest.mark.parametrize(
    "regex",
    [
        "orders",
        "orders.*",
        r"orders\..*",
        "orders|payments",
        "(eu|us)[._-]orders[0-9]{1,3}",
        "[^_].*",
        r"\w+-\d+",
        "^orders.*$",
        r"(?:a|b)+?\.c??",
    ],
)
def test_what_means_the_same_stays_as_it_is(regex: str) -> None:
    assert follow(regex) == regex


@pytest.mark.parametrize(
    ("regex", "covered"),
    [
        ("(?!__).*", {n for n in NAMES if not n.startswith("__")}),
        ("^(?!__|test).+$", {n for n in NAMES if not n.startswith(("__", "test"))}),
        ("(?!orders$).*", set(NAMES) - {"orders"}),
        ("[a-z&&[^x]]+", {n for n in NAMES if n.isalpha() and n.islower() and "x" not in n}),
        (r"\p{javaLowerCase}+", {n for n in NAMES if n.isalpha() and n.islower()}),
        (r"\Qorders.eu\E", {"orders.eu"}),
        ("(?i)ORDERS", {"orders", "Orders"}),
        ("[a-z]++", {n for n in NAMES if n.isalpha() and n.islower()}),
    ],
)
def test_what_is_said_otherwise_in_re2(regex: str, covered: set[str]) -> None:
    mask = ours(regex)
    assert {name for name, bit in zip(NAMES, mask, strict=True) if bit == "1"} == covered


@pytest.mark.parametrize(
    "regex",
    [
        "(?!__)orders.*",
        "(?=orders).*",
        "(?<!x)orders",
        "(?>a*)b",
        "a*+a",
        r"(a)\1",
        r"\h*a",
        r"\R",
        "[a-z&&[^b-y&&[x]]]+",
        "[a-c[x-z]]+",
        "(?x)a b",
        "(?iu)a",
        r"\p{IsAlphabetic}+",
        "(?<n>a)",
        "a{2}{3}",
        "[]a]",
        "(" * 30 + "a" + ")" * 30,
        "a\ud800",
    ],
)
def test_what_only_java_knows_is_not_followed(regex: str) -> None:
    found = follow(regex)
    assert isinstance(found, Refusal) and not found.by_java and found.reason


@pytest.mark.parametrize("regex", ["*a", "(a", "a)", "[a", "a{2,1}", "a{", "a**", "[z-a]", r"\y"])
def test_what_java_refuses_is_nobodys(regex: str) -> None:
    found = follow(regex)
    assert isinstance(found, Refusal) and found.by_java
