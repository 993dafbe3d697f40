"""The command line of `python -m zkcoord.demo.spark` and `make demo-spark`, and one run from the
servers to the verdict.

Exit status: 0 a clean verdict, 1 not clean or it could not be run (one sentence says why), 2
options that cannot be used, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from consumer.spark.audit import report
from consumer.spark.audit.run import SparkAudit
from zkcoord.demo import summary
from zkcoord.demo.cast import Addresses, Cast
from zkcoord.demo.command import EXIT_FAILED, EXIT_INTERRUPTED, DemoParser, add_kafka, kafka_of
from zkcoord.demo.live import PlainView
from zkcoord.demo.options import Break, DemoOptions, Pace
from zkcoord.demo.run import keep, uninterrupted
from zkcoord.demo.spark.cast import Applications
from zkcoord.demo.spark.check import judge
from zkcoord.demo.spark.scenario import SparkScenario
from zkcoord.demo.story import ScenarioJournal, StepView
from zkcoord.errors import ScenarioError, ZkcoordError
from zkcoord.stack.stack import running_stack
from zkcoord.verdict import engine

NAME = "demo-spark"
STEP_TIMEOUT_S = 900.0
FULL = Pace(partitions=12, grown=12, rate=800, records_between_steps=8_000)
FAST = Pace(partitions=6, grown=6, rate=400, records_between_steps=1_500)
TINY = Pace(partitions=4, grown=4, rate=300, records_between_steps=1_000, every_step=False)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = DemoParser(
        prog="python -m zkcoord.demo.spark",
        description=(
            "Spark applications that share a group on a real broker, through a join, a clean stop,"
            " a killed JVM and their coordinator's death; then the audit."
        ),
        allow_abbrev=False,
    )
    p.add_argument("--fast", action="store_true", help="less work between the steps")
    p.add_argument(
        "--tiny",
        action="store_true",
        help="only the two applications, and the fault: for tests of --break",
    )
    p.add_argument(
        "--break",
        dest="fault",
        choices=[fault.value for fault in Break],
        help="inject a fault for real; the verdict must find it",
    )
    p.add_argument(
        "--dir",
        type=Path,
        metavar="FOLDER",
        help=(
            "keep everything here (default: a temporary folder; of a run that is not clean,"
            " journals and logs are copied beside the report)"
        ),
    )
    p.add_argument(
        "--reports",
        type=Path,
        default=Path("build/reports"),
        metavar="FOLDER",
        help="where the report goes (default: build/reports)",
    )
    add_kafka(p)
    return p


def run(options: DemoOptions, view: PlainView) -> int:
    """The exit status; the verdict is the last line. Raises `ZkcoordError` when it cannot be run or
    judged.
    """
    began = time.monotonic()
    failure: str | None = None
    with running_stack(options.folder / "stack", progress=view.say, kind=options.kafka) as stack:
        assert stack.zookeeper is not None and stack.kafka is not None, "both run inside the block"
        story = ScenarioJournal(options.folder / "run" / engine.SCENARIO / "steps.jsonl", view.say)
        cast = Cast(
            options, Addresses(stack.zookeeper.address, stack.kafka.address), story, view.say
        )
        applications = Applications(cast)
        try:
            cast.create_topic()
            with view.watching(cast):
                SparkScenario(applications).run()
        except ScenarioError as error:
            failure = str(error)
        finally:
            with uninterrupted():
                cast.close()
    if failure is not None:
        if not options.keep_folder:
            keep(options, view)
        print(f"VERDICT: not clean: {failure}", flush=True)
        return EXIT_FAILED
    view.say("Everything is stopped; the audit reads what was written down and what came out ...")
    found = judge(options.folder / "run", applications.orders, applications.totals)
    if not found.verdict.clean and not options.keep_folder:
        keep(options, view)
    summary.write(
        options.reports / f"{NAME}.json",
        written(found, story.steps, story.succession_ms, time.monotonic() - began, options),
    )
    for line in [*steps(story.steps), *report.table(found)]:
        print(line)
    print(found.verdict.sentence, flush=True)
    return 0 if found.verdict.clean else EXIT_FAILED


def steps(told: Sequence[StepView]) -> list[str]:
    """The steps as lines."""
    return ["", "Steps: from the event until every partition is owned"] + [
        f"  {step.name:<64} {step.took_ms:>19,.0f} ms" for step in told if step.took_ms is not None
    ]


def written(
    found: SparkAudit,
    told: Sequence[StepView],
    succession_ms: float | None,
    duration_s: float,
    options: DemoOptions,
) -> dict[str, object]:
    """What the report holds."""
    return {
        **report.report(found),
        "what": NAME,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "duration_s": round(duration_s, 1),
        "machine": summary.machine(),
        "fault": None if options.fault is None else options.fault.value,
        "succession_ms": succession_ms,
        "steps": [{"name": step.name, "took_ms": step.took_ms} for step in told],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    args = parser().parse_args(argv)
    logging.basicConfig(level=logging.CRITICAL)
    if args.dir is not None and args.dir.exists() and any(args.dir.iterdir()):
        print(
            f"The folder {args.dir} is not empty, and a run begins with an empty topic: name"
            " another or remove it.",
            file=sys.stderr,
        )
        return 2
    pace = FAST if args.fast else FULL
    if args.tiny:
        pace = TINY
    folder = (
        args.dir.absolute()
        if args.dir is not None
        else Path(tempfile.mkdtemp(prefix="zkcoord-demo-spark-"))
    )
    options = DemoOptions(
        folder,
        args.reports,
        pace,
        None if args.fault is None else Break(args.fault),
        keep_folder=args.dir is not None,
        name=NAME,
        step_timeout_s=STEP_TIMEOUT_S,
        kafka=kafka_of(args),
    )
    view = PlainView()
    status = EXIT_FAILED
    try:
        view.say(
            "Two servers (ZooKeeper, Kafka), two coordinators, up to three Spark applications and a"
            " producer are started on this machine; the run takes some minutes and about 4 GB of"
            " memory."
        )
        status = run(options, view)
    except KeyboardInterrupt:
        print("Interrupted: everything that was started is stopped.", file=sys.stderr)
        status = EXIT_INTERRUPTED
    except (ZkcoordError, OSError) as error:
        print(error, file=sys.stderr)
    if args.dir is None:
        shutil.rmtree(folder, ignore_errors=True)
    return status
