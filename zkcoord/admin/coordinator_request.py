"""Asking the coordinator for something that is done to a group: a request node, which it deletes
when it has taken it up.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.admin.common import (
    Progress,
    refuse_doubted_word,
    refuse_left_alone,
    write_refused,
)
from zkcoord.admin.offsets.reset import make_missing
from zkcoord.admin.step_down import seat_now
from zkcoord.core.model import Request
from zkcoord.core.value_type import value
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclOf
from zkcoord.zk.port import (
    Committed,
    Create,
    Created,
    Delete,
    GetData,
    Missing,
    Rejected,
    ZkError,
)
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.codec import encode_request
from zkcoord.znodes.paths import Layout

TRIES_MAX = 3
STILL_EVERY_S = 15


@value
class RequestPatience:
    """How something is waited for: a clock in ms, how long at most, what passes the time between
    two looks, and where it is said.
    """

    clock: Callable[[], int]
    timeout_ms: int
    rest: Callable[[], object]
    progress: Progress

    def waits(self, what: str, began_ms: int) -> None:
        """What is waited for is said once, and from then on how long that takes."""
        waited_s = (self.clock() - began_ms) // 1_000 // STILL_EVERY_S * STILL_EVERY_S
        most = f"{self.timeout_ms / 1_000:.0f} s at most"
        self.progress.update(f"waited {waited_s} s" if waited_s else f"waiting for {what} ({most})")


class CoordinatorRequest:
    """One request about a group. `node` is its path once it exists."""

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        acl: AclOf,
        patience: RequestPatience,
    ) -> None:
        self.client = client
        self.layout = layout
        self.group = group
        self.acl = acl
        self.patience = patience
        self.node = ""

    def ask(self, request: Request) -> None:
        """Make it. Raises `RefusedError`, also where nobody leads, or nobody would believe it."""
        if seat_now(self.client, self.layout) is None:
            raise RefusedError(
                f"nobody leads ({self.layout.leader} is not there): start a coordinator, then"
                " repeat this"
            )
        parent, group = self.layout.requests(self.group), self.layout.group(self.group)
        refuse_doubted_word(self.client, self.layout, (group,), parent)
        refuse_left_alone(self.client, self.layout, self.group)
        make_missing(self.client, {parent: b""}, self.acl)
        prefix = self.layout.request_prefix(self.group)
        for _ in range(TRIES_MAX):
            op = Create(prefix, encode_request(request), sequential=True, acl=self.acl(prefix))
            result = self.client.multi([op])
            if isinstance(result, Committed):
                (created,) = result.results
                assert isinstance(created, Created)
                self.node = created.path
                return
            if isinstance(result, Rejected):
                raise RefusedError(write_refused(self.client, op, result.error))
        raise RefusedError(
            "ZooKeeper did not answer again and again: look at its servers, then try again"
        )

    def await_taken(self, began_ms: int, hint: str = "") -> None:
        """Wait until it is taken up; one that is not in time is withdrawn. `hint` is said then.
        Raises `RefusedError`.
        """
        patience = self.patience
        while not isinstance(self.client.read([GetData(self.node)])[0], Missing):
            if patience.clock() - began_ms >= patience.timeout_ms:
                withdrawn = self.client.multi([Delete(self.node)])
                if isinstance(withdrawn, Committed):
                    raise RefusedError(
                        "the coordinator did not take the request up within"
                        f" {patience.timeout_ms} ms, so it was withdrawn: look at its log, and give"
                        f" it more time with --timeout-ms{hint}"
                    )
                if isinstance(withdrawn, Rejected) and withdrawn.error is not ZkError.NO_NODE:
                    raise RefusedError(
                        "the coordinator did not take the request up within"
                        f" {patience.timeout_ms} ms, and it cannot be withdrawn, so it may be yet:"
                        f" {write_refused(self.client, Delete(self.node), withdrawn.error)}"
                    )
            patience.waits("the coordinator to take the request up", began_ms)
            patience.rest()
