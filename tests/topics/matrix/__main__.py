"""`python -m tests.topics.matrix`: each part of zkcoord on one broker of each kind of Kafka.

Says how each cell went as soon as it is known, then prints a table and writes
build/reports/kraft-matrix.json. The exit status is 1 when one of them does not work.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.figures import Section
from tests.bench.running import conclude, measured_in_a_folder, report_named, say
from tests.legacy.broker_checks import Against
from tests.topics.matrix.cell import PARTS, played
from zkcoord.stack import jars
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import KafkaKind, Stack, running_stack

NAME = "kraft-matrix"
KINDS = {
    jars.KAFKA.version: KafkaKind.ZOOKEEPER,
    f"{jars.KAFKA.version}-kraft": KafkaKind.KRAFT,
    jars.KAFKA_4.version: KafkaKind.KRAFT_4,
}
EPILOG = f"""\
examples:
  # everything (half an hour)
  python -m tests.topics.matrix
  # one kind of Kafka
  python -m tests.topics.matrix --only {jars.KAFKA_4.version}
  # two parts, on each kind
  python -m tests.topics.matrix --only check offsets
  # one cell, whose logs are kept
  python -m tests.topics.matrix --only {jars.KAFKA.version}-kraft spark-c --dir build/cell

kinds of Kafka: {jars.KAFKA.version} has ZooKeeper underneath, the others (KRaft) have not
parts:
{"".join(f"  {name:21} {what}{chr(10)}" for name, (what, _) in PARTS.items())}"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.topics.matrix",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        choices=[*KINDS, *PARTS],
        help="kinds of Kafka and parts; without a kind all of them, without a part all parts",
    )
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="keep everything here")
    args = parser.parse_args(argv)
    kinds = [name for name in KINDS if name in args.only] or list(KINDS)
    parts = [name for name in PARTS if name in args.only] or list(PARTS)

    def measure(folder: Path) -> int:
        sections = {
            kind: play(kind, parts, (args.dir or folder).absolute() / kind) for kind in kinds
        }
        say("\n".join(["", *table(sections, parts), ""]))
        return conclude(
            list(sections.values()),
            {"kinds": kinds, "parts": parts},
            str(find_java().major),
            report_named(NAME, args.only or [NAME], [NAME]),
            NAME,
        )

    return measured_in_a_folder(measure)


def play(kind: str, parts: Sequence[str], folder: Path) -> Section:
    """A kind of Kafka: its broker, each part."""
    section = Section(kind, f"Kafka {kind}")

    def on_broker() -> None:
        with running_stack(folder / "stack", kind=KINDS[kind], progress=say) as stack:
            for part in parts:
                section.rows.append(played(part, against(stack, kind, folder / part), say))
                row = section.rows[-1]
                say(f"{kind:12} {part:21} {word(row.missed)} {row.clock:>6}  {row.note}")

    section.attempt("its broker", on_broker)
    return section


def against(stack: Stack, kind: str, folder: Path) -> Against:
    """Both servers, which run: a cell that has ended one of them is not in the way of the next."""
    assert stack.zookeeper is not None and stack.kafka is not None, "both run inside the block"
    for server in (stack.zookeeper, stack.kafka):
        if not server.alive():
            server.start()
    folder.mkdir(parents=True)
    logs = stack.kafka.home / "data"
    release = KINDS[kind].artifact.version
    return Against(release, stack.kafka.address, logs, stack.zookeeper.address, folder)


def word(missed: Sequence[object]) -> str:
    """How a cell went."""
    return "FAILED" if missed else "ok    "


def table(sections: Mapping[str, Section], parts: Sequence[str]) -> list[str]:
    """Parts by kinds of Kafka; what a broker that failed has left out is empty."""
    lines = ["  ".join([" " * 21, *(f"{kind:15}" for kind in sections)])]
    for at, part in enumerate(parts):
        cells = [
            f"{word(section.rows[at].missed)} {section.rows[at].clock:>6}"
            if at < len(section.rows)
            else "-"
            for section in sections.values()
        ]
        lines.append("  ".join([f"{part:21}", *(f"{cell:15}" for cell in cells)]).rstrip())
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
