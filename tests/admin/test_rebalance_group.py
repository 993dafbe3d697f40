"""`zkcoord groups rebalance`: the request node, and what the command says of what became of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from consumer.core import messages as msg
from tests.admin.world import World, world
from tests.harness.wait import wait_until
from tests.protocol.rig import rigged, tps
from zkcoord.cli.main import main
from zkcoord.core.model import GroupMetadata, GroupState, Request, RequestKind
from zkcoord.znodes.codec import decode_request, encode_metadata
from zkcoord.znodes.paths import Layout

PATIENCE_S = 40.0
TIMEOUT = ["--timeout-ms", str(int(PATIENCE_S * 1000))]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(zk_hosts: str) -> Iterator[World]:
    """billing with a member that owns a partition, and somebody who leads but does nothing."""
    with world(zk_hosts) as found:
        found.topic("orders", 2)
        found.leader()
        found.group("billing")
        found.member("billing", "billing_a", {"orders": 1})
        found.owner("billing", "orders", 0, "billing_a")
        yield found


@pytest.fixture
def run(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """`zkcoord groups rebalance ARGUMENTS`: status, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(["groups", "rebalance", *arguments, "--zookeeper", zk_hosts])
        out, err = capsys.readouterr()
        return status, out, err

    return call


@contextmanager
def taken_up(found: World, state: GroupState) -> Iterator[list[tuple[str, bytes]]]:
    """A stand-in that takes the first request up: it reports a state and deletes the request. What
    it took.
    """
    requests = found.layout.requests("billing")
    taken: list[tuple[str, bytes]] = []

    def serve() -> None:
        def there() -> list[str]:
            return (
                list(found.client.get_children(requests)) if found.client.exists(requests) else []
            )

        (name,) = wait_until(there, PATIENCE_S, "a request")
        data = found.client.get(f"{requests}/{name}")[0]
        transaction = found.client.transaction()
        transaction.set_data(
            found.layout.group("billing"),
            encode_metadata(
                GroupMetadata(generation=32, state=state, members=1, failure="too many evictions")
            ),
        )
        transaction.delete(f"{requests}/{name}")
        transaction.commit()
        taken.append((name, data))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield taken
    finally:
        thread.join(PATIENCE_S)


def test_the_request_says_what_is_asked_for_and_by_whom(here: World, run: Run) -> None:
    with taken_up(here, GroupState.STABLE) as taken:
        status, out, err = run("billing", "--fresh", *TIMEOUT)
    assert (status, out) == (
        0,
        "",
    ) and "0 partitions moved; billing is Stable, generation 32" in err
    ((name, data),) = taken
    request = decode_request(name, data)
    assert (
        isinstance(request, Request)
        and (request.kind, request.fresh) == (RequestKind.REBALANCE, True)
        and "@" in request.by
    )
    with taken_up(here, GroupState.STABLE) as taken:
        status, out, err = run("billing", "--json", *TIMEOUT)
    assert (
        (status, err) == (0, "")
        and json.loads(out)["state"] == "Stable"
        and json.loads(out)["moved"] == []
    )


def test_a_group_that_does_not_come_to_rest_is_said(
    here: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taken_up(here, GroupState.PREPARING_REBALANCE) as taken, monkeypatch.context() as patched:
        # all of the time passes when it is taken up, and none before
        patched.setattr("zkcoord.cli.groups_change.boot_ms", lambda: 3_000 * len(taken))
        status, _, err = run("billing", "--timeout-ms", "2000")
    assert status == 1 and "taken up" in err and "is PreparingRebalance" in err
    with taken_up(here, GroupState.QUARANTINED):
        status, _, err = run("billing", *TIMEOUT)
    assert status == 1 and "is Quarantined: too many evictions" in err


def test_a_request_that_nobody_takes_up_is_withdrawn(here: World, run: Run) -> None:
    status, _, err = run("billing", "--timeout-ms", "300")
    assert (
        status == 1
        and "withdrawn" in err
        and here.client.get_children(here.layout.requests("billing")) == []
    )


def test_a_request_that_may_not_be_withdrawn_is_said_to_be_there(here: World, run: Run) -> None:
    path = here.layout.requests("billing")
    here.client.create(path, b"", [make_acl("world", "anyone", read=True, create=True, admin=True)])
    status, _, err = run("billing", "--timeout-ms", "300")
    here.client.set_acls(path, OPEN_ACL_UNSAFE)
    assert status == 1 and err.strip().count("\n") == 0
    assert "cannot be withdrawn" in err and "to delete children of" in err
    assert len(here.client.get_children(path)) == 1


def test_what_cannot_be_asked_is_one_sentence_and_leaves_nothing(here: World, run: Run) -> None:
    status, _, err = run("biling")
    assert status == 1 and "did you mean billing" in err
    here.client.delete(here.layout.leader)
    status, _, err = run("billing")
    assert status == 1 and "nobody leads" in err
    here.leader()
    here.client.delete(here.layout.registration("billing", "billing_a"))
    status, _, err = run("billing")
    assert (
        status == 1
        and "no members" in err
        and here.client.exists(here.layout.requests("billing")) is None
    )


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def test_a_coordinator_takes_it_up(
    zk_hosts: str, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is wrong, so nothing moves; with --fresh it is assigned as if nobody owned anything,
    and what moved is shown.
    """
    with rigged(zk_hosts, layout) as rig:
        rig.topic("t", 6)
        c = rig.coordinator()
        a, b, d = (rig.member(name, "t") for name in "abd")

        def fetching() -> list[int]:
            return sorted(len(m.fetching()) for m in (a, b, d))

        wait_until(lambda: fetching() == [2, 2, 2], PATIENCE_S, "a balanced group")
        arguments = [
            "groups",
            "rebalance",
            "g",
            "--zookeeper",
            zk_hosts,
            "--layout",
            layout.name,
            *TIMEOUT,
        ]
        assert main(arguments) == 0
        assert "0 partitions moved; g is Stable" in capsys.readouterr().err
        owned = rig.owners("t")
        assert main([*arguments, "--fresh", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        wait_until(
            lambda: fetching() == [2, 2, 2], PATIENCE_S, "members that have heard of it, too"
        )
        changed = {
            number for number, owner in rig.owners("t").items() if owner[0] != owned[number][0]
        }
        assert {move["partition"] for move in found["moved"]} == changed and found[
            "state"
        ] == "Stable"
        assert main([*arguments, "--fresh", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["moved"] == [], (
            "what is assigned from nothing is the same each time"
        )
        wait_until(
            lambda: (
                sorted([*a.fetching(), *b.fetching(), *d.fetching()]) == list(tps("t", *range(6)))
            ),
            PATIENCE_S,
            "each partition at one of them",
        )
        assert rig.names(layout.requests("g")) == [] and c.driver.core.leading


def test_a_quarantined_group_is_tried_again_at_once(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its quarantine would last a minute; what made it fail is gone."""
    with rigged(zk_hosts) as rig:
        partitions = rig.topic("t", 4)
        rig.topic("u", 1)
        rig.coordinator(
            max_rebalance_retries=1,
            quarantine_backoff_ms=60_000,
            quarantine_ms=60_000,
            lease_max_ms=300,
            lease_margin_ms=100,
        )
        good = rig.member("good", "t").fetches(*partitions)
        poison = rig.member("poison", rebalance_timeout_ms=300)
        poison.resolves_to = None
        poison.subscribe("u")
        good.wait(lambda: good.notices(msg.NoticeKind.REBALANCE_FAILED), "the quarantine")
        poison.leave()
        assert main(["groups", "describe", "g", "--state", "--zookeeper", zk_hosts]) == 0
        assert "Quarantined" in capsys.readouterr().out
        assert main(["groups", "rebalance", "g", "--zookeeper", zk_hosts, *TIMEOUT]) == 0
        assert "0 partitions moved; g is Stable" in capsys.readouterr().err
        good.wait(lambda: good.notices(msg.NoticeKind.REBALANCE_OVER), "the news of its end")


def test_what_is_waited_for_is_said_once(here: World, run: Run) -> None:
    """A line each second said the same sixty times."""
    status, _, err = run("billing", "--timeout-ms", "4000")
    assert status == 1 and "did not take the request up" in err
    assert err.count("waiting for the coordinator to take the request up (4 s at most)") == 1
    assert err.count("\n") == 2, err
