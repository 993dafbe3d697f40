"""`zkcoord demo`: a real consumer group in trouble, by the installed package (extra `demo`). It is
also `make demo`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zkcoord.demo.cast import Cast
from zkcoord.demo.command import DemoProgram, fill_parser, play
from zkcoord.demo.options import FAST, FULL, TINY, DemoOptions
from zkcoord.demo.scenario import Scenario

EXAMPLES = """\
examples:
  zkcoord demo                       about two minutes, with a live view
  zkcoord demo --fast                the same story in well under a minute
  zkcoord demo --break two-owners    with a fault that the verdict must find: it must fail
  zkcoord demo --dir run --seed 7    keep everything under ./run
  zkcoord demo --kafka 4             beside Kafka 4, which has no ZooKeeper underneath

Kafka's jars (about 50 MB) are fetched once, as by zkcoord stack fetch. It needs the extra demo:
pip install 'zkcoord[demo]'.
"""


def announce(options: DemoOptions) -> str:
    """What the first sentence says."""
    length = "about two minutes" if options.pace is FULL else "well under a minute"
    return (
        "Two servers (ZooKeeper, Kafka), two coordinators, four consumers and a producer are"
        f" started on this machine; the run takes {length}."
    )


def prepare(options: DemoOptions, say: Callable[[str], None]) -> Callable[[Cast], None]:
    """Nothing is needed."""
    return lambda cast: Scenario(cast, options).run()


DEMO = DemoProgram(
    "zkcoord demo",
    "demo",
    "A real consumer group on a real Kafka broker, through joins, leaves, crashes and its"
    " coordinator's death, and a verdict: was anything lost, duplicated or owned twice?",
    EXAMPLES,
    "only a join, fewer partitions",
    (FULL, FAST, TINY),
    announce,
    prepare,
    reports=Path("zkcoord-demo"),
)


def add_parser(subparsers: Any) -> None:
    """Add `demo`."""
    parser = subparsers.add_parser(
        "demo",
        help="a real group in all kinds of trouble, and a verdict",
        description=DEMO.description,
        epilog=DEMO.examples,
    )
    fill_parser(parser, DEMO)


def run(args: argparse.Namespace) -> int:
    """0 a clean verdict, 1 not clean or it could not be run, 2 a folder that cannot be used."""
    return play(args, DEMO)
