"""Fuzz parsers with atheris: `make fuzz`, or with more to choose `python -m tests.fuzz`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.parsers import all_harnesses
from tests.fuzz.running import BUILD, HEADING, cheapest_first, run_parser
from tests.packages.tools import MissingToolError, tools

INPUTS = 1_000_000
EXAMPLES = """\
examples:
  python -m tests.fuzz                                 a million inputs for each parser (hours)
  python -m tests.fuzz --parser handover               one of them
  python -m tests.fuzz --inputs 50000 --seconds 30     as make nightly does
  python -m tests.fuzz --list                          which there are, and what they cover
"""


def arguments(given: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--inputs", type=int, default=INPUTS, help="for each parser (%(default)s)")
    parser.add_argument("--seconds", type=int, default=0, help="and no longer each (0: no limit)")
    parser.add_argument("--parser", metavar="NAME", help="this one only")
    parser.add_argument("--list", action="store_true", help="name the parsers, and do nothing")
    return parser.parse_args(given)


def main(given: list[str]) -> int:
    """0: nothing new was found; 1: something, or a parser did not come to its end; 2: there is no
    such parser; 4: atheris cannot be had here.
    """
    args = arguments(given)
    known = all_harnesses()
    if args.list:
        for name, harness in sorted(known.items()):
            print(f"{name:22} {', '.join(harness.covers)}")
        return 0
    if args.parser is not None and args.parser not in known:
        print(f"there is no parser {args.parser!r}: write one of those of --list", file=sys.stderr)
        return 2
    if args.inputs < 1 or args.seconds < 0:
        print("inputs are 1 or more, and seconds 0 or more", file=sys.stderr)
        return 2
    try:
        python = tools("fuzz")
    except MissingToolError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        print(
            f"atheris cannot be had for Python {version} on this machine (a wheel of the version in"
            f" tests/packages/fuzz.lock), so nothing is fuzzed: {' '.join(str(error).split())}",
            file=sys.stderr,
        )
        return 4
    return fuzz(python, args.parser, args.inputs, args.seconds)


def fuzz(python: Path, parser: str | None, inputs: int, seconds: int) -> int:
    """One after the other, with a line of the table as each has ended."""
    print(HEADING, flush=True)
    bad = 0
    for harness in cheapest_first(all_harnesses()):
        if parser in (None, harness.name):
            run = run_parser(python, harness, inputs, seconds)
            print(run.row(), flush=True)
            bad += bool(run.files or run.trouble)
    print(f"what they were given is in {BUILD}; what was found, smaller, in tests/fuzz/found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
