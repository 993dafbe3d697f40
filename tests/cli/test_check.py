"""`zkcoord check` on a real ZooKeeper: everything that is known to go wrong is found with its group
and node, what is sound is not accused, and nothing is written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.admin.world import world
from tests.check.old_world import OldWorld, old_world
from tests.harness.tree import tree_of
from tests.harness.zookeeper import srvr_stats
from tests.security.principals import PASSWORDS, flags
from zkcoord.check import reader as reading
from zkcoord.check.examination import Examination
from zkcoord.check.rules import CheckFinding, markdown
from zkcoord.cli.main import main
from zkcoord.errors import RefusedError
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.zk.kazoo_port import connection
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

GUIDE = Path(__file__).parents[2] / "docs" / "migration.md"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(zk_hosts: str) -> Iterator[OldWorld]:
    """A broker, the topic orders with 4 partitions, and the group sound, which is well."""
    with old_world(zk_hosts) as made:
        made.broker(version=2)
        made.topic("orders", 4)
        made.healthy("sound", "orders", 4)
        yield made


@pytest.fixture
def run(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """`zkcoord check ARGUMENTS --zookeeper HERE` in this process: status, standard output, standard
    error.
    """

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(["check", *arguments, "--zookeeper", zk_hosts])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def found(out: str) -> dict[tuple[str, str], str]:
    """(code, group) -> node."""
    return {(one["code"], one["group"] or ""): one["node"] for one in json.loads(out)["findings"]}


def test_a_sound_ensemble(here: OldWorld, run: Run) -> None:
    status, out, err = run()
    assert (status, err) == (0, "")
    assert (
        out
        == "1 group, 1 old consumer, 0 of zkcoord's, 1 topic, 4 offsets: 0 errors, 0 warnings, 0"
        " notes.\n"
    )


def sick(here: OldWorld) -> dict[tuple[str, str], str]:
    """Every problem that one look can show, each in a group of its own; what is to be found."""
    expected: dict[tuple[str, str], str] = {}

    def group(code: str, node: str, *more: str) -> str:
        name = code
        expected[code, name] = f"/consumers/{name}/{node}"
        for other in more:
            other_code, _, other_node = other.partition("=")
            expected[other_code, name] = f"/consumers/{name}/{other_node}"
        return name

    def registered(code: str, data: bytes) -> None:
        name = group(code, "ids/x")
        here.healthy(name, "orders", 4)
        here.registration(name, "x", data)

    registered("registration-no-json", b"orders")
    registered("registration-no-pattern", b'{"subscription":{"orders":1}}')
    registered("registration-no-subscription", b'{"pattern":"static"}')
    registered("registration-no-streams", b'{"subscription":{"orders":0},"pattern":"static"}')
    registered("registration-bad-regex", b'{"subscription":{"or(ders":1},"pattern":"white_list"}')
    registered(
        "registration-large-number",
        b'{"subscription":{"orders":1},"pattern":"static","timestamp":1795227768363}',
    )
    registered(
        "registration-escaped-twice",
        b'{"subscription":{"orders\\\\\\\\..*":1},"pattern":"white_list"}',
    )
    registered(
        "registration-not-re2", b'{"subscription":{"(?=orders)orders":1},"pattern":"white_list"}'
    )
    name = group("registration-persistent", "ids/x")
    here.healthy(name, "orders", 4)
    here.put(f"/consumers/{name}/ids/x", b'{"subscription":{"orders":1},"pattern":"static"}')
    name = group("registration-rewritten", "ids/registration-rewritten_a")
    here.healthy(name, "orders", 4)
    here.session(f"{name}_a").set(
        f"/consumers/{name}/ids/{name}_a", b'{"subscription":{"orders":2},"pattern":"static"}'
    )

    name = group("registration-internal-topics", "ids/registration-internal-topics_a")
    here.topic("__transaction_state", 1)
    here.member(name, f"{name}_a", {"orders|__.*": 1}, pattern="white_list")
    for n in range(4):
        here.owner(name, "orders", n, f"{name}_a")
        here.offset(name, "orders", n, "1")

    name = group("owner-persistent", "owners/orders/3")
    here.healthy(name, "orders", 3)
    here.offset(name, "orders", 3, "1")
    here.put(f"/consumers/{name}/owners/orders/3", b"somebody-0")
    name = group("owner-no-thread", "owners/orders/3")
    here.healthy(name, "orders", 3)
    here.owner(name, "orders", 3, f"{name}_a", "1_3")
    name = group("owner-not-registered", "owners/orders/3")
    here.healthy(name, "orders", 3)
    here.owner(name, "orders", 3, "stranger")
    name = group("owner-of-another-session", "owners/orders/3")
    here.healthy(name, "orders", 3)
    here.member(name, "thief", {"orders": 1})
    here.owner(name, "orders", 3, "thief", f"{name}_a-0")
    name = group("owner-no-such-partition", "owners/orders/1-3")
    here.healthy(name, "orders", 4)
    here.owner(name, "orders", "1-3", f"{name}_a")

    name = group("member-gave-up", "ids/member-gave-up_b")
    here.healthy(name, "orders", 2)
    here.member(name, f"{name}_b", {"orders": 1})
    name = group("partitions-unowned", "owners")
    here.healthy(name, "orders", 3)
    here.topic("clicks", 1)
    name = group("different-topics", "ids")
    here.healthy(name, "orders", 4)
    here.member(name, f"{name}_b", {"clicks": 1})
    here.owner(name, "clicks", 0, f"{name}_b")

    for code, data in (("offset-no-number", "seven"), ("offset-outside-log", "-1")):
        name = group(code, "offsets/orders")
        here.offset(name, "orders", 0, data)
    name = group("offset-no-such-partition", "offsets/orders")
    here.offset(name, "orders", "1-0", "5")
    name = group("offset-no-such-topic", "offsets/gone")
    here.offset(name, "gone", 0, "5")
    name = group("offset-of-an-earlier-topic", "offsets/later")
    here.offset(name, "later", 0, "5")
    here.topic("later", 1, leader=-1)
    expected["partition-without-leader", ""] = "/brokers/topics/later"
    name = group("offset-ephemeral", "offsets/orders")
    here.put(f"/consumers/{name}/offsets/orders")
    here.session("x").create(f"/consumers/{name}/offsets/orders/0", b"5", ephemeral=True)
    name = group("no-offsets-node", "offsets")
    here.member(name, f"{name}_a", {"orders": 1})
    for n in range(4):
        here.owner(name, "orders", n, f"{name}_a")
    name = group("topic-unreadable", "")
    expected["topic-unreadable", name] = "/brokers/topics/broken"
    here.healthy(name, "orders", 4)
    here.member(name, f"{name}_b", {"broken": 1, "orders": 1})
    here.put("/brokers/topics/broken", b"nonsense")
    here.put("/admin/delete_topics/clicks")
    expected["topic-being-deleted", ""] = "/admin/delete_topics/clicks"
    here.broker(2, version=4)
    expected["broker-format", ""] = "/brokers/ids/2"
    here.put("/brokers/ids/3", b"nonsense")
    expected["broker-unreadable", ""] = "/brokers/ids/3"
    return expected


def test_every_problem_is_found_where_it_is_and_nothing_is_written(
    here: OldWorld, run: Run
) -> None:
    expected = sick(here)
    before = tree_of(here.client)
    status, out, err = run("--json")
    assert (status, err) == (3, "")
    assert found(out) == expected
    assert tree_of(here.client) == before
    counts = Counter(one["severity"] for one in json.loads(out)["findings"])
    assert json.loads(out)["seen"]["found"] == {
        name: counts[name] for name in ("error", "warning", "note")
    }
    status, out, _ = run("--only", "owner-persistent")
    assert status == 3 and out.startswith(
        "ERROR owner-persistent  group owner-persistent\n "
        " /consumers/owner-persistent/owners/orders/3: it is not ephemeral and says 'somebody-0'\n "
        " effect (0.8.0 - 1.1.1): nobody can own"
    )
    assert "\n  fix: delete the node\n" in out


def test_the_exit_status_says_how_bad_it_is(here: OldWorld, run: Run) -> None:
    here.offset("old", "gone", 0, "5")
    assert [
        run("--only", "old", "--fail-on", at)[0] for at in ("error", "warning", "note", "never")
    ] == [0, 0, 3, 0]
    here.offset("old", "orders", "1-0", "5")
    assert [run("--only", "old", "--fail-on", at)[0] for at in ("error", "warning")] == [0, 3]
    status, _, err = run("--only", "old", "--only", "odl")
    assert status == 1 and "no group matches odl:" in err
    status, _, err = run("--only", "odl")
    assert status == 1 and err.startswith("zkcoord check: no group matches odl")
    status, _, err = run("--for", "-1")
    assert status == 2 and err == "zkcoord check: --for is -1: write seconds from 0 to 86400\n"


def test_members_in_both_layouts_and_the_draft_layout_beside_old_consumers(
    here: OldWorld, zk_hosts: str, run: Run
) -> None:
    with world(zk_hosts, Layout.DRAFT) as ours:
        ours.leader()
        ours.group("sound")
        ours.member("sound", "sound_z", {"orders": 1})
        out = run("--json")[1]
    assert found(out) == {
        ("both-layouts", "sound"): "/consumers/sound/ids",
        ("draft-layout", ""): Layout.DRAFT.groups_root,
    }
    assert Counter(one["code"] for one in json.loads(out)["findings"])["draft-layout"] == 2
    assert json.loads(out)["seen"]["our_members"] == 1


def test_what_keeps_coordinators_from_leading(here: OldWorld, zk_hosts: str, run: Run) -> None:
    with world(zk_hosts, Layout.ISOLATED) as ours:
        epoch = b'{"version":1,"epoch":9223372036854775807,"protocol":1,"lease_max_ms":1000}'
        ours.put(Layout.ISOLATED.epoch, epoch)
        ours.put(Layout.ISOLATED.leader)
        out = run("--json")[1]
    assert {
        ("epoch-unusable", ""): Layout.ISOLATED.epoch,
        ("seat-persistent", ""): Layout.ISOLATED.leader,
    }.items() <= found(out).items()
    with world(zk_hosts, Layout.ISOLATED) as ours:
        ours.client.delete(Layout.ISOLATED.leader)
        ours.client.create(Layout.ISOLATED.leader, b"junk", ephemeral=True)
        out = run("--json")[1]
    assert {("seat-unreadable", ""): Layout.ISOLATED.leader}.items() <= found(out).items()


def examination(hosts: str, watch_s: float, rest: Callable[[float], None]) -> list[CheckFinding]:
    """With a clock of its own: each rest is a second."""
    rested: list[float] = []

    def resting(seconds: float) -> None:
        rested.append(seconds)
        rest(seconds)

    with SyncClient(ZkOptions(hosts)) as reader:
        return list(
            Examination(
                reader, lambda name: True, None, watch_s, lambda: sum(rested), resting
            ).findings()
        )


def test_what_passes_by_itself_is_not_reported(here: OldWorld, zk_hosts: str) -> None:
    """A rebalance: for a moment a partition has no owner, and another one that of a member that has
    just left.
    """
    here.healthy("busy", "orders", 2)
    here.owner("busy", "orders", 2, "left")
    here.offset("busy", "orders", 3, "0")

    def goes_on(_: float) -> None:
        here.session("left").delete("/consumers/busy/owners/orders/2")
        for n in (2, 3):
            here.owner("busy", "orders", n, "busy_a")

    assert examination(zk_hosts, 0, goes_on) == []


def test_an_offset_that_goes_back_is_seen_while_it_is_watched(
    here: OldWorld, zk_hosts: str
) -> None:
    values = iter([b"20", b"19", b"21", b"21"])
    seen = examination(
        zk_hosts, 4.0, lambda _: here.client.set("/consumers/sound/offsets/orders/1", next(values))
    )
    assert [(one.code, one.node, one.what) for one in seen] == [
        (
            "offset-went-back",
            "/consumers/sound/offsets/orders/1",
            "from 20 to 19 while it was watched",
        )
    ]


def test_what_may_not_be_read_is_said(here: OldWorld, run: Run) -> None:
    from kazoo.security import make_digest_acl

    here.client.ensure_path("/consumers/closed/ids")
    here.client.create("/consumers/closed/offsets", b"", acl=[make_digest_acl("u", "p", all=True)])
    status, out, err = run("--json")
    assert found(out) == {("not-readable", "closed"): "/consumers/closed/offsets"}
    assert json.loads(out)["seen"]["hidden"] == 1
    assert status == 1
    assert err == (
        "zkcoord check: ZooKeeper does not let this client read /consumers/closed/offsets (NoAuth),"
        " so what is there is not in this report: give credentials that may (--zookeeper-user)\n"
    )
    assert run("--fail-on", "never")[0] == 1
    assert run("--only", "sound")[0] == 0
    status, out, err = run("--only", "closed", "--only", "odl")
    assert status == 1 and "read /consumers/closed/offsets (" in err and "matches odl:" in err


@pytest.mark.parametrize(
    "root",
    ["/consumers", "/consumers/groups", "/zkcoord/groups", "/brokers/topics", "/brokers/ids"],
)
def test_a_root_that_may_not_be_listed_is_not_taken_for_an_empty_one(
    root: str, here: OldWorld, zk_hosts: str, run: Run
) -> None:
    from kazoo.security import make_digest_acl

    here.client.ensure_path(root)
    here.client.set_acls(root, [make_digest_acl("u", "p", all=True)])
    status, out, err = run("--json")
    assert found(out) == {("not-readable", ""): root}
    assert status == 1 and f"does not let this client read {root} (NoAuth)" in err
    status, out, err = run("--only", "odl")
    assert status == 1 and f"does not let this client read {root} (NoAuth)" in err
    assert ("no group matches" in err) == root.startswith("/brokers")
    assert f"WARNING not-readable\n  {root}: ZooKeeper's ACL forbids it" in out
    with SyncClient(ZkOptions(zk_hosts)) as reader:
        if root.startswith("/brokers"):
            assert reading.group_names(reader) == ["sound"]
        else:
            with pytest.raises(RefusedError, match=root):
                reading.group_names(reader)


def test_a_topic_that_may_not_be_read_is_no_topic_that_cannot_be(here: OldWorld, run: Run) -> None:
    from kazoo.security import make_digest_acl

    closed = [make_digest_acl("u", "p", all=True)]
    here.client.set_acls("/brokers/topics/orders/partitions/2/state", closed)
    status, out, _ = run("--json")
    assert (status, found(out)) == (
        1,
        {("not-readable", ""): "/brokers/topics/orders/partitions/2/state"},
    )
    here.client.set_acls("/brokers/topics/orders", closed)
    status, out, _ = run("--json")
    assert (status, found(out)) == (1, {("not-readable", ""): "/brokers/topics/orders"})


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED])
def test_who_may_read_by_the_table_of_rights_reads_enough(
    layout: Layout, here: OldWorld, zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ensemble that zkcoord acl apply has closed: readers see all of it, strangers are told."""
    with world(zk_hosts, layout) as ours:
        ours.leader()
        ours.group("billing")
        ours.member("billing", "billing_z", {"orders": 1})
        ours.offset("billing", "orders", 0, 5)
        where = ("--zookeeper", zk_hosts)
        coord = ("--zookeeper-user", "coord", *flags())
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("ZKCOORD_ZOOKEEPER_PASSWORD", PASSWORDS["coord"])
            assert main(["acl", "apply", "--execute", *where, *coord]) == 0
            capsys.readouterr()
            patched.setenv("ZKCOORD_ZOOKEEPER_PASSWORD", PASSWORDS["viewer"])
            status = main(["check", *where, "--zookeeper-user", "viewer", "--json"])
            out, err = capsys.readouterr()
            assert json.loads(out)["seen"]["hidden"] == 0, out
            assert (status, err) == (0, "")
            for others in (
                ["groups", "list"],
                ["groups", "describe", "billing"],
                ["offsets", "show", "billing"],
            ):
                more = ("--zookeeper-user", "viewer", "--layout", layout.name)
                assert main([*others, *where, *more]) == 0
            capsys.readouterr()
        status = main(["check", *where])
        out, err = capsys.readouterr()
        assert status == 1 and "does not let this client read /consumers, " in err


def test_a_name_that_no_group_can_have_is_named(here: OldWorld, run: Run) -> None:
    names = {
        "bad\u202ename": "it has a character that cannot be seen",
        "ids": "tools would take it for a part of the layout",
        "y" * 300: "it has 300 bytes",
    }
    for name in names:
        for root in ("/consumers", "/consumers/groups", "/zkcoord/groups"):
            here.client.ensure_path(f"{root}/{name}/ids/x")
    here.client.ensure_path("/consumers/groups/coordinator/asks")
    status, out, err = run("--json", "--fail-on", "error")
    assert (status, err) == (0, "")
    seen = json.loads(out)
    named = [one for one in seen["findings"] if one["code"] == "group-name"]
    assert sorted((one["group"], one["node"]) for one in named) == sorted(
        (name, f"{root}/{name}")
        for name in names
        for root in ("/consumers", "/consumers/groups", "/zkcoord/groups")
    )
    assert all(names[one["group"]] in one["what"] for one in named)
    assert seen["seen"]["groups"] == 1
    out = run("--only", "bad*")[1]
    assert "WARNING group-name  group bad\\u202ename\n  /consumers/bad\\u202ename: " in out


def test_what_is_too_large_to_be_answered_is_no_missing_right(
    here: OldWorld, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names may be of a megabyte each: who was told of credentials looked for the fault there."""
    monkeypatch.setattr(connection, "FRAME_BYTES_MAX", 2 * 1024 * 1024)
    for number in range(5):
        name = f"{'x' * 500_000}{number}"
        here.client.create(f"/consumers/huge/ids/{name}", b"", makepath=True)
    status, out, err = run("--json", "--only", "huge")
    assert status == 1, err
    assert found(out) == {("answer-too-large", "huge"): "/consumers/huge/ids"}
    assert "/consumers/huge/ids holds" in err and "(TooLarge)" in err and "delete" in err
    assert "NoAuth" not in err and "credentials" not in err
    status, out, _ = run("--only", "huge")
    assert "fix: delete what is nobody's there" in out and "ACL" not in out


def test_who_may_not_be_seen_may_be_registered(here: OldWorld, run: Run) -> None:
    """No owner node is called an orphan's where a registration is hidden."""
    from kazoo.security import make_digest_acl

    here.topic("t", 1)
    here.member("veiled", "veiled_a", {"t": 1})
    here.session("veiled_a").ensure_path("/consumers/veiled/owners/t")
    here.session("veiled_a").create("/consumers/veiled/owners/t/0", b"veiled_a-0", ephemeral=True)
    node = "/consumers/veiled/ids/veiled_a"
    here.client.set_acls(node, [make_digest_acl("u", "p", all=True)])
    assert found(run("--json", "--only", "veiled")[1]) == {("not-readable", "veiled"): node}


def test_thousands_of_groups_take_few_requests_and_bounded_memory(
    here: OldWorld,
    zk_server: ZooKeeperServer,
    zk_hosts: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = 1_500
    for start in range(0, groups, 100):
        transaction = here.client.transaction()
        for n in range(start, start + 100):
            for part in ("", "/ids", "/owners", "/offsets", "/offsets/orders"):
                transaction.create(f"/consumers/g{n:04d}{part}")
            for partition in range(4):
                transaction.create(f"/consumers/g{n:04d}/offsets/orders/{partition}", b"5")
        transaction.commit()
    sizes: list[int] = []
    whole = reading._whole

    def counted(*arguments: object) -> list[reading.GroupSeen]:
        seen = whole(*arguments)  # type: ignore[arg-type]
        sizes.append(sum(group.size for group in seen))
        return seen

    monkeypatch.setattr(reading, "_whole", counted)
    monkeypatch.setattr(reading, "NODES_AT_ONCE", 500)
    before = srvr_stats(zk_server.port).received
    status, out, _ = run()
    asked = srvr_stats(zk_server.port).received - before
    assert status == 0 and f"{groups + 1} groups" in out and f"{4 * groups + 4} offsets" in out
    assert asked < groups / 2, asked
    assert max(sizes) <= 500 and sum(sizes) >= 5 * groups


def test_the_guide_has_every_problem() -> None:
    assert markdown() in GUIDE.read_text(encoding="utf-8"), (
        "docs/migration.md: paste the output of zkcoord.check.rules.markdown()"
    )


def test_the_docs_say_one_thing_of_sharing() -> None:
    """Old consumers and zkcoord's share a group in mode mixed, and nowhere is it said that they
    cannot.
    """
    docs = {path.name: path.read_text(encoding="utf-8") for path in GUIDE.parent.glob("*.md")}
    assert not [name for name, text in docs.items() if "do not\nshare a group" in text]
    assert "share a group while it is in mode `mixed`" in docs["streams.md"]
    assert "Old consumers are stopped one at a time" in docs["migration.md"]
