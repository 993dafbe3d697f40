"""One parser under atheris, in a process of its own (`tests.fuzz.running` starts it).

    python -m tests.fuzz.target MODULE PARSER FINDINGS [arguments of libFuzzer]

What a harness raises does not end it: each kind of finding is written into the file FINDINGS once,
and again when a shorter input shows it. The input that took longest for its size so far is looked
at once more, with its lines of Python and its memory counted.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from typing import Any

import atheris

INSTRUMENTED = atheris.instrument_imports(
    include=["zkcoord", "consumer", "migrations", "kafka.protocol", "kafka.record"]
)
with INSTRUMENTED:
    from tests.fuzz.finding import OVERWORKED, signature_of
    from tests.fuzz.harness import Harness, overworked
    from tests.fuzz.parsers import harness_in

SLOW_NS = 2_000_000
SLOWER = 1.5
SIZE_OF_NOTHING = 256


class FuzzTarget:
    """Counts what is new. `findings` is a file, one JSON object a line."""

    def __init__(self, harness: Harness, findings: str) -> None:
        self._harness = harness
        self._findings = findings
        self._shortest: dict[str, int] = {}
        self._slowest = 0.0

    def one(self, data: bytes) -> None:
        """An input."""
        began = time.perf_counter_ns()
        try:
            self._harness.check(data)
        except Exception as error:
            self._tell(signature_of(error), data, traceback.format_exc())
        took = time.perf_counter_ns() - began
        ratio = took / (len(data) + SIZE_OF_NOTHING)
        if took > SLOW_NS and ratio > SLOWER * self._slowest:
            self._slowest = ratio
            why = overworked(self._harness, data)
            if why:
                self._tell(OVERWORKED, data, why)

    def _tell(self, signature: str, data: bytes, trace: str) -> None:
        if len(data) >= self._shortest.get(signature, sys.maxsize):
            return
        self._shortest[signature] = len(data)
        told: dict[str, Any] = {"signature": signature, "input": data.hex(), "trace": trace}
        with open(self._findings, "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


def main() -> None:
    """Does not return."""
    module, name, findings, *arguments = sys.argv[1:]
    with INSTRUMENTED:
        harness = harness_in(module, name)
        harness.check(b"")  # what is made, or imported, when it is needed first
    target = FuzzTarget(harness, findings)
    atheris.Setup([sys.argv[0], *arguments], target.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
