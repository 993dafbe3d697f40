"""Whatever names, texts and numbers there are in a group: what the core wants written together fits
one multi, and what it writes can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zkcoord.core.assignment import Assignment
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.events import (
    Assign,
    AssignorAnswered,
    Elected,
    Event,
    GroupChanged,
    GroupDelta,
    Outcome,
    PutMetadata,
    Ready,
    Send,
    Tick,
    TopicsChanged,
    Write,
    Written,
)
from zkcoord.core.group.command_planner import command_bytes
from zkcoord.core.group.operator_requests import REQUESTS_PER_WRITE_MAX
from zkcoord.core.model import (
    Command,
    Departed,
    GroupMetadata,
    GroupState,
    Malformed,
    Member,
    Option,
    Request,
    RequestKind,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.sizes import json_bytes
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    OPEN_ACL,
    OPS_PER_MULTI_MAX,
    AclEntry,
    Check,
    Delete,
    MultiResult,
    Op,
    SetData,
    acl_bytes,
    encoded_bytes,
)
from zkcoord.zk.term.writer import TermWriter
from zkcoord.znodes import codec
from zkcoord.znodes.metadata import METADATA_WRITTEN_BYTES_MAX
from zkcoord.znodes.names import MEMBER_CHARS_MAX, NAME_CHARS_MAX, NODE_CHARS_MAX
from zkcoord.znodes.paths import LAYOUTS, Layout

GROUP = "g" * NAME_CHARS_MAX
EPOCH = 2**62
INCARNATION = "9" * 19 + "." + "i" * 64
NUMBER_MAX = 999_999_999
LONG_ACL = (*OPEN_ACL, *(AclEntry(31, "x509", f"CN={n}," + "o" * 200) for n in range(20)))
LAYOUT = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)

MEMBER_NAMES = st.text(st.sampled_from('"\\!~x-'), min_size=1, max_size=MEMBER_CHARS_MAX).filter(
    lambda name: name not in (".", "..")
)
TOPICS = st.text(st.sampled_from("t-_9"), min_size=1, max_size=NAME_CHARS_MAX)
TEXTS = st.text(st.sampled_from('a"\\\0é中\U0001f600'), max_size=500)


class Wire:
    """A port that keeps what was written."""

    def __init__(self) -> None:
        self.written: list[Sequence[Op]] = []

    def multi(self, ops: Sequence[Op], _done: Callable[[MultiResult], None]) -> None:
        self.written.append(ops)


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    MEMBER_NAMES,
    st.dictionaries(TOPICS, st.integers(1, 3), max_size=5),
    TEXTS,
    TEXTS,
    st.sampled_from(Option),
)
@example('"' * MEMBER_CHARS_MAX, {"t" * NAME_CHARS_MAX: 9}, "", "\U0001f600" * 4_000, Option.START)
@example("m", {}, "\U0001f600" * 1_000, "", Option.NOTIFY)
def test_no_command_is_larger_than_it_is_counted(
    member: str, topics: dict[str, int], message: str, data: str, option: Option
) -> None:
    partitions = [
        TopicPartition(topic, NUMBER_MAX - n)
        for topic, count in topics.items()
        for n in range(count)
    ]
    start = {tp: Thread(member, 9_999) for tp in partitions} if option is Option.START else {}
    stop = tuple(partitions) if option is Option.STOP else ()
    command = Command(
        member,
        2**63 - 1,
        option,
        EPOCH,
        2**62,
        2**62,
        start,
        stop,
        code="C" * 40,
        message=message,
        incarnations=dict.fromkeys(topics, INCARNATION) if start else {},
        user_data=data,
    )
    wire = Wire()
    TermWriter(wire, Layout.DRAFT, 1, LONG_ACL, lambda: 0, lambda: 0, lambda written: None).write(
        Write(GROUP, 1, (Send(command),))
    )  # type: ignore[arg-type]
    assert encoded_bytes(wire.written[0][1]) <= command_bytes(command) + acl_bytes(LONG_ACL)


@given(st.text(max_size=50))
def test_a_text_is_counted_as_json_writes_it(text: str) -> None:
    assert json_bytes(text) == len(json.dumps(text))


@LAYOUT
def test_commands_requests_and_the_report_fit_together(layout: Layout) -> None:
    """By their limits alone, with some room left."""
    beside = (
        encoded_bytes(Check(layout.epoch, 1))
        + encoded_bytes(SetData(layout.group(GROUP), b"", -1))
        + REQUESTS_PER_WRITE_MAX
        * encoded_bytes(Delete(layout.request(GROUP, "r" * NODE_CHARS_MAX)))
    )
    options = CoordinatorOptions()
    assert (
        options.commands_bytes_per_write_max + METADATA_WRITTEN_BYTES_MAX + beside
        <= MULTI_BYTES_MAX - 8 * 1024
    )
    assert options.ops_per_write_max + REQUESTS_PER_WRITE_MAX + 2 <= OPS_PER_MULTI_MAX


def worst_metadata() -> GroupMetadata:
    """What a coordinator before us, or somebody else, left in the group's node, as large as it is
    read.
    """
    face = "\U0001f600"
    departed = tuple(
        Departed(
            f"{n:04d}".ljust(NAME_CHARS_MAX, "i"),
            (TopicPartition("t" * NAME_CHARS_MAX, n),),
            1,
            2**31 - 1,
            {},
            {"t" * NAME_CHARS_MAX: 1},
        )
        for n in range(200)
    )
    return GroupMetadata(
        2**62,
        GroupState.STABLE,
        face * 900,
        face * 900,
        tuple(f"{n:03d}".ljust(NAME_CHARS_MAX, "t") for n in range(300)),
        5,
        {"left": "x" * 200_000},
        departed,
        failure=face * 900,
    )


def test_no_report_is_larger_than_its_limit() -> None:
    assert isinstance(
        codec.decode_metadata(GROUP, codec.encode_metadata(worst_metadata(), MULTI_BYTES_MAX)),
        GroupMetadata,
    ), "the worst that is read"
    assert len(codec.encode_metadata(worst_metadata())) <= METADATA_WRITTEN_BYTES_MAX
    assert (
        len(codec.encode_metadata(GroupMetadata(configuration={"left": "x" * 400_000})))
        <= METADATA_WRITTEN_BYTES_MAX
    )


class World:
    """A coordinator with one group of the worst names; every write goes through a `TermWriter`,
    succeeds, and is measured.
    """

    def __init__(self, layout: Layout, acl: tuple[AclEntry, ...]) -> None:
        self.options = CoordinatorOptions(
            external_assignors=("racks",),
            max_rebalance_retries=1,
            debounce_ms=10,
            acl_bytes=acl_bytes(acl),
        )
        self.core = Coordinator(self.options)
        self.wire = Wire()
        self.writer = TermWriter(
            self.wire, layout, 1, acl, lambda: 0, lambda: 10**12, lambda written: None
        )  # type: ignore[arg-type]
        self.now = 0
        self.asked: list[Assign] = []
        self.writes: list[Write] = []
        self.outstanding: list[tuple[str, str]] = []

    def step(self, event: Event) -> None:
        """One event, and all that follows from it."""
        events = [event]
        while events:
            for action in self.core.step(events.pop(0)):
                if isinstance(action, Assign):
                    self.asked.append(action)
                elif isinstance(action, Write):
                    self.writer.write(action)
                    self.writes.append(action)
                    sent = [
                        (op.command.member, f"{op.command.epoch}-{op.command.seq}-0000000001")
                        for op in action.ops
                        if isinstance(op, Send)
                    ]
                    self.outstanding += sent
                    events.append(
                        Written(
                            self.now,
                            action.group,
                            action.token,
                            Outcome.OK,
                            tuple(node for _, node in sent),
                        )
                    )

    def ack(self) -> None:
        """Every command is carried out, one after the other's write."""
        while self.outstanding:
            done, self.outstanding = self.outstanding, []
            self.step(GroupChanged(self.now, GROUP, GroupDelta(commands=dict.fromkeys(done))))

    def begin(self, members: int, topics: int) -> None:
        """Members and topics come."""
        names = [f"{n:04d}".ljust(MEMBER_CHARS_MAX, '"') for n in range(members)]
        wanted = {f"{n:03d}".ljust(NAME_CHARS_MAX, "t"): 1 for n in range(topics)}
        self.step(Elected(0, EPOCH))
        self.step(
            TopicsChanged(
                0, {name: Topic(name, INCARNATION, tuple(range(members)), 1) for name in wanted}
            )
        )
        self.step(Ready(0))
        found: dict[str, Member | Malformed | None] = {
            name: Member(name, 2**62 + n, n + 1, Subscription(wanted), ("racks",))
            for n, name in enumerate(names)
        }
        self.step(
            GroupChanged(
                0,
                GROUP,
                GroupDelta(True, found, dict.fromkeys(names, True), metadata=worst_metadata()),
            )
        )
        self.now += 10_000
        self.step(Tick(self.now))

    def request(self) -> None:
        """As many operators as one write answers, and more."""
        nodes = [f"{n:03d}".ljust(NODE_CHARS_MAX, "r") for n in range(3 * REQUESTS_PER_WRITE_MAX)]
        self.step(
            GroupChanged(
                self.now,
                GROUP,
                GroupDelta(
                    requests={
                        node: Request(RequestKind.REBALANCE, True, "\U0001f600" * 255)
                        for node in nodes
                    }
                ),
            )
        )

    def judge(self) -> int:
        """Every write fits, and every command in it is read as what it is; returns the size of the
        largest.
        """
        for write in self.writes:
            for op in write.ops:
                if isinstance(op, Send):
                    read = codec.decode_command(
                        op.command.member, "node", codec.encode_command(op.command)
                    )
                    assert isinstance(read, Command), read
        assert all(len(ops) <= OPS_PER_MULTI_MAX for ops in self.wire.written)
        return max(sum(map(encoded_bytes, ops)) for ops in self.wire.written)


@LAYOUT
@pytest.mark.parametrize("acl", [OPEN_ACL, LONG_ACL], ids=["open", "long"])
def test_the_worst_group_fits_its_writes(layout: Layout, acl: tuple[AclEntry, ...]) -> None:
    """Names all of quotes, user data of any kind, a failure in another script, more requests than
    are answered at once, a report that was too large: all in the same writes.
    """
    world = World(layout, acl)
    world.begin(members=120, topics=12)
    first = world.asked[-1]
    world.step(AssignorAnswered(world.now, GROUP, first.token, None, "\U0001f600" * 300))
    world.ack()
    world.request()
    question = world.asked[-1].given
    data = ["\U0001f600" * 4_000, "\0" * 8_000, '"' * 16_000, "中" * 5_000]
    live = sorted(
        member for member in question.members if member in world.core.groups[GROUP].view.members
    )
    targets = {
        TopicPartition(topic, n): Thread(member, 0)
        for n, member in enumerate(live)
        for topic in question.members[member]
    }
    world.step(
        AssignorAnswered(
            world.now,
            GROUP,
            world.asked[-1].token,
            Assignment(targets, (), {member: data[n % 4] for n, member in enumerate(live)}),
            "",
        )
    )
    kinds = [{type(op).__name__ for op in write.ops} for write in world.writes]
    assert any({"Send", "DeleteRequest", "PutMetadata"} <= kind for kind in kinds), kinds
    assert {
        op.command.option for write in world.writes for op in write.ops if isinstance(op, Send)
    } >= {Option.START, Option.NOTIFY}
    assert any(isinstance(op, PutMetadata) for write in world.writes for op in write.ops)
    assert 384 * 1024 * 9 // 10 < world.judge() <= MULTI_BYTES_MAX
