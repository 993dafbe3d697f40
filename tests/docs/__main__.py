"""`python -m tests.docs [--external]`: see `tests.docs`.

Exit status: 0 done (also where links to other hosts lead nowhere), 1 a check has failed, 4
something is missing on this machine (one sentence says what), 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.docs import building
from tests.packages.tools import ROOT, MissingToolError, PackagingError

FAILED, MISSING, INTERRUPTED = 1, 4, 130
OUT = ROOT / "build" / "site"
EXAMPLES = """\
examples:
  python -m tests.docs                    build/site/index.html; a link that leads nowhere fails
  python -m tests.docs --external         links to other hosts, which are only reported
"""


def say(sentence: str) -> None:
    """For people, at once."""
    print(sentence, flush=True)


def report(out: Path) -> None:
    """Links to other hosts."""
    found = building.external(out)
    for sentence in found:
        say(sentence)
    say(f"{len(found)} links to other hosts lead nowhere")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    p = argparse.ArgumentParser(
        prog="python -m tests.docs",
        description="docs/ as a site, its links, and its reference",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("--external", action="store_true", help="follow links to other hosts instead")
    p.add_argument("--out", type=Path, default=OUT, metavar="FOLDER", help="default: build/site")
    args = p.parse_args(argv)
    out = args.out.absolute()
    try:
        if args.external:
            report(out.with_name(out.name + "-external"))
        else:
            say(building.made(out))
    except MissingToolError as error:
        print(error, file=sys.stderr)
        return MISSING
    except PackagingError as error:
        print(error, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
