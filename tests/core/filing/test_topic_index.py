"""Which groups concern a topic, and what a group names that it has not named before."""

from __future__ import annotations

import pytest

from zkcoord.core.filing.topic_index import TopicIndex
from zkcoord.core.model import Member, Pattern, PatternKind, Subscription

ALL = Pattern(PatternKind.WHITE_LIST, ".*")
SOME = Pattern(PatternKind.WHITE_LIST, "t.*")


def named(name: str, *topics: str, pattern: Pattern | None = None) -> dict[str, Member]:
    """A member that names these."""
    wanted = Subscription(dict.fromkeys(topics, 1), pattern)
    return {name: Member(name, 1, 1, wanted)}


def test_what_members_name_unless_one_has_a_wildcard() -> None:
    index = TopicIndex()
    assert index.named() == frozenset()
    index.take("g", {"a"}, named("a", "t", "u"), set())
    assert index.named() == {"t", "u"}
    index.take("h", {"b"}, named("b", pattern=ALL), set())
    assert index.named() is None
    assert index.take("h", {"b"}, {}, set()).unused == [ALL]
    assert index.named() == {"t", "u"}


def test_what_is_named_for_the_first_time_is_news() -> None:
    index = TopicIndex()
    both = {**named("a", "t"), **named("b", "t", "u"), **named("c", pattern=ALL)}
    both |= named("d", pattern=SOME)
    news = index.take("g", both, both, {"away"})
    assert (news.topics, news.patterns) == ({"t", "u", "away"}, {ALL, SOME})
    again = named("e", "u", "v")
    news = index.take("g", {"e"}, {**both, **again}, {"away", "t", "late"})
    assert (news.topics, news.patterns) == ({"v", "late"}, set())
    assert index.groups_of_topic["t"] == {"g"}
    index.take("g", {*both, "e"}, {}, set())
    assert not index.groups_of_topic and not index.groups_of_pattern and not len(index)


@pytest.mark.parametrize("names", [["goes", "comes"], ["comes", "goes"]])
def test_what_one_named_who_goes_and_another_names_who_comes_is_no_news(names: list[str]) -> None:
    """In whichever order a set of names has them: what is news is filed anew, which takes a turn of
    the coordinator, and a replay must come to the same.
    """
    index = TopicIndex()
    index.take("g", ["goes", "far"], {**named("goes", "t", "u"), **named("far", "v")}, {"w"})
    news = index.take("g", [*names, "far"], named("comes", "t", "w", "new"), {"v"})
    assert news.topics == {"new"}
    assert set(index.groups_of_topic) == {"t", "w", "new", "v"}
    other = TopicIndex()
    other.take("g", ["goes"], named("goes", pattern=ALL), set())
    news = other.take("g", names, named("comes", pattern=ALL), set())
    assert (news.patterns, news.unused) == (set(), [])
