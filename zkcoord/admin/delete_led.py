"""Deleting what was decided of a group that clients have led: it is the coordinator's, which is
asked as gateways ask it, by who may write it. While it has members it is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.admin.common import Progress, children, refuse_led, write_refused
from zkcoord.admin.offsets.reset import make_missing
from zkcoord.core.classic.requests import ClassicDelete
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed
from zkcoord.zk.acl.inherited import AclOf
from zkcoord.zk.port import (
    Create,
    Delete,
    GetChildren,
    GetData,
    Node,
    Op,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.documents import (
    ClassicAsk,
    decode_answer,
    encode_ask,
)
from zkcoord.znodes.classic.paths import ClassicPaths, request_name
from zkcoord.znodes.paths import Layout, parents

NOBODY_LEADS = (
    "the group {group} was led by its clients, and what was decided of it is the coordinator's to"
    " delete, but none leads ({leader} is not there): start one, then repeat this"
)


class LedPart:
    """That part of a group. `left_ms` bounds how long the coordinator has to answer; `pause` rests
    between two looks.
    """

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        acl: AclOf,
        left_ms: Callable[[], int],
        pause: Callable[[], object],
        progress: Progress,
    ) -> None:
        self._client = client
        self._layout = layout
        self._paths = ClassicPaths(layout)
        self._group = group
        self._acl = acl
        self._left_ms = left_ms
        self._pause = pause
        self._progress = progress

    def nodes(self) -> int:
        """How many there are of it."""
        self._client.sync()
        path = self._paths.group(self._group)
        node, below = self._client.read([GetData(path), GetChildren(path)])
        return 1 + len(children(below, path)) if isinstance(node, Node) else 0

    def refusal(self) -> str:
        """What stands against it; "" where nothing does. Raises `RefusedError` where it has
        members.
        """
        refuse_led(self._client, self._layout, self._group)
        (leader,) = self._client.see([GetData(self._layout.leader)])
        if not isinstance(leader, Node):
            return NOBODY_LEADS.format(group=self._group, leader=self._layout.leader)
        return ""

    def delete(self) -> str:
        """Have it deleted; a sentence where it is not."""
        path = self._paths.request(request_name(self._group))
        make_missing(self._client, dict.fromkeys(parents(path), b""), self._acl)
        may = SetData(self._paths.proof(self._group), b"", -1)
        ask = Create(
            path,
            encode_ask(ClassicAsk(self._group, ClassicDelete()))[0],
            ephemeral=True,
            acl=self._acl(path),
        )
        ops: list[Op] = [may, ask]
        result = self._client.multi(ops)
        if isinstance(result, Rejected) and not result.index and result.error is ZkError.NO_NODE:
            ops = [ask]  # nothing is written of it, and the coordinator says what there is
            result = self._client.multi(ops)
        if isinstance(result, Rejected):
            return write_refused(self._client, ops[result.index], result.error)
        try:
            code = self._answered(path)
        finally:
            self._client.multi([Delete(path)])
        if code is None:
            return f"the coordinator did not say in time that {self._group} is deleted: try again"
        if code is WireCode.NON_EMPTY_GROUP:
            return f"clients joined the group {self._group} while it was deleted: stop them first"
        if code in (WireCode.NONE, WireCode.GROUP_ID_NOT_FOUND):
            return ""
        return f"the coordinator did not delete the group {self._group} ({code.name}): try again"

    def _answered(self, path: str) -> WireCode | None:
        while True:
            self._client.sync()
            (node,) = self._client.read([GetData(path)])
            found = decode_answer(path, node.data) if isinstance(node, Node) else None
            if found is not None and not isinstance(found, Malformed):
                return found.code
            if self._left_ms() <= 0:
                return None
            self._progress.update(f"waiting for the coordinator to delete {self._group}")
            self._pause()
