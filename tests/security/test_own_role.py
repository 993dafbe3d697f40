"""Who takes itself for another than it is by its options: a consumer for a coordinator, as where
the two options are exchanged, a coordinator for a member. What it made would not be theirs who
need it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from consumer import KafkaConsumer
from consumer.options import check
from tests.security.principals import PASSWORDS, flags, hashed
from zkcoord.config.option_spec import ENVIRONMENT_PREFIX, Use
from zkcoord.config.settings import coordinator_settings
from zkcoord.config.sources import resolve
from zkcoord.errors import ConfigurationError

COORDINATORS, MEMBERS, READERS = flags()[1::2]


def consumer(user: str, coordinators: str, members: str) -> dict[str, object]:
    """Options of a consumer."""
    return {
        "group_id": "g",
        "zookeeper_connect": "h:1",
        "zookeeper_auth": (user, PASSWORDS[user]),
        "zookeeper_acl_coordinators": coordinators,
        "zookeeper_acl_members": members,
    }


def test_a_consumer_whose_roles_are_exchanged_is_refused() -> None:
    check(consumer("app", COORDINATORS, MEMBERS))
    exchanged = consumer("app", MEMBERS, COORDINATORS)
    with pytest.raises(ConfigurationError, match="of 'digest:app', which") as caught:
        check(exchanged)
    said = str(caught.value)
    assert "zookeeper_acl_coordinators names and zookeeper_acl_members does not" in said
    assert "\n" not in said and hashed("app").partition(":")[2] not in said
    with pytest.raises(ConfigurationError, match="'digest:app'"):
        KafkaConsumer("t", **exchanged)


def test_so_is_one_with_a_coordinators_name_for_sasl() -> None:
    options: dict[str, object] = {
        "group_id": "g",
        "zookeeper_connect": "h:1",
        "zookeeper_sasl_mechanism": "DIGEST-MD5",
        "zookeeper_sasl_username": "app",
        "zookeeper_sasl_password": "x",
    }
    who = ("zookeeper_acl_coordinators", "zookeeper_acl_members")
    check({**options, **dict(zip(who, ("sasl:coord", "sasl:app"), strict=True))})
    with pytest.raises(ConfigurationError, match="the credentials of 'sasl:app'"):
        check({**options, **dict(zip(who, ("sasl:app", "sasl:coord"), strict=True))})


def test_a_coordinator_that_is_named_as_a_member_too_may_consume() -> None:
    check(consumer("coord", COORDINATORS, f"{MEMBERS};{COORDINATORS}"))


def test_a_coordinator_with_the_credentials_of_a_member_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        monkeypatch.delenv(name)

    def settled(user: str, coordinators: str, members: str) -> None:
        given = {
            "zookeeper": "h:1",
            "zookeeper_user": user,
            "zookeeper_password": PASSWORDS[user],
            "acl_coordinators": coordinators,
            "acl_members": members,
            "acl_readers": READERS,
        }
        coordinator_settings(
            resolve(Use.COORDINATOR, given, {}), ("range", "sticky"), {"HOME": str(tmp_path)}
        )

    settled("coord", COORDINATORS, MEMBERS)
    settled("app", f"{COORDINATORS};ip:10.0.0.1", MEMBERS)
    for user in ("app", "viewer"):
        with pytest.raises(
            ConfigurationError, match=f"of 'digest:{user}'.*does not name"
        ) as caught:
            settled(user, COORDINATORS, MEMBERS)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="not exchanged"):
        settled("coord", MEMBERS, COORDINATORS)
