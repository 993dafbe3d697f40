"""Each rule finds what it is for, and says nothing about what is allowed."""

from __future__ import annotations

from zkcoord.verdict.facts import (
    Delivered,
    OffsetCommitted,
    OffsetSeen,
    OwnershipEnd,
    Partition,
    PartitionAssigned,
    PartitionFact,
    Produced,
    ProducerStopped,
    RecordsFound,
    Released,
    Steady,
)
from zkcoord.verdict.rules import PartitionJudge, PartitionReport, Rule

AT = Partition("orders", 3)
S = 1_000_000_000


def assigned(
    t: float, member: str, offset: int | None, order: int | None = None
) -> PartitionAssigned:
    return PartitionAssigned(int(t * S), AT, member, offset, order)


def released(
    t: float, member: str, end: OwnershipEnd = OwnershipEnd.REVOKED, order: int | None = None
) -> Released:
    return Released(
        int(t * S),
        AT if end in (OwnershipEnd.REVOKED, OwnershipEnd.LOST) else None,
        member,
        end,
        order,
    )


def delivered(t: float, member: str, first: int, last: int, order: int | None = None) -> Delivered:
    return Delivered(int(t * S), AT, member, first, last, order)


def committed(t: float, member: str, offset: int, order: int | None = None) -> OffsetCommitted:
    return OffsetCommitted(int(t * S), AT, member, offset, order)


def there(first: int, last: int, times: int = 1, member: str = "") -> RecordsFound:
    return RecordsFound(0, AT, first, last, times, member)


def produced(t: float, end: int) -> Produced:
    return Produced(int(t * S), AT, end)


def report(
    *facts: PartitionFact, has_output: bool = False, excuses: bool = True
) -> PartitionReport:
    judge = PartitionJudge(AT, has_output, excuses=excuses)
    for fact in facts:
        judge.fact(fact)
    return judge.report()


CLEAN = (
    assigned(1, "a", 0),
    produced(2, 10),
    delivered(2.1, "a", 0, 9),
    committed(2.5, "a", 10),
    released(3, "a"),
    assigned(3.1, "b", 10),
    produced(3.2, 20),
    delivered(3.3, "b", 10, 19),
    committed(3.4, "b", 20),
    released(4, "b", OwnershipEnd.CLOSED),
)


def test_a_hand_over_is_clean() -> None:
    found = report(*CLEAN)
    assert found.amounts == {} and found.examples == []
    assert (found.produced, found.delivered, found.excused, found.owners) == (20, 20, 0, 2)


def test_lost() -> None:
    found = report(
        assigned(1, "a", 0), produced(2, 12), delivered(2.1, "a", 0, 4), delivered(2.2, "a", 8, 10)
    )
    assert found.amounts == {Rule.LOST: 4}
    assert [finding.text for finding in found.examples] == [
        "offsets 5..7 were produced and handed out to nobody",
        "offsets 11..11 were produced and handed out to nobody",
    ]


def test_what_nobody_produced_is_not_lost() -> None:
    assert report(assigned(1, "a", 0), delivered(2.1, "a", 0, 4)).amounts == {}


def test_duplicated_by_a_clean_hand_over() -> None:
    found = report(*CLEAN[:4], released(3, "a"), assigned(3.1, "b", 10), delivered(3.3, "b", 8, 12))
    assert found.amounts == {Rule.DUPLICATED: 2} and found.excused == 0


def test_after_a_kill_what_was_not_committed_may_come_again_once() -> None:
    crash = (
        assigned(1, "a", 0),
        delivered(2, "a", 0, 9),
        committed(2.5, "a", 6),
        released(3, "a", OwnershipEnd.KILLED),
    )
    again = report(*crash, assigned(3.1, "b", 6), delivered(3.2, "b", 6, 15))
    assert again.amounts == {} and again.excused == 4
    twice = report(
        *crash, assigned(3.1, "b", 6), delivered(3.2, "b", 6, 15), delivered(3.3, "b", 6, 7)
    )
    assert twice.amounts == {Rule.DUPLICATED: 2} and twice.excused == 4
    more = report(*crash, assigned(3.1, "b", 6), delivered(3.2, "b", 4, 15))
    assert more.amounts == {Rule.DUPLICATED: 2} and more.excused == 4


def test_only_a_kill_excuses() -> None:
    for end in (OwnershipEnd.REVOKED, OwnershipEnd.LOST, OwnershipEnd.CLOSED):
        found = report(
            assigned(1, "a", 0),
            delivered(2, "a", 0, 9),
            committed(2.5, "a", 6),
            released(3, "a", end),
            assigned(3.1, "b", 6),
            delivered(3.2, "b", 6, 15),
        )
        assert found.amounts == {Rule.DUPLICATED: 4}, end


def test_owned_twice_by_two_ownerships() -> None:
    found = report(assigned(1, "a", 0), assigned(2, "b", 0), released(3, "a"), released(4, "b"))
    assert found.amounts == {Rule.OWNED_TWICE: 1}
    assert found.examples[0].text == "b began while a held it"


def test_owned_twice_by_ownerships_that_never_ended() -> None:
    assert report(assigned(1, "a", 0), assigned(2, "b", 0)).amounts == {Rule.OWNED_TWICE: 1}


def test_a_member_hears_late_that_its_session_was_lost() -> None:
    late = (assigned(1, "a", 0), delivered(1.5, "a", 0, 4), assigned(2, "b", 5))
    assert (
        report(*late, delivered(2.1, "b", 5, 9), released(3, "a", OwnershipEnd.LOST)).amounts == {}
    )
    assert report(
        *late, delivered(2.1, "a", 5, 9), released(3, "a", OwnershipEnd.LOST)
    ).amounts == {Rule.OWNED_TWICE: 1}
    for end in (OwnershipEnd.REVOKED, OwnershipEnd.CLOSED, OwnershipEnd.KILLED):
        assert report(*late, released(3, "a", end)).amounts == {Rule.OWNED_TWICE: 1}, end


def test_owned_twice_by_records_without_ownership() -> None:
    found = report(assigned(1, "a", 0), delivered(2, "rogue", 0, 4), delivered(3, "a", 5, 9))
    assert found.amounts == {Rule.OWNED_TWICE: 1}


def test_delivered_after_giving_up() -> None:
    found = report(assigned(1, "a", 0), released(2, "a"), delivered(3, "a", 0, 4))
    assert found.amounts == {Rule.UNOWNED: 5}


def test_an_assignment_told_twice_is_one() -> None:
    found = report(assigned(1, "a", 0), assigned(2, "a", 5), delivered(3, "a", 0, 4))
    assert found.amounts == {} and found.owners == 1


def test_offset_back_in_a_commit() -> None:
    found = report(
        assigned(1, "a", 0), committed(2, "a", 10), committed(3, "a", 7), committed(4, "a", 9)
    )
    assert found.amounts == {Rule.OFFSET_BACK: 1}
    assert found.examples[0].text == "a committed 7 after 10 was stored"


def test_offset_back_at_the_next_owner() -> None:
    found = report(
        assigned(1, "a", 0), committed(2, "a", 10), released(3, "a"), assigned(4, "b", 8)
    )
    assert found.amounts == {Rule.OFFSET_BACK: 1}


def test_offset_back_seen_by_an_observer() -> None:
    found = report(assigned(1, "a", 0), committed(2, "a", 10), OffsetSeen(3 * S, AT, 4))
    assert found.amounts == {Rule.OFFSET_BACK: 1}


def test_a_commit_told_late_belongs_to_its_ownership() -> None:
    hand_over = (assigned(1, "a", 0), released(3, "a"), assigned(4, "b", 10), committed(5, "b", 15))
    assert report(*hand_over, committed(6, "a", 10)).amounts == {}
    assert report(*hand_over, committed(6, "a", 11)).amounts == {Rule.OFFSET_BACK: 1}


def test_a_commit_told_after_an_observer_saw_the_next_one() -> None:
    seen = (assigned(1, "a", 0), committed(2, "a", 10), OffsetSeen(3 * S, AT, 17))
    assert (
        report(*seen, committed(4, "a", 15), released(5, "a"), assigned(6, "b", 17)).amounts == {}
    )
    assert report(*seen, committed(4, "a", 9)).amounts == {Rule.OFFSET_BACK: 1}, (
        "it had told of more itself"
    )
    assert report(*seen, committed(4, "a", 15), released(5, "a"), assigned(6, "b", 15)).amounts == {
        Rule.OFFSET_BACK: 1
    }, "the next owner shows what is stored"


def test_gaps_of_partitions_that_stay_and_that_move() -> None:
    found = report(
        assigned(0, "a", 0),
        produced(1, 1),
        delivered(1.5, "a", 0, 0),
        delivered(2.25, "a", 1, 1),
        released(3, "a"),
        assigned(3.1, "b", 2),
        delivered(4.25, "b", 2, 2),
        delivered(4.5, "b", 3, 3),
        ProducerStopped(5 * S),
        delivered(9, "b", 4, 4),
    )
    assert (found.longest_kept.ms, found.longest_moved.ms) == (750.0, 2000.0)


def test_after_a_move_a_gap_is_a_kept_one_again() -> None:
    found = report(
        assigned(0, "a", 0),
        produced(1, 1),
        released(1.1, "a"),
        assigned(1.2, "b", 0),
        delivered(1.5, "b", 0, 0),
        delivered(3, "b", 1, 1),
    )
    assert (found.longest_kept.ms, found.longest_moved.ms) == (1500.0, 500.0)


def test_a_partition_that_nobody_takes_again_has_moved() -> None:
    found = report(
        assigned(0, "a", 0),
        produced(1, 1),
        delivered(1.5, "a", 0, 0),
        released(2, "a"),
        ProducerStopped(5 * S),
    )
    assert (found.longest_kept.ms, found.longest_moved.ms) == (500.0, 3500.0)


def test_gaps_count_after_the_warm_up_and_until_the_producer_stops() -> None:
    found = report(
        assigned(0, "a", 0),
        produced(1, 1),
        delivered(4, "a", 0, 0),
        Steady(5 * S),
        delivered(5.5, "a", 1, 1),
        ProducerStopped(6 * S),
    )
    assert found.longest_kept.ms == 500.0
    assert (
        report(
            assigned(0, "a", 0), delivered(4, "a", 0, 0), delivered(8, "a", 1, 1)
        ).longest_kept.ms
        == 0
    )


def test_the_producers_own_pause_is_told_apart() -> None:
    found = report(
        assigned(0, "a", 0), produced(1, 1), produced(2, 1), produced(4, 9), produced(4.5, 10)
    )
    assert found.longest_unproduced.ms == 3000.0


def test_examples_are_few_and_amounts_are_all() -> None:
    found = report(*[delivered(n, "a", n * 2, n * 2) for n in range(1, 50)])
    assert found.amounts[Rule.UNOWNED] == 49 and len(found.examples) == 5


def test_every_rule_has_a_definition() -> None:
    assert all(rule.definition for rule in Rule)


def test_without_a_producer_what_was_stored_is_expected() -> None:
    found = report(
        assigned(1, "a", 100),
        delivered(2, "a", 100, 109),
        committed(2.1, "a", 112),
        delivered(2.2, "a", 112, 119),
    )
    assert found.amounts == {Rule.LOST: 2} and found.produced == 112
    assert report(assigned(1, "a", 100), committed(2.1, "a", 112)).amounts == {}, (
        "where no hand-out is told, none can be missed"
    )


def test_owned_twice_by_zookeepers_order_whatever_the_clocks_say() -> None:
    first = (assigned(1, "a", 0, 1), delivered(2, "a", 0, 9), committed(2.5, "a", 10, 2))
    second = (
        assigned(0.1, "b", 10, 4),
        delivered(0.2, "b", 10, 19),
        committed(0.3, "b", 20, 5),
        released(0.4, "b", order=6),
    )
    assert report(*first, released(3, "a", order=3), *second).amounts == {}
    late = report(*first, released(3, "a", order=5), *second)
    assert late.amounts == {Rule.OWNED_TWICE: 1} and late.examples[0].first == 0
    assert late.examples[0].text == "a was at its offset's version 5 after b had begun at version 4"


def test_a_plan_of_a_version_that_was_another_owners_by_then() -> None:
    first, second = (
        (assigned(1, "a", 0, 1), delivered(2, "a", 0, 9, 1)),
        (assigned(0.1, "b", 0, 2), delivered(0.2, "b", 0, 9, 2)),
    )
    assert (
        Rule.OWNED_TWICE not in report(*first, released(3, "a", OwnershipEnd.LOST), *second).amounts
    )
    assert (
        report(
            *first, delivered(2.5, "a", 10, 19, 2), released(3, "a", OwnershipEnd.LOST), *second
        ).amounts[Rule.OWNED_TWICE]
        == 1
    )


def test_owned_twice_is_found_once_by_time_and_order() -> None:
    found = report(
        assigned(1, "a", 0, 1),
        assigned(2, "b", 0, 2),
        delivered(3, "a", 0, 9),
        committed(4, "a", 10, 3),
        released(5, "a", order=4),
        released(6, "b", order=5),
    )
    assert found.amounts[Rule.OWNED_TWICE] == 1


def test_a_late_line_of_an_earlier_write_is_in_order() -> None:
    assert (
        report(
            assigned(1, "a", 0, 1),
            released(3, "a", order=3),
            assigned(4, "b", 10, 4),
            committed(5, "a", 10, 2),
        ).amounts
        == {}
    )
    assert report(
        assigned(1, "a", 0, 1),
        released(3, "a", order=3),
        assigned(4, "b", 10, 4),
        committed(5, "a", 10, 5),
    ).amounts == {Rule.OWNED_TWICE: 1}


HANDED_OUT = (
    assigned(1, "a", 0),
    delivered(2, "a", 0, 9),
    committed(2.5, "a", 10),
    released(3, "a"),
    assigned(3.1, "b", 10),
    delivered(3.3, "b", 10, 19),
    committed(3.4, "b", 20),
)


def test_the_output_says_what_was_lost_and_duplicated() -> None:
    clean = report(*HANDED_OUT, there(0, 14), there(15, 19), has_output=True)
    assert clean.amounts == {} and clean.found == 20
    found = report(
        *HANDED_OUT, there(0, 4), there(7, 19), there(8, 9, times=2), there(12, 12), has_output=True
    )
    assert found.amounts == {Rule.LOST: 2, Rule.DUPLICATED: 5} and found.found == 23
    assert {(finding.rule, finding.first) for finding in found.examples} == {
        (Rule.LOST, 5),
        (Rule.DUPLICATED, 8),
        (Rule.DUPLICATED, 12),
    }
    assert report(*HANDED_OUT, has_output=True).amounts == {Rule.LOST: 20}, "no output at all"


def test_ranges_of_the_output_may_come_in_any_order() -> None:
    for facts in ((there(0, 19), there(5, 5, times=2)), (there(5, 5, times=2), there(0, 19))):
        assert report(*HANDED_OUT, *facts, has_output=True).amounts == {Rule.DUPLICATED: 2}


def test_what_was_handed_out_twice_and_came_out_once_is_clean() -> None:
    twice = (
        assigned(1, "a", 0),
        delivered(2, "a", 0, 9),
        released(3, "a", OwnershipEnd.LOST),
        assigned(3.1, "b", 0),
        delivered(3.3, "b", 0, 9),
        committed(3.4, "b", 10),
    )
    assert report(*twice, there(0, 9), has_output=True).amounts == {}
    assert report(*twice).amounts == {Rule.DUPLICATED: 10}


def test_after_a_kill_the_output_may_have_once_what_was_not_committed() -> None:
    crash = (
        assigned(1, "a", 0),
        delivered(2, "a", 0, 9),
        committed(2.5, "a", 6),
        released(3, "a", OwnershipEnd.KILLED),
        assigned(3.1, "b", 6),
        delivered(3.3, "b", 6, 9),
        committed(3.4, "b", 10),
    )
    found = report(*crash, there(0, 9), there(6, 9), has_output=True)
    assert found.amounts == {} and found.excused == 4
    more = report(*crash, there(0, 9), there(5, 9), there(9, 9), has_output=True)
    assert more.amounts == {Rule.DUPLICATED: 2} and more.excused == 4
    assert report(*crash, there(0, 9), there(6, 9), has_output=True, excuses=False).amounts == {
        Rule.DUPLICATED: 4
    }


def test_the_output_holds_what_nobody_was_handed() -> None:
    found = report(*HANDED_OUT, there(0, 24), has_output=True)
    assert found.amounts == {Rule.UNOWNED: 5} and found.examples[0].first == 20
    assert report(there(0, 4), has_output=True).amounts == {Rule.UNOWNED: 5}
    assert (
        report(assigned(1, "a", 0), committed(2, "a", 5), there(0, 4), has_output=True).amounts
        == {}
    ), "no hand-out is told of an owner that committed"


def test_the_output_names_a_member_that_was_not_handed_it() -> None:
    found = report(
        *HANDED_OUT, there(0, 11, member="a"), there(12, 19, member="b"), has_output=True
    )
    assert (
        found.amounts == {Rule.UNOWNED: 2}
        and found.examples[0].text
        == "offsets 10..11 are in the output, by a, and were not handed out to it"
    )


def test_what_is_older_than_the_journal_is_not_judged() -> None:
    found = report(
        assigned(1, "a", 100),
        delivered(2, "a", 100, 109),
        committed(3, "a", 110),
        there(0, 109),
        has_output=True,
    )
    assert found.amounts == {} and found.found == 10


def test_who_does_not_tell_where_it_begins_begins_at_what_is_stored() -> None:
    found = report(
        produced(0, 30),
        assigned(1, "a", None),
        delivered(2, "a", 0, 9),
        committed(3, "a", 10),
        released(4, "a"),
        assigned(5, "b", None),
        delivered(6, "b", 10, 19),
        released(7, "b", OwnershipEnd.KILLED),
        assigned(8, "c", 10),
        delivered(9, "c", 10, 29),
    )
    assert not found.amounts and found.excused == 10


def test_where_it_does_not_tell_nothing_is_compared_with_that() -> None:
    """The commit is written down late; who did not tell may have begun before it or after."""
    late = (assigned(1, "a", 0), delivered(2, "a", 0, 9), released(4, "a"))
    rest = (committed(6, "a", 10), delivered(7, "b", 10, 19))
    assert not report(produced(0, 20), *late, assigned(5, "b", None), *rest).amounts
    told = report(produced(0, 20), *late, assigned(5, "b", 8), *rest)
    assert told.amounts == {Rule.OFFSET_BACK: 1}


def test_what_an_observer_read_slowly_may_have_been_stored_meanwhile() -> None:
    def found(offset: int, *facts: PartitionFact) -> int:
        asked = OffsetSeen(int(4 * S), AT, offset, raises=False)
        answered = OffsetSeen(int(6 * S), AT, offset, compares=False)
        order = sorted((*CLEAN[:4], asked, *facts, answered), key=lambda fact: fact.t_ns)
        return report(*order).amounts.get(Rule.OFFSET_BACK, 0)

    begins = (released(3, "a"), assigned(5, "b", 10))
    assert found(12, *begins) == 0, "stored after b had begun"
    assert found(9, *begins) == 1, "less than what a had committed"
    assert found(10, *begins, committed(5.5, "b", 15)) == 0, "stored while it was read"
    assert found(12, released(3, "a"), assigned(7, "b", 10)) == 1, "b began after it was read"
