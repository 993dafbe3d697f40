"""Each cell of the table on a real server: what each principal tries with each kind of node, before
it is there and after, and what becomes of it.
"""

from __future__ import annotations

import itertools

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import ACL, Id

from tests.harness.zookeeper import disconnect
from tests.security.principals import ROLES, STRANGER, client_as, digest
from tests.zk.port_contract import Session
from tests.zk.real import Loop
from zkcoord.zk.acl.table import ALL, ANY, MATRIX, members_may
from zkcoord.zk.port import AclEntry, Create
from zkcoord.znodes.paths import Layout, parents

USERS = {"coordinators": "coord", "members": "app", "readers": "viewer", "strangers": STRANGER}
NOTHING = "-"


def place(path: str) -> str:
    """A path of the table with names in it."""
    names = itertools.chain(("g", "n1", "7"), itertools.repeat("8"))
    return "/".join(next(names) if part == ANY else part for part in path.split("/"))


def cells(path: str) -> dict[str, str]:
    """What the table says of a place, by principal: "before / after"."""
    above = members_may(parents(path)[-1] if parents(path) else "/")
    member = "make" if "c" in above else NOTHING, members_may(path)
    return {
        "coordinators": f"make / {ALL}, delete",
        "members": f"{member[0]} / {member[1]}{', delete' if 'd' in above else ''}",
        "readers": f"{NOTHING} / r",
        "strangers": f"{NOTHING} / {NOTHING}",
    }


def may_make(client: KazooClient, coordinator: KazooClient, path: str) -> bool:
    """Whether it can make the node, which is not there before or after."""
    try:
        client.create(path)
    except NoAuthError:
        return False
    coordinator.delete(path)
    return True


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


def may_delete(client: KazooClient, coordinator: KazooClient, path: str) -> bool:
    """Whether it can delete the node, which is there before and after."""
    acl, _ = coordinator.get_acls(path)
    try:
        client.delete(path)
    except NoAuthError:
        return False
    coordinator.create(path, b"", acl=acl)
    return True


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def test_each_principal_may_do_what_the_table_says_and_nothing_else(
    zk_hosts: str, layout: Layout
) -> None:
    """The nodes are made through the product's port, by a coordinator, those above first; the node
    of the chroot is closed, as the documentation asks. Each place, 4 principals, 7 things to try.
    """
    rules = sorted({rule.path(layout) for rule in MATRIX}, key=lambda path: path.count("/"))
    session = Session(Loop(zk_hosts, digest=digest("coord"), roles=ROLES))
    clients = {who: client_as(zk_hosts, user) for who, user in USERS.items()}
    coordinator = clients["coordinators"]
    coordinator.set_acls("/", [kazoo_acl(entry) for entry in ROLES.acl("/")])
    differences = []
    try:
        for rule in rules:
            path = place(rule)
            before = {w: may_make(client, coordinator, path) for w, client in clients.items()}
            session.do(Create(path, b""))
            for who, client in clients.items():
                letters = "".join(
                    letter for letter in ALL if letter in tried(client, coordinator, path)
                )
                delete = ", delete" if may_delete(client, coordinator, path) else ""
                found = f"{'make' if before[who] else NOTHING} / {letters or NOTHING}{delete}"
                wanted = normal(cells(rule)[who])
                if found != wanted:
                    differences.append(f"{path}: {who}: {found}, not {wanted}")
    finally:
        for client in clients.values():
            disconnect(client)
        session.close()
    assert differences == [] and len(rules) >= 26


def kazoo_acl(entry: AclEntry) -> ACL:
    """An entry for a plain client."""
    return ACL(entry.perms, Id(entry.scheme, entry.id))


def normal(cell: str) -> str:
    """The letters in one order."""
    before, after = cell.split(" / ")
    letters, comma, delete = after.partition(", ")
    ordered = letters if letters == NOTHING else "".join(c for c in ALL if c in letters)
    return f"{before} / {ordered}{comma}{delete}"
