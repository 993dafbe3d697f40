"""What is asked of each handover between applications, and of all of them at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.figures import Bar, Row, Section
from tests.bench.running import say
from tests.chaos_spark.rig import Rig, Where
from tests.chaos_spark.scenarios import Crash, Handover, Move, graceful
from zkcoord.demo.run import uninterrupted
from zkcoord.verdict.rules import Rule

NOTHING = (Bar("max", 0),)
FIRST_BATCH_MS = 3_000
OUTLIVED = ("executor", "worker")
CLOCK, HOST, COUNT = "this program's", "the host's", "count"


def crashes(rig: Rig, kind: str, crash: Crash, count: int, section: Section) -> None:
    """Handovers of one kind, one after the other, and what became of the records."""
    seen: list[Handover] = []
    duplicates, beyond = [rig.duplicates()], []
    for number in range(count):
        seen.append(crash(rig, rig.apps[number % 2], number))
        duplicates.append(rig.duplicates())
        beyond.append(max(0, duplicates[-1] - duplicates[-2] - seen[-1].planned))
        say(
            f"  {kind}, {rig.sink}: {number + 1} of {count}, {seen[-1].ms:.0f} ms,"
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
    ended = "its batch's end" if kind in OUTLIVED else "new owners of everything"
    section.rows.append(Row(f"fault to {ended}", CLOCK, [h.ms for h in seen]))
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

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        kafka: str,
        sink: str,
        where: Where = Where(),  # never changed
    ) -> None:
        self._at = (zookeeper, kafka)
        self._where = where
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
                self._rig = Rig(self._folder / group, *self._at, group, self._sink, self._where)
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
