"""An operator's command and a real member at the same time: whoever is first, the member's
positions and the stored offsets agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, Member, Rig, rigged, tps
from zkcoord.admin.offsets.reset_plan import Log
from zkcoord.cli.main import main
from zkcoord.zk.port import MultiResult, Op
from zkcoord.zk.sync.client import SyncClient

PATIENCE_S = 40.0
T0, T1 = tps("t", 0, 1)


@pytest.fixture
def rig(zk_hosts: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A topic of two partitions, offsets 100, a coordinator. Its logs hold 0 to 1,000, as far as
    the commands are told.
    """
    monkeypatch.setattr(
        "zkcoord.cli.offsets_reset._logs",
        lambda servers, partitions, aim: {tp: Log(0, 1_000) for tp in partitions},
    )
    with rigged(zk_hosts) as made:
        made.topic("t", 2)
        for tp in (T0, T1):
            made.put_offset(tp, 100)
        made.coordinator()
        yield made


def before_multi(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> None:
    """Do something before a command's n-th multi (from 1) is sent."""
    real, sent = SyncClient.multi, []

    def multi(self: SyncClient, ops: list[Op]) -> MultiResult:
        sent.append(ops)
        if len(sent) == number:
            act()
        return real(self, ops)

    monkeypatch.setattr(SyncClient, "multi", multi)


def reset(rig: Rig, *more: str) -> int:
    return main(
        [
            "offsets",
            "reset",
            GROUP,
            "--topic",
            "t",
            "--to-offset",
            "7",
            "--execute",
            "--new-group",
            "--zookeeper",
            rig.hosts,
            *more,
        ]
    )


def test_a_start_between_reading_and_writing_wins(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The member was told 100 and may fetch from there; so 100 stays, and the operator hears of the
    member.
    """
    came: list[Member] = []
    before_multi(monkeypatch, 1, lambda: came.append(rig.member("m", "t").fetches(T0, T1)))
    assert reset(rig) == 1
    assert (
        came[0].member in capsys.readouterr().err
        and came[0].positions == {T0: 100, T1: 100}
        and rig.offset(T0) == (100, 1)
    )
    assert (
        came[0].commit({T0: 110}).outcome is msg.CommitOutcome.OK and came[0].said(msg.Seek) == []
    )


def test_a_start_after_the_writing_begins_there(rig: Rig) -> None:
    assert reset(rig) == 0
    m = rig.member("m", "t").fetches(T0, T1)
    assert m.positions == {T0: 7, T1: 7} and rig.offset(T0) == (7, 2)


def test_a_partition_that_moves_during_a_live_reset_is_reset_once_and_for_all(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second member takes one of the partitions between reading and writing: the write is
    refused, read and written again, and both go on from the new offset.
    """
    one = rig.member("one", "t").fetches(T0, T1)
    came: list[Member] = []

    def joins() -> None:
        two = rig.member("two", "t")
        wait_until(
            lambda: len(one.fetching()) == len(two.fetching()) == 1,
            PATIENCE_S,
            "a partition for each",
        )
        came.append(two)

    before_multi(monkeypatch, 1, joins)
    assert reset(rig, "--live", "--timeout-ms", "0") == 0
    members = [one, *came]
    wait_until(
        lambda: sum(len(m.said(msg.Seek)) for m in members) == 2,
        PATIENCE_S,
        "both owners' order to seek",
    )
    assert {seek.partition: seek.offset for m in members for seek in m.said(msg.Seek)} == {
        T0: 7,
        T1: 7,
    }
    for m in members:
        assert m.commit(dict.fromkeys(m.fetching(), 8)).outcome is msg.CommitOutcome.OK
    assert (rig.offset(T0) or (0,))[0] == (rig.offset(T1) or (0,))[0] == 8


@pytest.mark.parametrize("number", [1, 2, 3, 5])
@pytest.mark.parametrize("is_awaited", [True, False])
def test_a_member_that_comes_during_a_deletion_is_served(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    is_awaited: bool,
) -> None:
    """It is registered before that multi, or registers while the rest is deleted: then the deletion
    may be complete before it, and the group is a new one.
    """
    rig.member("gone", "t").fetches(T0, T1).leave({T0: 100, T1: 100})
    wait_until(
        lambda: rig.names(rig.layout.channels(GROUP)) == [], PATIENCE_S, "the end of its channel"
    )
    monkeypatch.setattr("zkcoord.admin.delete_group.BATCH_MAX", 2)
    came: list[Member] = []

    def comes() -> None:
        came.append(rig.member("m", "t"))
        if is_awaited:
            came[0].joined()

    before_multi(monkeypatch, number, comes)
    status = main(["groups", "delete", GROUP, "--execute", "--zookeeper", rig.hosts])
    err = capsys.readouterr().err
    assert (status == 1 and came[0].member in err) or (status == 0 and not is_awaited), err
    m = came[0].fetches(T0, T1)
    assert m.commit({T0: 111, T1: 112}).outcome is msg.CommitOutcome.OK
    assert (rig.offset(T0) or (0,))[0] == 111 and m.said(msg.Lost) == []
