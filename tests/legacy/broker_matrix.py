"""What can be spoken with brokers of several releases: both data paths of the consumer, Spark's
decode engines, and what the command line asks of brokers.

    python -m tests.legacy.broker_matrix [--release 1.1.1] [--check consumer-librdkafka]

Each release is a real broker in ZooKeeper mode, with topics of its own for each check. Prints a
table and writes build/reports/broker-matrix.json; what does not work is a line with the error, and
the exit status is 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.bench.figures import Section
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named
from tests.harness.kafka import CHROOT
from tests.harness.zookeeper import connect, disconnect, start_server
from tests.legacy.broker_checks import (
    Against,
    Check,
    consume,
    consume_all_forms,
    decode,
    look,
    migrate,
    offsets_in_kafka,
    outcome,
    reset,
)
from tests.legacy.jars import RELEASES, V0_11, V1_1
from zkcoord.stack import jars
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker

V2_8, V3_9 = "2.8.2", jars.KAFKA.version
BROKERS = {
    V0_11: RELEASES[V0_11],
    V1_1: RELEASES[V1_1],
    V2_8: jars.Artifact(
        "org.apache.kafka",
        "kafka_2.13",
        V2_8,
        Path(__file__).parent / "kafka-2.8.2.lock",
        megabytes=40,
        seconds=60,
    ),
    V3_9: jars.KAFKA,
}

CHECKS: Mapping[str, tuple[str, Check]] = {
    "consumer-kafka-python": ("a group of consumers", partial(consume, "kafka-python")),
    "consumer-librdkafka": (
        "a group of consumers, data_client librdkafka",
        partial(consume, "librdkafka"),
    ),
    "forms-kafka-python": (
        "every stored form of records",
        partial(consume_all_forms, "kafka-python"),
    ),
    "forms-librdkafka": (
        "every stored form of records, data_client librdkafka",
        partial(consume_all_forms, "librdkafka"),
    ),
    "offsets-in-kafka": ('offsets_storage="kafka"', offsets_in_kafka),
    **{
        f"decode-{engine}": (f"Spark's engine {engine}", partial(decode, engine))
        for engine in ("c", "confluent", "kafka-python")
    },
    "reset": ("zkcoord offsets reset, show", reset),
    "migrate": ("zkcoord migrate", migrate),
    "look": ("zkcoord check --kafka, groups describe", look),
}


def play(
    release: str,
    checks: Sequence[str],
    zookeeper: str,
    folder: Path,
    java: Java,
    into: list[Section],
) -> None:
    """A release: its broker, each check."""
    section = Section(release, f"Kafka {release}")
    into.append(section)
    broker = KafkaBroker(
        folder / f"kafka-{release}",
        free_port(),
        f"{zookeeper}{CHROOT}-{release}",
        java,
        owned=True,
        artifact=BROKERS[release],
    )
    _name_cluster(zookeeper, f"{CHROOT}-{release}")
    broker.start(lambda sentence: print(sentence, flush=True))
    try:
        for name in checks:
            what, check = CHECKS[name]
            home = folder / f"{release}-{name}"
            home.mkdir()
            at = Against(release, broker.address, broker.home / "data", broker.zookeeper, home)
            section.rows.append(outcome(what, partial(check, at)))
    finally:
        broker.kill()


def _name_cluster(zookeeper: str, chroot: str) -> None:
    """What a broker makes itself when it is not there; one of 0.11 would need a class for it that
    Java has no more.
    """
    client = connect(zookeeper)
    try:
        client.create(
            f"{chroot}/cluster/id", b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}', makepath=True
        )
    finally:
        disconnect(client)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.legacy.broker_matrix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--release", action="append", choices=BROKERS, help="may be given several times"
    )
    parser.add_argument(
        "--check", action="append", choices=CHECKS, help="may be given several times"
    )
    args = parser.parse_args(argv)

    def measure(folder: Path) -> int:
        java = find_java()
        releases, checks = args.release or list(BROKERS), args.check or list(CHECKS)
        server = start_server(folder / "zookeeper", java)
        try:
            parts: dict[str, Part] = {
                release: partial(play, release, checks, server.address, folder, java)
                for release in BROKERS
            }
            sections = measure_all(parts, releases)
        finally:
            server.kill()
        chosen = [*(releases if args.release else ()), *(checks if args.check else ())] or list(
            BROKERS
        )
        return conclude(
            sections,
            {"releases": releases, "checks": checks},
            str(java.major),
            report_named("broker-matrix", chosen, list(BROKERS)),
            "broker-matrix",
        )

    return measured_in_a_folder(measure)


if __name__ == "__main__":
    raise SystemExit(main())
