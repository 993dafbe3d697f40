"""What the command lines of the demos share: options, then `zkcoord.demo.run`.

Exit status: 0 a clean verdict, 1 not clean or it could not be run (one sentence says why), 2
options that cannot be used, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from zkcoord.demo import live
from zkcoord.demo.cast import Cast
from zkcoord.demo.options import Break, DemoOptions, Pace
from zkcoord.demo.run import run
from zkcoord.errors import ZkcoordError
from zkcoord.stack.stack import KafkaKind

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
DEVELOPERS_REPORTS = Path("build/reports")


@dataclass(frozen=True)
class DemoProgram:
    """One of the demos. `called`: how it is called; `name` begins the names of its reports, which
    go to `reports`; `tiny` says what `--tiny` leaves out; `paces` are the full, the fast and the
    tiny one; `announce(options)` is a sentence about what is started, and how long it takes.
    `prepare(options, say)` gets what the story (which it returns) needs before a server runs, and
    raises `ZkcoordError` for what is missing. `step_timeout_s`: the longest that a step may take;
    `has_spark`: there is a Spark application in it, which can be left out.
    """

    called: str
    name: str
    description: str
    examples: str
    tiny: str
    paces: tuple[Pace, Pace, Pace]
    announce: Callable[[DemoOptions], str]
    prepare: Callable[[DemoOptions, Callable[[str], None]], Callable[[Cast], None]]
    step_timeout_s: float = 60.0
    has_spark: bool = False
    reports: Path = DEVELOPERS_REPORTS


class DemoParser(argparse.ArgumentParser):
    """Refuses in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Exit status 2."""
        self.exit(2, f"{self.prog}: {message}: see {self.prog} --help\n")


def parser(program: DemoProgram) -> argparse.ArgumentParser:
    """The command line."""
    p = DemoParser(
        prog=program.called,
        description=program.description,
        epilog=program.examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    fill_parser(p, program)
    return p


def fill_parser(p: argparse.ArgumentParser, program: DemoProgram) -> None:
    """Add a demo's options to its parser."""
    p.add_argument("--fast", action="store_true", help="less work between the steps")
    p.add_argument("--tiny", action="store_true", help=f"{program.tiny}: for tests of --break")
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
            "keep servers' data, logs and journals here (default: a temporary folder; of a run that"
            " is not clean, journals and logs are copied beside the report)"
        ),
    )
    p.add_argument(
        "--reports",
        type=Path,
        default=program.reports,
        metavar="FOLDER",
        help=f"where picture and report go (default: {program.reports})",
    )
    p.add_argument("--seed", type=int, default=0, help="which consumers leave and die")
    add_kafka(p)
    if program.has_spark:
        p.add_argument("--no-spark", action="store_true", help="without the Spark application")
    p.add_argument(
        "--console",
        action="store_true",
        help="show the run in a web page as well, and leave it open at the end, until Ctrl-C",
    )
    p.add_argument("--no-live", action="store_true", help="lines instead of a live view")


def add_kafka(p: argparse.ArgumentParser) -> None:
    """On which Kafka."""
    p.add_argument(
        "--kafka",
        choices=("3.9", "4"),
        default="3.9",
        help="which Kafka (default: 3.9); 4 has no ZooKeeper underneath",
    )


def kafka_of(args: argparse.Namespace) -> KafkaKind:
    """What `add_kafka` has been given."""
    return KafkaKind.KRAFT_4 if args.kafka == "4" else KafkaKind.ZOOKEEPER


def main(argv: Sequence[str] | None, program: DemoProgram) -> int:
    """Run by a command line; the exit status."""
    return play(parser(program).parse_args(argv), program)


def play(args: argparse.Namespace, program: DemoProgram) -> int:
    """Run by what was chosen; the exit status."""
    logging.basicConfig(level=logging.CRITICAL)
    if args.dir is not None and args.dir.exists() and any(args.dir.iterdir()):
        print(
            f"The folder {args.dir} is not empty, and a run begins with an empty topic: name"
            " another or remove it.",
            file=sys.stderr,
        )
        return 2
    full, fast, tiny = program.paces
    pace = fast if args.fast else full
    if args.tiny:
        pace = tiny
    folder = (
        args.dir.absolute()
        if args.dir is not None
        else Path(tempfile.mkdtemp(prefix=f"zkcoord-{program.name}-"))
    )
    kept = args.dir is not None
    options = DemoOptions(
        folder,
        args.reports,
        pace,
        None if args.fault is None else Break(args.fault),
        args.seed,
        keep_folder=kept,
        name=program.name,
        with_spark=program.has_spark and not args.no_spark,
        step_timeout_s=program.step_timeout_s,
        kafka=kafka_of(args),
        console=args.console,
    )
    status = EXIT_FAILED
    try:
        view = live.view_for(not args.no_live)
        view.say(program.announce(options))
        status = run(options, view, program.prepare(options, view.say))
    except KeyboardInterrupt:
        print("Interrupted: everything that was started is stopped.", file=sys.stderr)
        status = EXIT_INTERRUPTED
    except ZkcoordError as error:
        print(error, file=sys.stderr)
    except BrokenPipeError:
        sys.stdout = None  # nobody reads it any more, so nothing may be flushed into it at the end
    except OSError as error:
        print(f"The demo cannot be run in {folder}: {error}.", file=sys.stderr)
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
    return status
