"""What cannot be registered is refused before anything is opened, by the option's own name."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from kafka.errors import KafkaConfigurationError

from consumer.errors import ConsumerOptionError, SubscriptionError
from consumer.member.multis import MemberMultis
from consumer.member.registrable import check_registrable
from consumer.member.thread import member_options
from consumer.options import check, user_data_of
from zkcoord.core.model import Member, Pattern, PatternKind, Subscription
from zkcoord.zk.port import OPEN_ACL
from zkcoord.znodes import codec
from zkcoord.znodes.names import consumer_id
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.registration import SUBSCRIPTION_BYTES_MAX
from zkcoord.znodes.stat import Stat

GROUP: dict[str, Any] = {"group_id": "g", "zookeeper_connect": "127.0.0.1:1"}
ONE = Subscription({"t": 1})


def registered(**configs: Any) -> Member:
    """As the coordinator reads it."""
    multis = MemberMultis(Layout.DRAFT, member_options(check({**GROUP, **configs})), OPEN_ACL, int)
    name = consumer_id("g", "host", 1, "0" * 8)
    found = codec.decode_registration(name, multis.registration(ONE, ""), Stat(1, 1, 0, 0, 7, 0))
    assert isinstance(found, Member)
    return found


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a\tb\nc", "a?b?c"),
        ("x" * 300, "x" * 255),
        ("\u202e", "?"),
        ("\U0001f600" * 300, "\U0001f600" * 255),
        ("", ""),
    ],
)
def test_what_kafka_takes_as_a_clients_name_is_kept_as_far_as_it_can_be(
    given: str, kept: str
) -> None:
    assert registered(client_id=given).client == kept


def test_a_hosts_name_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "h\t" + "x" * 300)
    assert registered().host == "h?" + "x" * 253


@pytest.mark.parametrize("name", ["client_id", "client_rack"])
def test_what_kafkas_protocol_cannot_hold(name: str) -> None:
    for text in ("x" * 2_000_000, "\u20ac" * 11_000):
        with pytest.raises(ConsumerOptionError, match=rf"^{name} is .* at most 32767 bytes$"):
            check({**GROUP, name: text})
    assert check({**GROUP, name: "x" * 32_767}).config[name] == "x" * 32_767


@pytest.mark.parametrize("wrong", ["\ud800", "x" * 16_385, b"x", None, 7, "\x1b\ud800"])
def test_user_data_that_cannot_be_registered(wrong: Any) -> None:
    """Given as it is, or by a function."""
    with pytest.raises(ConsumerOptionError, match="^assignment_user_data gives "):
        check({**GROUP, "assignment_user_data": wrong})
    with pytest.raises(ConsumerOptionError, match="^assignment_user_data gives "):
        user_data_of(lambda: wrong)


def test_user_data_that_is_longer_as_it_is_written() -> None:
    options = member_options(check(GROUP))
    check_registrable(options, ONE, "x" * 16_384)
    for text in ("\u20ac" * 16_384, "\0" * 16_384):
        with pytest.raises(ConsumerOptionError, match="^assignment_user_data takes ") as caught:
            check_registrable(options, ONE, text)
        assert str(SUBSCRIPTION_BYTES_MAX) in str(caught.value)
        assert str(len(json.dumps(text))) in str(caught.value)


def test_user_data_beside_a_long_pattern() -> None:
    wanted = Subscription(pattern=Pattern(PatternKind.WHITE_LIST, "\u20ac" * 4_096), streams=1)
    check_registrable(member_options(check(GROUP)), wanted)
    with pytest.raises(ConsumerOptionError, match="^assignment_user_data takes 60002 bytes"):
        check_registrable(member_options(check(GROUP)), wanted, "\u20ac" * 10_000)


def test_more_assignors_than_a_registration_lists() -> None:
    with pytest.raises(ConsumerOptionError, match="^partition_assignment_strategy names 5000 ass"):
        check({**GROUP, "partition_assignment_strategy": [f"a{n}" for n in range(5_000)]})
    with pytest.raises(ConsumerOptionError) as caught:
        check({**GROUP, "partition_assignment_strategy": "x" * 1_000_000})
    assert len(str(caught.value)) < 1_000


def test_more_topics_than_a_registration_lists() -> None:
    """Whoever reads it must not have to know what a registration is."""
    many = Subscription({f"topic{n}": 1 for n in range(30_000)})
    with pytest.raises(SubscriptionError, match="^30000 topics by name take .* pattern") as caught:
        check_registrable(member_options(check(GROUP)), many)
    assert isinstance(caught.value, KafkaConfigurationError)
    assert str(SUBSCRIPTION_BYTES_MAX) in str(caught.value)


def test_the_longest_of_everything_fits() -> None:
    """What each option's own check lets through is registered with any session."""
    most = {
        "client_id": "\U0001f600" * 255,
        "assignment_user_data": "x" * 16_384,
        "group_instance_id": "i" * 249,
        "partition_assignment_strategy": [f"{n:0100}" for n in range(10)],
    }
    options = check({**GROUP, **most})
    check_registrable(member_options(options), ONE, str(most["assignment_user_data"]))
