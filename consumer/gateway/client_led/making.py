"""What a gateway has for groups whose leader is a client, put together."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from consumer.gateway.address import Address
from consumer.gateway.client_led.commits import Storing
from consumer.gateway.client_led.groups import LedGroups
from consumer.gateway.options import GatewayOptions
from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.requests import Answer
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.options import ZkOptions


def led_groups(
    session: OwnSession,
    options: GatewayOptions,
    zk: ZkOptions,
    storing: Storing,
    answer: Callable[[int, Answer], None],
) -> LedGroups:
    """Those of a gateway."""
    layout, limits, times = options.layout, options.limits, options.times
    own = str(Address(options.host, options.listen.port))
    led = LedGroups(session, layout, zk.acl, storing, boot_ms, answer, _random, limits, times, own)
    led.watching.believe(zk.roles)
    return led


def _random() -> str:
    return str(uuid.uuid4())
