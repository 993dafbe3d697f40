"""The extension in C under sanitizers: what a fuzzer has collected, and inputs made without one.

    python -m tests.fuzz.sanitized INPUTS HOME

gcc's libasan takes the place of what libFuzzer hears of coverage by, so both at once see nothing:
first the fuzzer runs without sanitizers, then this on its corpus, HOME/corpus, in a Python that was
started with them. What it is given just now is in HOME/crash-now: a sanitizer ends the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.fuzz import shim
from tests.fuzz.harness import Harness
from tests.fuzz.making import inputs
from tests.fuzz.parsers import harness_in

PARSER, MODULE = "c-extension", "tests.fuzz.parsers.records"


def environment() -> Mapping[str, str] | None:
    """What a Python with sanitizers is started with, beside our own; None: gcc has none here."""
    preload = shim.preloaded()
    if preload is None:
        return None
    return {
        "LD_PRELOAD": preload,
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:exitcode=99",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        shim.SANITIZED: "1",
    }


def given(harness: Harness, corpus: Path, count: int) -> Iterator[bytes]:
    """What there is, then more."""
    yield from (path.read_bytes() for path in sorted(corpus.iterdir()))
    yield from inputs(harness, count)


def main(count: int, home: Path) -> int:
    """How many were looked at is its last line."""
    if shim.built() is None or not os.environ.get(shim.SANITIZED):
        return 4
    harness, now, looked_at = harness_in(MODULE, PARSER), home / "crash-now", 0
    for data in given(harness, home / "corpus", count):
        now.write_bytes(data)
        harness.check(data)
        looked_at += 1
    now.unlink(missing_ok=True)
    print(looked_at)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
