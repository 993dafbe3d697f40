"""Which gateways a gateway tells its clients of, where ZooKeeper answers late: each answer is of
the moment when it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consumer.gateway.address import Address
from consumer.gateway.neighbours import READ_AT_ONCE, Neighbours
from zkcoord.zk.port import (
    OPEN_ACL,
    Change,
    Children,
    Committed,
    Created,
    Fired,
    GetChildren,
    Missing,
    Node,
    ReadAnswer,
    ReadDone,
    Rejected,
    ZkError,
)
from zkcoord.znodes.gateway_nodes import encode_gateway
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.stat import Stat

LAY = Layout.DRAFT
OWN = "gateway-0000000001"
STAT = Stat(1, 1, 0, 0, 7, 0)
CHANGED = Fired(Change.CHILDREN, LAY.gateways)


class LatePort:
    """Answers what is asked when it is told to, in order; `taken`: no number is free."""

    def __init__(self, *numbers: int) -> None:
        self.nodes = {node(n): encode_gateway(f"h{n}", 9192, {}, "") for n in numbers}
        self.taken = False
        self.asked: list[Callable[[], None]] = []
        self._made = 500

    def watch(self, *arguments: Any) -> None:
        """Nothing fires by itself."""

    def read(self, reads: Any, done: Any) -> None:
        """Later."""
        self.asked.append(lambda: done(ReadDone(tuple(map(self._answer, reads)))))

    def multi(self, ops: Any, done: Any) -> None:
        """Later."""
        self.asked.append(lambda: done(self._result(ops[0])))

    def _result(self, op: Any) -> Any:
        if self.taken or not op.sequential:
            return Rejected(0, ZkError.NODE_EXISTS)
        self._made += 1
        self.nodes[node(self._made)] = op.data
        return Committed((Created(f"{LAY.gateways}/{node(self._made)}"),))

    def _answer(self, read: Any) -> ReadAnswer:
        if isinstance(read, GetChildren):
            return Children(tuple(sorted(self.nodes)))
        data = self.nodes.get(read.path.rpartition("/")[2])
        return Missing() if data is None else Node(data, STAT)

    def passes(self, times: int = 1_000_000) -> None:
        """So many questions are answered, or all."""
        while self.asked and times:
            self.asked.pop(0)()
            times -= 1


def node(number: int) -> str:
    return f"gateway-{number:010}"


def neighbours() -> tuple[Neighbours, list[list[str]]]:
    """And the hosts that were told, each time."""
    told: list[list[str]] = []
    it = Neighbours(
        LAY, OPEN_ACL, None, Address("me", 9192), lambda k: told.append([one.host for one in k])
    )
    return it, told


def announced(port: Any) -> tuple[Neighbours, list[list[str]]]:
    """One that has its number, and looks for the first time."""
    it, told = neighbours()
    it.connected(port, True)
    while not it._node:
        port.passes(1)
    return it, told


def test_a_look_that_ends_late_shows_no_gateway_that_is_gone() -> None:
    """Two that overlap: the one that began before the others ended has more to read."""
    port = LatePort(*range(10, 10 + 4 * READ_AT_ONCE))
    it, told = announced(port)
    port.passes(2)  # listed, and the first of them read
    ended = node(10)
    port.nodes = {n: data for n, data in port.nodes.items() if n in (ended, it._node)}
    it.fired(CHANGED)
    port.passes()
    assert told[-1] == ["me", "h10"]
    del port.nodes[ended]
    it.fired(CHANGED)
    port.passes()
    assert told[-1] == ["me"], "what changed since is looked at, too"


def test_many_changes_are_one_look_more() -> None:
    """Each would read all nodes."""
    port = LatePort(*range(10, 10 + 2 * READ_AT_ONCE))
    it, _ = announced(port)
    for _ in range(50):
        it.fired(CHANGED)
    assert len(port.asked) == 1
    count = 0
    while port.asked:
        port.passes(1)
        count += 1
    assert count == 2 * (1 + 2), "two looks: each a list, and what is listed in two parts"


def test_a_look_that_a_connection_did_not_answer_is_done_on_the_next() -> None:
    port: Any = LatePort(10)
    it, told = announced(port)
    it.fired(CHANGED)
    port.asked.clear()
    port.nodes[node(11)] = encode_gateway("h11", 9192, {}, "")
    it.connected(port, False)
    port.passes()
    assert told[-1] == ["me", "h10", "h11"]


def test_no_number_is_announced_twice() -> None:
    """It waited for one, the same session came back, and its watch fires as well."""
    port: Any = LatePort()
    port.taken = True
    it, told = neighbours()
    it.connected(port, True)
    port.passes()
    assert not port.nodes
    port.taken = False
    it.connected(port, False)
    it.fired(CHANGED)
    port.passes()
    assert list(port.nodes) == [it._node]
    assert told[-1] == ["me"]
