"""What a gateway has to remember while its session has no connection is written once it has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from consumer.gateway.members import memory as memory_module
from consumer.gateway.members.memory import ClientMemory
from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.actions import WrittenDown
from tests.consumer.gateway.members.test_handing_over import CLIENT as SOMEBODY
from zkcoord.zk.port import (
    OPEN_ACL,
    Committed,
    Connected,
    Created,
    Done,
    MultiResult,
    Op,
    PortEvent,
    Rejected,
    SetData,
    Suspended,
    Unanswered,
    ZkError,
)
from zkcoord.znodes.gateway_nodes import encode_client
from zkcoord.znodes.paths import Layout

WRITTEN = Committed((Done(), Created("a client")))
CLIENT = replace(SOMEBODY, by="this one")
FIRST = replace(CLIENT, instance="i")
LATER = replace(FIRST, member_id="who took the instance over", generation=5)


class Ensemble:
    """One session, whose multis are answered by hand."""

    def __init__(self) -> None:
        self.tell: Callable[[PortEvent], None]
        self.asked: list[tuple[Sequence[Op], Callable[[MultiResult], None]]] = []

    def open(self, on_event: Callable[[PortEvent], None]) -> Any:
        """Start a new session."""
        self.tell = on_event
        return self

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """Noted."""
        self.asked.append((ops, done))

    @property
    def written(self) -> list[bytes]:
        """What was to be written, in order."""
        return [op.data for ops, _ in self.asked for op in ops if hasattr(op, "data")]


def _memory() -> tuple[Ensemble, ClientMemory]:
    ensemble = Ensemble()
    session = OwnSession(ensemble, lambda: 0)  # type: ignore[arg-type]  # what of it is used
    memory = ClientMemory(session, Layout.DRAFT, OPEN_ACL, "this one")
    session.start()
    return ensemble, memory


def test_what_is_said_without_a_connection_is_written_when_there_is_one() -> None:
    ensemble, memory = _memory()
    done: list[WrittenDown] = []
    memory.write("g", CLIENT, "member", True, done.append)
    later = replace(CLIENT, generation=5)
    memory.write("g", later, "member", True, done.append)
    assert done == [WrittenDown.LATER] * 2 and ensemble.written == [], "its client does not wait"
    ensemble.tell(Connected(1, 6_000))
    assert ensemble.written == [encode_client(later)]
    ensemble.asked[0][1](WRITTEN)
    ensemble.tell(Suspended())
    ensemble.tell(Connected(1, 6_000))
    assert len(ensemble.written) == 1


def test_what_was_not_answered_is_written_again() -> None:
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    done: list[WrittenDown] = []
    memory.write("g", CLIENT, "member", True, done.append)
    ensemble.tell(Suspended())
    ensemble.asked[0][1](Unanswered())
    assert done == [WrittenDown.LATER]
    ensemble.tell(Connected(1, 6_000))
    assert ensemble.written == [encode_client(CLIENT)] * 2
    ensemble.asked[-1][1](WRITTEN)
    assert done == [WrittenDown.LATER, WrittenDown.DONE], "who wrote it hears that it is so now"


def test_who_left_is_not_written_any_more() -> None:
    ensemble, memory = _memory()
    memory.write("g", CLIENT, "member", True, lambda _: None)
    memory.forget("g", CLIENT.node, "member")
    ensemble.tell(Connected(1, 6_000))
    assert ensemble.asked == []


def test_what_is_said_later_is_not_forgotten_for_what_was_written_before() -> None:
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    later = replace(CLIENT, generation=5)
    memory.write("g", CLIENT, "member", True, lambda _: None)
    memory.write("g", later, "member", True, lambda _: None)
    ensemble.asked[0][1](WRITTEN)
    ensemble.tell(Suspended())
    ensemble.asked[1][1](Unanswered())
    ensemble.tell(Connected(1, 6_000))
    ops, _ = ensemble.asked[-1]
    assert isinstance(ops[1], SetData) and ops[1].data == encode_client(later)


def test_of_so_many_groups_it_is_said_that_nothing_can_be_remembered(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "TOLD_MAX", 2)
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    for group in ("a", "a", "b", "c", "d"):
        memory.write(group, CLIENT, "member", True, lambda _: None)
        ensemble.asked[-1][1](Rejected(1, ZkError.NO_AUTH))
    assert caplog.text.count("can remember no clients") == 2


def test_what_can_be_tried_again_is_due_until_it_is_answered_for_good() -> None:
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    memory.write("g", CLIENT, "member", False, lambda _: None)
    ensemble.asked[-1][1](Rejected(1, ZkError.NODE_EXISTS))
    ensemble.tell(Suspended())
    ensemble.asked[-1][1](Unanswered())
    before = len(ensemble.asked)
    ensemble.tell(Connected(1, 6_000))
    assert len(ensemble.asked) == before + 1


def test_who_has_lost_the_membership_is_said_to_have() -> None:
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    done: list[WrittenDown] = []
    memory.write("g", CLIENT, "member", True, done.append)
    ensemble.asked[-1][1](Rejected(0, ZkError.NO_NODE))
    memory.write("g", CLIENT, "member", True, done.append)
    ensemble.asked[-1][1](Rejected(1, ZkError.NO_AUTH))
    assert done == [WrittenDown.GONE, WrittenDown.DONE], (
        "that it cannot be written is another matter"
    )
    memory.write("g", CLIENT, "member", False, done.append)
    ensemble.asked[-1][1](Rejected(1, ZkError.NO_NODE))
    ensemble.asked[-1][1](Rejected(0, ZkError.NO_NODE))
    ensemble.asked[-1][1](Rejected(0, ZkError.NO_NODE))
    assert done == [WrittenDown.GONE, WrittenDown.DONE, WrittenDown.GONE]


def test_what_is_tried_again_does_not_overwrite_what_came_later() -> None:
    """The first write finds that the node is there (it is another registration's, of the same
    client), and tries again; meanwhile somebody takes the instance over, and is told so.
    """
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    told: list[WrittenDown] = []
    memory.write("g", FIRST, "member", False, told.append)
    memory.write("g", LATER, "member", True, told.append)
    ensemble.asked[0][1](Rejected(1, ZkError.NODE_EXISTS))
    ensemble.asked[1][1](WRITTEN)
    for _, done in ensemble.asked[2:]:
        done(WRITTEN)
    assert WrittenDown.DONE in told
    assert ensemble.written[-1] == encode_client(LATER)


def test_what_can_never_be_written_is_not_kept() -> None:
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    told: list[WrittenDown] = []
    memory.write("g", FIRST, "member", False, told.append)
    ensemble.asked[-1][1](Rejected(1, ZkError.NO_NODE))
    ensemble.asked[-1][1](Rejected(1, ZkError.NO_AUTH))
    assert told == [WrittenDown.DONE]
    assert memory._due == {}, "it would be written at each reconnect, for ever"


def test_who_is_forgotten_while_it_is_written_and_comes_again_is_written_after_that() -> None:
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    told: list[WrittenDown] = []
    memory.write("g", FIRST, "member", True, told.append)
    memory.write("g", LATER, "member", True, told.append)
    memory.forget("g", FIRST.node, "")
    assert told == [WrittenDown.DONE], "the second one"
    memory.write("g", LATER, "another member", False, told.append)
    assert len(ensemble.asked) == 1
    ensemble.asked[0][1](Rejected(1, ZkError.NO_NODE))  # it is tried again
    assert len(ensemble.asked) == 2 and ensemble.written[-1] == encode_client(FIRST)
    ensemble.asked[1][1](WRITTEN)
    assert ensemble.written[-1] == encode_client(LATER)


def test_however_many_wait_when_the_connection_goes_all_are_told() -> None:
    """Each JoinGroup with a `group.instance.id` waits for one, and a client may send 1,000."""
    ensemble, memory = _memory()
    ensemble.tell(Connected(1, 6_000))
    told: list[WrittenDown] = []
    for generation in range(3_000):
        client = replace(FIRST, generation=generation)
        memory.write("g", client, "member", True, told.append)
    ensemble.tell(Suspended())
    ensemble.asked[0][1](Unanswered())
    assert told == [WrittenDown.LATER] * 3_000
    ensemble.tell(Connected(1, 6_000))
    assert ensemble.written[-1] == encode_client(client)
