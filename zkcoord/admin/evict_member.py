"""Having a member put out of its group: the coordinator deletes its registration, as it does with
one that does not answer. What it owned is for others once its owner nodes are gone.
"""

from __future__ import annotations

import difflib

from zkcoord.admin.common import argument, refuse_led, refuse_left_alone, some
from zkcoord.admin.coordinator_request import CoordinatorRequest
from zkcoord.core.model import Member, Request, RequestKind, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.errors import RefusedError
from zkcoord.zk.port import GetData, Node
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, describe_group
from zkcoord.znodes.names import shown

NEAR = 0.9
"""Names of a group's members are much alike: who is gone is not meant to be somebody else."""

EARLIER = " (a coordinator of an earlier release does not know evictions that are asked for)"


@value
class EvictionPlan:
    """Who would be put out, and what it owns now."""

    group: str
    member: Member
    partitions: tuple[TopicPartition, ...]

    @property
    def returns(self) -> str:
        """What becomes of whoever stands behind it, as a sentence."""
        if self.member.gateway:
            return (
                f"its client, served by the gateway at {self.member.gateway}, is told that it is no"
                " member any more, and joins again by itself"
            )
        return (
            "its process, if it lives, loses what it owns (on_partitions_lost), and returns under a"
            " new name by itself"
        )


@value
class Evicted:
    """What came of it: the group as it was just after, and how long that took."""

    plan: EvictionPlan
    group: GroupSnapshot
    took_ms: int


class Evict:
    """One eviction; `by` is who asks."""

    def __init__(self, request: CoordinatorRequest, member: str, by: str) -> None:
        self.request = request
        self.member = member
        self.by = by

    def plan(self) -> EvictionPlan:
        """What would be done. Raises `UnknownGroupError`; `RefusedError`, where it cannot be."""
        client, layout, group = self.request.client, self.request.layout, self.request.group
        refuse_led(client, layout, group)
        refuse_left_alone(client, layout, group)
        found = describe_group(client, layout, group)
        member = found.members.get(self.member)
        if member is None:
            raise RefusedError(self._not_there(found))
        if member.legacy:
            raise RefusedError(
                f"{self.member} is an old consumer, which would go on with what it has: nobody can"
                " tell it anything, so stop its process"
            )
        return EvictionPlan(group, member, tuple(found.held_by(self.member)))

    def execute(self) -> Evicted:
        """Have it done, and wait until it is. Raises as `plan`."""
        plan, request = self.plan(), self.request
        began_ms = request.patience.clock()
        session = plan.member.session
        request.ask(Request(RequestKind.EVICT, False, self.by, self.member, session))
        request.await_taken(began_ms, EARLIER)
        client, layout = request.client, request.layout
        found = describe_group(client, layout, request.group)
        (node,) = client.read([GetData(layout.registration(request.group, self.member))])
        if isinstance(node, Node) and node.stat.ephemeral_owner == session:
            raise RefusedError(
                f"the request was taken up, and {self.member} is registered as before: look at the"
                " coordinator's log"
            )
        return Evicted(plan, found, request.patience.clock() - began_ms)

    def _not_there(self, found: GroupSnapshot) -> str:
        """That there is no such member, with who was probably meant."""
        here = f"{shown(self.member)} is not a member of the group {found.group}"
        unreadable = any(
            bad.what == "registration" and bad.name == self.member for bad in found.malformed
        )
        if unreadable:
            return (
                f"the registration of {shown(self.member)} cannot be read, so the coordinator"
                " counts it as nobody's: delete it, or stop the process that made it"
            )
        near = difflib.get_close_matches(self.member, sorted(found.members), 3, NEAR)
        if near:
            return f"{here}, nothing was done: did you mean {some(near)}?"
        return (
            f"{here}, nothing was done: zkcoord groups describe --members"
            f" {argument(found.group)} has their names"
        )
