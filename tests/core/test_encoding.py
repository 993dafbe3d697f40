"""Every kind of event and action goes through JSON and comes back equal; what another version wrote
is refused in a sentence.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zkcoord.core import events as ev
from zkcoord.core.model import (
    Cause,
    Command,
    GroupMetadata,
    GroupState,
    Malformed,
    Member,
    Option,
    Owner,
    Pattern,
    PatternKind,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core_encoding import ForeignEncoding, codec

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
st.register_type_strategy(object, plain)

RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def there_and_back(hint: Any, value: Any) -> Any:
    return codec(hint).decode(json.loads(json.dumps(codec(hint).encode(value))))


@pytest.mark.parametrize("kind", get_args(ev.Event), ids=lambda kind: kind.__name__)
def test_every_kind_of_event_comes_back(kind: type[Any]) -> None:
    @RELAXED
    @given(st.from_type(kind))
    def check(event: Any) -> None:
        back = there_and_back(ev.Event, event)
        assert type(back) is kind and back == event

    check()


@pytest.mark.parametrize("kind", get_args(ev.Action), ids=lambda kind: kind.__name__)
def test_every_kind_of_action_comes_back(kind: type[Any]) -> None:
    @RELAXED
    @given(st.from_type(kind))
    def check(action: Any) -> None:
        assert there_and_back(ev.Action, action) == action

    check()


def test_types_are_kept_and_not_only_equality() -> None:
    """(t, 0) equals TopicPartition(t, 0), so equality alone would not see a tuple."""
    tp, thread = TopicPartition("t", 0), Thread("m", 1)
    delta = ev.GroupDelta(
        True,
        {
            "m": Member("m", 5, 6, Subscription({"t": 2})),
            "x": Malformed("registration", "x", "bad"),
            "y": None,
        },
        {"m": True},
        {("m", "7-1-0"): Command("m", 5, Option.START, 7, 1, 1, {tp: thread}, node="7-1-0")},
        {tp: Owner(6, thread, 1)},
    )
    back = there_and_back(
        ev.Event,
        ev.GroupChanged(
            4, "g", delta, {Pattern(PatternKind.WHITE_LIST, "a.*"): frozenset({"t", "u"})}
        ),
    )
    (owner,) = back.delta.owners
    assert type(owner) is TopicPartition and type(back.delta.owners[owner].thread) is Thread
    (key,) = back.delta.commands
    assert type(key) is tuple and type(next(iter(back.delta.commands[key].start))) is TopicPartition
    (pattern,) = back.matches
    assert pattern.kind is PatternKind.WHITE_LIST and type(back.matches[pattern]) is frozenset


def test_mappings_keep_their_order() -> None:
    """The core may look at it, so a replay must see the same."""
    topics = {name: Topic(name, "1", (0,)) for name in ("b", "c", "a")}
    owners = {TopicPartition("t", number): None for number in (2, 0, 1)}
    assert list(there_and_back(ev.Event, ev.TopicsChanged(1, topics)).topics) == ["b", "c", "a"]
    assert [
        tp.partition
        for tp in there_and_back(
            ev.Event, ev.GroupChanged(1, "g", ev.GroupDelta(owners=owners))
        ).delta.owners
    ] == [2, 0, 1]


def test_a_default_is_left_out_and_taken_again() -> None:
    assert codec(GroupMetadata).encode(GroupMetadata()) == {}
    written = codec(GroupMetadata).encode(
        GroupMetadata(state=GroupState.STABLE, cause=Cause("r", "t"))
    )
    assert written == {"state": "Stable", "cause": {"reason": "r", "trigger": "t"}}
    assert codec(CoordinatorOptions).decode({}) == CoordinatorOptions()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"Novelty": {}}, "'Novelty'"),
        ({"Tick": {"now_ms": 1}, "Ready": {"now_ms": 1}}, "names no kind"),
        ({}, "names no kind"),
        (None, "is not an object"),
        ({"Tick": {"now_ms": 1, "mood": "good"}}, "Tick has no field 'mood'"),
        ({"Tick": {}}, "now_ms of Tick is missing"),
        ({"Tick": {"now_ms": "1"}}, "not of type int"),
        ({"Tick": {"now_ms": True}}, "not of type int"),
        ({"Written": {"now_ms": 1, "group": "g", "token": 1, "outcome": "perhaps"}}, "no Outcome"),
        ({"TopicsChanged": {"now_ms": 1, "topics": []}}, "not an object"),
        ({"TopicsChanged": {"now_ms": 1, "topics": {}, "matches": [["a"]]}}, "not a list of pairs"),
        (
            {
                "TopicsChanged": {
                    "now_ms": 1,
                    "topics": {},
                    "matches": [[{"kind": [], "regex": ""}, []]],
                }
            },
            "no PatternKind",
        ),
        (
            {"GroupChanged": {"now_ms": 1, "group": "g", "delta": {"owners": [[["t"], None]]}}},
            "has not 2 parts",
        ),
    ],
)
def test_what_another_version_wrote_is_refused_in_a_sentence(value: Any, said: str) -> None:
    with pytest.raises(ForeignEncoding) as refused:
        codec(ev.Event).decode(value)
    text = str(refused.value)
    assert said in text and "another version" in text and "\n" not in text


def test_any_cut_or_change_of_a_written_event_is_refused_or_read() -> None:
    """Nothing but `ForeignEncoding` comes out, whatever plain value stands somewhere."""
    event = ev.TopicsChanged(
        1,
        {"t": Topic("t", "1", (0, 1)), "u": None, "v": Malformed("topic", "v", "r")},
        {Pattern(PatternKind.WHITE_LIST, "a"): frozenset({"t"})},
    )
    written = codec(ev.Event).encode(event)

    def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
        yield path
        inner = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        for key, one in inner:
            yield from places(one, (*path, key))

    for path in list(places(written)):
        for odd in (None, 7, "x", [], {}, [[]], [None, None], {"t": []}, True, 1.5):
            changed = json.loads(json.dumps({"root": written}))
            place = changed
            for key in ("root", *path)[:-1]:
                place = place[key]
            place[("root", *path)[-1]] = odd
            try:
                codec(ev.Event).decode(changed["root"])
            except ForeignEncoding:
                continue
