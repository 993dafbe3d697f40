"""A migration that ends in the middle, at every point where it can, and is run again: by an
exception before and after each effect, and by kill -9 of the process.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migrations import writing
from migrations.journal import JOURNAL, JournalTold, RunJournal, read_journal
from migrations.model import Choices
from migrations.restoring import restorer
from migrations.running import Planner, Worker
from migrations.steps import step_named
from tests.harness.command import environment
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.tree import tree_of
from tests.harness.wait import wait_until
from tests.migrations.conftest import Run
from tests.migrations.groups import PATIENCE_S, RECORDS, BothStores, run_folder
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.errors import RefusedError
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.sync.client import SyncClient

pytestmark = pytest.mark.kafka

THERE = {0: 10, 1: 20, 2: 30}
LAST = dict.fromkeys(range(4), RECORDS - 1)
CORRECT = Choices(off_by_one="correct")


UP_TO_HALF = """
import sys, threading
from migrations.journal import RunJournal
from zkcoord.cli.main import main

done, so_far = RunJournal.done, []

def and_no_further(journal, groups):
    done(journal, groups)
    so_far.extend(groups)
    if len(so_far) >= 25:
        threading.Event().wait()

RunJournal.done = and_no_further
sys.exit(main(sys.argv[1:]))
"""
"""`zkcoord`, each of whose workers stands still once some groups are done: however late the kill
comes, it comes in the middle.
"""


class Crash(BaseException):
    """The process ends here."""


class Effects:
    """Counts what a migration does to the world: lines of its journal, transactions, commits. The
    one whose turn is `at` is not done, or, with `after`, is done and not heard of; of a journal's
    lines, half is written.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.at = -1
        self.after = False
        for owner, name in (
            (SyncClient, "multi"),
            (KafkaGroups, "commit"),
            (KafkaGroups, "forget"),
            (RunJournal, "_write"),
        ):
            monkeypatch.setattr(
                owner, name, self._counting(getattr(owner, name), torn=owner is RunJournal)
            )

    def _counting(self, act: Callable[..., Any], torn: bool) -> Callable[..., Any]:
        def counted(this: Any, *arguments: Any) -> Any:
            mine, self.count = self.count, self.count + 1
            if mine != self.at:
                return act(this, *arguments)
            if self.after:
                act(this, *arguments)
            elif torn:
                this._files[JOURNAL].write(b'{"kind": "began", "group": "hal')
                this._files[JOURNAL].flush()
            raise Crash

        return counted

    def crash(self, at: int, after: bool) -> None:
        """From now on."""
        self.count, self.at, self.after = 0, at, after


def apply(
    worker: Worker, folder: Path, groups: list[str], planner: Planner, choices: Choices
) -> list[str]:
    """As the command line does, one group after the other: what became of each."""
    before = (
        read_journal(folder)
        if (folder / JOURNAL).exists() and b"\n" in (folder / JOURNAL).read_bytes()
        else None
    )
    with RunJournal(folder) as journal:
        if before is None:
            journal.begin({"migration": "test", "way": "forward", "zookeeper": "", "time_ms": 0})
        return [
            worker.apply([group], planner, choices, journal, before or JournalTold())[0].state
            for group in groups
        ]


def interrupted(
    effects: Effects,
    worker: Worker,
    folder: Path,
    groups: list[str],
    planner: Planner,
    choices: Choices,
    at: int,
    after: bool,
) -> bool:
    """Run it until it crashes there; whether it did."""
    effects.crash(at, after)
    try:
        apply(worker, folder, groups, planner, choices)
    except Crash:
        return True
    finally:
        effects.crash(-1, after)
    return False


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_crash_at_any_point_is_gone_on_with(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    stores: BothStores,
    worker: Worker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after: bool,
) -> None:
    """One group is copied to Kafka; of another both stores are corrected by one, which must not
    happen twice, and not to one of its topics only. Then everything is put back as it was before
    the first attempt.
    """
    effects = Effects(monkeypatch)
    # as with more partitions than one transaction holds
    monkeypatch.setattr(writing, "fitting", lambda pieces: 1)
    planner = step_named("2").forward
    second = BothStores(
        kafka_broker.address,
        kafka_zk_hosts,
        create_topic(kafka_broker.address, unique("payments"), len(LAST)),
    )
    try:
        produce_numbered(second.broker, second.topic, len(LAST), RECORDS)
        for at in itertools.count():
            folder = tmp_path / f"{after}-{at}"
            plain, behind = stores.group("plain", THERE, {0: 3}), stores.group("behind", LAST)
            for n, offset in LAST.items():
                second.client.create(
                    f"/consumers/{behind}/offsets/{second.topic}/{n}",
                    str(offset).encode(),
                    makepath=True,
                )
            crashed = interrupted(
                effects, worker, folder, [plain, behind], planner, CORRECT, at, after
            )
            states = apply(worker, folder, [plain, behind], planner, CORRECT)
            assert set(states) <= {"done", "done before"}, (at, states)
            assert stores.in_zookeeper(plain) == stores.in_kafka(plain) == THERE, at
            for topic in (stores, second):
                assert (
                    topic.in_zookeeper(behind)
                    == topic.in_kafka(behind)
                    == dict.fromkeys(LAST, RECORDS)
                ), at
            assert apply(worker, folder, [plain, behind], planner, CORRECT) == [
                "done before",
                "done before",
            ]
            put_back = apply(
                worker,
                tmp_path / f"back-{at}",
                [plain, behind],
                restorer(read_journal(folder)),
                Choices(),
            )
            assert put_back == ["done", "done"]
            assert (stores.in_zookeeper(plain), stores.in_kafka(plain)) == (THERE, {0: 3}), at
            for topic in (stores, second):
                assert (topic.in_zookeeper(behind), topic.in_kafka(behind)) == (LAST, {}), at
            if not crashed:
                break
    finally:
        second.close()
    assert at >= 8, "run, began, commit, done; began, two transactions, commit, done"


def test_offsets_beside_those_of_an_earlier_topic_survive_a_crash(
    kafka_broker: KafkaBroker,
    stores: BothStores,
    worker: Worker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What says that older offsets do not count, and the offsets that do, are one transaction:
    there is no moment at which a good offset does not count.
    """
    effects = Effects(monkeypatch)
    planner = step_named("1").forward
    for at, after in itertools.product(range(4), (False, True)):
        later, group = unique("later"), unique("beside")
        stores.client.create(f"/consumers/{group}/offsets/{later}/0", b"5", makepath=True)
        create_topic(kafka_broker.address, later, 2)
        stores.client.create(f"/consumers/{group}/offsets/{later}/1", b"6")
        folder = tmp_path / f"{after}-{at}"
        assert interrupted(effects, worker, folder, [group], planner, Choices(), at, after)
        (now,) = worker.stores.read([group])
        assert {tp.partition: offset for tp, offset in now.zookeeper().items()} == {1: 6}, (
            at,
            after,
        )
        apply(worker, folder, [group], planner, Choices())
        (now,) = worker.stores.read([group])
        assert {tp.partition: offset for tp, offset in now.zookeeper().items()} == {
            1: 6
        } and not planner(now, Choices()).changes, (at, after)


def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(
    stores: BothStores, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = Effects(monkeypatch)
    planner = step_named("2").forward
    group = stores.group("consumed", THERE)
    assert interrupted(
        effects, worker, tmp_path / "run", [group], planner, Choices(), 2, after=True
    )
    stores.commit(group, {1: 77})
    before = tree_of(stores.client)
    with RunJournal(tmp_path / "run") as journal:
        (outcome,) = worker.apply(
            [group], planner, Choices(), journal, read_journal(tmp_path / "run")
        )
    assert (
        outcome.state == "refused"
        and "somebody consumed meanwhile; begin anew with --new-run" in outcome.reasons[0]
    )
    assert stores.in_kafka(group) == {**THERE, 1: 77} and tree_of(stores.client) == before


def test_one_at_a_time(tmp_path: Path) -> None:
    with RunJournal(tmp_path), pytest.raises(RefusedError, match="another process is at work"):
        RunJournal(tmp_path)


def test_kill_9_in_the_middle_of_hundreds_of_groups(
    kafka_zk_hosts: str, stores: BothStores, tmp_path: Path, run: Run
) -> None:
    names = [unique("many") for _ in range(150)]
    for start in range(0, len(names), 50):
        transaction = stores.client.transaction()
        for name in names[start : start + 50]:
            for path in ("", "/offsets", f"/offsets/{stores.topic}"):
                transaction.create(f"/consumers/{name}{path}")
            for n, offset in THERE.items():
                transaction.create(
                    f"/consumers/{name}/offsets/{stores.topic}/{n}", str(offset).encode()
                )
        assert not any(isinstance(result, Exception) for result in transaction.commit())
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            UP_TO_HALF,
            "migrate",
            "apply",
            "2",
            "--jobs",
            "2",
            "--zookeeper",
            kafka_zk_hosts,
        ],
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        wait_until(
            lambda: child.poll() is not None or done_so_far(tmp_path) >= 25,
            PATIENCE_S,
            "some groups to be done",
        )
    finally:
        child.send_signal(signal.SIGKILL)
        assert child.wait(PATIENCE_S) == -signal.SIGKILL
    at_the_kill = done_so_far(tmp_path)
    assert 0 < at_the_kill < len(names)
    status, out, err = run("apply", "2")
    assert status == 0 and f"{at_the_kill} done before" in out and "going on in" in err, (
        out[-200:],
        err,
    )
    found = stores.kafka.committed(names)
    assert all(
        sorted(offsets.values()) == sorted(THERE.values()) for offsets in found.values()
    ) and len(found) == len(names)
    backup = (run_folder(tmp_path) / "zookeeper-offsets.txt").read_text().splitlines()
    assert {
        f"/consumers/{name}/offsets/{stores.topic}/{n}:{offset}"
        for name in names
        for n, offset in THERE.items()
    } == set(backup)
    assert run("verify", "2")[0] == 0


def done_so_far(state: Path) -> int:
    """Groups of the only run."""
    journals = list((state / "zkcoord" / "migrations").glob(f"*/{JOURNAL}"))
    return sum(
        b'"done"' in line for path in journals for line in path.read_bytes().split(b"\n")[:-1]
    )
