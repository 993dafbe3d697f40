"""The election on a real server, attempt by attempt: what is a win, what is not, and what makes a
coordinator unfit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.zk.link import Mode
from tests.zk.port_contract import Session
from tests.zk.real import RealFixture
from zkcoord.zk.acl.table import Principal, Roles
from zkcoord.zk.port import (
    OPEN_ACL,
    AclEntry,
    Committed,
    Connected,
    Create,
    Delete,
    MultiResult,
    Op,
    Port,
    Read,
    ReadDone,
    ReadResult,
    SetData,
    WatchMode,
)
from zkcoord.zk.term.election import (
    Adrift,
    Candidate,
    Election,
    Free,
    Overruled,
    Standby,
    Unfit,
    Verdict,
    Waiting,
    Won,
)
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EPOCH_MAX, EpochData, LeaderData
from zkcoord.znodes.paths import Layout

LAY = Layout.DRAFT
ROLES = Roles((Principal("sasl", "coord"),), (Principal("sasl", "app"),))
NOW_MS = 1_700_000_000_000
LEADER = codec.encode_leader(LeaderData("", "h", 1, 5, NOW_MS))


@pytest.fixture
def fixture(zk_hosts: str) -> Iterator[RealFixture]:
    with RealFixture(zk_hosts) as real:
        yield real


class Nosy:
    """A port that runs something just before the n-th multi goes out."""

    def __init__(self, port: Port, before: dict[int, Callable[[], object]]) -> None:
        self.port = port
        self.before = before
        self.multis: list[Sequence[Op]] = []
        self.calls: list[str] = []
        self.close = port.close

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        self.calls.append("read")
        self.port.read(reads, done)

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        self.calls.append("sync")
        self.port.sync(done)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        self.calls.append("watch")
        self.port.watch(path, mode, done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        raise AssertionError("an election watches for as long as its session lasts")

    def ignore(self, paths: Sequence[str]) -> None:
        raise AssertionError("an election hears everything")

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        self.calls.append("multi")
        self.multis.append(ops)
        self.before.pop(len(self.multis), lambda: None)()
        self.port.multi(ops, done)


class Stand:
    """A session that stands for election."""

    def __init__(
        self,
        fixture: RealFixture,
        layout: Layout = LAY,
        before: dict[int, Callable[[], object]] | None = None,
        acl: tuple[AclEntry, ...] = OPEN_ACL,
        lease_max_ms: int = 9_000,
        roles: Roles | None = None,
    ) -> None:
        self.s = Session(fixture)
        self.port = Nosy(self.s.port, before or {})
        self.verdicts: list[Verdict] = []
        self.election = Election(
            self.port,
            self.s.session_id,
            layout,
            Candidate("host", 9405, 3, lease_max_ms),
            acl,
            lambda: NOW_MS,
            self.verdicts.append,
            roles=roles,
        )

    def stand(self, only_look: bool = False) -> Verdict:
        """One attempt."""
        count = len(self.verdicts)
        self.election.stand(only_look)
        self.s.wait(lambda: len(self.verdicts) > count, "the verdict")
        return self.verdicts[-1]

    def reconnected(self) -> None:
        """Wait for its connection to come back."""
        self.s.wait(lambda: any(isinstance(e, Connected) for e in self.s.events), "its connection")
        self.s.events.clear()


def epoch(s: Session) -> tuple[int, int]:
    """The epoch, and the version of its node."""
    node = s.node(LAY.epoch)
    value = codec.decode_epoch(node.data)
    assert isinstance(value, EpochData)
    return value.epoch, node.stat.version


def test_the_first_election_makes_what_is_missing(fixture: RealFixture) -> None:
    """Its epoch begins at the wall clock; the fence is the epoch node's version; the leader node
    says who it is, under the epoch it won.
    """
    c = Stand(fixture)
    won = c.stand()
    assert won == Won(NOW_MS + 1, 1) and epoch(c.s) == (NOW_MS + 1, 1)
    leader = c.s.node(LAY.leader)
    assert (
        codec.decode_leader(leader.data) == LeaderData("3", "host", 9405, NOW_MS + 1, NOW_MS)
        and leader.stat.ephemeral_owner == c.s.session_id
    )
    value = codec.decode_epoch(c.s.node(LAY.epoch).data)
    assert isinstance(value, EpochData) and value.lease_max_ms == 9_000


def test_a_win_is_one_multi(fixture: RealFixture) -> None:
    c = Stand(fixture)
    c.stand()
    assert [type(op) for op in c.port.multis[-1]] == [Create, SetData] and [
        op.path for op in c.port.multis[-1]
    ] == [LAY.leader, LAY.epoch]


def test_every_attempt_watches_then_syncs_then_looks(fixture: RealFixture) -> None:
    """In that order: a change after the look is heard of, and the look is not older than the
    attempt.
    """
    a, b = Stand(fixture), Stand(fixture)
    a.stand()
    for attempt in range(2):
        b.stand()
        assert b.port.calls == ["watch", "sync", "read"] * (attempt + 1)
    assert a.port.calls[:3] == ["watch", "sync", "read"] and a.port.calls[-1] == "multi"


def test_the_second_waits_and_then_wins_the_next_epoch(fixture: RealFixture) -> None:
    a, b = Stand(fixture), Stand(fixture)
    first = a.stand()
    assert isinstance(first, Won) and b.stand() == Standby()
    a.s.close()
    b.s.wait(lambda: ("DELETED", LAY.leader) in b.s.fired(), "the news that the seat is free")
    assert b.stand() == Won(first.epoch + 1, first.fence + 1)


def test_who_only_looks_writes_nothing(fixture: RealFixture) -> None:
    """Not even where the seat is free."""
    a, b = Stand(fixture), Stand(fixture)
    first = a.stand()
    assert (
        isinstance(first, Won)
        and b.stand(only_look=True) == Standby()
        and a.stand(only_look=True) == first
    )
    a.s.do(Delete(LAY.leader))
    assert (
        a.stand(only_look=True) == Free()
        and b.stand(only_look=True) == Free()
        and epoch(b.s)[0] == first.epoch
        and not b.port.multis
    )
    assert b.stand() == Won(first.epoch + 1, first.fence + 1)


def test_the_longest_lease_goes_on_from_epoch_to_epoch(fixture: RealFixture) -> None:
    """Whoever leads with a shorter one hears of it, however many terms later, and writes it on;
    where its own is as long there is nothing to say.
    """
    terms = []
    for lease_ms in (4_000, 9_000, 2_000, 3_000, 9_000, 2_000):
        c = Stand(fixture, lease_max_ms=lease_ms)
        won = c.stand()
        value = codec.decode_epoch(c.s.node(LAY.epoch).data)
        assert (
            isinstance(won, Won)
            and isinstance(value, EpochData)
            and value.lease_max_ms == lease_ms
            and value.older_lease_ms == won.older_lease_ms
        )
        terms.append(won.older_lease_ms)
        c.s.close()
    assert terms == [0, 0, 9_000, 9_000, 0, 9_000]


def test_the_longest_lease_is_known_after_a_lost_answer(fixture: RealFixture) -> None:
    a = Stand(fixture)
    a.stand()
    a.s.close()
    c = Stand(fixture, lease_max_ms=2_000)
    c.port.before[1] = fixture.link(c.s.port).swallow_next
    assert c.stand() == Adrift()
    c.reconnected()
    assert c.stand() == Won(NOW_MS + 2, 2, 9_000)


def test_of_two_at_once_one_wins(fixture: RealFixture) -> None:
    """The other has just seen the same free seat: its multi is refused, it looks again, and stands
    by.
    """
    a = Stand(fixture)
    a.stand()
    a.s.close()
    rival = Stand(fixture)
    c = Stand(fixture, before={1: lambda: rival.stand()})
    assert c.stand() == Standby() and isinstance(rival.verdicts[0], Won)
    assert epoch(rival.s)[0] == rival.verdicts[0].epoch


def test_an_epoch_that_moves_before_the_multi_is_read_again(fixture: RealFixture) -> None:
    """The leader node of the failed multi was not made, either."""
    a = Stand(fixture)
    a.stand()
    a.s.close()
    other = Session(fixture)
    c = Stand(
        fixture,
        before={
            1: lambda: other.do(
                SetData(LAY.epoch, codec.encode_epoch(EpochData(NOW_MS + 50, 1, 9_000)), 1)
            )
        },
    )
    assert c.stand() == Won(NOW_MS + 51, 3) and len(c.port.multis) == 2


@pytest.mark.parametrize(
    "meanwhile",
    [
        "nothing",
        "another epoch",
        "epoch emptied",
        "overwritten",
        "leader deleted",
        "replaced",
    ],
)
def test_a_lost_answer_is_a_win_only_if_both_nodes_are_mine(
    fixture: RealFixture, meanwhile: str
) -> None:
    """The multi happened and its answer was lost. Read back after a sync: the leader node must be
    this session's AND the epoch node must hold the epoch that was written. Where the node is its
    own and the epoch is not, nobody can win before the session is over.
    """
    a = Stand(fixture)
    a.stand()
    a.s.close()
    other = Session(fixture)
    c = Stand(fixture)
    link = fixture.link(c.s.port)
    c.port.before[1] = link.swallow_next
    assert c.stand() == Adrift() and link.swallowed == 1
    happened: dict[str, tuple[Op, ...]] = {
        "nothing": (),
        "another epoch": (
            SetData(LAY.epoch, codec.encode_epoch(EpochData(NOW_MS + 90, 1, 9_000)), 2),
        ),
        "epoch emptied": (SetData(LAY.epoch, b"", 2),),
        "overwritten": (SetData(LAY.leader, b"x", 0),),
        "leader deleted": (Delete(LAY.leader),),
        "replaced": (Delete(LAY.leader), Create(LAY.leader, LEADER, ephemeral=True)),
    }
    if happened[meanwhile]:
        other.do(*happened[meanwhile])
    c.reconnected()
    expected = {
        "nothing": Won(NOW_MS + 2, 2),
        "another epoch": Overruled(),
        "epoch emptied": Overruled(),
        "overwritten": Overruled(),
        "leader deleted": Won(NOW_MS + 3, 3),
        "replaced": Standby(),
    }
    assert c.stand() == expected[meanwhile]
    assert len(c.port.multis) == (2 if meanwhile == "leader deleted" else 1)
    assert c.port.calls.count("sync") == 2


def test_a_multi_that_never_arrived_is_no_win(zk_hosts: str) -> None:
    """Another one wins meanwhile."""
    with RealFixture(zk_hosts) as fixture:
        a = Stand(fixture)
        a.stand()
        a.s.close()
        fixture.options["request_deadline_ms"] = 2_000
        c = Stand(fixture)
        del fixture.options["request_deadline_ms"]
        link = fixture.link(c.s.port)
        c.port.before[1] = lambda: setattr(link, "mode", Mode.BLACK_HOLE)
        assert c.stand() == Adrift()
        rival = Stand(fixture)
        assert rival.stand() == Won(NOW_MS + 2, 2)
        link.mode = Mode.REFUSE
        link.mode = Mode.PASS
        c.reconnected()
        assert c.stand() == Standby() and epoch(rival.s) == (NOW_MS + 2, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"not json",
        b'{"version":1,"epoch":"x","protocol":1,"lease_max_ms":1}',
        b'{"version":1,"epoch":9223372036854775807,"protocol":1,"lease_max_ms":1000}',
        b'{"version":1,"epoch":%d,"protocol":1,"lease_max_ms":1000}' % EPOCH_MAX,
    ],
)
def test_an_epoch_that_cannot_be_used_is_waited_for(fixture: RealFixture, data: bytes) -> None:
    """One sentence for the user, and nothing is written over it: the one after 2^63-1 could be
    stored, and not be read again. Once the operator has emptied the node somebody leads.
    """
    s = Session(fixture)
    s.do(Create("/consumers", b""), Create(LAY.epoch, data))
    c = Stand(fixture)
    verdict = c.stand()
    assert (
        isinstance(verdict, Waiting)
        and "cannot be used" in verdict.reason
        and "set the node's data to nothing" in verdict.reason
        and "Traceback" not in verdict.reason
    )
    assert s.node(LAY.epoch).data == data and s.missing(LAY.leader)
    s.do(SetData(LAY.epoch, b"", 0))
    assert c.stand() == Won(NOW_MS + 1, 3)


def test_a_newer_protocol_makes_unfit(fixture: RealFixture) -> None:
    s = Session(fixture)
    data = b'{"version":1,"epoch":3,"protocol":99,"lease_max_ms":1000}'
    s.do(Create("/consumers", b""), Create(LAY.epoch, data))
    verdict = Stand(fixture).stand()
    assert isinstance(verdict, Unfit) and "newer" in verdict.reason
    assert s.node(LAY.epoch).data == data and s.missing(LAY.leader)


def test_an_empty_epoch_is_filled_from_the_wall_clock(fixture: RealFixture) -> None:
    s = Session(fixture)
    s.do(Create("/consumers", b""), Create(LAY.epoch, b""))
    assert Stand(fixture).stand() == Won(NOW_MS + 1, 2)


def test_a_leader_of_the_other_layout_is_waited_for(fixture: RealFixture) -> None:
    """And once it has gone somebody leads."""
    other = Stand(fixture, Layout.ISOLATED)
    assert isinstance(other.stand(), Won)
    c = Stand(fixture)
    verdict = c.stand()
    assert isinstance(verdict, Waiting) and "--layout isolated" in verdict.reason
    other.s.close()
    assert isinstance(c.stand(), Won)


@pytest.mark.parametrize(
    ("data", "ephemeral", "acl"),
    [
        (LEADER, False, OPEN_ACL),
        (b"", True, OPEN_ACL),
        (b"{}", True, OPEN_ACL),
        (LEADER, True, (AclEntry(8, "world", "anyone"),)),
    ],
    ids=["persistent", "empty", "no leader's", "hidden"],
)
def test_what_lies_in_the_other_layouts_seat_keeps_nobody_from_leading(
    fixture: RealFixture, data: bytes, ephemeral: bool, acl: tuple[AclEntry, ...]
) -> None:
    """Anybody may have made it; it is named."""
    s = Session(fixture)
    path = Layout.ISOLATED.leader
    s.do(Create("/zkcoord", b""), Create(path, data, ephemeral=ephemeral, acl=acl))
    c = Stand(fixture)
    assert isinstance(c.stand(), Won) and [bad.name for bad in c.election.strange] == [path]
    late = Stand(fixture)
    assert late.stand() == Standby() and [bad.name for bad in late.election.strange] == [path]


@pytest.mark.parametrize(
    "data", [b"\xff junk", b"", b"{}", LEADER.replace(b'"h"', b'"\\u001b[31m"')], ids=range(4)
)
def test_somebodys_node_in_the_seat_that_cannot_be_read_is_named_and_waited_for(
    fixture: RealFixture, data: bytes
) -> None:
    """It may be a session of anybody: it is not taken for a coordinator, and not deleted."""
    s = Session(fixture)
    assert data != LEADER
    s.do(Create("/consumers", b""), Create(LAY.leader, data, ephemeral=True))
    c = Stand(fixture)
    verdict = c.stand()
    assert isinstance(verdict, Waiting) and f"0x{s.session_id:x}" in verdict.reason
    assert [bad.name for bad in c.election.strange] == [LAY.leader]
    assert s.node(LAY.leader).stat.ephemeral_owner == s.session_id
    s.do(Delete(LAY.leader))
    assert isinstance(c.stand(), Won)


def test_a_persistent_node_in_the_seat_is_replaced_by_who_wins(fixture: RealFixture) -> None:
    """No coordinator makes such a node, so nobody leads; who only looks leaves it."""
    s = Session(fixture)
    s.do(Create("/consumers", b""), Create(LAY.leader, LEADER))
    c = Stand(fixture)
    assert c.stand(only_look=True) == Free() and s.node(LAY.leader).stat.ephemeral_owner == 0
    assert isinstance(c.stand(), Won)
    assert s.node(LAY.leader).stat.ephemeral_owner == c.s.session_id
    ops = [type(op) for op in c.port.multis[-1]]
    assert ops == [Delete, Create, SetData] and Stand(fixture).stand() == Standby()


@pytest.mark.parametrize("begun", [False, True], ids=["no epoch yet", "an epoch"])
def test_with_roles_an_ephemeral_node_that_came_without_an_epoch_leads_nobody(
    fixture: RealFixture, begun: bool
) -> None:
    """A member's, where members may make nodes: its session lasts as long as it likes."""
    if begun:
        first = Stand(fixture)
        first.stand()
        first.s.close()
    somebody = Session(fixture)
    if not begun:
        somebody.do(Create("/consumers", b""))
    somebody.do(Create(LAY.leader, LEADER, ephemeral=True))
    assert Stand(fixture).stand() == Standby(), "without roles anybody may be a coordinator"
    c = Stand(fixture, roles=ROLES)
    assert c.stand(only_look=True) == Free()
    assert [bad.what for bad in c.election.strange] == ["leader"]
    assert isinstance(c.stand(), Won)
    assert c.s.node(LAY.leader).stat.ephemeral_owner == c.s.session_id
    assert Stand(fixture, roles=ROLES).stand() == Standby(), "this one came with an epoch"


def test_a_persistent_node_with_children_in_the_seat_is_waited_for(fixture: RealFixture) -> None:
    """It may be an old consumer's group of that name: nothing of it is deleted."""
    s = Session(fixture)
    s.do(Create("/consumers", b""), Create(LAY.leader, b""), Create(f"{LAY.leader}/ids", b""))
    c = Stand(fixture)
    verdict = c.stand()
    assert isinstance(verdict, Waiting) and LAY.leader in verdict.reason
    s.do(Delete(f"{LAY.leader}/ids"))
    assert isinstance(c.stand(), Won)


def test_nodes_that_may_not_be_made_make_unfit(fixture: RealFixture) -> None:
    """ACLs: a sentence with the path and ZooKeeper's word for it."""
    s = Session(fixture)
    s.do(Create("/consumers", b"", acl=(AclEntry(1, "world", "anyone"),)))
    verdict = Stand(fixture).stand()
    assert isinstance(verdict, Unfit) and "NoAuth" in verdict.reason


def test_an_epoch_that_may_not_be_read_makes_unfit(fixture: RealFixture) -> None:
    s = Session(fixture)
    s.do(Create("/consumers", b""), Create(LAY.epoch, b"", acl=(AclEntry(8, "world", "anyone"),)))
    verdict = Stand(fixture).stand()
    assert isinstance(verdict, Unfit) and "NoAuth" in verdict.reason and LAY.epoch in verdict.reason


def test_a_leader_that_may_not_be_read_is_waited_for(fixture: RealFixture) -> None:
    s = Session(fixture)
    s.do(Create("/consumers", b""), Create(LAY.leader, b"", acl=(AclEntry(8, "world", "anyone"),)))
    c = Stand(fixture)
    verdict = c.stand()
    assert (
        isinstance(verdict, Waiting) and "NoAuth" in verdict.reason and LAY.leader in verdict.reason
    )
    s.do(Delete(LAY.leader))
    assert isinstance(c.stand(), Won)


def test_its_nodes_carry_the_configured_acl(fixture: RealFixture) -> None:
    """Every node that it makes, the leader node included: the parent refuses another client's
    child.
    """
    c = Stand(fixture, acl=(AclEntry(1 | 2 | 4 | 8, "world", "anyone"),))  # all but admin
    assert isinstance(c.stand(), Won)
    creates = [op for ops in c.port.multis for op in ops if isinstance(op, Create)]
    assert len(creates) == 3 and all(op.acl == c.election.acl for op in creates)
    assert isinstance(c.s.multi(Create("/consumers/groups/x", b"")), Committed)


class Torn(Nosy):
    """As a server before 3.6 that changes all the time: single reads, each no older than the one
    before.
    """

    between: Callable[[], None] | None = None

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        between, self.between = self.between, None
        if between is None:
            return super().read(reads, done)

        def first(result: ReadResult) -> None:
            assert isinstance(result, ReadDone)
            between()
            self.port.read(reads[1:], lambda more: rest(result, more))

        def rest(one: ReadDone, more: ReadResult) -> None:
            assert isinstance(more, ReadDone)
            done(ReadDone((*one.answers, *more.answers)))

        return self.port.read(reads[:1], first)


def test_a_healthy_leader_is_not_deposed_by_a_torn_look(fixture: RealFixture) -> None:
    a, b, c = (Stand(fixture, roles=ROLES) for _ in range(3))
    assert isinstance(a.stand(), Won)
    torn = Torn(b.s.port, {})
    b.port = b.election.port = torn

    def changes_hands() -> None:
        a.s.close()
        assert isinstance(c.stand(), Won)

    torn.between = changes_hands
    assert b.stand() == Standby()
    assert c.s.node(LAY.leader).stat.ephemeral_owner == c.s.session_id


def test_who_writes_its_node_again_and_again_holds_up_nobody(fixture: RealFixture) -> None:
    somebody = Session(fixture)
    first = Stand(fixture)
    first.stand()
    first.s.close()
    somebody.do(Create(LAY.leader, LEADER, ephemeral=True))
    written = {n: lambda: somebody.do(SetData(LAY.leader, LEADER, -1)) for n in range(1, 30)}
    c = Stand(fixture, roles=ROLES, before=written)
    assert isinstance(c.stand(), Won) and len(c.port.multis) == 1


def test_whose_epoch_was_written_anew_leads_no_more(fixture: RealFixture) -> None:
    """The same words, by hand: what it had as a fence is of an older version."""
    a = Stand(fixture, roles=ROLES)
    assert isinstance(a.stand(), Won)
    node = a.s.node(LAY.epoch)
    Session(fixture).do(SetData(LAY.epoch, node.data, -1))
    assert a.stand(only_look=True) == Overruled()
