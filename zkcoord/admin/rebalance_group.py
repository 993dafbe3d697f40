"""Having the coordinator assign a group anew: a request node that it takes up, and what came of
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkcoord.admin.common import argument, refuse_led
from zkcoord.admin.coordinator_request import CoordinatorRequest
from zkcoord.core.model import GroupState, Request, RequestKind, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.errors import RefusedError
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, describe_group


@value
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
    """One request for it; what it waits for is bounded by the request's patience, as a whole."""

    def __init__(self, asked: CoordinatorRequest, request: Request) -> None:
        self.asked = asked
        self.request = request

    def run(self) -> RebalanceResult:
        """Ask, and wait until the group is balanced. Raises `UnknownGroupError`, `RefusedError`."""
        client, layout, group = self.asked.client, self.asked.layout, self.asked.group
        clock = self.asked.patience.clock
        refuse_led(client, layout, group)
        before = describe_group(client, layout, group)
        if not before.members:
            raise RefusedError(
                f"the group {group} has no members: there is nobody to assign partitions to"
            )
        if before.paused:
            raise RefusedError(
                f"the group {group} is paused (by {before.paused}), and nothing is assigned in it:"
                f" zkcoord groups resume {argument(group)} --execute first"
            )
        began_ms = clock()
        self.asked.ask(self.request)
        self.asked.await_taken(began_ms)
        after = self._await_stable(began_ms)
        return RebalanceResult(after, _moved(before.holders, after.holders), clock() - began_ms)

    def _await_stable(self, began_ms: int) -> GroupSnapshot:
        group, patience = self.asked.group, self.asked.patience
        while True:
            found = describe_group(self.asked.client, self.asked.layout, group)
            if found.state is GroupState.STABLE and not any(found.commands.values()):
                return found
            if found.state is GroupState.QUARANTINED:
                raise RefusedError(
                    f"the group {group} is Quarantined:"
                    f" {found.metadata.failure or 'see zkcoord journal'}"
                )
            if patience.clock() - began_ms >= patience.timeout_ms:
                raise RefusedError(
                    f"the request was taken up, but the group {group} is {found.state.value}"
                    f" after {patience.timeout_ms} ms: see zkcoord groups describe --json"
                    f" {argument(group)} for whose commands are outstanding"
                )
            patience.progress.update(f"the group is {found.state.value}")
            patience.rest()


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
