"""The checker on runs that are written by hand: what is right stays unnamed, each thing that is
wrong gets its name. No processes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chaos.checker import Found, check, elections, judged
from tests.chaos.run import concluded
from zkcoord.verdict.facts import (
    Delivered,
    Fact,
    OffsetCommitted,
    OwnershipEnd,
    Partition,
    PartitionAssigned,
    Produced,
    Released,
    SessionEnded,
)

P = Partition("orders", 0)


def run(*facts: Fact) -> Found:
    return judged(facts)


def assigned(t: int, member: str, offset: int) -> PartitionAssigned:
    return PartitionAssigned(t, P, member, offset)


def delivered(t: int, member: str, first: int, last: int) -> Delivered:
    return Delivered(t, P, member, first, last)


PRODUCED = Produced(1, P, 10)
KILLED = Released(50, None, "one", OwnershipEnd.KILLED)
LOST = Released(90, P, "one", OwnershipEnd.LOST)


def test_a_clean_run() -> None:
    found = run(
        PRODUCED,
        assigned(2, "one", 0),
        delivered(3, "one", 0, 4),
        Released(4, P, "one", OwnershipEnd.REVOKED),
        assigned(5, "two", 5),
        delivered(6, "two", 5, 9),
        Released(7, None, "two", OwnershipEnd.CLOSED),
    )
    assert found.clean and (found.produced, found.delivered, found.excused) == (10, 10, 0)


def test_a_record_that_was_passed_by_is_a_lost_write_and_the_poll_skipped_it() -> None:
    found = run(
        PRODUCED, assigned(2, "one", 0), delivered(3, "one", 0, 3), delivered(4, "one", 6, 9)
    )
    assert found.amounts == {"lost-write": 2, "poll-skip": 2}


def test_a_new_owner_that_begins_behind_what_is_stored_skips() -> None:
    found = run(PRODUCED, assigned(2, "one", 0), delivered(3, "one", 2, 9))
    assert found.amounts == {"lost-write": 2, "poll-skip": 2}


def test_records_at_the_end_are_unseen_not_lost() -> None:
    assert run(PRODUCED, assigned(2, "one", 0), delivered(3, "one", 0, 5)).amounts == {"unseen": 4}


def test_a_poll_that_goes_back_is_nonmonotonic_and_its_records_are_there_twice() -> None:
    found = run(
        PRODUCED, assigned(2, "one", 0), delivered(3, "one", 0, 9), delivered(4, "one", 7, 9)
    )
    assert found.amounts == {"nonmonotonic-poll": 3, "duplicate": 3}


def test_after_a_kill_only_what_was_not_committed_may_come_again_and_once() -> None:
    begin = (
        PRODUCED,
        assigned(2, "one", 0),
        delivered(3, "one", 0, 9),
        OffsetCommitted(4, P, "one", 6),
        KILLED,
    )
    assert run(*begin, assigned(60, "two", 6), delivered(61, "two", 6, 9)).excused == 4
    assert run(*begin, assigned(60, "two", 6), delivered(61, "two", 6, 9)).clean
    assert run(*begin, assigned(60, "two", 5), delivered(61, "two", 5, 9)).amounts == {
        "I4": 1,
        "duplicate": 1,
    }
    twice = run(
        *begin,
        assigned(60, "two", 6),
        delivered(61, "two", 6, 9),
        Released(62, P, "two", OwnershipEnd.REVOKED),
        assigned(63, "three", 6),
        delivered(64, "three", 6, 9),
    )
    assert twice.amounts == {"duplicate": 4}


def test_a_member_that_hears_late_of_its_loss_did_nothing_wrong() -> None:
    found = run(
        PRODUCED,
        assigned(2, "one", 0),
        delivered(3, "one", 0, 4),
        assigned(60, "two", 0),
        delivered(61, "two", 0, 9),
        LOST,
    )
    assert found.clean and found.excused == 5


def test_what_was_given_up_just_before_the_session_ended_may_not_have_been_written() -> None:
    begin = (
        PRODUCED,
        assigned(2, "one", 0),
        delivered(3, "one", 0, 5),
        OffsetCommitted(4, P, "one", 4),
        Released(5, P, "one", OwnershipEnd.REVOKED),
    )
    again = (assigned(60, "two", 4), delivered(61, "two", 4, 9))
    for end in (SessionEnded(90, "one"), Released(50, None, "one", OwnershipEnd.KILLED)):
        found = run(*sorted((*begin, end, *again), key=lambda fact: fact.t_ns))
        assert found.clean and found.excused == 2
    assert run(*begin, *again).amounts == {"duplicate": 2}, "its session lives"
    assert (
        run(
            *begin,
            PartitionAssigned(50, Partition("orders", 1), "one", 0),
            *again,
            SessionEnded(90, "one"),
        ).amounts["duplicate"]
        == 2
    ), "it went on, so that was written"


def test_a_zombie_that_is_handed_records_after_another_began_is_found() -> None:
    found = run(
        PRODUCED,
        assigned(2, "one", 0),
        delivered(3, "one", 0, 4),
        assigned(60, "two", 0),
        delivered(61, "two", 0, 4),
        delivered(70, "one", 5, 9),
        LOST,
    )
    assert found.amounts["I3"] == 1


def test_a_member_that_gives_up_after_another_began_is_found() -> None:
    found = run(
        PRODUCED,
        assigned(2, "one", 0),
        delivered(3, "one", 0, 4),
        assigned(60, "two", 5),
        delivered(61, "two", 5, 9),
        Released(90, P, "one", OwnershipEnd.REVOKED),
    )
    assert found.amounts == {"I3": 1}


def test_a_member_that_was_stopped_while_it_gave_something_up_gave_up_nothing() -> None:
    begin = (
        PRODUCED,
        assigned(2, "one", 0),
        delivered(3, "one", 0, 4),
        assigned(60, "two", 2),
        delivered(61, "two", 2, 9),
    )
    found = run(*begin, Released(90, P, "one", OwnershipEnd.REVOKED), SessionEnded(91, "one"))
    assert found.clean and found.excused == 3
    assert (
        run(
            *begin,
            delivered(70, "one", 5, 5),
            Released(90, P, "one", OwnershipEnd.REVOKED),
            SessionEnded(91, "one"),
        ).amounts["I3"]
        == 1
    ), "it was handed what was another's"


def test_a_lost_member_that_is_back_counts_as_another_ownership() -> None:
    found = run(
        PRODUCED,
        assigned(2, "one", 0),
        delivered(3, "one", 0, 4),
        Released(50, P, "one", OwnershipEnd.LOST),
        assigned(60, "one", 0),
        delivered(61, "one", 0, 9),
        Released(90, P, "one", OwnershipEnd.LOST),
    )
    assert found.clean and found.excused == 5


def test_who_was_not_told_to_hold_a_partition_is_found() -> None:
    assert run(PRODUCED, delivered(3, "one", 0, 9)).amounts == {"I5": 10}


def test_nothing_produced_is_no_success() -> None:
    assert not run().clean


def write(path: Path, *lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(
        tmp_path / "run/producers/p.jsonl", {"event": "produced", "t": 1, "ends": {"orders-0": 3}}
    )
    write(
        tmp_path / "run/consumers/one.jsonl",
        {"event": "assigned", "t": 2, "offsets": {"orders-0": 0}},
        {"event": "records", "t": 3, "count": 3, "ranges": {"orders-0": [[0, 2, 3, 1]]}},
    )
    write(
        tmp_path / "run/coordinators/k1-1/journal.jsonl",
        {"t": 1, "kind": "term", "event": "elected", "epoch": 4},
        {"t": 9, "kind": "term", "event": "elected", "epoch": 6},
    )
    write(
        tmp_path / "run/coordinators/k2-1/journal.jsonl",
        {"t": 5, "kind": "term", "event": "elected", "epoch": 5},
    )
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/k1-1.log").write_text("level=warning member evicted\n", encoding="utf-8")
    return tmp_path


def test_a_folder(folder: Path) -> None:
    found = check(folder)
    assert found.clean and found.terms == 3
    assert [epoch for _, epoch, _ in elections(folder / "run/coordinators")] == [4, 5, 6]


def test_two_coordinators_of_one_epoch_are_found(folder: Path) -> None:
    write(
        folder / "run/coordinators/k3-1/journal.jsonl",
        {"t": 6, "kind": "term", "event": "elected", "epoch": 5},
    )
    assert check(folder).amounts == {"I1": 1}


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "time=1 level=error msg=x",
        "the loop ends after an error that should not happen",
    ],
)
def test_what_is_not_expected_in_a_log_is_found(folder: Path, line: str) -> None:
    (folder / "logs/a1-1.log").write_text(f"fine\n{line}\n", encoding="utf-8")
    assert check(folder).amounts == {"log": 1}


def test_a_line_that_is_none_is_counted(folder: Path) -> None:
    write(folder / "run/consumers/two.jsonl", {"event": "records", "t": 3})
    assert check(folder).amounts == {"unreadable": 1}


def test_what_is_said_of_a_full_disk_is_expected_where_it_was_full(folder: Path) -> None:
    (folder / "logs/k1-1.log").write_text(
        "time=1 level=error msg=the journal in /j cannot be written (No space left on device):"
        " records are lost\n",
        encoding="utf-8",
    )
    assert check(folder).amounts == {"log": 1}
    assert check(folder, disk_full=True).clean


def test_a_run_that_was_broken_off_says_so_first_and_leaves_records_to_nobody() -> None:
    found = concluded(
        run(PRODUCED, assigned(2, "one", 0), delivered(3, "one", 0, 5)),
        [("scenario", "the first of two"), ("end", "the second")],
    )
    assert found.amounts == {"scenario": 1, "end": 1}
    assert found.examples == ["scenario: the first of two", "end: the second"]
    assert concluded(run(PRODUCED, assigned(2, "one", 0)), [("end", "x")]).amounts == {
        "unseen": 10,
        "end": 1,
    }
