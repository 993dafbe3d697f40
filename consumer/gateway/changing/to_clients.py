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
from consumer.gateway.wire.judging import COOPERATIVE, EAGER
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
        has = served.wire.held.keys() | served.wire.has
        if is_its_own and is_empty_handed(request, served.wire.protocol, has):
            served.wire.leave(WHY)
            self._wire.touched(served)
            return False
        self._wire.request(ticket, caller, request)
        if served.goes_over:
            self._tell(served, True)  # it may have named other topics
        return True


def is_empty_handed(
    request: JoinRequest, told_by: str, given: Set[TopicPartition] | None = None
) -> bool:
    """Whether a client joins with nothing: all that it was given it has stopped, or given up.
    `told_by`: the assignor as which it was told last what it has, for some libraries remember that
    by assignor. `given`: what it may have, where that is known; what else it names it has from
    nobody.
    """
    names = [name for name, _ in request.protocols]
    if not names:
        return False
    if any(name in EAGER for name in names) or not COOPERATIVE.intersection(names):
        return True
    for read in dict.fromkeys((told_by, *COOPERATIVE)):
        # of the first of that name, as who joins is judged by: to read is work
        blob = next((blob for name, blob in request.protocols if name == read), b"")
        try:
            owned = decode_subscription(blob).owned
        except BadBlobError:
            continue
        return not (owned if given is None else owned & given)
    return False
