"""A gateway's wire members, put together."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from consumer.core import messages as msg
from consumer.gateway.members.agents import Agents
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.members.memory import ClientMemory
from consumer.gateway.options import GatewayOptions
from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.requests import Answer
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import AclEntry


def wire_groups(
    agents: Agents,
    options: GatewayOptions,
    session: OwnSession,
    acl: tuple[AclEntry, ...],
    answer: Callable[[int, Answer], None],
    begin: Callable[[str, msg.Resolve, Callable[[msg.Resolved], None]], None],
) -> WireGroups:
    """Those of a gateway, with the memory that it shares with others."""
    return WireGroups(
        boot_ms,
        agents.post,
        agents.make,
        answer,
        begin,
        lambda: str(uuid.uuid4()),
        options.limits,
        options.times,
        ClientMemory(session, options.layout, acl, str(uuid.uuid4())),
    )
