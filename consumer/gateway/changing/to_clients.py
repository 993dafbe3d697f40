"""Members of a group that a client is to lead from now on, though the coordinator assigns it: they
go over one by one, without being stopped.

Their agents want nothing any more, so that the coordinator takes everything from everybody and
gives it to nobody; their clients are told to join again. One that comes with nothing in its hands
leaves: it is a member of the other kind from then on. An eager client has stopped whenever it
joins; a cooperative one that still owns something is told, here, that it has nothing.

The coordinator lets nobody lead before all have left, so a partition is never owned twice.
"""

from __future__ import annotations

from collections.abc import Set

from consumer.core import messages as msg
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.members.wire_group import ServedMember
from consumer.gateway.wire.judging import COOPERATIVE
from consumer.gateway.wire.requests import Caller, JoinRequest
from consumer.gateway.wire.subscription import decode_subscription
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Subscription, TopicPartition
from zkcoord.znodes.classic.consumer_blobs import BadBlobError

WHY = "its group is led by a client from now on"


class GoingOver:
    """See the module."""

    def __init__(self, wire: WireGroups) -> None:
        self._wire = wire

    def begin(self, name: str) -> None:
        """Those that are here want nothing; who is told already is not told again."""
        group = self._wire.groups.get(name)
        if group is not None:
            group.goes_over = True
            for served in group.members.values():
                if not served.goes_over:
                    self._tell(served, True)

    def take_back(self, name: str) -> None:
        """They stay after all."""
        group = self._wire.groups.get(name)
        if group is not None and group.goes_over:
            group.goes_over = False
            for served in group.members.values():
                if served.goes_over:
                    self._tell(served, False)

    def _tell(self, served: ServedMember, goes_over: bool) -> None:
        served.goes_over = goes_over
        topics = () if goes_over else served.wire.topics
        self._wire.tell(served, msg.Subscribe(Subscription(dict.fromkeys(topics, 1))))

    def takes(self, ticket: int, caller: Caller, request: JoinRequest) -> bool:
        """Whether a JoinGroup is of a member that has still to give something up: it goes on as
        before. Another one leaves.
        """
        group = self._wire.groups[request.group]
        named = request.member_id or group.instances.get(request.instance or "", "")
        served = group.members.get(named)
        if served is None:
            return False
        is_its_own = group.known(named, request.instance) is WireCode.NONE
        if is_its_own and is_empty_handed(request, served.wire.held.keys() | served.wire.has):
            served.wire.leave(WHY)
            self._wire.touched(served)
            return False
        self._wire.request(ticket, caller, request)
        if served.goes_over:
            self._tell(served, True)  # it may have named other topics
        return True


def is_empty_handed(request: JoinRequest, given: Set[TopicPartition] | None = None) -> bool:
    """Whether a client joins with nothing: all that it was given it has stopped, or given up.
    `given`: what it may have, where that is known; what else it names it has from nobody.
    """
    if any(name not in COOPERATIVE for name, _ in request.protocols):
        return True
    if not request.protocols:
        return False
    try:  # of the first that is known, as who joins is judged by: to read is work
        owned = decode_subscription(request.protocols[0][1]).owned
    except BadBlobError:
        return False
    return not (owned if given is None else owned & given)
