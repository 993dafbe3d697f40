"""Do handovers between Spark applications lose or duplicate anything?

    python -m tests.chaos_spark [--handovers N] [--moves N] [--only KIND ...] [--sink fenced|plain]

Two applications share a group under load, first with the fenced sink, then with a plain one.
Graceful moves, then crashes: each hits one of the two at a gate, so always at the same point: past
its session while the batch goes on (a zombie, which must come to the fence every time), in a batch,
between Spark's commit and ZooKeeper's, between the multi and the move of the files. With the fenced
sink nothing may be lost or duplicated; with a plain one at most the planned batch of each crash may
be there twice, and the audit lists it. Prints a table and writes build/reports/chaos-spark.json (a
part: chaos-spark-SINK-KIND.json); 1 when a bar was missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.figures import Bar, Row, Section, lines_of
from tests.bench.running import conclude, measured, measured_in_a_folder, report_named, say
from tests.chaos_spark.rig import Rig
from tests.chaos_spark.scenarios import CRASHES, TITLES, WITHOUT_FENCE, Handover, Move, graceful
from zkcoord.demo.run import uninterrupted
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import running_stack
from zkcoord.verdict.rules import Rule

HANDOVERS = 20
MOVES = 50
GRACEFUL = "graceful"
KINDS = (GRACEFUL, *CRASHES)
SINKS = ("fenced", "plain")
NOTHING = (Bar("max", 0),)
FIRST_BATCH_MS = 3_000
CLOCK, HOST, COUNT = "this program's", "the host's", "count"


def crashes(rig: Rig, kind: str, count: int, section: Section) -> None:
    """Handovers of one kind, one after the other, and what became of the records."""
    seen: list[Handover] = []
    duplicates, beyond = [rig.duplicates()], []
    for number in range(count):
        seen.append(CRASHES[kind](rig, rig.apps[number % 2], number))
        duplicates.append(rig.duplicates())
        beyond.append(max(0, duplicates[-1] - duplicates[-2] - seen[-1].planned))
        say(
            f"  {kind}, {rig.sink}: {number + 1} of {count}, {seen[-1].ms:.0f} ms to new owners,"
            f" {duplicates[-1] - duplicates[0]} records there twice so far"
        )
    records(rig, section, duplicates[0])
    if rig.sink == "plain":
        section.rows.append(
            Row(
                "there twice beyond the planned batch",
                "per handover",
                [float(n) for n in beyond],
                NOTHING,
                "records",
            )
        )
    if kind == "zombie" and rig.sink == "fenced":
        section.rows.append(
            Row(
                "zombies refused at the fence",
                "share",
                [sum(h.fenced is True for h in seen) / len(seen)],
                (Bar("min", 1, at_least=True),),
                "of all",
            )
        )
    section.rows.append(
        Row(
            "planned batch of the victim",
            "per handover",
            [float(h.planned) for h in seen],
            (),
            "records",
        )
    )
    section.rows.append(Row("fault to new owners of everything", CLOCK, [h.ms for h in seen]))
    joins = [h.first_batch_ms for h in seen if h.first_batch_ms]
    if joins:
        section.rows.append(
            Row(
                "a new application's claim to its first batch with data",
                HOST,
                joins,
                (Bar("max", FIRST_BATCH_MS),),
            )
        )


def moves(rig: Rig, count: int, section: Section) -> None:
    """Graceful moves until so many partitions have changed hands."""
    seen: list[Move] = []
    before = rig.duplicates()
    while sum(move.moved for move in seen) < count:
        first = len(seen) % 2
        seen.append(graceful(rig, rig.apps[first], rig.apps[1 - first]))
        say(
            f"  graceful, {rig.sink}: {sum(move.moved for move in seen)} partitions of {count} have"
            " moved"
        )
    section.rows.append(
        Row(
            "partitions that moved",
            COUNT,
            [sum(move.moved for move in seen)],
            (Bar("min", count, at_least=True),),
            "partitions",
        )
    )
    records(rig, section, before, NOTHING)
    section.rows.append(
        Row(
            "batches begun between a command and its release",
            "per partition",
            [float(n) for move in seen for n in move.batches_before_release],
            (Bar("max", 1),),
            "batches",
        )
    )
    section.rows.append(
        Row(
            "batches without a partition that did not move",
            "per move",
            [float(move.incomplete) for move in seen],
            NOTHING,
            "batches",
        )
    )
    section.rows.append(
        Row(
            "claim to first batch with data",
            HOST,
            [move.first_batch_ms for move in seen],
            (Bar("max", FIRST_BATCH_MS),),
        )
    )
    section.rows.append(
        Row("stop ordered to everything at the other", CLOCK, [move.stop_ms for move in seen])
    )


def records(rig: Rig, section: Section, before: int, twice: Sequence[Bar] = ()) -> None:
    """What is lost, and what is there twice since `before`."""
    section.rows.append(Row("lost", COUNT, [rig.lost()], NOTHING, "records"))
    section.rows.append(
        Row(
            "there twice",
            COUNT,
            [rig.duplicates() - before],
            NOTHING if rig.sink == "fenced" else tuple(twice),
            "records",
        )
    )


def audited(rig: Rig, section: Section) -> None:
    """The end of a group, and what the audit says of all that happened to it."""
    rig.conclude()
    section.rows.append(Row("lost", COUNT, [rig.lost()], NOTHING, "records"))
    section.rows.append(Row("records", COUNT, [float(len(rig.visible()))], (), "records"))
    section.rows.append(
        Row("batches fenced that were no zombies'", COUNT, [rig.fenced_unasked], NOTHING, "batches")
    )
    report = rig.audit()
    found = {rule: float(report["rules"][rule.value]["amount"]) for rule in Rule}
    section.rows.append(
        Row(
            "there twice, and not listed by the audit",
            COUNT,
            [abs(rig.duplicates() - found[Rule.DUPLICATED])],
            NOTHING,
            "records",
        )
    )
    section.rows += [
        Row(
            f"audit: {rule.value}",
            COUNT,
            [amount],
            () if rule is Rule.DUPLICATED and rig.sink == "plain" else NOTHING,
            "findings",
        )
        for rule, amount in found.items()
    ]


class Groups:
    """The group of the parts of one sink: the same for all, and another after a part that could not
    be finished.
    """

    def __init__(self, folder: Path, zookeeper: str, kafka: str, sink: str) -> None:
        self._at = (zookeeper, kafka)
        self._folder = folder
        self._sink = sink
        self._made = 0
        self._rig: Rig | None = None

    def part(
        self, name: str, title: str, act: Callable[[Rig, Section], None], sections: list[Section]
    ) -> None:
        """One part."""
        section = Section(name, f"{title}; {self._sink} sink")
        sections.append(section)
        try:
            if self._rig is None:
                self._made += 1
                group = f"{self._sink}-{self._made}"
                self._rig = Rig(self._folder / group, *self._at, group, self._sink)
                self._rig.begin(2)
            act(self._rig, section)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes."""
        rig, self._rig = self._rig, None
        if rig is not None:
            with uninterrupted():
                rig.close()


def run(args: argparse.Namespace, folder: Path) -> int:
    """Everything that was asked for; the exit status."""
    sections: list[Section] = []
    kinds, sinks = args.only or KINDS, args.sink or SINKS
    with running_stack(folder / "stack", progress=say) as stack:
        assert stack.zookeeper is not None and stack.kafka is not None
        for sink in sinks:
            groups = Groups(folder / "run", stack.zookeeper.address, stack.kafka.address, sink)
            parts: dict[str, tuple[str, Callable[[Rig, Section], None]]] = {}
            for kind in kinds:
                if kind == GRACEFUL:
                    parts[kind] = TITLES[kind], lambda rig, section: moves(rig, args.moves, section)
                elif sink == "fenced" or kind in WITHOUT_FENCE:
                    parts[kind] = (
                        TITLES[kind],
                        lambda rig, section, kind=kind: crashes(rig, kind, args.handovers, section),
                    )  # type: ignore[misc]
            parts["audit"] = f"by the audit: {', '.join(kinds)}", audited
            try:
                for name, (title, act) in parts.items():
                    say(f"{name}, {sink} sink ...")
                    found = measured(
                        name,
                        lambda into, name=name, title=title, act=act: groups.part(
                            f"{name}-{sink}", title, act, into
                        ),
                    )  # type: ignore[misc]
                    sections += found
                    say("\n".join(line for section in found for line in lines_of(section)) + "\n")
            finally:
                groups.close()
    options = {
        "handovers": args.handovers,
        "moves": args.moves,
        "only": list(kinds),
        "sinks": list(sinks),
    }
    return conclude(
        sections,
        options,
        str(find_java().major),
        report_named("chaos-spark", (*sinks, *kinds), (*SINKS, *KINDS)),
        "chaos-spark",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos_spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--handovers", type=int, default=HANDOVERS, help=f"of each kind (default: {HANDOVERS})"
    )
    parser.add_argument(
        "--moves", type=int, default=MOVES, help=f"graceful ones, partitions (default: {MOVES})"
    )
    parser.add_argument("--only", action="append", choices=KINDS, help="may be given several times")
    parser.add_argument("--sink", action="append", choices=SINKS, help="may be given several times")
    parser.add_argument("--dir", type=Path, help="keep what the processes write here")
    args = parser.parse_args(argv)
    return measured_in_a_folder(lambda folder: run(args, args.dir or folder))


if __name__ == "__main__":
    raise SystemExit(main())
