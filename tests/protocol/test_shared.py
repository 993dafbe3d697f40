"""Groups that are shared with old consumers, on a real server: what ours do by themselves, and what
the coordinator does. The old consumers themselves are in tests/legacy.
"""

from __future__ import annotations

import json

import pytest

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Coordinator, Member, Rig
from zkcoord.core.model import GroupMode, Mode, TopicPartition
from zkcoord.core.shared import KEEPER, KEEPER_TEXT
from zkcoord.zk.clock import wall_ms
from zkcoord.znodes import codec

OLD = {"version": 1, "subscription": {"t": 1}, "pattern": "static"}


@pytest.fixture
def rig(isolated_rig: Rig) -> Rig:
    """Old consumers are in the isolated layout only."""
    return isolated_rig


def say(rig: Rig, kind: GroupMode) -> None:
    """An operator says whose the group is."""
    path, data = rig.layout.mode(GROUP), codec.encode_mode(Mode(kind, by="the test"))
    if rig.zk.exists(path):
        rig.zk.set(path, data)
    else:
        rig.zk.create(path, data, makepath=True)


def registers(rig: Rig, name: str = "a") -> tuple[str, object]:
    """An old consumer's registration, by a session of its own, which is returned with the thread id
    of its only stream.
    """
    client = rig.client()
    rig.zk.ensure_path(rig.layout.ids(GROUP))
    client.create(
        rig.layout.registration(GROUP, f"{GROUP}_{name}"),
        json.dumps({**OLD, "timestamp": str(wall_ms())}).encode(),
        ephemeral=True,
    )
    return f"{GROUP}_{name}-0", client


def shared(rig: Rig, name: str = "m", **options: object) -> Member:
    """A member that knows that its group is shared, and has looked at the registrations."""
    member = rig.member(name, "t", **options).joined()
    member.wait(
        lambda: (
            member.driver.core.session.shared and member.driver.core.session.group_seen is not None
        ),
        "its look at the registrations",
    )
    return member


def test_everything_is_given_up_when_the_registrations_change_and_nobody_leads(rig: Rig) -> None:
    """An old consumer comes: owner nodes go, the offsets are where the application was. A
    registration that is made and deleted in one transaction changes nothing.
    """
    tps = rig.topic("t", 4)
    rig.reign()
    say(rig, GroupMode.MIXED)
    member = shared(rig)
    rig.command(member.member, 1, start=tps)
    member.fetches(*tps)
    member.positions.update(dict.fromkeys(tps, 7))
    with rig.zk.transaction() as rescue:
        rescue.create(rig.layout.rescue(GROUP), b"")
        rescue.delete(rig.layout.rescue(GROUP))
    looks = len(rig.names(rig.layout.ids(GROUP)))
    assert looks == 1
    member.commit({tps[0]: 5})
    assert set(rig.owners("t")) == {0, 1, 2, 3}
    registers(rig)
    wait_until(lambda: not rig.owners("t"), WAIT_S, "all owner nodes gone")
    assert {rig.offset(tp)[0] for tp in tps if rig.offset(tp) is not None} == {7}
    member.wait(lambda: not member.driver.core.session.held, "that it knows")
    assert not member.said(msg.Lost)


def test_a_mode_that_is_written_while_a_member_joins_is_not_forgotten(rig: Rig) -> None:
    """What it has read of the mode is older than the event, and the event comes before it is a
    member (simulator: mixed 1435).
    """
    rig.topic("t", 2)
    rig.reign()
    rig.zk.ensure_path(rig.layout.group(GROUP))
    m = rig.member("m")
    m.spy.before(
        lambda ops: any("/ids/" in getattr(op, "path", "") for op in ops),
        lambda: say(rig, GroupMode.MIXED),
    )
    m.subscribe("t").joined()
    m.wait(lambda: m.driver.core.session.shared, "that it knows")


def test_a_leader_that_goes_while_a_member_joins_is_not_taken_for_alive(rig: Rig) -> None:
    rig.topic("t", 2)
    rig.reign()
    m = rig.member("m")
    m.spy.before(
        lambda ops: any("/ids/" in getattr(op, "path", "") for op in ops),
        lambda: rig.zk.delete(rig.layout.leader),
    )
    m.subscribe("t").joined()
    # at once: who has partitions does not look again
    assert m.ask(lambda: m.driver.core.session.leader_gone_ms) is not None


def test_somebodys_node_in_the_leaders_place_is_not_taken_for_a_coordinator(rig: Rig) -> None:
    """When a member joins, and when it looks again."""
    rig.topic("t", 2)
    rig.reign()
    rig.zk.set(rig.layout.leader, b"junk")
    m = rig.member("m")
    m.subscribe("t").joined()
    assert m.ask(lambda: m.driver.core.session.leader_gone_ms) is not None
    m.wait(lambda: m.driver.core.session.leader_warned, "the warning")


def test_what_the_application_does_not_give_up_is_taken_from_it(rig: Rig) -> None:
    """After release_ms nothing is handed out any more, and the owner nodes are deleted; the stored
    offset stays where the last commit was.
    """
    tps = rig.topic("t", 2)
    rig.reign()
    say(rig, GroupMode.MIXED)
    member = shared(rig, release_ms=300)
    rig.command(member.member, 1, start=tps)
    member.fetches(*tps)
    member.answers_revokes = False
    assignment_epoch = member.assignment_epoch
    registers(rig)
    wait_until(lambda: not rig.owners("t"), WAIT_S, "all owner nodes gone")
    member.wait(lambda: member.said(msg.Lost), "that it is told")
    assert member.driver.lease_until(assignment_epoch) == 0 and [rig.offset(tp) for tp in tps] == [
        (0, 0),
        (0, 0),
    ]


def test_a_commit_without_the_owner_node_is_refused(rig: Rig) -> None:
    """An old consumer deletes our node by its path, and makes its own: a commit of ours fails, its
    node stays, the partition is lost to us.
    """
    tps = rig.topic("t", 2)
    rig.reign()
    say(rig, GroupMode.MIXED)
    member = shared(rig)
    rig.command(member.member, 1, start=tps)
    member.fetches(*tps)
    rig.zk.delete(rig.layout.owner(GROUP, tps[0]))
    other = rig.client()
    rig.owner(other, tps[0], "somebody-0", version=0)
    assert member.commit({tps[0]: 9}).outcome is not msg.CommitOutcome.OK
    member.fetches(tps[1])
    assert rig.offset(tps[0]) == (0, 0) and rig.owners("t")[0][0] == "somebody-0"


def test_what_a_zombie_stores_is_stored_over(rig: Rig) -> None:
    """In a shared group somebody else's write is no operator's reset: ours is written again, the
    application is told nothing, and it is reported.
    """
    (tp,) = rig.topic("t", 1)
    rig.reign()
    say(rig, GroupMode.MIXED)
    member = shared(rig)
    rig.command(member.member, 1, start=(tp,))
    member.fetches(tp)
    member.commit({tp: 40})
    rig.put_offset(tp, 20)
    member.commit({tp: 50})
    assert rig.offset(tp) is not None and rig.offset(tp)[0] == 50  # type: ignore[index]
    (notice,) = member.notices(msg.NoticeKind.FOREIGN_OFFSET)
    assert notice.detail["found"] == 20 and not member.said(msg.Seek)


def owned_by(rig: Rig, thread: str) -> set[int]:
    return {number for number, (text, _) in rig.owners("t").items() if text == thread}


def leads(rig: Rig) -> Coordinator:
    """A coordinator that takes an old consumer for dead after a second."""
    return rig.coordinator(legacy_attempts_ms=1_000, legacy_odd_ms=1_000)


def test_the_maths_of_old_consumers_over_all_registrations(rig: Rig) -> None:
    """Two of ours and an old one: ours get their part and never the old one's; when it is gone they
    get all.
    """
    rig.topic("t", 6)
    say(rig, GroupMode.MIXED)
    leads(rig)
    members = [shared(rig, name) for name in ("m", "n")]
    thread, old = registers(rig)  # its name sorts before theirs, so range gives it 0 and 1
    wait_until(
        lambda: {n for m in members for n in owned_by(rig, f"{m.member}-0")} == {2, 3, 4, 5},
        WAIT_S,
        "the part of ours",
    )
    assert owned_by(rig, thread) == set()
    old.stop()  # type: ignore[attr-defined]
    wait_until(
        lambda: {n for m in members for n in owned_by(rig, f"{m.member}-0")} == set(range(6)),
        WAIT_S,
        "everything at ours",
    )


def test_an_old_consumer_that_gave_up_is_revived(rig: Rig) -> None:
    """It owns nothing while nothing stands in its way: reported, and revived by a change below ids
    that nobody can read. While somebody holds what it wants it is only reported; a foreign owner
    node stays.
    """
    tps = rig.topic("t", 2)
    say(rig, GroupMode.MIXED)
    thread, old = registers(rig)
    other = rig.client()
    rig.owner(other, tps[0], "somebody-0", version=0)
    coordinator = leads(rig)
    problems = lambda: [
        str(r["problem"]) for r in coordinator.records("legacy") if r["event"] == "found"
    ]
    coordinator.wait(
        lambda: any(
            f"{GROUP}_a owns nothing of its 2 partitions" in p and "owned by others" in p
            for p in problems()
        ),
        "the report of what it owns",
    )
    coordinator.wait(
        lambda: any("owner node of t-0 belongs to no registration" in p for p in problems()),
        "the report of the foreign node",
    )
    before = rig.node(rig.layout.ids(GROUP))
    assert (
        before is not None
        and rig.owners("t")[0][0] == "somebody-0"
        and not rig.created("zkcoord-rescue")
    )
    other.delete(rig.layout.owner(GROUP, tps[0]))
    wait_until(
        lambda: (rig.node(rig.layout.ids(GROUP)) or before)[1].cversion >= before[1].cversion + 2,
        WAIT_S,
        "a change below ids",
    )
    assert rig.names(rig.layout.ids(GROUP)) == [f"{GROUP}_a"]
    for tp in tps:
        rig.owner(old, tp, thread, version=0)  # type: ignore[arg-type]
    coordinator.wait(
        lambda: any(
            r["event"] == "solved" and "owns nothing" in str(r["problem"])
            for r in coordinator.records("legacy")
        ),
        "that it is solved",
    )


def test_without_a_mode_a_group_with_an_old_consumer_is_left_alone(rig: Rig) -> None:
    """And in the mode legacy ours are sent away, by name."""
    rig.topic("t", 2)
    coordinator = leads(rig)
    member = rig.member("m", "t").joined()
    member.fetches(TopicPartition("t", 0), TopicPartition("t", 1))
    registers(rig)
    coordinator.wait(
        lambda: any("it has no mode" in str(r["problem"]) for r in coordinator.records("legacy")),
        "the report",
    )
    assert (
        not any(r.get("cause") == "member joined" for r in coordinator.records("rebalance")[1:])
        and len(member.driver.core.session.held) == 2
    )
    say(rig, GroupMode.LEGACY)
    member.wait(
        lambda: any(m.rejection == "GROUP_MODE_LEGACY" for m in member.said(msg.Failed)),
        "that it is sent away",
    )
    late = rig.member("late", "t")
    late.wait(
        lambda: any("belongs to its old consumers" in m.message for m in late.said(msg.Failed)),
        "that nobody comes after it",
    )
    assert f"{GROUP}_late" not in " ".join(rig.names(rig.layout.ids(GROUP)))


def test_nobody_joins_old_consumers_that_know_nothing_of_it(rig: Rig) -> None:
    """They would leave a share of their partitions to another registration. Said to be shared, or
    where ours were there before, it joins.
    """
    rig.topic("t", 2)
    leads(rig)
    _, old = registers(rig)
    early = rig.member("early", "t")
    early.wait(
        lambda: any(f"{GROUP}_a" in m.message for m in early.said(msg.Failed)), "its refusal"
    )
    assert [m.code for m in early.said(msg.Failed)] == [msg.FailureCode.REJECTED]
    assert rig.names(rig.layout.ids(GROUP)) == [f"{GROUP}_a"]
    say(rig, GroupMode.MIXED)
    shared(rig)
    rig.zk.delete(rig.layout.mode(GROUP))
    rig.member("later", "t").joined()


def test_an_old_consumer_in_a_coordinated_group_is_kept_out(rig: Rig) -> None:
    """By a registration that none of them can read, for as long as it is there; ours go on."""
    rig.topic("t", 2)
    say(rig, GroupMode.COORDINATED)
    leads(rig)
    first = rig.member("first", "t").joined()
    first.fetches(TopicPartition("t", 0), TopicPartition("t", 1))
    keeper = rig.layout.registration(GROUP, KEEPER)
    _, old = registers(rig)
    wait_until(lambda: rig.zk.exists(keeper) is not None, WAIT_S, "what keeps it out")
    assert rig.zk.get(keeper)[0] == KEEPER_TEXT.encode()
    second = rig.member("second", "t").joined()
    second.wait(lambda: len(second.driver.core.session.held) == 1, "its half")
    rig.zk.delete(rig.layout.registration(GROUP, f"{GROUP}_a"))
    wait_until(lambda: rig.zk.exists(keeper) is None, WAIT_S, "the end of that")
