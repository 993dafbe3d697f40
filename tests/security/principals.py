"""Digest users for tests: their passwords, their roles, and plain clients as each of them."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.security import make_digest_acl_credential

from tests.harness.zookeeper import connect
from zkcoord.zk.acl.table import Principal, Roles
from zkcoord.zk.options import Digest

PASSWORDS = {"coord": "pw-of-coord", "app": "pw-of-app", "viewer": "pw-of-viewer"}
STRANGER = ""


def digest(user: str) -> Digest:
    """A user's credentials."""
    return Digest(user, PASSWORDS[user])


def hashed(user: str) -> str:
    """A user as an ACL names it, without the scheme."""
    return str(make_digest_acl_credential(user, PASSWORDS[user]))


ROLES = Roles(
    (Principal("digest", hashed("coord")),),
    (Principal("digest", hashed("app")),),
    (Principal("digest", hashed("viewer")),),
)


def flags() -> tuple[str, ...]:
    """The same roles for a command line."""
    return (
        "--acl-coordinators",
        f"digest:{hashed('coord')}",
        "--acl-members",
        f"digest:{hashed('app')}",
        "--acl-readers",
        f"digest:{hashed('viewer')}",
    )


def client_as(hosts: str, user: str) -> KazooClient:
    """A started plain client of this user; of nobody for `STRANGER`."""
    client = connect(hosts)
    if user != STRANGER:
        client.add_auth("digest", f"{user}:{PASSWORDS[user]}")
    return client
