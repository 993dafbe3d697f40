"""Who is gone, and whose instance somebody else has taken, is told so before that is decided."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core.classic.scenario import OPTIONS, Play, Scenario
from tests.zk.classic.served_side import GROUP, PATHS, SETTLED_MS, ServedSide
from zkcoord.core.classic.requests import ClassicJoin, ClassicJoined
from zkcoord.zk.port import Delete


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


@pytest.mark.parametrize("is_late", [True, False])
def test_an_instance_is_taken_over_for_who_still_waits_for_that(
    monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """A request of a gateway that is dead may come late, with its end just behind it: its client
    has come by another gateway since, and would be fenced by itself (simulator, change 3225).
    """
    side = ServedSide(OPTIONS)
    group = tuple(enumerate(("group a b:i",), 1))
    Play(side).run(Scenario("instances", group))
    assert side.groups is not None
    before = [one.member_id for one in side.view().state.members]
    port = side.groups._edge.port
    sync, syncs = port.sync, []

    def synced(done: Callable[[object], None]) -> None:
        syncs.append(1)
        if is_late and side.groups is not None:
            (name,) = side.groups._confirming
            side.gateway.multi([Delete(PATHS.request(name))], lambda result: None)
            side.kernel.run_until(side.kernel.now + SETTLED_MS)
        sync(done)

    monkeypatch.setattr(port, "sync", synced)
    join = ClassicJoin("", "late", "consumer", (("range", b"m"),), 10_000, 60_000, "i")
    ticket = side.send(join, 9)
    side.settle()
    answer = side.answer(ticket, False)
    after = [one.member_id for one in side.view().state.members]
    assert syncs == [1]
    if is_late:
        assert answer is None and after == before and not side.groups._tickets
    else:
        assert answer is not None and after != before and "late" in after


@pytest.mark.parametrize("is_heard", [True, False])
def test_nobody_waits_for_who_was_gone_before_it_was_told_its_id(
    monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    """Nor is its instance taken: whoever has it now would be fenced by nobody (simulator, change
    1417). Whether the end of its request is heard of, or found when it is to be answered.
    """
    side = ServedSide(OPTIONS)
    Play(side).run(Scenario("instances", ((1, "group a"),)))
    (leader,) = side.view().state.members
    assert side.groups is not None
    group = side.groups.group(GROUP)
    assert group is not None
    bring = (("range", b"m"),)
    gone = side.send(ClassicJoin("", "gone", "consumer", bring, 10_000, 60_000, "i"), 9)
    side.settle()
    assert group.has_instance("i")
    if not is_heard:
        monkeypatch.setattr(side.groups, "_taken_back", lambda name: None)
    side.write([Delete(PATHS.request(side.names.pop(gone)))])
    again = side.send(ClassicJoin(leader.member_id, "", "consumer", bring, 10_000, 60_000), 9)
    answer = side.answer(again, False)
    assert isinstance(answer, ClassicJoined) and answer.generation == 2
    assert [one.metadata for one in answer.members].count(b"m") == (1 if is_heard else 2)
    assert not group.has_instance("i") and group.members == 1
