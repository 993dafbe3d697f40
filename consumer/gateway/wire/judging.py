"""What is wrong with a JoinGroup by itself, in the order in which Kafka looks
(GroupMetadataManager, 3.9), and which assignors a client's names stand for.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from consumer.core import messages as msg
from zkcoord.core.error_codes import INCONSISTENT_GROUP_PROTOCOL, WireCode
from zkcoord.core.value_type import value
from zkcoord.znodes.classic.consumer_blobs import CONSUMER, KAFKAJS, OURS, BadBlobError
from zkcoord.znodes.gateway_nodes import ASSIGNORS_MAX, PROTOCOL_CHARS_MAX, is_instance_of_client
from zkcoord.znodes.names import is_group, is_topic, printable, shown
from zkcoord.znodes.registration import topics_fit

from .actions import GroupLimits
from .requests import JoinRequest
from .subscription import ClientSubscription, decode_subscription

log = logging.getLogger(__name__)

COOPERATIVE = frozenset({"cooperative-sticky"})
EAGER = OURS.keys() - COOPERATIVE
"""A client that lists one of these stops before it joins, since it does what all of its assignors
support. Whether one that is not known is eager cannot be known; but an eager client names nothing
as owned, so what it names tells.
"""

WAITING = frozenset({KAFKAJS})
"""Assignors of clients that ask for no records until a heartbeat is answered."""


def ended_with(failure: msg.Failed) -> WireCode:
    """What a client is answered whose agent cannot go on. Who has its instance now is asked at the
    coordinator: another client, or the same one; that it shares no assignor with its group is told
    it, or it would try for ever; all else it finds out by joining anew.
    """
    if failure.code is msg.FailureCode.FENCED_INSTANCE_ID:
        return WireCode.NOT_COORDINATOR
    if failure.rejection == INCONSISTENT_GROUP_PROTOCOL:
        return WireCode.INCONSISTENT_GROUP_PROTOCOL
    return WireCode.UNKNOWN_MEMBER_ID


@value
class JoinWishes:
    """What a client that joins wants: its subscription; `protocol`, the name of an assignor that it
    is answered; `assignors`, as the coordinator names them. `cooperative`: what it names as owned
    it has not stopped, for no assignor that it lists is known to be eager. `lists`: their names,
    also those that are not known, as far as they can be written down.
    """

    subscription: ClientSubscription
    protocol: str
    assignors: tuple[str, ...]
    cooperative: bool
    lists: tuple[str, ...] = ()


def judge(request: JoinRequest, limits: GroupLimits) -> JoinWishes | WireCode:
    """What a JoinGroup wants, or the code that refuses it."""
    if not is_group(request.group):
        return WireCode.INVALID_GROUP_ID
    low, high = limits.min_session_timeout_ms, limits.max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        return WireCode.INVALID_SESSION_TIMEOUT
    # what Kafka's clients allow as an instance id is what it allows as a topic's name
    instance = request.instance
    if instance is not None and (not is_topic(instance) or is_instance_of_client(instance)):
        return WireCode.INVALID_REQUEST
    known = [(name, blob) for name, blob in request.protocols if name in OURS]
    if request.protocol_type != CONSUMER or not known:
        return WireCode.INCONSISTENT_GROUP_PROTOCOL
    name, blob = known[0]
    try:
        wanted = decode_subscription(blob)
    except BadBlobError as error:
        log.info("a member of group %s sent no subscription: %s", shown(request.group), error)
        return WireCode.INCONSISTENT_GROUP_PROTOCOL
    # what can be no topic's name is none, and must not become a path
    wanted = replace(wanted, topics=tuple(filter(is_topic, wanted.topics)))
    if not topics_fit(wanted.topics):
        log.warning(
            "a member of group %s is refused: its %d topics are too many for a registration",
            shown(request.group),
            len(wanted.topics),
        )
        return WireCode.INVALID_REQUEST
    assignors = tuple(dict.fromkeys(OURS[name] for name, _ in known))
    cooperative = not any(name in EAGER for name, _ in request.protocols)
    lists = [name for name, _ in request.protocols if printable(name, PROTOCOL_CHARS_MAX) == name]
    return JoinWishes(wanted, name, assignors, cooperative, tuple(lists[:ASSIGNORS_MAX]))
