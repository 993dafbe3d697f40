"""The nodes that a group consists of, for who is no member of it: asked for, and waited for, as a
member does when it joins (`group_nodes`).
"""

from __future__ import annotations

from collections.abc import Callable

from consumer.errors import not_let
from consumer.member.joining.group_nodes import GroupNodes
from consumer.member.joining.unserved_asks import unserved_asks
from consumer.member.one_query import ask
from zkcoord.errors import UnavailableError
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Change, Denied, Fired, GetData, Port, ReadDone, ReadResult
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.places import AskAt

WAIT_S = 5.0


def have_made(zk: ZkOptions, layout: Layout, group: str) -> str:
    """Have the nodes made that the group misses; "" once all are there, else why they are not, in
    one sentence. Takes a little more than the wait for an ask. Raises `UnavailableError`,
    `SessionRefusedError`.
    """
    making = _Making(zk, layout, group)
    why = ask(zk, making.begin, WAIT_S, making)
    if why is None:
        raise UnavailableError(f"the nodes of group {group} could not be asked for in ZooKeeper")
    return why


class _Making:
    """One attempt: what the question's loop drives."""

    def __init__(self, zk: ZkOptions, layout: Layout, group: str) -> None:
        self._zk = zk
        self._layout = layout
        self._group = group
        self._nodes: GroupNodes | None = None

    def begin(self, port: Port, answer: Callable[[str], None]) -> None:
        """On the question's session."""
        nodes = GroupNodes(
            port,
            self._layout,
            self._group,
            self._zk.acl,
            self._zk.roles,
            boot_ms,
            lambda: port.read([GetData(path) for path in nodes.paths], looked),
            answer,
            lambda why: answer(f"the nodes of group {self._group} cannot be used yet: {why}"),
            unserved_asks(self._zk, self._layout),
        )

        def looked(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                found = dict(zip(nodes.paths, result.answers, strict=True))
                hidden = [path for path, node in found.items() if isinstance(node, Denied)]
                if hidden:
                    answer(not_let(hidden[0]))
                else:
                    nodes.arrange(found, lambda: answer(""))

        self._nodes = nodes
        nodes.look()

    def fired(self, event: Fired) -> None:
        """A watch saw something."""
        gone = event.change is Change.DELETED
        if gone and self._nodes is not None and isinstance(self._layout.locate(event.path), AskAt):
            self._nodes.ask_gone()

    def tick(self) -> None:
        """Time passed."""
        if self._nodes is not None:
            self._nodes.tick()

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        return None if self._nodes is None else self._nodes.wake_ms
