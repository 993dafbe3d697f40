"""What tools show of a pin that coordinators and gateways do not believe."""

from __future__ import annotations

import json

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from tests.harness.zookeeper import disconnect
from tests.security.principals import PASSWORDS, client_as, flags, hashed
from zkcoord.cli.main import main
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin
from zkcoord.znodes.paths import Layout

LAY = Layout.DRAFT
PATHS = ClassicPaths(LAY)
ROLES_OR_NONE = pytest.mark.parametrize("told", [(), flags()], ids=["no-roles", "roles"])


@pytest.fixture
def hosts(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Where everything has the ACL of its place, but for one pin of two, which is everybody's."""
    client = client_as(zk_hosts, "coord")
    pin = encode_pin(Pin(Machine.CLIENT_LED, "an operator"))
    for group in ("ours", "open"):
        client.create(PATHS.pin(group), pin, makepath=True)
        client.ensure_path(LAY.group(group))
    disconnect(client)
    command(zk_hosts, "acl", "apply", "--execute", *flags())
    client = client_as(zk_hosts, "coord")
    client.set_acls(PATHS.pin("open"), OPEN_ACL_UNSAFE)
    disconnect(client)
    capsys.readouterr()
    return zk_hosts


def command(hosts: str, *words: str) -> int:
    as_coord = ("--zookeeper-user", "coord", "--zookeeper-password", PASSWORDS["coord"])
    return main([*words, "--zookeeper", hosts, *as_coord])


def test_a_list_names_it_with_what_mends_it(hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(hosts, "groups", "list", "--verbose") == 0
    said = capsys.readouterr()
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert rows["ours"].endswith("client-led") and rows["open"].endswith("not believed")
    assert "the pin of open is not believed" in said.err and "zkcoord acl apply" in said.err
    assert command(hosts, "groups", "list", "--json") == 0
    groups = {one["group"]: one for one in json.loads(capsys.readouterr().out)["groups"]}
    assert (groups["ours"]["machine"], groups["open"]["machine"]) == ("client-led", "auto")
    assert groups["open"]["malformed"][-1]["what"] == "pin that is not believed"


@ROLES_OR_NONE
def test_describe_and_machine_say_that_it_counts_for_nothing(
    hosts: str, told: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(hosts, "groups", "describe", "open") == 0
    assert "is not believed: " in capsys.readouterr().err
    assert command(hosts, "groups", "describe", "ours") == 0
    said = capsys.readouterr().err
    assert "is pinned client-led" in said and "believed" not in said
    assert command(hosts, "groups", "machine", "open", *told) == 0
    said = capsys.readouterr()
    assert said.out.startswith("open: auto;")
    assert f"{PATHS.pin('open')} is not believed" in said.err and "zkcoord acl apply" in said.err


def test_it_is_believed_again_once_that_is_mended(
    hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(hosts, "acl", "apply", "--execute", *flags()) == 0
    capsys.readouterr()
    assert command(hosts, "groups", "machine", "open") == 0
    said = capsys.readouterr()
    assert said.out.startswith("open: client-led;") and "believed" not in said.err


def test_who_may_create_above_it_may_have_made_it(
    hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = client_as(hosts, "coord")
    acl = [make_acl("digest", hashed("coord"), all=True)]
    client.set_acls(PATHS.pins, [*acl, make_acl("digest", hashed("app"), read=True, create=True)])
    disconnect(client)
    assert command(hosts, "groups", "list", "--verbose") == 0
    said = capsys.readouterr()
    assert "the pin of open, ours is not believed" in said.err and "digest:app do c" in said.err


def test_in_an_open_installation_all_are_believed(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = client_as(zk_hosts, "coord")
    client.create(PATHS.pin("g"), encode_pin(Pin(Machine.CLIENT_LED)), makepath=True)
    client.ensure_path(LAY.group("g"))
    disconnect(client)
    assert main(["groups", "list", "--verbose", "--zookeeper", zk_hosts]) == 0
    said = capsys.readouterr()
    assert "client-led" in said.out and "believed" not in said.out + said.err


def test_a_dry_run_of_apply_ends_as_execute_would(
    hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(hosts, "acl", "apply", *flags()) == 0
    said = capsys.readouterr()
    assert PATHS.pin("open") in said.out and "nothing was changed; add --execute" in said.err
    client = client_as(hosts, "coord")
    client.set_acls(PATHS.pin("open"), [make_acl("digest", "nobody:x", all=True)])
    disconnect(client)
    assert command(hosts, "acl", "apply", *flags()) == 1
    dry = capsys.readouterr().err
    assert command(hosts, "acl", "apply", "--execute", *flags()) == 1
    for said_of_it in (dry, capsys.readouterr().err):
        assert "does not let this client change" in said_of_it and "superuser" in said_of_it
    assert "(nothing was changed)" in dry
