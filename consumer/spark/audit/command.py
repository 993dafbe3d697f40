"""The command line of the audit: options, a Spark session, the answer.

Exit status: 0 nothing is wrong, 1 something is (the last line says what), 2 what was given cannot
be used (one sentence says why).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from consumer.spark.audit.record_ranges import SearchPlan
from consumer.spark.audit.sorting import Order
from zkcoord.errors import ConfigurationError, ZkcoordError
from zkcoord.terminal import err, out
from zkcoord.verdict.rules import EXAMPLES_MAX, Rule

EXIT_CLEAN, EXIT_FOUND, EXIT_UNUSABLE = 0, 1, 2
EPILOG = (
    "rules:\n"
    + "\n".join(f"  {rule.value}: {rule.definition}" for rule in Rule)
    + """

examples:
  python -m zkcoord.consumer.spark.audit --journal build/reports/demo-journals/run
  python -m zkcoord.consumer.spark.audit --journal journals --records /data/orders \\
      --plan screen --json
"""
)


class AuditParser(argparse.ArgumentParser):
    """Refuses in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Exit status 2."""
        self.exit(EXIT_UNUSABLE, f"{self.prog}: {message}: see {self.prog} --help\n")


def positive(text: str) -> int:
    """A number above 0. Raises `ValueError`."""
    if int(text) <= 0:
        raise ValueError(text)
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = AuditParser(
        prog="python -m zkcoord.consumer.spark.audit",
        description=(
            "Was anything lost, duplicated, owned twice, delivered without ownership, or set back?"
            " Judged by Spark from what a group's processes wrote down."
        ),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument(
        "--journal",
        type=Path,
        required=True,
        metavar="DIR",
        help=(
            "holds consumers/NAME.jsonl and, where they exist, producers/, coordinators/, scenario/"
        ),
    )
    p.add_argument(
        "--records",
        type=Path,
        metavar="DIR",
        help=(
            "what came out: anything that Spark reads with the columns topic, partition, offset"
            " (and member, where known)"
        ),
    )
    p.add_argument(
        "--format", default="parquet", help="of the records, as Spark names it (default: parquet)"
    )
    _add_judging(p)
    p.add_argument("--json", action="store_true", help="a JSON document instead of the table")
    p.add_argument(
        "--master",
        help=(
            "Spark's master (default: what spark-submit says, else all processors of this machine)"
        ),
    )
    p.add_argument(
        "--memory", default="2g", help="of Spark's driver, where it runs here (default: 2g)"
    )
    return p


def _add_judging(p: argparse.ArgumentParser) -> None:
    """How records are searched, how ownerships are ordered, what is excused."""
    p.add_argument(
        "--plan",
        choices=[plan.value for plan in SearchPlan],
        default=SearchPlan.EXACT.value,
        help=(
            "exact: nothing is missed; screen: sums of 65,536 offsets first, exact where they are"
            " not right (default: exact)"
        ),
    )
    p.add_argument(
        "--order",
        choices=[order.value for order in Order],
        default=Order.AUTO.value,
        help=(
            "of ownerships: by zookeeper's versions, or by time, which needs hosts whose clocks"
            " agree (default: by time on one host, else zookeeper's where the journal tells it)"
        ),
    )
    p.add_argument(
        "--examples",
        type=positive,
        default=EXAMPLES_MAX,
        metavar="N",
        help=(
            "findings to tell of each rule and partition; all are counted (default:"
            f" {EXAMPLES_MAX})"
        ),
    )
    p.add_argument(
        "--exactly-once",
        action="store_true",
        help="excuse nothing: what a fenced or transactional sink promises",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    args = parser().parse_args(argv)
    try:
        from consumer.spark.audit import facts
        from consumer.spark.audit.report import report, table
        from consumer.spark.audit.run import AuditOptions, audit
        from consumer.spark.audit.session import session

        facts.journal_files(args.journal)
        if args.records is not None and not args.records.exists():
            raise ConfigurationError(
                f"There is no {args.records}: --records takes a folder that Spark can read, with"
                " the columns topic, partition and offset."
            )
        with session("zkcoord audit", args.master, args.memory) as spark:
            found = audit(
                spark,
                AuditOptions(
                    args.journal,
                    args.records,
                    args.format,
                    SearchPlan(args.plan),
                    Order(args.order),
                    args.examples,
                    args.exactly_once,
                ),
            )
        lines = (
            [json.dumps(report(found), indent=1)]
            if args.json
            else [*table(found), found.verdict.sentence]
        )
        out("\n".join([*lines, ""]))
    except ZkcoordError as error:
        err(f"{error}\n")
        return EXIT_UNUSABLE
    except BrokenPipeError:
        return EXIT_UNUSABLE
    return EXIT_CLEAN if found.verdict.clean else EXIT_FOUND
