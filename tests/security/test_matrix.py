"""Each cell of the table on a real server: what each principal tries with each kind of node, and
what becomes of it.
"""

from __future__ import annotations

import itertools

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from tests.harness.zookeeper import disconnect
from tests.security.principals import ROLES, STRANGER, client_as, digest
from tests.zk.port_contract import Session
from tests.zk.real import Loop
from zkcoord.zk.acl.table import ALL, ANY, MATRIX
from zkcoord.zk.port import Create
from zkcoord.znodes.paths import Layout, parents

USERS = ("coord", "app", "viewer", STRANGER)


def place(path: str) -> str:
    """A path of the table with names in it."""
    names = itertools.chain(("g", "n1", "7"), itertools.repeat("8"))
    return "/".join(next(names) if part == ANY else part for part in path.split("/"))


def tried(client: KazooClient, coordinator: KazooClient, path: str) -> str:
    """The letters of what is possible, each tried; nothing is left changed but the data."""
    coordinator.create(f"{path}/victim")
    acl, _ = coordinator.get_acls(path)

    def create() -> None:
        client.create(f"{path}/made")
        coordinator.delete(f"{path}/made")

    attempts = {
        "r": lambda: client.get(path),
        "w": lambda: client.set(path, b"written"),
        "c": create,
        "d": lambda: client.delete(f"{path}/victim"),
        "a": lambda: client.set_acls(path, acl),
    }
    may = ""
    for letter in ALL:
        try:
            attempts[letter]()
        except NoAuthError:
            continue
        may += letter
    if "d" not in may:
        coordinator.delete(f"{path}/victim")
    return may


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def test_each_principal_may_do_what_the_table_says_and_nothing_else(
    zk_hosts: str, layout: Layout
) -> None:
    """The nodes are made through the product's port, by a coordinator: each place, 4 principals,
    5 rights.
    """
    # of two rules for one path the earlier counts
    rules = {place(rule.path(layout)): rule for rule in reversed(MATRIX)}
    session = Session(Loop(zk_hosts, digest=digest("coord"), roles=ROLES))
    for path in sorted({above for path in rules for above in (*parents(path), path)}):
        session.do(Create(path, b""))
    clients = {user: client_as(zk_hosts, user) for user in USERS}
    try:
        for path, rule in rules.items():
            wanted = {
                "coord": ALL,
                "app": "".join(letter for letter in ALL if letter in rule.members),
                "viewer": "r",
                STRANGER: "",
            }
            assert {
                user: tried(client, clients["coord"], path) for user, client in clients.items()
            } == wanted, path
    finally:
        for client in clients.values():
            disconnect(client)
        session.close()
    assert len(rules) >= 23
