"""What is told to whom, and when: how much one command and one write carry, how long a start waits
for the rest, and the order of stops and starts in the eager form.
"""

from __future__ import annotations

import pytest

from zkcoord.core.events import Send, Write
from zkcoord.core.group.command_planner import command_bytes
from zkcoord.core.model import Command, Option

from .timed import WINDOW_MS, Timed, when

BOTH = "protocols=cooperative,eager"


def group(*lines: str, options: str = "", partitions: int = 4) -> Timed:
    """A group that has everything settled, a little later."""
    found = Timed(
        f"options debounce_again_ms=10 debounce_storm_ms=10 {options}",
        "elected 3",
        f"topic t {partitions}",
        "ready",
        *lines,
    )
    found.pass_ms(1_500)
    return found


def writes(g: Timed) -> list[list[Command]]:
    """The commands of each write that had some."""
    found = [
        [op.command for op in action.ops if isinstance(op, Send)]
        for _, action in g.answers
        if isinstance(action, Write)
    ]
    return [commands for commands in found if commands]


# topic, member's name in JSON, and what else an ack takes; the data of an assignor, none of it, too
PARTITION_BYTES = len("t") + len('"a"') + 32


@pytest.mark.parametrize(
    ("most", "each"),
    [(2 + 2 * PARTITION_BYTES, 2), (2 + 2 * PARTITION_BYTES - 1, 1), (1, 1), (100_000, 4)],
)
def test_a_command_carries_so_many_partitions_and_one_at_least(most: int, each: int) -> None:
    g = group("member g a@1 t:1", options=f"command_bytes_max={most}")
    assert [len(c.start) for commands in writes(g) for c in commands] == [each] * (4 // each)


@pytest.mark.parametrize(
    ("most", "each"), [(7 + 2 * PARTITION_BYTES, 2), (6 + 2 * PARTITION_BYTES, 1)]
)
def test_what_an_assignor_has_for_a_member_counts_in_its_command(most: int, each: int) -> None:
    g = Timed(
        f"options debounce_ms=10 external_assignors=racks command_bytes_max={most}",
        "elected 1",
        "topic t 4",
        "ready",
        "member g a@11 t:1 assignors=racks",
    )
    g.pass_ms(1_500)
    g.say("answer g last t-0=a t-1=a t-2=a t-3=a data.a=local")
    g.pass_ms(1_500)
    first, *_ = [c for commands in writes(g) for c in commands]
    assert (first.user_data, len(first.start)) == ("local", each)


def test_a_write_carries_so_many_commands_and_one_at_least() -> None:
    names = [f"member g {name}@{n} t:1" for n, name in enumerate("abcd", 1)]
    ((a, b, *_),) = writes(group(*names, options="acl_bytes=100"))
    two = 2 * 100 + command_bytes(a) + command_bytes(b)
    for most, each in ((two, 2), (two - 1, 1), (1, 1)):
        g = group(*names, options=f"acl_bytes=100 commands_bytes_per_write_max={most}")
        assert [len(commands) for commands in writes(g)] == [each] * (4 // each)
    g = group(*names, options="ops_per_write_max=2")
    assert [len(commands) for commands in writes(g)] == [2, 2]


def test_each_start_waits_for_its_own_time() -> None:
    g = group("member g a@1 t:1", "member g b@2 t:1", options="start_gather_ms=5000", partitions=24)
    g.say("member g c@3 t:1")
    first_ms = g.now + WINDOW_MS
    g.pass_ms(1_000, deaf="b")
    g.say("member g d@4 t:1")
    second_ms = g.now + 10  # `debounce_again_ms` of `group`
    found = g.pass_ms(20_000, deaf="b")
    assert when(found, "start-fetcher c")[:1] == [first_ms + 5_000]
    assert when(found, "start-fetcher d")[:1] == [second_ms + 5_000]


def test_a_command_says_whether_more_is_to_come() -> None:
    """A start, of what others have yet to give up, or does not fit in; a stop, of what the member
    is to be started with afterwards.
    """
    g = group("member g a@1 t:1", "member g b@2 t:1", options="start_gather_ms=20", partitions=24)
    before = len(writes(g))
    g.say("member g c@3 t:1")
    g.pass_ms(500, deaf="b")
    g.pass_ms(500)
    found = [c for commands in writes(g)[before:] for c in commands]
    assert [(c.member, c.option, c.more) for c in found] == [
        ("a", Option.STOP, False),
        ("b", Option.STOP, False),
        ("c", Option.START, True),
        ("c", Option.START, False),
    ]
    g = group("member g a@1 t:1", options="partitions_per_command_max=3")
    assert [c.more for commands in writes(g) for c in commands] == [True, False]


def test_a_stop_says_that_a_start_follows() -> None:
    members = (f"member g {name}@{n} t:1 assignors=range" for n, name in enumerate("abd", 1))
    g = group(*members, partitions=24)
    before = len(writes(g))
    g.say("member g c@4 t:1 assignors=range")
    g.pass_ms(1_000)
    stops = [c for commands in writes(g)[before:] for c in commands if c.option is Option.STOP]
    assert {c.member: (len(c.stop), c.more) for c in stops} == {
        "a": (2, False),
        "b": (4, True),
        "d": (2, False),
    }, "b is to have what a gives up"


def test_a_stop_says_that_a_start_of_what_is_free_follows() -> None:
    members = (f"member g {name}@{n} t:1 assignors=range" for n, name in enumerate("ab", 1))
    g = group(*members, partitions=4)
    before = len(writes(g))
    g.say("topic t 8")
    g.pass_ms(1_000, deaf="a,b")
    stops = [c for commands in writes(g)[before:] for c in commands if c.option is Option.STOP]
    assert [(c.member, len(c.stop), c.more) for c in stops] == [("b", 2, True)]


def test_who_has_a_start_waits_from_its_end() -> None:
    g = group("member g a@1 t:1", "member g b@2 t:1", options="start_gather_ms=50", partitions=24)
    g.say("member g c@3 t:1")
    g.pass_ms(500, deaf="b,c")
    g.say("topic t 33")
    g.pass_ms(30, deaf="b,c")
    g.say("ack g c")
    acked_ms = g.now
    assert when(g.pass_ms(1_000, deaf="b"), "start-fetcher c") == [acked_ms + 50]


def test_an_old_consumer_is_not_started_and_waited_for() -> None:
    """What it is to have is free, and others are still giving up more."""
    members = ("mode g mixed", "member g y@1 t:1", "member g z@2 t:1")
    g = group(*members, options="start_gather_ms=5000", partitions=12)
    g.say("member g yy@3 t:1 legacy")
    g.pass_ms(300, deaf="z")
    view = g.core.groups["g"].view
    assert "yy" in view.assignable and "yy" in view.coming
    assert not g.core.groups["g"].planner.gathering and not when(g.pass_ms(1_000), "fetcher yy")


# the eager form


def test_a_recall_is_over_when_the_group_is_cooperative() -> None:
    g = group(f"member g a@1 t:1 {BOTH}", f"member g b@2 t:1 {BOTH}")
    g.say("member g e@3 t:1 protocols=eager")
    assert when(g.pass_ms(100, deaf="b,e"), "stop-fetcher b")
    g.say("gone g e")
    before = len(writes(g))
    g.pass_ms(2_000, deaf="b")
    assert [c.member for commands in writes(g)[before:] for c in commands] == ["a"]
    g.pass_ms(2_000)
    later = [c for commands in writes(g)[before:] for c in commands]
    assert {c.option for c in later} == {Option.START}, "nobody stops again"
    assert g.say("state")[0].endswith("a=t[0,2] b=t[1,3]")


def test_while_a_stop_is_out_nothing_is_started_and_nobody_else_recalled() -> None:
    """The stop is from before the group was eager, and what it is about stays after all."""
    g = group(f"member g a@1 t:1 {BOTH}", "topic u 2")
    g.say(f"member g b@2 t:1 {BOTH}")
    assert when(g.pass_ms(100, deaf="a"), "stop-fetcher a")
    g.say("gone g b", "member g e@3 u:1 protocols=eager")
    assert not when(g.pass_ms(1_000, deaf="a"), "fetcher")
    found = g.pass_ms(1_000)
    assert when(found, "start-fetcher a") and when(found, "start-fetcher e")
    assert not when(found, "stop-fetcher")


def test_what_is_free_is_not_started_together_with_a_recall() -> None:
    g = group("member g a@1 t:1 protocols=eager", "topic u 2", options="start_gather_ms=0")
    g.say("member g b@2 t:1,u:1 protocols=eager")
    found = g.pass_ms(100, deaf="a")
    assert when(found, "stop-fetcher a") and not when(found, "start-fetcher")


def test_a_start_of_one_holds_nobody_else_up() -> None:
    g = group("member g a@1 t:1 protocols=eager", "member g b@2 t:1 protocols=eager")
    g.say("topic t 5")
    assert when(g.pass_ms(500, deaf="a"), "start-fetcher a")
    g.say("topic t 6")
    assert when(g.pass_ms(500, deaf="a"), "start-fetcher b")
