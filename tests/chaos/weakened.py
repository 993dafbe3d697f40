"""A coordinator or consumer without one rule, to show that a run can fail: `python -m
tests.chaos.weakened RULE coordinator|consumer options...`. The rules are those that the simulator
goes without (`python -m tests.sim --list-variants`), as far as that needs nothing of its model.
"""

from __future__ import annotations

import sys

from consumer import verifiable
from tests.sim.variants import VARIANTS
from zkcoord.cli import main as cli

RULES = (
    "no_lease",
    "no_floor",
    "no_version_fence",
    "no_ack_check",
    "no_adoption",
    "no_eviction_wait",
    "no_epoch_fence",
    "no_stop_barrier",
    "no_ack_deadline",
    "no_clean",
    "no_one_command",
    "no_start_barrier",
)


def main(argv: list[str]) -> int:
    """Run; the exit status of what was asked for."""
    rule, what, *options = argv
    with VARIANTS[rule].applied():
        return verifiable.main(options) if what == "consumer" else cli.main([what, *options])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
