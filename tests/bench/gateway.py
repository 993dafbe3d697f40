"""Unmodified clients through the gateway beside the same clients directly on the same broker.

    python -m tests.bench.gateway [--quick] [--part NAME ...] [--only CLIENT ...]
                                  [--assignors NAME ...] [--rounds N]

One broker, one coordinator, one gateway. The parts:

changes     how long a group of each kind of client needs for a join, a leave, a kill, to form
            (--only, --assignors and --rounds are of this part; `gateway_changes`)
relay       how fast consumers read, and what a GB costs the gateway (`gateway_relay`)
produce     how fast producers write, and how soon it is acknowledged (`gateway_produce`)
spread      the same changes, with the clients at two gateways (`gateway_spread`)
stuck       a client is stuck in its handler while another joins (`gateway_stuck`)
lost        one of two gateways is killed (`gateway_lost`)
many        a thousand light members, and further joins beside them (`gateway_many`)

Writes build/reports/bench-gateway.json. The exit status is 0 when every bar is reached, 4 when
every bar is reached and a client could not be measured because its toolchain is missing (its row
says which), else 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench import (
    gateway_changes,
    gateway_lost,
    gateway_many,
    gateway_produce,
    gateway_relay,
    gateway_spread,
    gateway_stuck,
)
from tests.bench.figures import Section
from tests.bench.gateway_clients import KINDS, NAMED, OWN
from tests.bench.gateway_place import Place, running_place
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named, say
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import running_stack

CHANGES = "changes"
OTHERS = {
    "relay": gateway_relay.run,
    "produce": gateway_produce.run,
    "spread": gateway_spread.run,
    "stuck": gateway_stuck.run,
    "lost": gateway_lost.run,
    "many": gateway_many.run,
}
PARTS = (CHANGES, *OTHERS)
MISSING = 4


def parts_of(place: Place, args: argparse.Namespace) -> dict[str, Part]:
    """Each kind of client is a part of its own: its table comes when it is whole."""
    rounds = args.rounds or (gateway_changes.QUICK_ROUNDS if args.quick else gateway_changes.ROUNDS)

    def other(name: str) -> Part:
        def run(sections: list[Section]) -> None:
            OTHERS[name](place, sections, args.quick)

        return run

    kinds = {kind: gateway_changes.part_of(place, kind, args.assignors, rounds) for kind in KINDS}
    return {**kinds, **{name: other(name) for name in OTHERS}}


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.gateway",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="less of each")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--assignors", nargs="+", choices=[*NAMED, OWN, "default"], default=[])
    parser.add_argument(
        "--rounds", type=int, help=f"joins of each (default: {gateway_changes.ROUNDS})"
    )
    args = parser.parse_args(arguments)
    wanted = [*(args.only if CHANGES in args.part else ()), *(p for p in OTHERS if p in args.part)]

    def measured(folder: Path) -> int:
        java = find_java()
        with running_stack(folder / "stack", progress=say) as stack:
            status = stack.status()
            assert status.zookeeper is not None and status.kafka is not None
            with running_place(
                folder, java, status.zookeeper.address, status.kafka.address
            ) as place:
                sections = measure_all(parts_of(place, args), wanted)
        report = report_named("bench-gateway", wanted, [*KINDS, *OTHERS])
        options = {"rounds": args.rounds, "quick": args.quick}
        ended = conclude(sections, options, str(java.executable), report, "gateway")
        return ended or (MISSING if any(map(gateway_changes.is_missing, sections)) else 0)

    return measured_in_a_folder(measured)


if __name__ == "__main__":
    sys.exit(main())
