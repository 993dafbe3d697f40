"""Who is gone, and whose instance somebody else has taken, is told so before that is decided."""

from __future__ import annotations

from tests.core.classic.scenario import OPTIONS, Play, Scenario
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide


def play(text: str) -> None:
    """These lines of a scenario, through nodes."""
    lines = tuple(enumerate((line.strip() for line in text.strip().splitlines()), 1))
    Play(ServedSide(OPTIONS)).run(Scenario("instances", lines))


def test_who_was_silent_and_whose_instance_is_taken_is_fenced() -> None:
    play(
        """
        group a b:i
        b leave -> 0 0
        b beat -> 25
        c enter i=i -> waits
        b beat -> 82
        """
    )


def test_who_has_left_is_unknown_as_long_as_nobody_has_its_instance() -> None:
    play(
        """
        group a b:i
        b leave -> 0 0
        b beat -> 25
        c enter i=j -> waits
        b beat -> 25
        """
    )


def test_who_has_left_is_no_member_for_the_next_coordinator() -> None:
    play(
        """
        group a b c
        b leave -> 0 0
        a join -> waits
        restart
        b beat -> 25
        c join -> 0 gen=2
        a gets 0 gen=2 m=a,c
        """
    )


def test_who_has_left_last_is_no_member_for_the_next_coordinator() -> None:
    play(
        """
        group a b
        b leave -> 0 0
        restart
        b beat -> 25
        a join -> 0 gen=2 m=a
        """
    )


def test_that_somebody_left_is_written_before_it_is_answered() -> None:
    """Or the next coordinator would take it for a member."""
    side = ServedSide(OPTIONS)
    written: list[str] = []
    side.zk.observers.append(lambda txn, tree: written.extend(path for path, _, _ in txn.changes))
    lines = ("group a b", "b leave -> 0 0")
    Play(side).run(Scenario("instances", tuple(enumerate(lines, 1))))
    asked = [path for path in written if path.startswith(f"{PATHS.requests}/")][-1]
    begun, answered = (len(written) - written[::-1].index(p) for p in (PATHS.round(GROUP), asked))
    last_ask = written.index(asked)
    assert PATHS.round(GROUP) in written[last_ask:] and begun < answered
