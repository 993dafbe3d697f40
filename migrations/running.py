"""A migration over many groups: some workers, each with its own connections, take batch after
batch. What a group's outcome is, is known of each; one that is refused stops none of the others.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from migrations.journal import JournalTold, RunJournal
from migrations.model import Change, Choices, GroupNow, KafkaOffset, MigrationPlan
from migrations.stores import Stores
from migrations.writing import OffsetsWriter, still_to_do
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclsThere
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient

BATCH = 25

Planner = Callable[[GroupNow, Choices], MigrationPlan]


def known_to_somebody(planner: Planner, unknown: Collection[str]) -> Planner:
    """The same planner; of the groups that ZooKeeper does not know (`unknown`) those that Kafka
    does not know either are refused.
    """
    why = (
        "there is no such group, in ZooKeeper or in Kafka: correct its name, or the chroot at the"
        " end of --zookeeper"
    )

    def plan(now: GroupNow, choices: Choices) -> MigrationPlan:
        if now.name in unknown and not (now.kafka or now.theirs or now.stored or now.stray):
            return MigrationPlan(now.name, refusals=(why,))
        return planner(now, choices)

    return plan


@dataclass(frozen=True)
class Where:
    """The ensemble and the brokers."""

    zk: ZkOptions
    servers: tuple[str, ...]
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class GroupOutcome:
    """One group. `state`: "same" (nothing to do), "to do" (a dry run), "done", "done before" (by
    this run, before it was interrupted), "refused".
    """

    state: str
    plan: MigrationPlan
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        kafka = sum(isinstance(change, KafkaOffset) for change in self.plan.changes)
        return {
            "group": self.plan.group,
            "state": self.state,
            "reasons": list(self.reasons),
            "warnings": list(self.plan.warnings),
            "zookeeper_changes": len(self.plan.changes) - kafka,
            "kafka_changes": kafka,
            "same": self.plan.same,
        }


def _outcome_of(plan: MigrationPlan) -> str:
    if plan.reasons:
        return "refused"
    return "to do" if plan.changes else "same"


class Worker:
    """One worker's connections, and what it does with a batch. A context manager."""

    def __init__(self, where: Where) -> None:
        self._stack = ExitStack()
        self._where = where

    def __enter__(self) -> Worker:
        with ExitStack() as stack:
            self.client = stack.enter_context(SyncClient(self._where.zk))
            kafka = stack.enter_context(
                KafkaGroups(self._where.servers, security=self._where.security)
            )
            self.stores = Stores(
                self.client,
                kafka,
                stack.enter_context(LogOffsets(self._where.servers, self._where.security)),
            )
            self.writer = OffsetsWriter(
                self.client, self.stores, AclsThere(self.client, self._where.zk)
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def plan(self, groups: Sequence[str], planner: Planner, choices: Choices) -> list[GroupOutcome]:
        """What would be done. Writes nothing."""
        plans = [planner(now, choices) for now in self.stores.read(groups)]
        return [GroupOutcome(_outcome_of(plan), plan, plan.reasons) for plan in plans]

    def apply(
        self,
        groups: Sequence[str],
        planner: Planner,
        choices: Choices,
        journal: RunJournal,
        told: JournalTold,
    ) -> list[GroupOutcome]:
        """Do it: look, keep what was there, write, look again."""
        outcomes = {
            group: GroupOutcome("done before", MigrationPlan(group))
            for group in groups
            if group in told.done
        }
        turn: list[tuple[GroupNow, MigrationPlan, tuple[Change, ...]]] = []
        for now in self.stores.read([group for group in groups if group not in told.done]):
            plan = planner(now, choices)
            try:
                changes = (
                    plan.changes
                    if now.name not in told.latest
                    else still_to_do(now, told.latest[now.name].changes)
                )
            except RefusedError as error:
                outcomes[now.name] = GroupOutcome("refused", plan, (str(error),))
                continue
            reasons = plan.live if now.name in told.latest else plan.reasons
            if reasons:
                outcomes[now.name] = GroupOutcome("refused", plan, reasons)
            elif changes or now.name in told.latest:
                turn.append((now, plan, changes))
            else:
                outcomes[now.name] = GroupOutcome("same", plan)
        fresh = [(now, changes) for now, _, changes in turn if now.name not in told.latest]
        if fresh:
            journal.began(fresh)
        written: dict[str, MigrationPlan] = {}
        for now, plan, changes in turn:
            try:
                if changes:
                    self.writer.write(now.name, changes)
                written[now.name] = plan
            except RefusedError as error:
                outcomes[now.name] = GroupOutcome("refused", plan, (str(error),))
        outcomes.update(self._looked_at(written, planner, choices))
        journal.done([group for group, outcome in outcomes.items() if outcome.state == "done"])
        return [outcomes[group] for group in groups]

    def _looked_at(
        self, written: dict[str, MigrationPlan], planner: Planner, choices: Choices
    ) -> dict[str, GroupOutcome]:
        """Whether both stores are now as they are to be."""
        found: dict[str, GroupOutcome] = {}
        for now in self.stores.read(list(written)) if written else ():
            again = planner(now, choices)
            if again.changes or again.reasons:
                why = "; ".join(again.reasons) or f"{len(again.changes)} offsets differ"
                said = (
                    f"it was written, and is not as it should be when it is read again ({why}):"
                    " somebody else is at work; stop that, then repeat the command"
                )
                found[now.name] = GroupOutcome("refused", written[now.name], (said,))
            else:
                found[now.name] = GroupOutcome("done", written[now.name])
        return found


@dataclass
class Fleet:
    """Some workers over many batches. `act` gives a batch's outcomes; `seen` is told of them as
    they come, on the workers' threads, one at a time.
    """

    where: Where
    jobs: int
    act: Callable[[Worker, Sequence[str]], list[GroupOutcome]]
    seen: Callable[[list[GroupOutcome]], None]
    _failure: list[BaseException] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, groups: Sequence[str]) -> None:
        """All groups. Raises the first error that was no refusal; what was begun is ended before
        that, also after Ctrl-C.
        """
        batches: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
        for start in range(0, len(groups), BATCH):
            batches.put(groups[start : start + BATCH])
        threads = [
            threading.Thread(target=self._main, args=(batches,), name=f"migration-{n}")
            for n in range(max(1, min(self.jobs, batches.qsize())))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        if self._failure:
            raise self._failure[0]

    def _main(self, batches: queue.SimpleQueue[Sequence[str]]) -> None:
        try:
            with Worker(self.where) as worker:
                while not self._stop.is_set():
                    try:
                        batch = batches.get_nowait()
                    except queue.Empty:
                        return
                    outcomes = self.act(worker, batch)
                    with self._lock:
                        self.seen(outcomes)
        except BaseException as error:  # thread main: the caller raises it
            self._failure.append(error)
            self._stop.set()
