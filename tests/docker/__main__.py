"""`python -m tests.docker [--keep DIR]`: builds the image, runs a group in containers, and has it
live through what happens to containers.

Each fault is over when records of every partition come again; at the end everything that was
written down is judged by the checker of the chaos suite. Prints a table and writes
build/reports/docker-test.json. Exit status 1 when anything is wrong, 4 with one sentence where
there is no engine and none can be started.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tenacity import retry, retry_if_exception_message, stop_after_attempt, wait_fixed

from tests.bench.figures import Bar, Row, Section, lines_of
from tests.bench.running import conclude, measured_in_a_folder, report_named, say
from tests.chaos.checker import Found, check
from tests.docker.cluster import SESSION_MS, Cluster
from tests.docker.engine import NoEngineError, engine
from tests.docker.images import image
from zkcoord.stack.java import find_java

NO_ENGINE = 4
LONGER_S = 2.5 * SESSION_MS / 1000
SHORTER_S = SESSION_MS / 1000 / 4
BOUND_MS = 60_000


def _killed(cluster: Cluster, slot: str) -> None:
    cluster.kill(slot)
    cluster.begin(slot)


def _killed_inside(cluster: Cluster, slot: str) -> None:
    cluster.kill_inside(slot)
    cluster.begin(slot)


@retry(
    retry=retry_if_exception_message(match=".*unable to freeze"),
    wait=wait_fixed(0.5),
    stop=stop_after_attempt(10),
    reraise=True,
)
def _pause(cluster: Cluster, slot: str) -> None:
    """runc gives up where the kernel does not freeze all processes of a busy machine soon."""
    cluster.containers[slot].pause()


def _paused(cluster: Cluster, slot: str, seconds: float) -> None:
    _pause(cluster, slot)
    time.sleep(seconds)
    cluster.containers[slot].unpause()


def _cut_off(cluster: Cluster, slot: str, seconds: float) -> None:
    cluster.cut(slot)
    time.sleep(seconds)
    cluster.mend(slot)


def _restarted(cluster: Cluster, slot: str) -> None:
    cluster.containers[slot].kill()
    time.sleep(SHORTER_S)
    cluster.containers[slot].start()


def _left(cluster: Cluster, slot: str) -> None:
    assert cluster.stop(slot) == 0, f"{slot} did not end cleanly"
    cluster.begin(slot)


FAULTS: dict[str, Callable[[Cluster], None]] = {
    "a consumer is stopped and another started": lambda cluster: _left(cluster, "m1"),
    "a consumer is killed, and its guardian lives": lambda cluster: _killed_inside(cluster, "m2"),
    "a consumer's container is killed": lambda cluster: _killed(cluster, "m3"),
    "a consumer is paused for less than its session": lambda cluster: _paused(
        cluster, "m1", SHORTER_S
    ),
    "a consumer is paused for longer than its session": lambda cluster: _paused(
        cluster, "m1", LONGER_S
    ),
    "a consumer is cut off for longer than its session": lambda cluster: _cut_off(
        cluster, "m2", LONGER_S
    ),
    "the coordinator's container is killed": lambda cluster: _killed(
        cluster, cluster.leader_slot()
    ),
    "the coordinator is paused for longer than its session": lambda cluster: _paused(
        cluster, cluster.leader_slot(), LONGER_S
    ),
    "the coordinator is cut off for longer than its session": lambda cluster: _cut_off(
        cluster, cluster.leader_slot(), LONGER_S
    ),
    "ZooKeeper's leader is killed and comes back": lambda cluster: _restarted(
        cluster, cluster.zookeeper_leader()
    ),
    "ZooKeeper's leader is cut off": lambda cluster: _cut_off(
        cluster, cluster.zookeeper_leader(), LONGER_S
    ),
}


def play(cluster: Cluster, section: Section) -> None:
    """All faults, then a clean end."""
    say("starting three ZooKeeper servers, Kafka, two coordinators, three consumers")
    cluster.start()
    for name, fault in FAULTS.items():
        fault(cluster)
        took_ms = cluster.fetched_since(time.time_ns(), f"records of every partition after: {name}")
        section.rows.append(
            Row(name, "its end to records of every partition", [took_ms], (Bar("max", BOUND_MS),))
        )
        say(f"  {name}: {took_ms:.0f} ms")
    ended = {"producer": cluster.stop("producer")}
    cluster.consumed()
    ended |= {slot: cluster.stop(slot) for slot in ("m1", "m2", "m3")}
    cluster.write_stored()
    ended |= {slot: cluster.stop(slot) for slot in ("c1", "c2")}
    section.rows.append(
        Row(
            "processes that did not end cleanly",
            "in all",
            [float(sum(map(bool, ended.values())))],
            (Bar("max", 0),),
            "processes",
            note=str({slot: code for slot, code in ended.items() if code} or ""),
        )
    )


def run(folder: Path) -> int:
    """The exit status."""
    java = find_java()
    section = Section(
        "docker-test", "A group in containers; consumers' and coordinators' sessions of 6 s"
    )
    try:
        with engine(folder / "engine") as client:
            name = image(client, folder, say)
            cluster = Cluster(client, name, folder / "cluster", java)
            try:
                section.attempt("the scenario", lambda: play(cluster, section))
            finally:
                cluster.close()
    except NoEngineError as error:
        say(f"docker-test: {error}")
        return NO_ENGINE
    found = check(folder / "cluster")
    _judged(section, found)
    say("\n".join(lines_of(section)) + "\n")
    return conclude(
        [section], {}, str(java.major), report_named("docker-test", [], []), "docker-test"
    )


def _judged(section: Section, found: Found) -> None:
    section.rows.append(
        Row(
            "wrong, by the checker of the chaos suite",
            "in all",
            [float(sum(found.amounts.values()))],
            (Bar("max", 0),),
            "findings",
        )
    )
    section.rows.append(
        Row(
            "records produced",
            "in all",
            [float(found.produced)],
            (Bar("min", 1, at_least=True),),
            "records",
        )
    )
    section.rows.append(Row("again after crashes", "in all", [float(found.excused)], (), "records"))
    section.notes += found.examples


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.docker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--keep",
        type=Path,
        help=(
            "keep everything in this folder: the engine's images, so that the next run needs not"
            " make them, and what was written down"
        ),
    )
    args = parser.parse_args(argv)
    return measured_in_a_folder(lambda folder: run((args.keep or folder).absolute()))


if __name__ == "__main__":
    raise SystemExit(main())
