"""Check the formal specification in docs/spec with TLC.

Each configuration must hold, and each rule of the protocol that is taken out must be missed: TLC
must find what goes wrong without it. Then runs of the simulator are followed: each transaction must
be one that the specification allows.

Exit status: 0; 1 with a sentence for what did not come out as it must; 4 where Java or TLC is
missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.spec.configurations import (
    BASE,
    CONFIGURATIONS,
    LIVENESS,
    REMOVED,
    SIZES,
    Configuration,
    Removed,
)
from tests.spec.tlc import SPEC, Checked, check, java_for_tlc, promising, setting, tla_jar
from tests.spec.traces import MIXES_COVERED, check_traces
from zkcoord.errors import StackError, ZkcoordError

MISSING = 4
EXAMPLES = """examples:
  python -m tests.spec                         small and medium configurations, each removed rule,
                                               some runs of the simulator
  python -m tests.spec --size large            the large ones, too (nightly)
  python -m tests.spec --only EpochFence       one rule, with the steps of what goes wrong
  python -m tests.spec --only medium           one configuration
  python -m tests.spec --only traces --seeds 200 --mix all
"""
TRACES = "traces"


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.spec",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", choices=SIZES, default="medium", help="up to which size")
    parser.add_argument("--only", metavar="NAME", default="", help="a configuration or a rule")
    parser.add_argument("--workers", type=int, default=2, help="of TLC (2)")
    parser.add_argument("--memory", type=int, default=3_000, metavar="MB", help="of TLC (3000)")
    parser.add_argument("--seeds", type=int, default=10, help="runs of the simulator per mix (10)")
    parser.add_argument("--mix", default="all", help=f"all, or one of {', '.join(MIXES_COVERED)}")
    parser.add_argument("--list", action="store_true", help="print what there is")
    parser.add_argument("--verbose", action="store_true", help="print what TLC says, too")
    given = parser.parse_args(arguments)
    names = [c.name for c in CONFIGURATIONS] + [r.rule for r in REMOVED] + [TRACES]
    if given.list:
        print("\n".join(dict.fromkeys(names)))
        return 0
    if given.only and given.only not in names:
        parser.error(f"there is no {given.only}: --list says what there is")
    if given.mix not in ("all", *MIXES_COVERED):
        parser.error(f"events of the mix {given.mix} are not in the specification")
    try:
        java_for_tlc()
        tla_jar()
    except StackError as error:
        print(str(error), file=sys.stderr)
        return MISSING
    try:
        failed = _all(given)
    except ZkcoordError as error:
        print(str(error), file=sys.stderr)
        return 1
    for sentence in failed:
        print(sentence, file=sys.stderr)
    return 1 if failed else 0


def _all(given: argparse.Namespace) -> list[str]:
    sizes = SIZES[: SIZES.index(given.size) + 1]
    failed: list[str] = []
    for one in CONFIGURATIONS:
        if given.only == one.name or (not given.only and one.size in sizes):
            failed += _holds(one, given)
    for rule in REMOVED:
        if given.only in ("", rule.rule):
            failed += _is_needed(rule, given)
    if given.only in ("", TRACES):
        for mix in MIXES_COVERED if given.mix == "all" else (given.mix,):
            failed += _followed(mix, given)
    return failed


def _told(name: str, said: Checked, given: argparse.Namespace) -> None:
    how = f"breaks {said.broken} in {len(said.steps)} steps" if said.broken else "holds"
    print(
        f"{name:<36} {said.failure or how}: {said.distinct:,} states"
        f" ({said.generated:,} generated, depth {said.depth}), {said.seconds:.1f} s",
        flush=True,
    )
    if given.verbose:
        print(said.text, flush=True)


def _holds(one: Configuration, given: argparse.Namespace) -> list[str]:
    text = (SPEC / f"{one.name}.cfg").read_text()
    said = check(one.module, text, given.workers, given.memory)
    _told(one.name, said, given)
    if said.failure:
        return [f"{one.name}: TLC gave no answer: {said.failure}"]
    return [f"{one.name}: {said.broken} does not hold"] if said.broken else []


def removed_text(rule: Removed, in_force: bool = False) -> str:
    """The configuration in which this rule is not in force (or is), and only what it must break is
    asked for.
    """
    text = (SPEC / f"{BASE[rule.module]}.cfg").read_text()
    text = setting(text, {**rule.world, rule.rule: "TRUE" if in_force else "FALSE"})
    if rule.breaks in LIVENESS:
        return promising(text, (), (rule.breaks,))
    return promising(text, (rule.breaks,), ())


def _is_needed(rule: Removed, given: argparse.Namespace) -> list[str]:
    said = check(rule.module, removed_text(rule), given.workers, given.memory)
    _told(f"without {rule.rule}", said, given)
    if given.only:
        print("  " + "\n  ".join(said.steps))
    if said.failure:
        return [f"without {rule.rule}: TLC gave no answer: {said.failure}"]
    if not said.broken:
        return [f"without {rule.rule} {rule.breaks} holds all the same"]
    control = check(rule.module, removed_text(rule, True), given.workers, given.memory)
    if control.broken or control.failure:
        return [f"with {rule.rule} {rule.breaks} does not hold either: {control.failure}"]
    return []


def _followed(mix: str, given: argparse.Namespace) -> list[str]:
    said = check_traces(mix, range(given.seeds))
    how = "are refused" if said.refused else "are behaviours of the specification"
    print(f"{said.runs} runs of the mix {mix:<14} {how}: {said.events:,} events", flush=True)
    return [f"{mix}: {one}" for one in said.refused]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
