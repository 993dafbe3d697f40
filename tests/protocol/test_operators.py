"""What operators have the coordinator do, by the command line, with real members: a member is put
out, a group is paused and resumed.
"""

from __future__ import annotations

import json

import pytest

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Coordinator, Member, Rig, tps
from tests.protocol.spy import creates, deletes, shape
from zkcoord.cli.main import main
from zkcoord.core.model import GroupMode, Malformed, Mode, Request, RequestKind
from zkcoord.znodes import codec
from zkcoord.znodes.codec import encode_mode

T = tps("t", 0, 1, 2, 3)
Told = pytest.CaptureFixture[str]


def groups(rig: Rig, told: Told, *arguments: str) -> tuple[int, str, str]:
    """Status, output and errors of a command."""
    status = main(["groups", *arguments, "--zookeeper", rig.hosts, "--layout", rig.layout.name])
    captured = told.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, captured.err


def balanced(rig: Rig, count: int = 2) -> tuple[Coordinator, list[Member]]:
    """A coordinator and members that own all of a topic."""
    rig.topic("t", len(T))
    c = rig.coordinator()
    members = [rig.member(f"m{n}", "t") for n in range(count)]
    owned_by(c, members, len(T))
    return c, members


def owned_by(c: Coordinator, members: list[Member], partitions: int) -> None:
    """So many partitions are with these, and nothing is under way."""

    def done() -> bool:
        counts = [len(m.driver.core.session.held) for m in members]
        idle = GROUP in c.driver.core.groups and not c.driver.core.groups[GROUP].view.live
        return idle and sum(counts) == partitions and max(counts) - min(counts) <= 1

    c.wait(done, f"{partitions} partitions")


def names_now(rig: Rig) -> list[str]:
    return rig.names(rig.layout.ids(GROUP))


def test_a_member_is_evicted_and_comes_back_under_a_new_name(rig: Rig, capsys: Told) -> None:
    """One multi: the registration and the request. What it commits later is refused, and the group
    is whole again with it.
    """
    c, (a, b) = balanced(rig)
    first = a.member
    status, out, err = groups(rig, capsys, "evict", GROUP, first)
    assert status == 0 and f"{first} " in out and "would be evicted" in out and "--execute" in err
    assert names_now(rig) == sorted([first, b.member]) and not c.records("evicted")
    held = dict.fromkeys(a.fetching(), 7)
    status, out, err = groups(rig, capsys, "evict", GROUP, first, "--execute", "--json")
    assert (status, err) == (0, "") and json.loads(out)["executed"] is True
    (evicted,) = c.records("evicted")
    assert evicted["member"] == first and "@" in str(evicted["by"])
    (multi,) = c.spy.multis(deletes("/ids/"))
    assert shape(multi.ops[1:])[0] == f"Delete ids/{first}@-1"
    assert "/requests/request-" in multi.ops[2].path and len(multi.ops) == 3
    a.wait(lambda: len(a.notices(msg.NoticeKind.REGISTERED)) == 2, "its return")
    assert a.commit(held, 1).outcome is not msg.CommitOutcome.OK
    owned_by(c, [a, b], len(T))
    assert a.member != first and first not in names_now(rig)
    assert rig.names(rig.layout.requests(GROUP)) == []


def test_who_is_not_there_is_not_evicted(rig: Rig, capsys: Told) -> None:
    """Nor whoever is there now, where the request means an earlier session of the name."""
    c, (a, b) = balanced(rig)
    status, _, err = groups(rig, capsys, "evict", GROUP, "nobody", "--execute")
    assert status != 0 and err.count("\n") == 1 and "is not a member of the group" in err
    status, _, err = groups(rig, capsys, "evict", GROUP, a.member[:-1], "--execute")
    assert status != 0 and f"did you mean {a.member}" in err
    assert not rig.zk.exists(rig.layout.requests(GROUP))
    request = Request(RequestKind.EVICT, member=a.member, session=a.sessions[-1] + 1)
    rig.zk.create(
        rig.layout.request_prefix(GROUP),
        codec.encode_request(request),
        sequence=True,
        makepath=True,
    )
    c.wait(lambda: not rig.names(rig.layout.requests(GROUP)), "the end of the request")
    assert names_now(rig) == sorted([a.member, b.member]) and not c.records("evicted")


def test_a_group_is_paused_through_joins_and_coordinators_and_resumed(
    rig: Rig, capsys: Told
) -> None:
    c, (a, b) = balanced(rig)
    session, asked = a.sessions[-1], len(a.said(msg.Revoke))
    done = a.commit(dict.fromkeys(a.fetching(), 5))
    assert done.outcome is msg.CommitOutcome.OK
    status, out, err = groups(rig, capsys, "pause", GROUP)
    assert status == 0 and "would be paused" in out and "mode coordinated" in out
    assert "--execute" in err and not rig.zk.exists(rig.layout.mode(GROUP))
    status, out, _ = groups(rig, capsys, "pause", GROUP, "--execute")
    assert status == 0 and "2 members, nobody owns anything; Stable" in out
    assert a.fetching() == b.fetching() == [] and not a.said(msg.Lost)
    assert rig.owners("t") == {} and len(a.said(msg.Revoke)) == asked + 1
    (record,) = [r for r in c.records("rebalance") if r["cause"] == "operator paused the group"]
    assert "@" in str(record["trigger"]) and record["moved"] == len(T) and record["stops"] == 2
    late = rig.member("late", "t").joined()
    late.wait(lambda: late.said(msg.Assigned), "the news that nothing is left for it")
    b.leave()
    starts = creates("/channel/")
    before = len(c.spy.multis(starts))
    c.stop()
    second = rig.coordinator("second")
    second.wait(lambda: second.leads, "the second")
    assert groups(rig, capsys, "pause", GROUP, "--execute")[0] == 0  # it says so of itself
    assert second.spy.multis(starts) == [] and len(c.spy.multis(starts)) == before
    assert rig.owners("t") == {} and sorted(names_now(rig)) == sorted([a.member, late.member])
    status, out, _ = groups(rig, capsys, "resume", GROUP, "--execute")
    assert status == 0 and f"{len(T)} partitions are owned" in out
    owned_by(second, [a, late], len(T))
    assert {a.positions.get(tp, late.positions.get(tp)) for tp in T} <= {0, 5}
    assert a.sessions == [session] and second.records("resumed")
    assert groups(rig, capsys, "resume", GROUP, "--execute")[0] == 0


def test_what_a_paused_group_looks_like(rig: Rig, capsys: Told) -> None:
    c, members = balanced(rig)
    groups(rig, capsys, "pause", GROUP, "--execute")
    status, _, err = groups(rig, capsys, "describe", GROUP, "--state")
    assert status == 0 and f"'{GROUP}' is paused by " in err and "nobody owns any" in err
    status, out, _ = groups(rig, capsys, "list", "--state")
    assert status == 0 and "PAUSED-BY" in out and "@" in out
    listed = json.loads(groups(rig, capsys, "list", "--json")[1])["groups"]
    assert ["@" in group["paused"] for group in listed] == [True]
    assert c.driver.status()["paused"] == 1
    for refused in (("rebalance", GROUP), ("mode", GROUP, "coordinated")):
        status, _, err = groups(rig, capsys, *refused)
        assert status != 0 and "is paused" in err and f"groups resume {GROUP}" in err
    status, out, _ = groups(rig, capsys, "resume", GROUP)
    assert status == 0 and "would be resumed" in out and rig.owners("t") == {}
    main(["check", "--zookeeper", rig.hosts, "--json"])  # there are no brokers
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(one["code"], one["severity"]) for one in found if one["group"]] == [
        ("group-paused", "note")
    ]


def test_a_member_that_does_not_give_up_is_evicted_from_a_paused_group(
    rig: Rig, capsys: Told
) -> None:
    """It comes back, and gets nothing; nobody is quarantined for it."""
    rig.topic("t", len(T))
    c = rig.coordinator(lease_max_ms=400, max_rebalance_retries=1)
    a = rig.member("a", "t")
    stuck = rig.member("stuck", "t", rebalance_timeout_ms=500)
    owned_by(c, [a, stuck], len(T))
    stuck.answers_revokes = False
    status, out, _ = groups(rig, capsys, "pause", GROUP, "--execute")
    assert status == 0 and "nobody owns anything" in out
    assert c.records("evicted") and not c.records("quarantined")
    stuck.wait(lambda: len(stuck.notices(msg.NoticeKind.REGISTERED)) == 2, "its return")
    assert rig.owners("t") == {}


def test_a_pause_that_nobody_takes_up_is_taken_up_by_who_leads_next(rig: Rig, capsys: Told) -> None:
    c, members = balanced(rig)
    c.stop()
    status, _, err = groups(rig, capsys, "pause", GROUP, "--execute")
    assert status == 0 and "nobody leads" in err
    status, _, err = groups(rig, capsys, "describe", GROUP, "--state")
    assert "the coordinator has not taken it up yet" in err and "knows no pauses" in err
    second = rig.coordinator("second")
    owned_by(second, members, 0)
    assert second.records("paused")


def test_a_pause_that_cannot_be_meant_is_refused(rig: Rig, capsys: Told) -> None:
    balanced(rig, 1)
    path = rig.layout.mode(GROUP)
    for data, why in (
        (encode_mode(Mode(GroupMode.MIXED)), "is in mode mixed"),
        (encode_mode(Mode(GroupMode.LEGACY)), "is in mode legacy"),
        (b"junk", "cannot be read"),
    ):
        rig.zk.create(path, data)
        for execute in ((), ("--execute",)):
            status, _, err = groups(rig, capsys, "pause", GROUP, *execute)
            assert status != 0 and why in err and err.count("\n") == 1
        assert rig.zk.get(path)[0] == data
        rig.zk.delete(path)
    status, _, err = groups(rig, capsys, "pause", "nobodys")
    assert status != 0 and "there is no group nobodys" in err
    mixed = b'{"version":1,"mode":"mixed","strategy":"legacy-range","by":"x","paused":true}'
    assert isinstance(codec.decode_mode(mixed), Malformed)


def test_a_paused_group_whose_mode_nobody_can_read_is_not_said_to_be_resumed(
    rig: Rig, capsys: Told
) -> None:
    c, members = balanced(rig, 1)
    assert groups(rig, capsys, "pause", GROUP, "--execute")[0] == 0
    path = rig.layout.mode(GROUP)
    rig.zk.set(path, b"junk")
    for command in ("resume", "pause"):
        for execute in ((), ("--execute",)):
            status, out, err = groups(rig, capsys, command, GROUP, *execute)
            assert status != 0 and out == "" and "cannot be read" in err and err.count("\n") == 1
    assert rig.owners("t") == {} and rig.zk.get(path)[0] == b"junk"
    assert groups(rig, capsys, "mode", GROUP, "coordinated")[0] == 0, "what the sentence advises"
    owned_by(c, members, len(T))
