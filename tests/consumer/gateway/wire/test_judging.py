"""Which clients stop before they join, as far as their names say it."""

from __future__ import annotations

import pytest

from consumer.gateway.wire.actions import GroupLimits
from consumer.gateway.wire.judging import EAGER, JoinWishes, judge
from consumer.gateway.wire.requests import JoinRequest
from consumer.gateway.wire.subscription import encode_subscription
from zkcoord.core.model import TopicPartition

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("names", "cooperative"),
    [
        (["cooperative-sticky"], True),
        (["own", "cooperative-sticky"], True),
        (["cooperative-sticky", "own"], True),
        (["cooperative-sticky", "range"], False),
        (["own", "cooperative-sticky", "sticky"], False),
        *[([name], False) for name in sorted(EAGER)],
    ],
)
def test_what_a_client_names_as_owned_counts_unless_it_is_known_to_stop(
    names: list[str], cooperative: bool
) -> None:
    """A client does what all assignors that it lists support; of one that is not known nobody knows
    what that is, and an eager client names nothing.
    """
    protocols = tuple((name, encode_subscription(["t"], [TP])) for name in names)
    request = JoinRequest("g", "m", 10_000, 10_000, "consumer", protocols)
    wishes = judge(request, GroupLimits())
    assert isinstance(wishes, JoinWishes)
    assert wishes.cooperative is cooperative and wishes.subscription.owned == {TP}
