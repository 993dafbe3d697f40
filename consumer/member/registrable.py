"""Whether what a consumer says of itself fits into its registration: asked when it is made and when
it subscribes, where the application hears of it by the name of what is too large.
"""

from __future__ import annotations

import json

from consumer.core.options import MemberOptions
from consumer.errors import ConsumerOptionError, SubscriptionError
from consumer.member.multis import MemberMultis
from zkcoord.core.model import Subscription
from zkcoord.errors import InvalidSubscriptionError
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.port import OPEN_ACL
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.registration import (
    DURATION_MS_MAX,
    SUBSCRIPTION_BYTES_MAX,
    TOPICS_BYTES_MAX,
)


def check_registrable(
    options: MemberOptions, wanted: Subscription, user_data: str | None = None
) -> None:
    """Raises `ConsumerOptionError` and `SubscriptionError`, one sentence, for what could not be
    registered with any session.
    """
    multis = MemberMultis(Layout.DRAFT, options, OPEN_ACL, wall_ms)
    multis.session_timeout_ms = DURATION_MS_MAX
    told = options.user_data if user_data is None else user_data
    try:
        multis.registration(wanted, told)
    except InvalidSubscriptionError as e:
        regex = wanted.pattern.regex if wanted.pattern is not None else ""
        topics, data = len(json.dumps(dict(wanted.topics) or regex)), len(json.dumps(told))
        if topics + data <= TOPICS_BYTES_MAX:
            raise
        if data > topics or regex:
            raise ConsumerOptionError(
                f"assignment_user_data takes {data} bytes as it is written (6 or 12 for a character"
                f" that is not ASCII), and a registration has {SUBSCRIPTION_BYTES_MAX} in all: give"
                " a shorter text"
            ) from e
        raise SubscriptionError(
            f"{len(wanted.topics)} topics by name take {topics} bytes, and a registration has"
            f" {SUBSCRIPTION_BYTES_MAX} in all: subscribe to a pattern that covers them, or to"
            " fewer topics with each consumer"
        ) from e
