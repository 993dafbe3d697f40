"""`zkcoord groups delete` on a real ZooKeeper: all of a group goes, nothing of anybody who lives,
and it can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from kazoo.security import make_digest_acl

from tests.admin.world import World, world
from tests.harness.proxy import Op as ZkOp
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.protocol.rig import rigged
from zkcoord.admin.common import Progress
from zkcoord.admin.delete_group import Deletion
from zkcoord.cli.main import main
from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import MultiResult, Op
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.codec import (
    CommitMetadata,
    Publication,
    encode_commit_metadata,
    encode_offset,
    encode_publication,
)
from zkcoord.znodes.paths import Layout

PATIENCE_S = 40.0
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=["draft", "isolated"])
def layout(request: pytest.FixtureRequest) -> Layout:
    """Both layouts."""
    return Layout.DRAFT if request.param == "draft" else Layout.ISOLATED


@pytest.fixture
def here(zk_hosts: str, layout: Layout) -> Iterator[World]:
    """billing: what members that are gone left behind, two offsets, a request. audit beside it."""
    with world(zk_hosts, layout) as found:
        found.topic("orders", 4)
        for group in ("billing", "audit"):
            found.group(group, GroupState.EMPTY)
            found.client.ensure_path(layout.ids(group))
            found.client.ensure_path(layout.owner_topic(group, "orders"))
            found.client.ensure_path(layout.channel(group, "gone"))
            found.offset(group, "orders", 0, 5)
            found.offset(group, "orders", 1, 7)
        found.put(f"{layout.request_prefix('billing')}0000000001", b"{}")
        yield found


@pytest.fixture
def run(zk_hosts: str, layout: Layout, capsys: pytest.CaptureFixture[str]) -> Run:
    """`zkcoord groups delete ARGUMENTS`: status, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(
            ["groups", "delete", *arguments, "--zookeeper", zk_hosts, "--layout", layout.name]
        )
        out, err = capsys.readouterr()
        return status, out, err

    return call


def tree(found: World, group: str) -> list[str]:
    """Every path that has the group's name in it."""
    paths: list[str] = []
    level = ["/"]
    while level:
        below = [
            f"{path.rstrip('/')}/{name}"
            for path in level
            for name in found.client.get_children(path)
        ]
        paths += below
        level = below
    return sorted(path for path in paths if group in path.split("/"))


def rows(text: str) -> dict[str, int]:
    return {line.split()[1]: int(line.split()[2]) for line in text.splitlines()[1:]}


def counted(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[int], MultiResult | None]
) -> list[int]:
    """Sizes of the multis sent. `before(n)` is called before the n-th (from 1); what it returns is
    its answer, None: it is sent.
    """
    real, sent = SyncClient.multi, []

    def multi(self: SyncClient, ops: list[Op]) -> MultiResult:
        sent.append(len(ops))
        answer = before(len(sent))
        return real(self, ops) if answer is None else answer

    monkeypatch.setattr(SyncClient, "multi", multi)
    return sent


def test_a_dry_run_counts_and_deletes_nothing(here: World, run: Run) -> None:
    before = tree(here, "billing")
    status, out, err = run("billing")
    assert status == 0 and "nothing was deleted; add --execute" in err
    assert rows(out) == {
        "group": 1,
        "channels": 1,
        "offsets": 2,
        "parents": 7,
        "requests": 1,
    } and sum(rows(out).values()) == len(before) - ("/consumers/billing" in before)
    assert tree(here, "billing") == before
    found = json.loads(run("billing", "--json")[1])
    assert found["executed"] is False and found["groups"][0]["nodes"]["offsets"] == 2


def test_all_of_it_goes_and_nothing_else(here: World, run: Run) -> None:
    others = tree(here, "audit")
    status, out, err = run("billing", "--execute")
    assert (status, err) == (0, "") and rows(out)["offsets"] == 2
    assert tree(here, "billing") == [] and tree(here, "audit") == others
    status, out, err = run("billing", "--execute")
    assert (status, out) == (1, "") and "no group billing" in err


def test_what_a_sink_has_committed_must_be_visible_first(
    here: World, run: Run, layout: Layout
) -> None:
    """The offsets say that those records are done: without the intent nobody would move their
    files.
    """
    before = tree(here, "billing")
    here.put(
        layout.publication("billing", "8589934601-17"),
        encode_publication(Publication("file:/out", "staged/m", "0" * 64)),
    )
    status, _, err = run("billing", "--execute")
    assert (
        status == 1
        and "the group billing has committed batches whose files are not visible yet (1)" in err
    )
    assert set(before) <= set(tree(here, "billing"))
    here.client.delete(layout.publication("billing", "8589934601-17"))
    assert run("billing", "--execute")[0] == 0 and tree(here, "billing") == []


@pytest.mark.parametrize("leads", [True, False], ids=["led", "alone"])
def test_what_is_nobodys_does_not_keep_a_group(
    here: World, run: Run, layout: Layout, leads: bool
) -> None:
    """Persistent registrations, readable or not, with nodes below them, and commands and other
    nodes that no coordinator and no member has written: all of it goes, and registrations are
    named.
    """
    if leads:
        here.leader()
    here.put(layout.registration("billing", "junk"), b"\xff")
    here.put(f"{layout.registration('billing', 'junk')}/deeper/still")
    here.put(layout.registration("billing", "bad\u202ename"))
    here.put(f"{layout.channel('billing', 'foreign')}/1", b"junk")
    here.put(f"{layout.channel('billing', 'foreign')}/7-1-0000000001", b"{}")
    here.put(f"{layout.channel('billing', 'gone')}/1/deeper")
    here.put(f"{layout.group('billing')}/plans/junk", b"junk")
    here.put(f"{layout.group('billing')}/whatever/junk", b"junk")
    here.put(f"{layout.owner_topic('billing', 'orders')}/junk", b"junk")
    here.put(f"{layout.offset_topic('billing', 'orders')}/junk", b"junk")
    status, _, err = run("billing")
    assert (status, err) == (
        0,
        "zkcoord groups: persistent registrations of billing, which are no members, go with it:"
        " bad\\u202ename, junk\n"
        "zkcoord groups: nothing was deleted; add --execute\n",
    )
    status, _, err = run("billing", "--execute")
    assert status == 0 and "bad\\u202ename, junk" in err
    assert tree(here, "billing") == []


def test_what_a_session_holds_is_somebodys(here: World, run: Run, layout: Layout) -> None:
    """A registration that nobody can read, and a node below one that is nobody's."""
    here.put(layout.registration("billing", "junk"), b"junk", ephemeral=True)
    before = tree(here, "billing")
    status, out, err = run("billing", "--execute", "--unreadable")
    assert (status, out) == (1, "") and "has members (junk): stop them first" in err
    assert tree(here, "billing") == before
    here.client.delete(layout.registration("billing", "junk"))
    here.put(f"{layout.registration('billing', 'junk')}/below", ephemeral=True)
    status, out, err = run("billing", "--execute", "--unreadable")
    assert (status, out) == (1, "")
    assert f"a session that lives holds {layout.registration('billing', 'junk')}/below:" in err
    other = layout.other_profile()
    here.client.delete(layout.registration("billing", "junk"), recursive=True)
    here.put(other.registration("billing", "old"), b"junk")
    assert run("billing")[0] == 0
    here.put(other.registration("billing", "older"), b"junk", ephemeral=True)
    status, out, err = run("billing", "--execute")
    assert (status, out) == (1, "") and "or old consumers: older;" in err


def test_a_registration_that_is_hidden_may_be_somebodys(
    here: World, run: Run, layout: Layout
) -> None:
    here.put(layout.registration("billing", "junk"), b"junk")
    here.client.set_acls(
        layout.registration("billing", "junk"), [make_digest_acl("u", "p", all=True)]
    )
    status, out, err = run("billing", "--execute")
    assert (status, out) == (1, "")
    assert f"does not let this client read {layout.registration('billing', 'junk')} (NoAuth)" in err


def test_batches_that_nobody_can_read_go_when_that_is_said(
    here: World, run: Run, layout: Layout
) -> None:
    here.put(layout.publication("billing", "junk"), b"junk")
    here.put(layout.publication("billing", "8589934601-17"), b"{}")
    status, out, err = run("billing", "--execute")
    assert (status, out) == (1, "")
    assert (
        f"{layout.publications('billing')} has nodes that cannot be read (8589934601-17, junk):"
        " if they were batches of a sink, nobody can make their files visible; add --unreadable to"
        " delete them with the group (nothing was deleted)"
    ) in err
    here.put(
        layout.publication("billing", "8589934601-18"),
        encode_publication(Publication("file:/out", "staged/m", "0" * 64)),
    )
    status, out, err = run("billing", "--execute", "--unreadable")
    assert (status, out) == (1, "") and "the group billing has committed batches" in err
    here.client.delete(layout.publication("billing", "8589934601-18"))
    assert run("billing", "--execute", "--unreadable")[0] == 0 and tree(here, "billing") == []


def test_a_refusal_is_one_sentence(
    here: World, run: Run, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """Also one that comes after a while: no table of nothing, no word of what was read."""
    monkeypatch.setattr("zkcoord.cli.groups_change.COMMANDS_WAIT_MS", 2_500)
    here.leader()
    here.command("billing", "gone", 1, "orders", 3)
    status, out, err = run("billing", "--execute")
    assert (status, out) == (1, "")
    assert err.splitlines()[:-1] == [
        "zkcoord groups: waiting for the coordinator to take back commands of billing"
    ]
    assert "1 command is outstanding from the coordinator to billing" in err


def test_offsets_alone_are_kept_and_the_group_is_known(
    here: World, run: Run, layout: Layout
) -> None:
    here.offset("left", "orders", 0, 7)
    status, out, err = run("left", "--keep-offsets", "--execute")
    assert (status, out) == (1, "")
    assert err == (
        "zkcoord groups: there is nothing of the group left but its offsets, and --keep-offsets"
        " leaves these: leave that out to delete them\n"
    )
    assert run("left", "--execute")[0] == 0 and tree(here, "left") == []


def test_offsets_may_stay(here: World, run: Run, layout: Layout) -> None:
    assert run("billing", "--keep-offsets", "--execute")[0] == 0
    offsets = layout.offsets("billing")
    assert tree(here, "billing") == [
        offsets.rpartition("/")[0],
        offsets,
        f"{offsets}/orders",
        f"{offsets}/orders/0",
        f"{offsets}/orders/1",
    ]


def test_members_refuse_it_and_no_other_group_is_deleted_then(here: World, run: Run) -> None:
    here.member("billing", "billing_a", {"orders": 1})
    before = tree(here, "audit")
    status, out, err = run("audit", "billing", "--execute")
    assert (
        (status, out) == (1, "")
        and "billing_a" in err
        and "nothing was deleted" in err
        and tree(here, "audit") == before
    )
    status, out, err = run("billing")
    assert status == 1 and rows(out)["registrations"] == 1 and "billing_a" in err
    assert "(nothing was deleted)" in err


def test_an_owner_whose_session_lives_refuses_it_and_one_of_nobody_does_not(
    here: World, run: Run, layout: Layout
) -> None:
    here.member("billing", "billing_a", {"orders": 1})
    here.owner("billing", "orders", 2, "billing_a")
    here.client.delete(layout.registration("billing", "billing_a"))
    status, _, err = run("billing", "--execute")
    assert status == 1 and "orders-2" in err and "session" in err and tree(here, "billing")
    here.client.delete(layout.owner("billing", TopicPartition("orders", 2)))
    here.put(layout.owner("billing", TopicPartition("orders", 3)), b"junk")
    assert run("billing", "--execute")[0] == 0 and tree(here, "billing") == []


def test_commands_of_a_coordinator_that_leads_refuse_it_and_those_of_one_that_is_gone_do_not(
    here: World, run: Run, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zkcoord.cli.groups_change.COMMANDS_WAIT_MS", 200)
    here.leader()
    here.command("billing", "gone", 1, "orders", 3)
    status, _, err = run("billing", "--execute")
    assert (
        status == 1
        and "1 command is" in err
        and len(here.client.get_children(layout.channel("billing", "gone"))) == 1
    )
    here.client.delete(layout.leader)
    assert run("billing", "--execute")[0] == 0 and tree(here, "billing") == []


def test_commands_are_not_deleted_when_the_time_for_them_ends_between_two_looks(
    here: World, layout: Layout
) -> None:
    here.leader()
    here.command("billing", "gone", 1, "orders", 3)
    left = iter((1, 0, 0))
    with SyncClient(ZkOptions(here.hosts)) as client:
        done = Deletion(
            client, layout, "billing", False, lambda: next(left), lambda: None, Progress("test")
        ).execute()
    assert (
        "1 command is" in done.refusal
        and not done.counts
        and len(here.client.get_children(layout.channel("billing", "gone"))) == 1
    )


@pytest.mark.parametrize("at", [1, 2])
def test_a_member_that_comes_in_between_loses_nothing_of_its_own(
    here: World, run: Run, layout: Layout, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Before the first multi the registrations' parent is not empty any more; before the second it
    is made anew.
    """

    def comes(number: int) -> None:
        if number == at:
            here.member("billing", "billing_a", {"orders": 1})

    counted(monkeypatch, comes)
    status, _, err = run("billing", "--execute")
    assert status == 1 and "billing_a" in err
    assert here.client.exists(layout.registration("billing", "billing_a")) and here.client.exists(
        layout.channel("billing", "billing_a")
    )


def test_an_offset_that_was_written_in_between_is_not_deleted(
    here: World, run: Run, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member took the partition: what it stored has another version. (One operation a
    transaction, so that nothing else of it stands against the deletion.)
    """
    monkeypatch.setattr("zkcoord.admin.delete_group.BATCH_MAX", 1)

    def starts(number: int) -> None:
        if number == 2:
            here.member("billing", "billing_a", {"orders": 1})
            here.owner("billing", "orders", 0, "billing_a")
            here.client.set(layout.offset("billing", TopicPartition("orders", 0)), encode_offset(6))

    counted(monkeypatch, starts)
    status, _, err = run("billing", "--execute")
    assert (
        status == 1
        and "billing_a" in err
        and here.client.get(layout.offset("billing", TopicPartition("orders", 0)))[0] == b"6"
    )


def test_an_interrupted_deletion_is_completed_by_the_next(
    here: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        counted(patched, interrupt)
        status, _, err = run("billing", "--execute")
    assert status == 130 and "1 nodes are deleted; repeat" in err and tree(here, "billing")
    assert run("billing", "--execute")[0] == 0 and tree(here, "billing") == []


def test_lost_answers_are_looked_up(
    here: World, zk_hosts: str, layout: Layout, zk_proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    """One deletion happened and one did not; neither was answered."""
    lost = [zk_proxy.swallow_replies(1, (ZkOp.MULTI,)), zk_proxy.drop_requests(1, (ZkOp.MULTI,))]
    chroot = zk_hosts.partition("/")[2]
    assert (
        main(
            [
                "groups",
                "delete",
                "billing",
                "--execute",
                "--zookeeper",
                f"{zk_proxy.address}/{chroot}",
                "--layout",
                layout.name,
            ]
        )
        == 0
    )
    assert tree(here, "billing") == [] and [fault.fired for fault in lost] == [1, 1]


def test_a_large_group_goes_in_bounded_transactions(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(zk_hosts) as found:
        found.group("big", GroupState.EMPTY)
        found.client.ensure_path(found.layout.offset_topic("big", "t" * 200))
        for start in range(0, 1_500, 500):
            transaction = found.client.transaction()
            for number in range(start, start + 500):
                transaction.create(
                    found.layout.offset("big", TopicPartition("t" * 200, number)), b"1"
                )
            transaction.commit()
        sent = counted(monkeypatch, lambda number: None)
        assert main(["groups", "delete", "big", "--execute", "--zookeeper", zk_hosts]) == 0
        assert (
            rows(capsys.readouterr().out)["offsets"] == 1_500
            and tree(found, "big") == []
            and max(sent) <= 500
            and len(sent) > 3
        )


def test_junk_does_not_keep_a_group_that_a_coordinator_serves(
    zk_hosts: str, layout: Layout
) -> None:
    with rigged(zk_hosts, layout) as rig:
        partitions = rig.topic("t", 1)
        c = rig.coordinator()
        rig.member("a", "t").fetches(*partitions).leave({partitions[0]: 9})
        wait_until(
            lambda: rig.names(layout.channels("g")) == [], PATIENCE_S, "the end of its channel"
        )
        rig.zk.ensure_path(f"{layout.channel('g', 'foreign')}/1")
        rig.zk.create(layout.registration("g", "junk"), b"junk")
        delete = ["groups", "delete", "g", "--execute", "--layout", layout.name]
        assert main([*delete, "--zookeeper", zk_hosts]) == 0
        wait_until(
            lambda: "g" not in c.driver.core.groups,
            PATIENCE_S,
            "the coordinator to forget the group",
        )
        assert rig.node(layout.group("g")) is None


def test_a_coordinator_forgets_it_and_serves_a_new_group_of_its_name(
    zk_hosts: str, layout: Layout
) -> None:
    with rigged(zk_hosts, layout) as rig:
        partitions = rig.topic("t", 2)
        c = rig.coordinator()
        rig.member("a", "t").fetches(*partitions).leave({partitions[0]: 9, partitions[1]: 9})
        wait_until(
            lambda: rig.names(layout.channels("g")) == [], PATIENCE_S, "the end of its channel"
        )
        assert (
            main(
                [
                    "groups",
                    "delete",
                    "g",
                    "--execute",
                    "--zookeeper",
                    zk_hosts,
                    "--layout",
                    layout.name,
                ]
            )
            == 0
        )
        wait_until(
            lambda: "g" not in c.driver.core.groups,
            PATIENCE_S,
            "the coordinator to forget the group",
        )
        assert rig.node(layout.group("g")) is None
        b = rig.member("b", "t").fetches(*partitions)
        assert b.positions == dict.fromkeys(partitions, 0)


@pytest.mark.parametrize("keep", [False, True])
def test_what_was_committed_beside_offsets_goes_and_stays_with_them(
    here: World, layout: Layout, run: Run, keep: bool
) -> None:
    beside = layout.commit_metadata("billing", TopicPartition("orders", 1))
    here.put(beside, encode_commit_metadata(CommitMetadata(7, "why")))
    status, out, _ = run("billing", "--execute", *(["--keep-offsets"] if keep else []))
    assert status == 0
    assert rows(out).get("commit-metadata") == (None if keep else 1)
    assert (beside in tree(here, "billing")) is keep
    assert keep or not tree(here, "billing")


def test_of_several_groups_one_that_is_gone_holds_up_no_other(here: World, run: Run) -> None:
    """As after a command that was killed between two of them, and is repeated."""
    status, out, err = run("gone-before", "billing", "--execute")
    assert status == 1 and "no group gone-before" in err and "nodes were deleted" in err
    assert "billing" in out and tree(here, "billing") == []
    status, out, err = run("gone-before", "billing", "--execute")
    assert (status, out) == (1, "") and "no group gone-before" in err and err.count("\n") == 1
