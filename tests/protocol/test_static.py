"""Static members: what a registration says of them, who takes an instance over from whom, and who
gives way. The coordinator's half (grace) is in test_static_groups.py.
"""

from __future__ import annotations

import json

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, SHORT_SESSION_MS, WAIT_S, Member, Rig, tps
from tests.protocol.spy import creates, shape
from zkcoord.core.model import Command, Option, Subscription
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.port import READS_PER_REQUEST_MAX, GetChildren, GetData
from zkcoord.znodes import codec

T0, T1 = tps("t", 0, 1)


def fenced(m: Member) -> str:
    """It gave up because its instance is another's; what it says."""
    m.wait(lambda: m.said(msg.Failed) and m.driver.finished, "its end")
    (failed,) = m.said(msg.Failed)
    assert failed.code is msg.FailureCode.FENCED_INSTANCE_ID, failed
    return str(failed.message)


def registrations(rig: Rig) -> list[str]:
    """Who is registered."""
    return rig.names(rig.layout.ids(GROUP))


def foreign(rig: Rig, name: str, instance: str, process: str) -> None:
    """A registration of a session that does nothing."""
    data = codec.encode_registration(
        Subscription({"t": 1}), timestamp_ms=wall_ms(), instance=instance, process=process
    )
    rig.zk.ensure_path(rig.layout.ids(GROUP))
    rig.client().create(rig.layout.registration(GROUP, name), data, ephemeral=True)


def test_a_registration_says_who_it_is_and_which_forms_of_rebalance_it_takes_part_in(
    rig: Rig,
) -> None:
    rig.topic("t", 1)
    static = rig.member(
        "a", "t", instance="worker-1", process="p1", grace_ms=7_000, protocols=("eager",)
    ).joined()
    other = rig.member("b", "t", process="p2").joined()

    def said(m: Member) -> dict[str, str]:
        node = rig.node(rig.layout.registration(GROUP, m.member))
        assert node is not None
        return dict(json.loads(node[0]))

    first, second = said(static), said(other)
    assert (first["instance"], first["process"], first["grace_ms"], first["protocols"]) == (
        "worker-1",
        "p1",
        "7000",
        "eager",
    )
    assert ("instance" in second, second["process"], second["grace_ms"], second["protocols"]) == (
        False,
        "p2",
        "0",
        "cooperative,eager",
    )


def test_a_new_process_takes_the_instance_over_in_one_multi_and_the_one_before_gives_up(
    rig: Rig,
) -> None:
    """Also where the one before lives and is served: it loses everything, closes its session and
    raises.
    """
    rig.topic("t", 2)
    rig.reign()
    old = rig.member("a", "t", instance="i", process="p1").joined()
    rig.command(old.member, 1, start=(T0, T1))
    old.fetches(T0, T1)
    first = old.member  # it takes another name as soon as it learns that this one is gone
    there = rig.member("c", "t", instance="another", process="p3").joined()
    new = rig.member("b", "t", instance="i", process="p2").joined()
    (taken,) = [s for s in new.spy.multis(creates("/ids/")) if s.happened]
    assert shape(taken.ops) == [
        f"Delete ids/{first}@0",
        f"Create channel/{new.member}",
        f"Create ids/{new.member}",
    ]
    kinds = [s.kind for s in new.spy.sent]
    assert "sync" in kinds and kinds.index("sync") < kinds.index("read")
    message = fenced(old)
    assert new.member in message and "'i'" in message
    assert (
        registrations(rig) == sorted([there.member, new.member])
        and rig.owners("t") == {}
        and [lost.partitions for lost in old.said(msg.Lost)] == [(T0, T1)]
    )


def test_who_comes_back_gives_way_to_the_process_that_took_over_meanwhile(rig: Rig) -> None:
    """Its session expired while it could not be reached, so nobody had to take anything from it."""
    rig.topic("t", 1)
    proxy = rig.proxy()
    old = rig.member(
        "a", "t", instance="i", process="p1", session_ms=SHORT_SESSION_MS, proxy=proxy
    ).joined()
    proxy.black_hole()
    wait_until(lambda: registrations(rig) == [], WAIT_S, "the end of its session")
    new = rig.member("b", "t", instance="i", process="p2").joined()
    proxy.heal()
    proxy.cut()
    fenced(old)
    assert registrations(rig) == [new.member]


def test_who_was_only_evicted_comes_back(rig: Rig) -> None:
    rig.topic("t", 1)
    m = rig.member("a", "t", instance="i", process="p1").joined()
    rig.zk.delete(rig.layout.registration(GROUP, m.member))
    m.wait(lambda: len(m.notices(msg.NoticeKind.REGISTERED)) == 2, "its return")
    assert registrations(rig) == [m.member] and m.said(msg.Failed) == []


def test_an_earlier_session_of_its_own_is_replaced_whenever_it_is_met(rig: Rig) -> None:
    """The process is the same, so there is nobody to give way to."""
    rig.topic("t", 1)
    m = rig.member("a", "t", instance="i", process="p1").joined()
    foreign(rig, "g_left-behind", "i", "p1")
    foreign(rig, "g_another", "j", "p1")
    rig.zk.delete(rig.layout.registration(GROUP, m.member))
    m.wait(lambda: len(m.notices(msg.NoticeKind.REGISTERED)) == 2, "its return")
    assert registrations(rig) == sorted(["g_another", m.member]) and m.said(msg.Failed) == []


def test_a_rival_that_goes_at_the_same_moment_is_looked_for_again(rig: Rig) -> None:
    rig.topic("t", 1)
    foreign(rig, "g_old", "i", "p1")
    m = rig.member("a", instance="i", process="p2")
    m.spy.before(creates("/ids/"), lambda: rig.zk.delete(rig.layout.registration(GROUP, "g_old")))
    m.subscribe("t").joined()
    first, second = m.spy.multis(creates("/ids/"))
    assert (
        not first.happened
        and shape(second.ops)[0] == f"Create channel/{m.member}"
        and registrations(rig) == [m.member]
    )


LOOKED_AT_ALONE = 3


def test_a_large_group_is_read_in_full_requests(rig: Rig) -> None:
    """Only static members do this, once per join: one request for every thousand members."""
    rig.topic("t", 1)
    count = READS_PER_REQUEST_MAX + 50
    data = codec.encode_registration(Subscription({"t": 1}), timestamp_ms=wall_ms(), process="p")
    rig.zk.ensure_path(rig.layout.ids(GROUP))
    ghost = rig.client()
    pending = [
        ghost.create_async(rig.layout.registration(GROUP, f"g_{n:04d}"), data, ephemeral=True)
        for n in range(count)
    ]
    for done in pending:
        done.get(WAIT_S)
    foreign(rig, "g_zzzz", "i", "p1")
    m = rig.member("a", "t", instance="i", process="p2").joined()
    sizes = [
        len(s.reads)
        for s in m.spy.sent
        if s.kind == "read"
        and any(isinstance(r, GetData) and "/ids/g_" in r.path for r in s.reads[:1])
    ]
    # what is read of one alone is looked at for other reasons
    full = [n for n in sizes if n > LOOKED_AT_ALONE]
    assert full == [READS_PER_REQUEST_MAX, count + 1 - READS_PER_REQUEST_MAX]
    assert len(registrations(rig)) == count + 1 and "g_zzzz" not in registrations(rig)


def test_an_instance_that_nobody_can_have_yet_is_looked_for_from_the_second_time_on(
    rig: Rig,
) -> None:
    rig.topic("t", 1)
    m = rig.member("a", "t", instance="i", process="p1", instance_is_new=True).joined()

    def listed() -> int:
        ids = GetChildren(rig.layout.ids(GROUP))
        return sum(ids in sent.reads for sent in m.spy.sent if sent.kind == "read")

    assert listed() == 0
    rig.zk.delete(rig.layout.registration(GROUP, m.member))
    m.wait(
        lambda: len(m.notices(msg.NoticeKind.REGISTERED)) == 2, "its registration by another name"
    )
    assert listed() == 1


def test_the_coordinator_sends_the_later_of_two_first_registrations_away(rig: Rig) -> None:
    rig.topic("t", 1)
    rig.reign()
    m = rig.member("a", "t", instance="i", process="p1").joined()
    command = Command(
        m.member,
        rig.incarnation(m.member),
        Option.REJECT,
        5,
        1,
        1,
        code="FENCED_INSTANCE_ID",
        fatal=True,
        message="the instance i is in the group already",
    )
    rig.zk.create(
        rig.layout.command_prefix(GROUP, m.member, 5, 1),
        codec.encode_command(command),
        sequence=True,
    )
    assert "the instance i" in fenced(m) and registrations(rig) == []


def test_a_chosen_consumer_id_goes_with_its_instance_to_the_next_process(rig: Rig) -> None:
    """The registration that has it is replaced; one of another instance still refuses it."""
    rig.topic("t", 1)
    rig.member("a", "t", instance="i", process="p1", consumer_id="a").joined()
    new = rig.member("a", "t", instance="i", process="p2", consumer_id="a").joined()
    assert registrations(rig) == [new.member]
    other = rig.member("a", "t", instance="j", process="p3", consumer_id="a")
    other.wait(lambda: other.said(msg.Failed), "its refusal")
    assert other.said(msg.Failed)[0].code is msg.FailureCode.DUPLICATE_CONSUMER_ID
