"""Parts of the machine of classic groups: votes, expiries, the first barrier, bounds, and what is
answered without a group.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.core.classic.machine_side import MachineSide
from tests.core.classic.scenario import OPTIONS
from zkcoord.core.classic import joining
from zkcoord.core.classic import state as bounds
from zkcoord.core.classic.barrier import STALE_ENTRIES_MAX, Expiries, initial_barrier
from zkcoord.core.classic.requests import (
    ClassicBeat,
    ClassicDelete,
    ClassicDescribe,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicRequest,
    ClassicSync,
    CommitCheck,
    classic_refusal,
    while_loading,
)
from zkcoord.core.classic.seats import Seat, Seats, member_of
from zkcoord.core.classic.standing import WaitingRequests
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.classic.table import ClassicTransitionError, Trigger, judged
from zkcoord.core.classic.voting import Ballot
from zkcoord.core.error_codes import WireCode

JOIN = ClassicJoin("", "a-1", "consumer", (("range", b"m"),), 10_000, 10_000)
REQUESTS: tuple[ClassicRequest, ...] = (
    JOIN,
    ClassicSync("a", 1),
    ClassicBeat("a", 1),
    ClassicLeave(()),
    CommitCheck("a", 1),
    ClassicDescribe(),
    ClassicDelete(),
)


def named(*names: str) -> tuple[tuple[str, bytes], ...]:
    """A list of protocols."""
    return tuple((name, b"") for name in names)


@pytest.mark.parametrize(
    ("lists", "elected"),
    [
        ([named("a")], "a"),
        ([named("a", "b"), named("b", "a")], "a"),
        ([named("a", "b"), named("b", "a"), named("b", "a")], "b"),
        ([named("a", "b"), named("c", "b")], "b"),
        ([named("c", "a", "b"), named("b", "a"), named("b", "a")], "b"),
    ],
)
def test_votes(lists: list[tuple[tuple[str, bytes], ...]], elected: str) -> None:
    ballot = Ballot()
    for one in lists:
        ballot.add(one)
    assert ballot.elected(lists) == elected


def test_a_ballot_accepts_what_all_support() -> None:
    ballot = Ballot()
    ballot.add(named("a", "b"))
    ballot.add(named("b", "b"))
    assert ballot.accepts(named("x", "b"))
    assert not ballot.accepts(named("a"))
    ballot.remove(named("b", "b"))
    assert ballot.accepts(named("a"))
    ballot.remove(named("a", "b"))
    assert not ballot._supporters  # names that nobody has are not kept
    assert ballot.accepts(named("x"))
    assert not ballot.accepts(())


@pytest.mark.parametrize("seed", range(20))
def test_expiries_are_those_of_a_list(seed: int) -> None:
    chance, expiries, model = random.Random(seed), Expiries(), dict[str, int]()
    now_ms = 0
    for _ in range(2_000):
        name = str(chance.randrange(100))
        act = chance.randrange(4)
        if act == 0:
            model.pop(name, None)
            expiries.disarm(name)
        elif act < 3:
            model[name] = now_ms + chance.randrange(1, 50)
            expiries.arm(name, model[name])
        else:
            now_ms += chance.randrange(5)
            due = {n for n, at_ms in model.items() if at_ms <= now_ms}
            while (gone := expiries.gone(now_ms)) is not None:
                due.remove(gone)
                del model[gone]
            assert not due
        assert expiries.next_ms() == min(model.values(), default=None)
        assert len(expiries._heap) <= 2 * 100 + 64 + 100


@pytest.mark.parametrize("living", [0, 1, 100])
def test_expiries_keep_little_of_those_who_are_gone(living: int) -> None:
    expiries, most = Expiries(), 0
    for number in range(living):
        expiries.arm(f"lives-{number}", 500_000 - number)
    for number in range(1_000):
        expiries.arm(str(number), 1_000_000)
        most = max(most, len(expiries._heap))
        expiries.disarm(str(number))
        assert len(expiries._heap) <= 2 * living + STALE_ENTRIES_MAX
        assert len(expiries._earliest) <= len(expiries._heap)
    assert most == 2 * living + STALE_ENTRIES_MAX + 1
    expiries.arm("last", 5)
    assert expiries.next_ms() == 5
    assert expiries.gone(4) is None and expiries.gone(5) == "last"
    assert [expiries.gone(500_000) for _ in range(living)] == [
        f"lives-{number}" for number in reversed(range(living))
    ]


def test_who_is_heard_of_costs_no_entry() -> None:
    expiries = Expiries()
    for at_ms in (10, 10, 20, 30):
        expiries.arm("a", at_ms)
    assert len(expiries._heap) == 1 and expiries.next_ms() == 30


def test_whom_members_would_elect_changes_nothing() -> None:
    seats = Seats()
    for name, protocols in (("a", (("x", b"1"), ("y", b"2"))), ("b", named("y", "x"))):
        seats.add(Seat(member_of(join(1, protocols, instance=name), name)))
    other = member_of(join(2, named("x"), instance="b"), "c")
    assert seats.elected() == "x"
    assert seats.elected_with(other, "b") == "x"
    assert seats.elected_with(member_of(join(2, named("y"), instance="a"), "c"), "a") == "y"
    assert seats.ballot.accepts(named("y")) and seats.ballot.accepts(named("x"))
    assert seats.ballot.members == 2 and seats.metadata_bytes == 2
    seats.replace("b", other)
    assert not seats.ballot.accepts(named("y")) and seats.ballot.accepts(named("x"))
    assert seats.ballot.members == 2 and seats.metadata_bytes == 2


def test_who_comes_back_votes_in_the_place_of_who_was_there() -> None:
    seats = Seats()
    ways = {"xy": named("x", "y"), "yx": named("y", "x")}
    for name, way in (("a", "xy"), ("b", "yx")):
        seats.add(Seat(member_of(join(1, ways[way], instance=name), name)))
    again = member_of(join(2, ways["xy"], instance="a"), "a2")
    assert seats.elected_with(again, "a") == "x"
    seats.add(Seat(member_of(join(1, ways["yx"], instance="c"), "c")))
    assert seats.elected() == seats.elected_with(again, "a") == "y"
    assert seats.elected_with(member_of(join(2, ways["xy"], instance="b"), "b2"), "b") == "x"


def test_what_waits_is_bounded_by_its_bytes() -> None:
    options = bounds.ClassicOptions(waiting_bytes_max=100)
    waiting = WaitingRequests(options)
    large = join(1, (("range", bytes(60)),))
    assert waiting.add(1, large)
    assert not waiting.add(2, large)
    assert waiting.add(3, ClassicBeat("a", 1))
    assert waiting.add(4, ClassicSync("a", 1, assignments=(("a", bytes(40)),)))
    assert not waiting.add(5, ClassicSync("a", 1, assignments=(("a", b"1"),)))
    assert [waiting.next()[0] for _ in range(3)] == [1, 3, 4]
    assert not waiting
    assert waiting.add(6, join(1, (("range", bytes(200)),)))  # alone, whatever its size
    waiting.next()
    assert waiting.add(7, large)
    assert waiting.add(8, ClassicSync("a", 1, assignments=(("a", bytes(40)),)))


def test_a_first_barrier_ends_with_the_rebalance_timeout() -> None:
    barrier = initial_barrier(0, 300, 1_000)
    ends = []
    while True:
        ends.append(barrier.until_ms)
        barrier.newcomers = True
        if not barrier.is_extended(barrier.until_ms):
            break
    assert ends == [300, 600, 900, 1_000]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_while_a_group_is_loading(request_: ClassicRequest) -> None:
    """As testRequestHandlingWhileLoadingInProgress says."""
    codes = {ClassicSync: 27, ClassicBeat: 0}
    assert while_loading(request_).code == codes.get(type(request_), 14)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_refusal_has_the_code(request_: ClassicRequest) -> None:
    assert classic_refusal(request_, WireCode.NOT_COORDINATOR).code == 16


def test_a_transition_that_the_table_does_not_have() -> None:
    with pytest.raises(ClassicTransitionError):
        judged(ClassicPhase.EMPTY, Trigger.JOIN, ClassicPhase.STABLE)


def said(side: MachineSide, request: ClassicJoin) -> ClassicJoined | None:
    """To a JoinGroup."""
    answer = side.answer(side.send(request, 9), False)
    assert answer is None or isinstance(answer, ClassicJoined)
    return answer


def join(member: int, protocols: tuple[tuple[str, bytes], ...], **more: object) -> ClassicJoin:
    """Of an old client, which is a member at once."""
    fields: dict[str, object] = {"named_first": False, **more}
    return ClassicJoin(
        "",
        f"m-{member}",
        "consumer",
        protocols,
        10_000,
        10_000,
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (join(1, (("range", bytes(bounds.MEMBER_METADATA_BYTES_MAX + 1)),)), 81),
        (join(1, named(*(f"p{n}" for n in range(bounds.PROTOCOLS_MAX + 1)))), 23),
        (join(1, named("x" * (bounds.PROTOCOL_CHARS_MAX + 1))), 23),
        (join(1, named("range"), instance="x" * (bounds.INSTANCE_CHARS_MAX + 1)), 42),
    ],
)
def test_what_is_too_large_is_refused(request_: ClassicJoin, code: int) -> None:
    answer = said(MachineSide(OPTIONS), request_)
    assert answer is not None and answer.code == code


def test_what_is_just_not_too_large_is_not_refused() -> None:
    side = MachineSide(OPTIONS)
    name = "x" * bounds.PROTOCOL_CHARS_MAX
    names = [name, *(f"p{n}" for n in range(bounds.PROTOCOLS_MAX - 1))]
    lists = tuple((one, b"") for one in names)
    assert said(side, join(1, lists, instance="x" * bounds.INSTANCE_CHARS_MAX)) is None


def test_ids_that_are_not_used_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "PENDING_MAX", 3)
    side = MachineSide(OPTIONS)
    codes = []
    for number in range(4):
        answer = said(side, join(number, named("range"), named_first=True))
        assert answer is not None
        codes.append(int(answer.code))
    assert codes == [79] * 3 + [81]


def test_the_metadata_of_all_is_bounded() -> None:
    side = MachineSide(bounds.ClassicOptions())
    one = (("range", bytes(bounds.MEMBER_METADATA_BYTES_MAX)),)
    fitting = bounds.GROUP_METADATA_BYTES_MAX // bounds.MEMBER_METADATA_BYTES_MAX
    answers = [said(side, join(number, one)) for number in range(fitting + 1)]
    assert answers[:-1] == [None] * fitting
    assert answers[-1] is not None and answers[-1].code == 81
    one_more = said(side, join(98, (("range", b"1"),)))
    assert one_more is not None and one_more.code == 81
    assert said(side, join(99, (("range", b""),))) is None
    again = replace(join(0, one), member_id="m-0")  # its own do not count twice
    assert said(side, again) is None


def test_words_for_people_are_cut() -> None:
    side = MachineSide(OPTIONS)
    long = "x" * 1_000
    said(side, join(1, named("range"), client_id=long, host=long, reason=long))
    side.machine_only("form", [], {})
    assert side.written is not None
    member = side.written.members[0]
    assert len(member.client_id) == len(member.host) == bounds.WORDS_CHARS_MAX
