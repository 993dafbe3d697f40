"""`python -m tests.packages wheels|demo|image|kubernetes|sbom|audit`: see `tests.packages`.

Exit status: 0 done and right, 1 a check has failed, 4 something is missing on this machine (one
sentence says what), 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.packages import building, image, installing, listing, manifests
from tests.packages.tools import ROOT, MissingToolError, PackagingError, tools
from zkcoord import __version__

FAILED, MISSING, INTERRUPTED = 1, 4, 130
OUT = ROOT / "build" / "dist"


def say(sentence: str) -> None:
    """For people, at once."""
    print(sentence, flush=True)


def _built(folder: Path, out: Path) -> building.Built:
    python = tools("build")
    built = building.build(python, folder / "building", out, say)
    building.check(built, python, folder, __version__, say)
    (out / "SHA256SUMS").write_text(building.sums(built), encoding="utf-8")
    return built


def wheels(folder: Path, args: argparse.Namespace) -> None:
    """Build, check, install each."""
    built = _built(folder, args.out)
    for wheel, compiled in ((built.compiled, True), (built.pure, False)):
        installing.check_installed(wheel, compiled, folder / wheel.stem, say)
    for path in built.files():
        say(f"{path.stat().st_size / 1e6:8.2f} MB  {path}")


def demo(folder: Path, args: argparse.Namespace) -> None:
    """Build, run the demo out of each wheel."""
    installing.run_demo(_built(folder, args.out), tools("build"), folder / "demo", say)


COMMANDS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "wheels": wheels,
    "demo": demo,
    "image": lambda folder, args: say(f"{image.make(args.base, say)} is there"),
    "kubernetes": lambda folder, args: say(manifests.validated(tools("kubernetes"))[1]),
    "sbom": lambda folder, args: listing.list_all(tools("sbom"), args.out, say),
    "audit": lambda folder, args: listing.audit(tools("sbom"), folder, say),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    p = argparse.ArgumentParser(prog="python -m tests.packages", allow_abbrev=False)
    p.add_argument("command", choices=COMMANDS)
    p.add_argument("--out", type=Path, default=OUT, metavar="FOLDER", help="default: build/dist")
    p.add_argument("--base", default="", metavar="IMAGE", help="what `image` builds on")
    args = p.parse_args(argv)
    args.out = args.out.absolute()
    try:
        with tempfile.TemporaryDirectory(prefix="zkcoord-packages-") as folder:
            COMMANDS[args.command](Path(folder), args)
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
