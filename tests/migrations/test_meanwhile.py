"""What happens between a migration's look and its write, and when ZooKeeper does not answer:
nobody's work is overwritten, and nothing is taken for done that was not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from migrations.journal import JournalTold, RunJournal
from migrations.model import Choices, GroupNow
from migrations.running import GroupOutcome, Planner, Worker
from migrations.steps import step_named
from migrations.stores import Stores
from tests.check.old_world import old_world
from tests.migrations.groups import BothStores
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.zk.port import MultiResult, Op, Unanswered
from zkcoord.zk.sync.client import SyncClient

pytestmark = pytest.mark.kafka

THERE = {0: 10, 1: 20, 2: 30}


def apply(
    worker: Worker, folder: Path, group: str, planner: Planner, choices: Choices = Choices()
) -> GroupOutcome:
    with RunJournal(folder) as journal:
        return worker.apply([group], planner, choices, journal, JournalTold())[0]


def test_an_offset_that_moves_between_look_and_write_is_not_overwritten(
    stores: BothStores, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = stores.group("moves", {0: 1, 1: 2}, THERE)
    read = Stores.read

    def then_somebody_commits(this: Stores, wanted: Sequence[str]) -> list[GroupNow]:
        found = read(this, wanted)
        monkeypatch.setattr(Stores, "read", read)
        stores.set(group, 1, 3)
        return found

    monkeypatch.setattr(Stores, "read", then_somebody_commits)
    outcome = apply(worker, tmp_path, group, step_named("2").back)
    assert outcome.state == "refused" and "somebody else writes them" in outcome.reasons[0]
    assert stores.in_zookeeper(group) == {0: 1, 1: 3}


def test_a_member_that_comes_while_offsets_are_written_is_seen(
    stores: BothStores,
    kafka_zk_hosts: str,
    worker: Worker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = stores.group("comes", THERE)
    commit = KafkaGroups.commit
    with old_world(kafka_zk_hosts) as old:

        def and_somebody_joins(this: KafkaGroups, *arguments: Any) -> None:
            commit(this, *arguments)
            old.member(group, f"{group}_a", {stores.topic: 1})

        monkeypatch.setattr(KafkaGroups, "commit", and_somebody_joins)
        outcome = apply(worker, tmp_path, group, step_named("2").forward)
    assert (
        outcome.state == "refused"
        and "not as it should be when it is read again" in outcome.reasons[0]
        and f"{group}_a" in outcome.reasons[0]
    )


@pytest.mark.parametrize("happened", [False, True])
def test_a_transaction_without_an_answer_is_looked_after(
    stores: BothStores,
    worker: Worker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    happened: bool,
) -> None:
    group = stores.group("lost", {0: 1}, THERE)
    multi = SyncClient.multi
    sent: list[int] = []

    def unanswered(this: SyncClient, ops: Sequence[Op]) -> MultiResult:
        sent.append(len(ops))
        if len(sent) > 1:
            return multi(this, ops)
        if happened:
            multi(this, ops)
        return Unanswered()

    monkeypatch.setattr(SyncClient, "multi", unanswered)
    assert apply(worker, tmp_path, group, step_named("2").back).state == "done"
    assert stores.in_zookeeper(group) == THERE and sent == ([3] if happened else [3, 3])


def test_a_zookeeper_that_never_answers_ends_it(
    stores: BothStores, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = stores.group("silent", {0: 1}, THERE)
    monkeypatch.setattr(SyncClient, "multi", lambda this, ops: Unanswered())
    outcome = apply(worker, tmp_path, group, step_named("2").back)
    assert outcome.state == "refused" and "did not answer again and again" in outcome.reasons[0]
