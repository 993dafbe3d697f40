"""Spark applications, which take the place of the demo's consumers."""

from __future__ import annotations

import shutil
from pathlib import Path

from zkcoord.demo.cast import Cast
from zkcoord.demo.options import GROUP, TOPIC
from zkcoord.demo.processes import KILL_TIMEOUT_S
from zkcoord.demo.state import ProcessKind
from zkcoord.errors import ScenarioError
from zkcoord.verdict import engine

BATCH_RECORDS = 1_500
SESSION_TIMEOUT_MS = 12_000
WINDOW, LATE = "5 seconds", "5 seconds"


class Applications:
    """The Spark applications of one run, beside the others that play (`cast`). They are named like
    consumers; what each writes down lies in a folder of its name.
    """

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.children = cast.children
        self.options = cast.options

    @property
    def orders(self) -> Path:
        """What the applications write together."""
        return self.options.folder / "orders"

    @property
    def totals(self) -> Path:
        """What is made of it."""
        return self.options.folder / "totals"

    def start_orders(self) -> None:
        """The producer, of orders."""
        flags = [
            "--bootstrap-servers",
            self.cast.addresses.kafka,
            "--topic",
            TOPIC,
            "--partitions",
            str(self.cast.partitions),
            "--rate",
            str(self.options.pace.rate),
            "--orders",
        ]
        self.cast.start(
            "producer", ProcessKind.PRODUCER, ["zkcoord.demo.producer", *flags], engine.PRODUCERS
        )

    def start_application(self, name: str) -> None:
        """One application of the group."""
        folder, journal = (
            self.options.folder / "spark" / name,
            self.cast.runs / engine.CONSUMERS / name,
        )
        words = [
            "ingest",
            "--zookeeper",
            self.cast.addresses.zookeeper,
            "--group",
            GROUP,
            "--topic",
            TOPIC,
            "--orders",
            str(self.orders),
            "--checkpoint",
            str(folder / "checkpoint"),
            "--journal",
            str(journal),
            "--batch-records",
            str(BATCH_RECORDS),
            "--session-timeout-ms",
            str(SESSION_TIMEOUT_MS),
            "--trigger",
            "500 milliseconds",
        ]
        if self.options.assignor:
            words += ["--assignor", self.options.assignor]
        self.cast.start(
            name,
            ProcessKind.CONSUMER,
            ["zkcoord.demo.spark.application", str(folder), *words],
            "output",
        )
        self.children.follow_folder(name, journal)

    def count(self) -> None:
        """The part with state, over everything that is there. Raises `ScenarioError` when it does
        not end cleanly.
        """
        folder = self.options.folder / "spark" / "totals"
        words = [
            "totals",
            "--orders",
            str(self.orders),
            "--totals",
            str(self.totals),
            "--checkpoint",
            str(folder / "checkpoint"),
            "--window",
            WINDOW,
            "--late",
            LATE,
            "--available-now",
        ]
        child = self.cast.start(
            "totals",
            ProcessKind.CONSUMER,
            ["zkcoord.demo.spark.application", str(folder), *words],
            "output",
        )
        child.expected_to_end = True
        self.left("totals")

    def kill_jvm(self, name: str) -> int:
        """kill -9 of an application's JVM; the time just before it. Its driver's Python goes with
        it.
        """
        child = self.children.children[name]
        killed_ns = self.cast.kill_below(name)
        child.process.kill()
        child.process.wait(KILL_TIMEOUT_S)
        self.cast.gone(child, killed=True)
        return killed_ns

    def left(self, name: str) -> None:
        """An application takes its time: it writes a batch, gives its partitions away, and a JVM
        ends. Raises `ScenarioError` when it did not end cleanly.
        """
        child = self.children.children[name]
        self.children.wait_for(
            lambda: not child.alive, self.options.step_timeout_s, f"the end of {name}"
        )
        self.cast.left(name)

    # faults

    def a_file(self) -> Path:
        """One of the files that readers see."""
        files = sorted(
            path
            for path in self.orders.rglob("*.parquet")
            if not any(part.startswith(("_", ".")) for part in path.relative_to(self.orders).parts)
        )
        if not files:
            raise ScenarioError(f"there is no file in {self.orders} to be lost or doubled")
        return files[len(files) // 2]

    def lose(self) -> None:
        """A file of the output is gone, as after a bad clean-up."""
        self.a_file().unlink()

    def double(self) -> None:
        """A file of the output is there twice, as after a copy that was run again."""
        file = self.a_file()
        shutil.copy(file, file.with_name(f"again-{file.name}"))
