"""What a finding is, what tells it from others, and where its input is kept."""

from __future__ import annotations

import hashlib
import traceback
from fnmatch import fnmatchcase
from pathlib import Path

from tests.fuzz.harness import Broken, Harness, outcome, overworked
from tests.fuzz.known import KNOWN
from tests.fuzz.making import smaller

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOUND = HERE / "found"
PRODUCT = ("zkcoord", "consumer", "migrations")
OVERWORKED = "Overworked"


def signature_of(error: BaseException) -> str:
    """The kind of error, and where of the product it comes out: `IndexError in
    zkcoord/guardian/handover.py (_parse_watch)`. Of a property that does not hold: which harness.
    """
    ours, tests = "", ""
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if not path.is_relative_to(ROOT) or path.name == "harness.py":
            continue
        inside = path.relative_to(ROOT)
        if inside.parts[0] in PRODUCT:
            ours = f"{inside.as_posix()} ({frame.name})"
        elif inside.parts[:2] == ("tests", "fuzz"):
            tests = f"{inside.as_posix()} ({frame.name})"
    return f"{type(error).__name__} in {tests if isinstance(error, Broken) else ours or tests}"


def found_in(harness: Harness, data: bytes) -> str:
    """The signature of what an input shows; "": nothing."""
    error = outcome(lambda: harness.check(data))
    return "" if error is None else signature_of(error)


def is_known(parser: str, signature: str) -> bool:
    """Whether it has a row in `known.py`."""
    return any(
        fnmatchcase(signature, one.signature) and one.file.startswith(f"{parser}/") for one in KNOWN
    )


def keep(harness: Harness, data: bytes, signature: str) -> Path:
    """The smallest input that shows the same, in a file of `found/`."""
    if signature.startswith(OVERWORKED):
        least = smaller(data, lambda part: bool(overworked(harness, part)), 100)
    else:
        least = smaller(data, lambda part: found_in(harness, part) == signature)
    path = FOUND / harness.name / f"{hashlib.sha256(least).hexdigest()[:12]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(least)
    return path
