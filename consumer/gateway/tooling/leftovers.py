"""Clients that are remembered and that nobody will ask for again: their gateway is gone, and they
never came to another one. Every gateway looks for them now and then; what one deletes is gone for
all. Blocks, on a thread of the gateway's pool.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from consumer.gateway.tooling.store import GroupStore
from zkcoord.core.model import Member
from zkcoord.errors import ZkcoordError
from zkcoord.zk.port import Children, Delete, GetChildren, GetData, Node, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes import names
from zkcoord.znodes.codec import decode_registration
from zkcoord.znodes.gateway_nodes import RememberedClient, decode_client
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

NODES_PER_GROUP_MAX = 20_000
DELETED_AT_ONCE_MAX = 200
SLACK_MS = 60_000
"""How much longer than its session timeout a client is remembered that is no member."""


class Leftovers:
    """See the module. `clock` is in ms."""

    def __init__(self, store: GroupStore, layout: Layout, clock: Callable[[], int]) -> None:
        self._store = store
        self._layout = layout
        self._clock = clock
        # node -> its version, and since when its client is known to be no member
        self._since: dict[str, tuple[int, int]] = {}

    def look(self) -> int:
        """Forget those whose time is over; how many. What cannot be done now is done later."""
        try:
            return self._store.slowly(self._look)
        except ZkcoordError as error:
            log.info("clients that nobody asks for any more are not looked for now: %s", error)
            return 0

    def _look(self, client: SyncClient) -> int:
        client.sync()
        (root,) = client.read([GetChildren(self._layout.groups_root)])
        groups = [name for name in _names(root) if names.is_group(name)]
        found = client.read([GetChildren(self._layout.clients(group)) for group in groups])
        before, self._since = self._since, {}
        over: list[Delete] = []
        for group, answer in zip(groups, found, strict=True):
            nodes = _names(answer)
            if nodes:
                over += self._of_group(client, group, nodes, before)
        for delete in over[:DELETED_AT_ONCE_MAX]:
            client.multi([delete])
        return min(len(over), DELETED_AT_ONCE_MAX)

    def _of_group(
        self,
        client: SyncClient,
        group: str,
        nodes: tuple[str, ...],
        before: dict[str, tuple[int, int]],
    ) -> list[Delete]:
        there = self._instances(client, group)
        missed = [node for node in nodes if node not in there]
        paths = [self._layout.client(group, node) for node in missed]
        over = []
        for node, path, answer in zip(
            missed, paths, client.read([GetData(path) for path in paths]), strict=True
        ):
            remembered = decode_client(node, answer.data) if isinstance(answer, Node) else None
            if not isinstance(remembered, RememberedClient) or not isinstance(answer, Node):
                continue
            version, since = before.get(path, (-1, 0))
            if version != answer.stat.version:
                version, since = answer.stat.version, self._clock()
            if self._clock() >= since + remembered.session_timeout_ms + SLACK_MS:
                over.append(Delete(path, version))
            else:
                self._since[path] = version, since
        return over

    def _instances(self, client: SyncClient, group: str) -> set[str | None]:
        """The instances that are members."""
        (answer,) = client.read([GetChildren(self._layout.ids(group))])
        members = [name for name in _names(answer) if names.is_member(name)]
        reads = [GetData(self._layout.registration(group, name)) for name in members]
        found = (
            decode_registration(name, answer.data, answer.stat)
            for name, answer in zip(members, client.read(reads), strict=True)
            if isinstance(answer, Node)
        )
        return {member.instance for member in found if isinstance(member, Member)}


def _names(answer: ReadAnswer) -> tuple[str, ...]:
    return answer.names[:NODES_PER_GROUP_MAX] if isinstance(answer, Children) else ()
