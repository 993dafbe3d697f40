"""What ends in a cluster while the driver lives, and with it: an executor, the machine of some, the
driver's JVM. Each comes at another moment of a batch.
"""

from __future__ import annotations

import time

from tests.chaos_spark.driver import App
from tests.chaos_spark.rig import Rig
from tests.chaos_spark.scenarios import MS, Crash, Handover, killed, planned_rows
from tests.spark.cluster import Cluster
from zkcoord.demo.processes import Line

SPREAD_MS = 400
STEP_MS = 37


def _cluster(rig: Rig) -> Cluster:
    assert rig.where.cluster is not None
    return rig.where.cluster


def _at_a_moment(victim: App, number: int) -> Line:
    """Where the next batch is hit: before its tasks, while they run, when its sink has returned and
    Spark has not committed it. Gives the batch; its gates are open but for the one it stands at.
    """
    gate = ("batch", "batch", "written")[number % 3]
    victim.driver.close_gate(gate)
    batch = victim.driver.at_gate(gate)
    if number % 3 == 1:
        victim.driver.open_gate("batch")
        time.sleep(number * STEP_MS % SPREAD_MS / MS)  # into the tasks: a moment, not a condition
    return batch


def _goes_on(rig: Rig, victim: App, batch: Line, began: float) -> Handover:
    """The batch ends, by whatever is left of the cluster; nobody has left the group."""
    for gate in ("batch", "written"):
        victim.driver.open_gate(gate)
    rig.passed(batch)
    ms = (time.monotonic() - began) * MS
    rig.executors(victim, rig.where.cores)
    assert batch["member"] in rig.sessions(), "its driver lives, so it is a member"
    return Handover(planned_rows(batch), ms)


def executor_killed(rig: Rig, victim: App, number: int) -> Handover:
    """kill -9 of one of the executors."""
    executors = rig.executors(victim, rig.where.cores)
    batch = _at_a_moment(victim, number)
    began = time.monotonic()
    executors[number % len(executors)].kill()
    return _goes_on(rig, victim, batch, began)


def worker_killed(rig: Rig, victim: App, number: int) -> Handover:
    """kill -9 of the worker that has one of the executors, of all applications. Another worker
    comes when the batch is over.
    """
    cluster = _cluster(rig)
    executors = rig.executors(victim, rig.where.cores)
    worker = cluster.worker_of(executors[number % len(executors)])
    batch = _at_a_moment(victim, number)
    began = time.monotonic()
    cluster.kill_worker(worker)
    for gate in ("batch", "written"):
        victim.driver.open_gate(gate)
    rig.passed(batch)
    cluster.add_worker()
    return _goes_on(rig, victim, batch, began)


def driver_killed(rig: Rig, victim: App, number: int) -> Handover:
    """kill -9 of the driver's JVM in a batch; its application comes again from its checkpoint."""
    return killed(rig, victim, ("batch", "written", "committed")[number % 3])


CRASHES: dict[str, Crash] = {
    "executor": executor_killed,
    "worker": worker_killed,
    "driver": driver_killed,
}
TITLES = {
    "executor": "kill -9 of an executor in a batch",
    "worker": "kill -9 of a worker, and of all executors on it, in a batch",
    "driver": "kill -9 of the driver's JVM in a batch, its application begun again",
}
