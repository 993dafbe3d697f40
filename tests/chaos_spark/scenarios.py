"""How a partition can change hands between two Spark applications: the victim is made to stand
still at a gate, so that what happens to it happens at exactly that point, every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from tests.chaos_spark.driver import App
from tests.chaos_spark.rig import Rig
from zkcoord.demo.processes import Line

MS = 1_000.0
NS_PER_MS = 1e6


@dataclass(frozen=True)
class Handover:
    """One handover: `planned` records in the victim's batch, `ms` from the fault to new owners of
    everything, whether a zombie came to the fence and was refused (None: there was none), and from
    the claim of an application that was started to its first batch (0: none was started).
    """

    planned: int
    ms: float
    fenced: bool | None = None
    first_batch_ms: float = 0.0


def planned_rows(batch: Line) -> int:
    """Records of a batch, as its application said it."""
    return sum(end - start for start, end in batch["ranges"].values())


def killed(rig: Rig, victim: App, gate: str, again: bool = True) -> Handover:
    """kill -9 of the JVM at a gate. `again`: its application is started again, from its
    checkpoint.
    """
    if again:
        rig.spare()
    victim.driver.close_gate(gate)
    batch = victim.driver.at_gate(gate)
    began = time.monotonic()
    victim.driver.kill()
    rig.gone(str(batch["member"]))
    ms = (time.monotonic() - began) * MS
    if not again:
        return Handover(planned_rows(batch), ms)
    return Handover(planned_rows(batch), ms, None, started(rig, victim, batch))


def started(rig: Rig, victim: App, batch: Line) -> float:
    """A new driver for an application whose driver was killed in this batch, which is written by
    then, whoever wrote it; milliseconds from its claim to its first batch.
    """
    rig.replace(victim)
    rig.shared(2)
    rig.passed(batch)
    return first_batch_ms(victim)


def first_batch_ms(app: App) -> float:
    """From the claim of the query that was started last until its first batch with records is
    written, by the host's clock; waits for that. (A batch that is repeated, and of which nothing is
    its own any more, is none.)
    """
    while True:
        written, journal = app.driver.heard("written"), app.journal()
        claimed = next(
            (line for line in journal if line["event"] == "assigned" and line["offsets"]), None
        )
        if claimed is not None and any(
            line["event"] == "records" and line["batch"] == written["number"] for line in journal
        ):
            return (int(written["t"]) - int(claimed["t"])) / NS_PER_MS


def killed_in_a_batch(rig: Rig, victim: App, number: int) -> Handover:
    """The batch is planned and nothing is written; or it is written, and Spark has not committed
    it.
    """
    return killed(rig, victim, ("batch", "written")[number // 2 % 2])


def killed_before_the_move(rig: Rig, victim: App, _number: int) -> Handover:
    """The batch counts, none of its files is where readers look."""
    return killed(rig, victim, "committed")


def killed_after_sparks_commit(rig: Rig, victim: App, _number: int) -> Handover:
    """The batch is in Spark's log, and the source has not been asked for the next one: it stands
    still, so that it cannot.
    """
    rig.spare()
    driver = victim.driver
    driver.close_gate("written")
    batch = driver.at_gate("written")
    source = driver.source()
    source.suspend()
    commit = victim.checkpoint / "commits" / str(batch["batch"])
    driver.open_gate("written")
    rig.wait(commit.exists, f"{commit}")
    began = time.monotonic()
    driver.kill()
    source.kill()
    rig.gone(str(batch["member"]))
    ms = (time.monotonic() - began) * MS
    return Handover(planned_rows(batch), ms, None, started(rig, victim, batch))


def zombie(rig: Rig, victim: App, _number: int) -> Handover:
    """The source stands still past its session while the JVM is in a batch: others own and read
    everything before the batch goes on, to the fence. The query starts again in the same
    application.
    """
    driver = victim.driver
    driver.close_gate("batch")
    batch = driver.at_gate("batch")
    source = driver.source()
    rig.zombies.add(driver.name)
    began = time.monotonic()
    source.suspend()
    rig.gone(str(batch["member"]))
    ms = (time.monotonic() - began) * MS
    stored = rig.offsets()
    rig.wait(
        lambda: all(offset > stored[partition] for partition, offset in rig.offsets().items()),
        "the others to read on",
    )
    driver.open_gate("batch")
    if rig.sink == "fenced":
        fenced = bool(driver.heard("failed")["fenced"])
        with suppress(psutil.NoSuchProcess):
            source.resume()
        driver.heard("started")
    else:
        fenced = False
        driver.heard("written", batch=batch["batch"])
        source.resume()
    rig.shared(2)
    rig.passed(batch)
    rig.zombies.discard(driver.name)
    return Handover(planned_rows(batch), ms, fenced)


Crash = Callable[[Rig, App, int], Handover]
CRASHES: dict[str, Crash] = {
    "zombie": zombie,
    "jvm": killed_in_a_batch,
    "commit": killed_after_sparks_commit,
    "move": killed_before_the_move,
}
TITLES = {
    "graceful": "one of two applications stops its query and starts it again, under load",
    "zombie": "the source stands still past its session, the JVM goes on to the fence",
    "jvm": "kill -9 of the JVM in a batch, before and after its sink has written",
    "commit": "kill -9 between Spark's commit and ZooKeeper's",
    "move": "kill -9 between the multi and the move of the files",
}
WITHOUT_FENCE = ("graceful", "zombie", "jvm", "commit")


@dataclass(frozen=True)
class Move:
    """A query was stopped and started again: how many partitions have changed hands; milliseconds
    from the order to stop until the other owned everything, and from the claim to the first batch;
    how many batches the other began between being asked for partitions and giving them up, and how
    many of its batches lacked a partition that did not move.
    """

    moved: int
    stop_ms: float
    first_batch_ms: float
    batches_before_release: Sequence[int]
    incomplete: int


def graceful(rig: Rig, victim: App, other: App) -> Move:
    """A drained stop, everything at the other; then a start, shared again."""
    before = rig.owners()
    began = time.monotonic()
    victim.stop()
    alone = rig.shared(1)
    stop_ms = (time.monotonic() - began) * MS
    since = time.time_ns()
    victim.start()
    again = rig.shared(2)
    ms = first_batch_ms(victim)
    until = time.time_ns()
    moved = {p for p in alone if alone[p] != again[p]}
    lines = [line for line in other.journal() if since <= int(line["t"]) <= until]
    kept = {f"{rig.topic}-{p}" for p in alone if p not in moved}
    plans = [set(line["ranges"]) for line in lines if line["event"] == "records"]
    return Move(
        sum(before[p] != alone[p] for p in alone) + len(moved),
        stop_ms,
        ms,
        before_release(lines),
        sum(not kept <= plan for plan in plans),
    )


def before_release(lines: Sequence[Line]) -> list[int]:
    """For each partition that was asked back and given up: how many plans with it were made in
    between.
    """
    found: list[int] = []
    asked: dict[str, int] = {}
    for line in lines:
        if line["event"] == "revoke":
            asked.update({name: asked.get(name, 0) for name in line["partitions"]})
        elif line["event"] == "records":
            asked.update(
                {name: plans + 1 for name, plans in asked.items() if name in line["ranges"]}
            )
        elif line["event"] == "revoked":
            found += [asked.pop(name) for name in line["positions"] if name in asked]
    return found
