"""Having the coordinator assign a group anew: a request node that it takes up, and what came of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zkcoord.admin.common import Progress, argument, refuse_led, write_refused
from zkcoord.admin.offsets.reset import make_missing
from zkcoord.admin.step_down import seat_now
from zkcoord.core.model import GroupState, Request, RequestKind, TopicPartition
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclOf
from zkcoord.zk.port import Committed, Create, Created, Delete, GetData, Missing, Rejected
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, describe_group
from zkcoord.znodes.codec import encode_request
from zkcoord.znodes.paths import Layout

TRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """A partition whose owner is another one than before; empty: nobody."""

    tp: TopicPartition
    before: str
    after: str


@dataclass(frozen=True)
class RebalanceResult:
    """What came of it."""

    group: GroupSnapshot
    moved: tuple[OwnerChange, ...]
    took_ms: int


class Rebalance:
    """One request. `clock` and `pause` are the caller's; `timeout_ms` bounds the whole."""

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        request: Request,
        acl: AclOf,
        clock: Callable[[], int],
        timeout_ms: int,
        pause: Callable[[], object],
        progress: Progress,
    ) -> None:
        self.client = client
        self.layout = layout
        self.group = group
        self.request = request
        self.acl = acl
        self.clock = clock
        self.timeout_ms = timeout_ms
        self.pause = pause
        self.progress = progress
        self.node = ""

    def run(self) -> RebalanceResult:
        """Ask, and wait until the group is balanced. Raises `UnknownGroupError`, `RefusedError`."""
        refuse_led(self.client, self.layout, self.group)
        before = describe_group(self.client, self.layout, self.group)
        if not before.members:
            raise RefusedError(
                f"the group {self.group} has no members: there is nobody to assign partitions to"
            )
        if seat_now(self.client, self.layout) is None:
            raise RefusedError(
                f"nobody leads ({self.layout.leader} is not there): start a coordinator, then"
                " repeat this"
            )
        began_ms = self.clock()
        self._ask()
        self._await_taken(began_ms)
        after = self._await_stable(began_ms)
        return RebalanceResult(
            after, _moved(before.holders, after.holders), self.clock() - began_ms
        )

    def _ask(self) -> None:
        make_missing(self.client, {self.layout.requests(self.group): b""}, self.acl)
        prefix = self.layout.request_prefix(self.group)
        for _ in range(TRIES_MAX):
            op = Create(
                prefix,
                encode_request(self.request),
                sequential=True,
                acl=self.acl(prefix),
            )
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

    def _await_taken(self, began_ms: int) -> None:
        while not isinstance(self.client.read([GetData(self.node)])[0], Missing):
            if self.clock() - began_ms >= self.timeout_ms:
                withdrawn = self.client.multi([Delete(self.node)])
                if isinstance(withdrawn, Committed):
                    raise RefusedError(
                        f"the coordinator did not take the request up within {self.timeout_ms} ms,"
                        " so it was withdrawn: look at its log, and give it more time with"
                        " --timeout-ms"
                    )
            self.progress.say("waiting for the coordinator to take the request up")
            self.pause()

    def _await_stable(self, began_ms: int) -> GroupSnapshot:
        while True:
            found = describe_group(self.client, self.layout, self.group)
            if found.state is GroupState.STABLE and not any(found.commands.values()):
                return found
            if found.state is GroupState.QUARANTINED:
                raise RefusedError(
                    f"the group {self.group} is Quarantined:"
                    f" {found.metadata.failure or 'see zkcoord journal'}"
                )
            if self.clock() - began_ms >= self.timeout_ms:
                raise RefusedError(
                    f"the request was taken up, but the group {self.group} is {found.state.value}"
                    f" after {self.timeout_ms} ms: see zkcoord groups describe --json"
                    f" {argument(self.group)}"
                    " for whose commands are outstanding"
                )
            self.progress.say(f"the group is {found.state.value}")
            self.pause()


def rebalance_request(fresh: bool, by: str) -> Request:
    """The request of this command."""
    return Request(RequestKind.REBALANCE, fresh, by)


def _moved(
    before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> tuple[OwnerChange, ...]:
    return tuple(
        OwnerChange(tp, before.get(tp, ""), after.get(tp, ""))
        for tp in sorted({*before, *after})
        if before.get(tp, "") != after.get(tp, "")
    )
