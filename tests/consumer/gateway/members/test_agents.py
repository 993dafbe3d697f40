"""What a wire member's registration says, whatever its client calls itself."""

from __future__ import annotations

import pytest

from consumer.gateway.members.agents import member_options
from consumer.gateway.members.wire_group import AgentWishes
from consumer.member.multis import MemberMultis
from tests.consumer.gateway.members.test_groups import World, join
from zkcoord.core.model import Member, Subscription
from zkcoord.zk.port import OPEN_ACL
from zkcoord.znodes.codec import decode_registration
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.stat import Stat

STAT = Stat(1, 1, 0, 0, 99, 0)


def registered(wishes: AgentWishes, gateway: str) -> Member:
    """As others read it."""
    multis = MemberMultis(Layout.DRAFT, member_options(wishes, gateway), OPEN_ACL, lambda: 1)
    found = decode_registration("m", multis.registration(Subscription({"t": 1}), ""), STAT)
    assert isinstance(found, Member), found
    return found


def test_a_client_is_named_with_its_library_and_its_gateway() -> None:
    wishes = AgentWishes("g", "me", "10.0.0.7", None, 0, ("range",), 60_000, library="lib 1.0")
    found = registered(wishes, "gw1:9192")
    assert (found.client, found.host, found.library, found.gateway) == (
        "me",
        "10.0.0.7",
        "lib 1.0",
        "gw1:9192",
    )


@pytest.mark.parametrize(
    "odd", ["x" * 32_767, "a\nb\0\x1b[2J", "\u202e", "ü" * 300, "\U0001f600" * 400]
)
def test_what_a_client_calls_itself_cannot_keep_it_from_being_registered(odd: str) -> None:
    wishes = AgentWishes("g", odd, odd, None, 0, ("range",), 60_000, library=odd)
    found = registered(wishes, odd)
    for text in (found.client, found.host, found.library, found.gateway):
        assert 0 < len(text) <= 255 and text.isprintable()


def test_the_library_of_the_connection_is_the_members() -> None:
    world = World()
    world.library = "librdkafka 2.16"
    world.join(world.join().member_id)
    assert world.agents[0].wishes.library == "librdkafka 2.16"
    assert join().member_id == ""
