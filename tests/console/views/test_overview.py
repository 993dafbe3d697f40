"""Which groups the list shows, in which order."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl

import pytest

from tests.console.pictures import line, picture
from zkcoord.console.picture import Picture
from zkcoord.console.views.overview import NOT_WELL, ROWS, SORTS, Wanted, overview, wanted
from zkcoord.core.model import GroupState
from zkcoord.health.rules import HealthVerdict
from zkcoord.health.trouble.kinds import Trouble, TroubleKind

LINES = [
    line("a", HealthVerdict.OK, members=2, lag=1),
    line("b", HealthVerdict.STALL, members=1, lag=9, topics=("Clicks",)),
    line("c", HealthVerdict.WARN, GroupState.EMPTY, members=0, lag=5),
    line("d", HealthVerdict.OK, members=2, lag=3),
]
RATES = {"a": 7}


def names(**query: str) -> list[str]:
    found = overview(picture(LINES), wanted(query), lambda name: RATES.get(name, 0))
    return [one.name for one, _ in found.rows]


def test_the_worst_first_and_then_by_name() -> None:
    assert names() == ["b", "c", "d", "a"]


@pytest.mark.parametrize(
    ("sort", "down", "up"),
    [
        ("name", "dcba", "abcd"),
        ("lag", "bcda", "adcb"),
        ("seconds", "bcda", "adcb"),
        ("members", "adbc", "cbad"),
        ("rebalances", "abcd", "bcda"),
        ("state", "abdc", "cabd"),
    ],
)
def test_sorting(sort: str, down: str, up: str) -> None:
    assert "".join(names(sort=sort, order="down")) == down
    assert "".join(names(sort=sort, order="up")) == up


def test_finding_and_filters() -> None:
    assert names(find="CLICK") == ["b"] and names(find="nothing") == []
    assert names(verdict=NOT_WELL) == ["b", "c"] and names(verdict="OK") == ["d", "a"]
    assert names(state="Empty") == ["c"]
    found = overview(picture(LINES), wanted({"find": "b"}), lambda _: 0)
    assert found.verdicts == {"ERROR": 1, "OK": 2, "WARN": 1}, "of all groups"
    assert found.states == {"Empty": 1, "Stable": 3}


@pytest.mark.parametrize(
    "query",
    [
        {"sort": "<script>"},
        {"order": "sideways"},
        {"verdict": "FINE"},
        {"state": "Asleep"},
        {"page": "-1"},
        {"page": "0"},
        {"page": "٣"},
        {"page": "9" * 400},
        {"page": "1e3"},
        {"unknown": "x"},
    ],
)
def test_what_is_no_word_of_ours_counts_as_usual(query: dict[str, str]) -> None:
    assert "".join(names(**query)) == "bcda"


def test_a_long_search_is_cut() -> None:
    assert len(wanted({"find": "x" * 5_000}).find) == 200


@pytest.mark.parametrize(
    "asked",
    [
        Wanted(),
        Wanted(
            find="a b&c=d#e%f", verdict=NOT_WELL, state="Empty", sort="name", down=False, page=3
        ),
        Wanted(sort="name", down=True),
        Wanted(sort="lag", down=False),
    ],
)
def test_an_address_asks_for_the_same_again(asked: Wanted) -> None:
    assert wanted(dict(parse_qsl(asked.query))) == asked


def test_a_click_on_a_columns_head() -> None:
    assert Wanted().query == "" and Wanted().sorted_by("verdict").down is False
    assert Wanted(page=5).sorted_by("name") == Wanted(sort="name", down=False, page=1)
    assert set(SORTS) >= {"verdict", "name"}


def test_pages() -> None:
    many = picture(line(f"g{n:04}") for n in range(2 * ROWS + 1))
    asked = wanted({"sort": "name", "page": "3"})
    found = overview(many, asked, lambda _: 0)
    assert (found.pages, found.found, len(found.rows)) == (3, 2 * ROWS + 1, 1)
    beyond = overview(many, asked.at(999), lambda _: 0)
    assert beyond.wanted.page == 3 and [one.name for one, _ in beyond.rows] == ["g0200"]
    assert overview(picture(), wanted({"page": "9"}), lambda _: 0).pages == 1


def trouble(kind: TroubleKind) -> Trouble:
    return Trouble(kind, "g", "it was seen", "mend it", 1, "m1")


def test_groups_in_trouble_are_counted_filtered_and_sorted() -> None:
    lines = [
        replace(line("a"), troubles=(trouble(TroubleKind.IDLE_MEMBERS),)),
        line("b"),
        replace(
            line("c"),
            troubles=(trouble(TroubleKind.SLOW_HANDLER), trouble(TroubleKind.IDLE_MEMBERS)),
        ),
    ]
    seen = Picture(lines={one.name: one for one in lines})

    def shown(**query: str) -> str:
        return "".join(one.name for one, _ in overview(seen, wanted(query), lambda _: 0).rows)

    assert shown(trouble="any", sort="name") == "ac"
    assert shown(trouble="slow-handler") == "c" and shown(trouble="poll-interval") == ""
    assert shown(sort="troubles") == "cab" and shown(trouble="<b>", sort="name") == "abc"
    assert overview(seen, wanted({}), lambda _: 0).troubles == {
        "idle-members": 2,
        "slow-handler": 1,
    }
    asked = Wanted(trouble="any")
    assert wanted(dict(parse_qsl(asked.query))) == asked
