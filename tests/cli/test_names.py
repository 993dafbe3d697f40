"""Commands that take names: one that nothing has is exit status 1, and said. (`migrate` and `check`
have tests of their own.)
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl

import zkcoord
from tests.admin.world import world
from zkcoord.admin.common import argument
from zkcoord.cli.main import main
from zkcoord.core.model import GroupState
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation

EARLIER = "987654321.earlier"
"""Of a transaction that has not been: the first topic of a server may be of the seventh."""


def test_a_topic_that_the_group_has_nothing_of(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(zk_hosts) as here:
        here.topic("orders", 2)
        here.group("billing", topics=("orders",))
        here.offset("billing", "orders", 0, 5)
        show = ["offsets", "show", "billing", "--zookeeper", zk_hosts, "--topic", "orders:0"]
        assert main(show) == 0
        capsys.readouterr()
        for typo in ("TYPO", "orders:7"):
            assert main([*show, "--topic", typo]) == 1
            out, err = capsys.readouterr()
            assert out == "" and typo in err and "correct --topic" in err


def test_a_group_of_which_there_is_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"t": 1, "kind": "evicted", "group": "billing", "member": "m", "reason": "r"}
    term = {"t": 2, "kind": "term", "event": "elected", "epoch": 1}
    (tmp_path / "1-1.0.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(term)}\n")
    assert main(["journal", "--dir", str(tmp_path), "--group", "billing", "-n", "1"]) == 0
    assert main(["journal", "--dir", str(tmp_path), "--group", "TYPO"]) == 1
    assert "no record of the group TYPO" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["groups", "describe", "TYPO"],
        ["groups", "delete", "TYPO"],
        ["groups", "rebalance", "TYPO"],
        ["groups", "mode", "TYPO"],
        ["offsets", "show", "TYPO"],
        ["offsets", "accept", "TYPO", "--all-topics"],
        ["check", "--only", "TYPO"],
    ],
)
def test_a_group_that_is_not_there(
    zk_hosts: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with world(zk_hosts) as here:
        here.topic("orders", 1)
        here.group("billing", topics=("orders",))
        assert main([*command, "--zookeeper", zk_hosts]) == 1
        assert "TYPO" in capsys.readouterr().err


def test_names_that_no_group_can_have_are_named_beside_the_list(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(zk_hosts) as here:
        here.group("billing", topics=("orders",))
        here.client.ensure_path(f"{here.layout.groups_root}/coordinator/asks")
        listing = ["groups", "list", "--zookeeper", zk_hosts]
        assert main(listing) == 0
        assert "no broker is known" in capsys.readouterr().err
        here.broker(1)
        assert main(listing) == 0
        assert capsys.readouterr().err == ""
        for name in ("bad\u202ename", "ids", "y" * 300):
            here.client.ensure_path(f"{here.layout.groups_root}/{name}/ids/x")
        for more in ([], ["--json"]):
            assert main([*listing, *more]) == 0
            out, err = capsys.readouterr()
            assert "billing" in out and "yyy" not in out
            assert err.startswith(
                f"zkcoord groups: 3 names in {here.layout.groups_root} can be no group's, not"
                " listed: 'bad\\u202ename', 'ids', 'yyy"
            ) and err.endswith("see zkcoord check\n")
            assert err.count("\n") == 1


@pytest.mark.parametrize(
    "hidden",
    [
        "/consumers/coordinator",
        "/consumers/groups",
        "/brokers/ids",
        "/brokers/ids/1",
        "/consumers/groups/billing/ids",
        "/consumers/groups/billing",
        "/consumers/groups/billing/ids/billing_z",
        "/consumers/billing/offsets/orders",
        "/consumers/billing/offsets/orders/0",
    ],
)
def test_what_is_hidden_is_not_absent(
    hidden: str, zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No leader, no broker, no member, no offset: that is said only of what can be seen."""
    with world(zk_hosts) as here:
        here.topic("orders", 1)
        here.broker(1)
        here.leader()
        here.group("billing", GroupState.EMPTY, topics=("orders",))
        here.member("billing", "billing_z", {"orders": 1})
        here.offset("billing", "orders", 0, 5)
        here.client.set_acls(hidden, [make_digest_acl("u", "p", all=True)])
        where = ["--zookeeper", zk_hosts]
        assert main(["groups", "describe", "billing", *where]) == 1
        out, err = capsys.readouterr()
        assert out == "" and f"does not let this client read {hidden} (NoAuth)" in err


def test_topics_that_are_hidden_are_not_another_chroots(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(zk_hosts) as here:
        here.topic("orders", 1)
        here.client.set_acls("/brokers/topics", [make_digest_acl("u", "p", all=True)])
        assert main(["groups", "describe", "billing", "--zookeeper", zk_hosts]) == 1
        assert "chroot" not in capsys.readouterr().err


def test_a_topic_that_has_no_offsets_to_accept(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(zk_hosts) as here:
        here.topic("orders", 1)
        here.topic("empty", 1)
        here.group("billing", GroupState.EMPTY, topics=("orders",))
        here.offset("billing", "orders", 0, 5)
        parent = here.layout.offset_topic("billing", "orders")
        here.client.set(parent, encode_incarnation(OffsetsOf(EARLIER)))
        accept = ["offsets", "accept", "billing", "--zookeeper", zk_hosts]
        accept += ["--topic", "orders", "--topic", "empty", "--execute"]
        assert main(accept) == 1
        assert (
            "the group billing has no offsets of empty: correct --topic (1 of 1 topic was accepted)"
        ) in capsys.readouterr().err
        assert here.client.get(parent)[0] != encode_incarnation(OffsetsOf(EARLIER))


@pytest.mark.parametrize(
    ("name", "written"), [("plain", "plain"), ("a b", "'a b'"), ("-dash", "-- -dash")]
)
def test_commands_that_are_suggested_can_be_copied(
    name: str, written: str, zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert argument(name) == written
    with world(zk_hosts) as here:
        here.topic("orders", 1)
        here.group(name, GroupState.QUARANTINED, members=1)
        here.member(name, "m", {"orders": 1})
        assert main(["groups", "describe", "--zookeeper", zk_hosts, "--", name]) == 0
        assert f"`zkcoord groups rebalance {written}` has it" in capsys.readouterr().err


def test_no_suggested_command_has_a_name_as_it_is() -> None:
    """In the source: what stands behind the words of a command goes through `argument`."""
    suggested = re.compile(
        r"(?:groups|offsets)[ \"\nf]+(?:show|describe|rebalance|mode|delete|reset|accept)"
        r"[ \"\nf]+(?:--json[ \"\nf]+)?\{([^}]*)\}"
    )
    root = Path(zkcoord.__file__).parent
    found = [
        match[1]
        for folder in ("admin", "cli", "check", "config", "zk/sync")
        for path in sorted((root / folder).rglob("*.py"))
        for match in suggested.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(found) >= 10 and all(one.startswith("argument(") for one in found), found
