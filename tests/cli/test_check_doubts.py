"""`zkcoord check` and `groups`: what coordinators wait for or leave alone is named, what may not be
read is, and what was asked for only one group is of that group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from kazoo.security import make_digest_acl

from tests.admin.world import World, world
from zkcoord.cli.main import main
from zkcoord.core.model import GroupState
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.codec import EPOCH_MAX, EpochData, encode_epoch
from zkcoord.znodes.paths import LAYOUTS

Run = Callable[..., tuple[int, str, str]]
STRANGERS = [make_digest_acl("u", "p", all=True)]


@pytest.fixture(params=LAYOUTS.values(), ids=lambda layout: layout.name)
def here(zk_hosts: str, request: pytest.FixtureRequest) -> Iterator[World]:
    """billing, with an offset."""
    with world(zk_hosts, request.param) as found:
        found.topic("orders", 2)
        found.leader()
        found.broker(1)
        found.group("billing", GroupState.EMPTY)
        found.offset("billing", "orders", 0, 5)
        yield found


@pytest.fixture
def run(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command: status, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "--zookeeper", zk_hosts])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def found(out: str) -> set[tuple[str, str, str]]:
    """Code, group, node."""
    return {(one["code"], one["group"] or "", one["node"]) for one in json.loads(out)["findings"]}


def codes(out: str) -> set[str]:
    return {code for code, _, _ in found(out)}


def test_an_epoch_without_a_successor_is_named(here: World, run: Run) -> None:
    """Coordinators wait for it."""
    here.client.set(here.layout.epoch, encode_epoch(EpochData(EPOCH_MAX - 1, 1, 12_000)))
    assert "epoch-unusable" not in codes(run("check", "--json")[1])
    here.client.set(here.layout.epoch, encode_epoch(EpochData(EPOCH_MAX, 1, 12_000)))
    status, out, _ = run("check", "--json")
    assert status == 3 and ("epoch-unusable", "", here.layout.epoch) in found(out)


def test_of_one_group_only_what_concerns_it_is_said(here: World, run: Run) -> None:
    other = here.layout.other_profile()
    here.client.ensure_path(other.leader)
    here.put("/brokers/topics/orders/partitions/0/state", b'{"leader": -1}')
    here.topic("strange", 1)
    assert {"seat-persistent", "partition-without-leader"} <= codes(run("check", "--json")[1])
    _, out, _ = run("check", "--only", "billing", "--json")
    assert "seat-persistent" not in codes(out)
    nodes = {node for code, _, node in found(out) if code == "partition-without-leader"}
    assert nodes == {"/brokers/topics/orders"}


@pytest.mark.parametrize("part", ["group", "channels", "requests", "led", "state"])
def test_a_hidden_node_of_a_group_is_named(here: World, run: Run, part: str) -> None:
    paths = ClassicPaths(here.layout)
    here.client.ensure_path(paths.state("billing"))
    here.client.ensure_path(here.layout.requests("billing"))
    here.client.ensure_path(here.layout.channels("billing"))
    path = {
        "group": here.layout.group("billing"),
        "channels": here.layout.channels("billing"),
        "requests": here.layout.requests("billing"),
        "led": paths.group("billing"),
        "state": paths.state("billing"),
    }[part]
    here.client.set_acls(path, STRANGERS)
    for words in (("check", "--json"), ("check", "--json", "--only", "billing")):
        status, out, err = run(*words)
        assert status == 1 and ("not-readable", "billing", path) in found(out), out
        assert f"does not let this client read {path} (NoAuth)" in err


@pytest.mark.parametrize("what", ["root", "groups", "pins", "requests"])
def test_what_is_hidden_above_groups_that_clients_lead_is_named(
    here: World, run: Run, what: str
) -> None:
    paths = ClassicPaths(here.layout)
    path = {
        "root": paths.root,
        "groups": paths.groups,
        "pins": paths.pins,
        "requests": paths.requests,
    }[what]
    here.client.ensure_path(path)
    here.client.set_acls(path, STRANGERS)
    status, out, err = run("check", "--json")
    assert status == 1 and ("not-readable", "", path) in found(out), out
    assert f"does not let this client read {path} (NoAuth)" in err
    if what == "groups":  # they are not taken for none
        for words in (("groups", "list"), ("groups", "health")):
            status, out, err = run(*words, "--layout", here.layout.name)
            assert status == 1 and f"does not let this client read {path} (NoAuth)" in err


def test_credentials_that_may_not_are_not_asked_for_again(
    here: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZooKeeper takes any password: that of another user, too."""
    here.client.set_acls(here.layout.groups_root, [make_digest_acl("coord", "pw", all=True)])
    where = ("--layout", here.layout.name)
    for words in (("groups", "list", *where), ("groups", "describe", "g", *where), ("check",)):
        with monkeypatch.context() as patched:
            patched.setenv("ZKCOORD_ZOOKEEPER_PASSWORD", "bad")
            status, _, err = run(*words, "--zookeeper-user", "coord")
        assert status == 1 and "coord (if that is its password: ZooKeeper takes any) may not" in err
        assert "give other credentials (--zookeeper-user)" in err
        status, _, err = run(*words)
        assert status == 1 and "give credentials that may (--zookeeper-user)" in err
