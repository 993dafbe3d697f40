"""The coordinator's writes on a real server: each is one multi behind the epoch's version, and each
ends with a name.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.zk.port_contract import Session
from tests.zk.real import RealFixture
from zkcoord.core.events import (
    DeleteChannel,
    DeleteCommand,
    DeleteOwner,
    DeleteRegistration,
    Outcome,
    PutMetadata,
    Send,
    Write,
    WriteOp,
    Written,
)
from zkcoord.core.model import Command, GroupMetadata, GroupState, Option, Thread, TopicPartition
from zkcoord.zk.port import OPEN_ACL, Connected, Create, Delete, SetData
from zkcoord.zk.term.writer import TermWriter
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData
from zkcoord.znodes.paths import Layout, parents

G, M = "g", "g_host-1-00000000"
T0 = TopicPartition("t", 0)
LAY = Layout.DRAFT


@pytest.fixture
def fixture(zk_hosts: str) -> Iterator[RealFixture]:
    with RealFixture(zk_hosts) as real:
        yield real


class Term:
    """A writer on a session, with a group of one member."""

    def __init__(self, fixture: RealFixture) -> None:
        self.s = Session(fixture)
        paths = [LAY.channel(G, M), LAY.registration(G, M), LAY.owner(G, T0)]
        above = dict.fromkeys(p for path in paths for p in parents(path))
        self.s.do(
            *(Create(p, b"") for p in sorted(above, key=lambda p: p.count("/"))),
            Create(LAY.channel(G, M), b""),
            Create(LAY.registration(G, M), b"{}", ephemeral=True),
            Create(LAY.owner(G, T0), b"x-0", ephemeral=True),
            SetData(LAY.owner(G, T0), b"x-0", 0),
            SetData(LAY.epoch, codec.encode_epoch(EpochData(7, 1, 12_000)), 0),
        )
        self.written: list[Written] = []
        self.tokens = 0
        self.writer = TermWriter(
            self.s.port,
            LAY,
            1,
            OPEN_ACL,
            lambda: 123,
            lambda: 1_700_000_000_000,
            self.written.append,
        )

    def write(self, *ops: WriteOp) -> Written:
        """Write and wait for the end."""
        self.tokens += 1
        self.writer.write(Write(G, self.tokens, ops))
        self.s.wait(lambda: len(self.written) == self.tokens, "the end of a write")
        assert (self.written[-1].group, self.written[-1].token, self.written[-1].now_ms) == (
            G,
            self.tokens,
            123,
        )
        return self.written[-1]


def command(seq: int, partition: int = 0) -> Command:
    """A start for the member."""
    return Command(M, 42, Option.START, 7, seq, 3, {TopicPartition("t", partition): Thread(M, 0)})


def test_commands_are_created_in_order_and_their_nodes_are_named(fixture: RealFixture) -> None:
    """The nodes of the answer are in the order of the operations, whatever stands between; what is
    written is what the member will read.
    """
    term = Term(fixture)
    result = term.write(
        Send(command(1)),
        PutMetadata(GroupMetadata(3, GroupState.COMPLETING_REBALANCE, "sticky")),
        Send(command(2, 1)),
    )
    assert result.outcome is Outcome.OK and [n[:4] for n in result.nodes] == ["7-1-", "7-2-"]
    assert term.s.names(LAY.channel(G, M)) == result.nodes
    for node, sent in zip(result.nodes, (command(1), command(2, 1))):
        read = codec.decode_command(M, node, term.s.node(LAY.command(G, M, node)).data)
        assert isinstance(read, Command) and (read.seq, read.start, read.incarnation) == (
            sent.seq,
            sent.start,
            42,
        )
    report = codec.decode_metadata(G, term.s.node(LAY.group(G)).data)
    assert isinstance(report, GroupMetadata) and (
        report.generation,
        report.state,
        report.since_ms,
    ) == (3, GroupState.COMPLETING_REBALANCE, 1_700_000_000_000)


def test_every_operation_does_what_it_says(fixture: RealFixture) -> None:
    term = Term(fixture)
    (node,) = term.write(Send(command(1))).nodes
    assert (
        term.write(DeleteCommand(M, node), DeleteRegistration(M), DeleteOwner(T0, 1)).outcome
        is Outcome.OK
    )
    assert (
        term.s.missing(LAY.registration(G, M))
        and term.s.missing(LAY.owner(G, T0))
        and term.s.names(LAY.channel(G, M)) == ()
    )
    assert term.write(DeleteChannel(M)).outcome is Outcome.OK and term.s.missing(LAY.channel(G, M))


def test_another_epoch_fences_the_whole_write(fixture: RealFixture) -> None:
    """Nothing of it happens, also not what would be in order by itself."""
    term = Term(fixture)
    term.s.do(SetData(LAY.epoch, codec.encode_epoch(EpochData(8, 1, 12_000)), 1))
    result = term.write(Send(command(1)), DeleteOwner(T0, 1), PutMetadata(GroupMetadata(3)))
    assert (result.outcome, result.nodes) == (Outcome.FENCED, ()) and "BadVersion" in result.why
    assert (
        term.s.names(LAY.channel(G, M)) == ()
        and term.s.node(LAY.owner(G, T0))
        and term.s.node(LAY.group(G)).data == b""
    )


def test_an_epoch_node_made_again_fences_too(fixture: RealFixture) -> None:
    """Deleted by an operator: no epoch, no write."""
    term = Term(fixture)
    term.writer.fence = 2
    assert term.write(Send(command(1))).outcome is Outcome.FENCED


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (DeleteCommand(M, "7-9-0000000000"), "NoNode"),
        (DeleteRegistration("nobody"), "NoNode"),
        (DeleteOwner(T0, 0), "BadVersion"),
        (DeleteChannel("nobody"), "NoNode"),
        (Send(Command("nobody", 1, Option.STOP, 7, 1, 1, stop=(T0,))), "NoNode"),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, str) else v,
)
def test_a_refusal_is_of_the_whole_write_and_says_why(
    fixture: RealFixture, op: WriteOp, why: str
) -> None:
    term = Term(fixture)
    result = term.write(Send(command(1)), op)
    assert (
        result.outcome is Outcome.REFUSED
        and result.why.startswith(f"{why} at /")
        and term.s.names(LAY.channel(G, M)) == ()
    )


def test_a_channel_with_commands_is_not_deleted(fixture: RealFixture) -> None:
    term = Term(fixture)
    term.write(Send(command(1)))
    result = term.write(DeleteChannel(M))
    assert (
        result.outcome is Outcome.REFUSED
        and "NotEmpty" in result.why
        and len(term.s.names(LAY.channel(G, M))) == 1
    )


def test_a_lost_answer_is_unknown_and_the_write_is_not_repeated(fixture: RealFixture) -> None:
    """It happened once, and nobody sends it again under the same or another connection."""
    term = Term(fixture)
    fixture.link(term.s.port).swallow_next()
    assert term.write(Send(command(1))).outcome is Outcome.UNKNOWN
    term.s.wait(lambda: any(isinstance(e, Connected) for e in term.s.events), "its connection")
    assert len(term.s.names(LAY.channel(G, M))) == 1


def test_the_owner_node_of_an_old_consumer_is_never_deleted(fixture: RealFixture) -> None:
    """Its version is 0; ours is deleted with version 1 only."""
    term = Term(fixture)
    term.s.do(Delete(LAY.owner(G, T0)), Create(LAY.owner(G, T0), b"old-0", ephemeral=True))
    assert (
        term.write(DeleteOwner(T0, 1)).outcome is Outcome.REFUSED
        and term.s.node(LAY.owner(G, T0)).data == b"old-0"
    )
