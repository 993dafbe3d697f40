"""A coordinator or consumer of the next release, as far as the protocol's version goes: `python -m
tests.chaos.newer coordinator|consumer options...`. It announces the next version, in the epoch node
or in its registration, and does all else as the present release does: what a later version may
change is for that release to prove.
"""

from __future__ import annotations

import sys

from consumer import verifiable
from zkcoord.cli import main as cli
from zkcoord.zk.term import election
from zkcoord.znodes import registration

NEXT_VERSION = election.PROTOCOL_VERSION + 1


def main(argv: list[str]) -> int:
    """Run; the exit status of what was asked for."""
    for module in (election, registration):
        module.PROTOCOL_VERSION = NEXT_VERSION
    what, *options = argv
    return verifiable.main(options) if what == "consumer" else cli.main(argv)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
