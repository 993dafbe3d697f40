"""Java with a wall clock that can be put forward: libfaketime, where the machine has it (Debian:
the package libfaketime). The monotonic clock stays the machine's, as it does when an administrator
sets a clock.

FAKETIME_FORCE_MONOTONIC_FIX=0 is for Java's waits, which are by the monotonic clock: the library
would move their ends, too, and each would end at once (libfaketime 0.9.10, Java 17).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from zkcoord.stack.java import Java

PLACES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)
READ_AGAIN_S = 1


def library() -> Path | None:
    """Where it is; None where it is not."""
    return next((path for place in PLACES for path in sorted(Path("/").glob(place[1:]))), None)


class FakedClock:
    """The clock of all servers that run `java`. Made in a folder of its own; without the library it
    is the machine's, and `put_forward` must not be asked for.
    """

    def __init__(self, folder: Path, java: Java) -> None:
        found = library()
        self.file = folder / "clock"
        self.java = java
        if found is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.file.write_text("+0\n", encoding="ascii")
            wrapper = folder / "java"
            settings = (
                f"LD_PRELOAD={found} FAKETIME_TIMESTAMP_FILE={self.file}"
                f" FAKETIME_CACHE_DURATION={READ_AGAIN_S} FAKETIME_DONT_FAKE_MONOTONIC=1"
                " FAKETIME_FORCE_MONOTONIC_FIX=0"
            )
            wrapper.write_text(
                f'#!/bin/sh\nexec env {settings} {java.executable} "$@"\n', encoding="utf-8"
            )
            wrapper.chmod(0o755)
            self.java = replace(java, executable=wrapper.absolute())

    def put_forward(self, seconds: int) -> None:
        """So much ahead of the machine's, within `READ_AGAIN_S`; 0: the machine's."""
        ahead = self.file.with_suffix(".new")
        ahead.write_text(f"+{seconds}\n", encoding="ascii")
        ahead.rename(self.file)
