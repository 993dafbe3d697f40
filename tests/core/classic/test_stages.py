"""The four stages at which a coordinator may fail, of the design that the classic protocol began
with: before and after the generation is persisted, before and after the assignment is. In the last
three the group goes on in the same generation, and nobody has to join again.
"""

from __future__ import annotations

from tests.core.classic.machine_side import play
from zkcoord.core.classic.state import ClassicPhase


def test_stage_1_before_the_generation_is_persisted_everybody_joins_again() -> None:
    side = play(
        """
        group a b
        hold
        c enter -> waits
        a join -> waits
        b join -> waits
        restart
        is Stable gen=1
        c join -> 25
        c enter -> waits
        b beat -> 27
        a join -> waits
        b join -> 0 gen=2 led=a
        a gets 0 gen=2 m=a,b,c
        c gets 0 gen=2
        a sync give=a:1,b:2,c:3 -> 0 got=1
        c sync -> 0 got=3
        b sync -> 0 got=2
        """
    )
    assert side.written is not None and side.written.phase is ClassicPhase.STABLE


def test_stage_1_of_the_first_generation_everybody_begins_anew() -> None:
    play(
        """
        hold
        a enter -> waits
        b enter -> waits
        wait first
        restart
        a join -> 25
        b join -> 25
        a enter -> waits
        b enter -> waits
        wait first
        a gets 0 gen=1 led=a m=a,b
        """
    )


def test_stage_2_after_the_generation_is_persisted_joingroup_is_answered_with_it() -> None:
    side = play(
        """
        group a b
        hold
        c enter -> waits
        a join -> waits
        b join -> waits
        written
        restart
        is CompletingRebalance gen=2
        b join -> 0 gen=2 led=a m=- p=range
        a join -> 0 gen=2 led=a m=a,b,c
        a sync give=a:1,b:2,c:3 -> 0 got=1
        c join -> 0 gen=2 led=a
        c sync -> 0 got=3
        b sync -> 0 got=2
        is Stable gen=2
        told -
        """
    )
    assert side.written is not None and side.written.generation == 2


def test_stage_2_the_leader_assigns_while_others_have_not_heard() -> None:
    play(
        """
        hold
        a enter -> waits
        b enter -> waits
        wait first
        written
        restart
        a join -> 0 gen=1 led=a m=a,b
        a sync give=a:1,b:2 -> 0 got=1
        b join -> 0 gen=1 led=a
        b sync -> 0 got=2
        is Stable gen=1
        """
    )


def test_stage_2_an_old_client_that_does_not_know_its_id_is_another_one() -> None:
    play(
        """
        group a
        hold
        b join id=new v=3 -> waits
        a join -> waits
        written
        restart
        a join -> 0 gen=2
        b join id=new v=3 -> waits
        a beat -> 27
        """
    )


def test_stage_3_before_the_assignment_is_persisted_syncgroup_is_sent_again() -> None:
    play(
        """
        joined a b
        hold
        b sync -> waits
        a sync give=a:1,b:2 -> waits
        restart
        is CompletingRebalance gen=1
        b beat -> 0
        b sync -> waits
        a sync give=a:1,b:2 -> 0 got=1
        b gets 0 got=2
        is Stable gen=1
        told -
        """
    )


def test_stage_3_who_does_not_come_back_is_out_after_the_rebalance_timeout() -> None:
    play(
        """
        joined a b r=500
        hold
        a sync give=a:1,b:2 -> waits
        restart
        a sync give=a:1,b:2 -> 0 got=1
        wait 500
        a beat -> 27
        b beat -> 25
        """
    )


def test_stage_4_after_the_assignment_is_persisted_it_is_told_from_there() -> None:
    play(
        """
        joined a b
        hold
        b sync -> waits
        a sync give=a:1,b:2 -> waits
        written
        restart
        is Stable gen=1
        b sync -> 0 got=2
        a beat -> 0
        a sync give=a:other,b:other -> 0 got=1
        b commit -> 0
        told -
        """
    )


def test_a_static_member_is_found_by_its_last_id() -> None:
    play(
        """
        group a:one b:two
        b join id=new -> 0 gen=1
        restart
        b beat id=old -> 82
        b beat -> 0
        b sync -> 0 got=b
        is Stable gen=1
        """
    )


def test_a_replacement_that_was_persisted_and_not_answered_is_made_again() -> None:
    play(
        """
        group a:one b:two
        hold
        b join id=new -> waits
        written
        restart
        b beat -> 82
        b join id=new -> 0 gen=1 led=a
        b sync -> 0 got=b
        """
    )


def test_an_emptied_group_stays_empty() -> None:
    play(
        """
        group a
        hold
        a leave -> waits
        written
        restart
        is Empty gen=2
        a beat -> 25
        a leave -> 0 25
        """
    )
