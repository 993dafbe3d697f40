"""Where the old consumers' classes come from: Maven artifacts with lock files like Kafka's own, and
the harness, compiled against each release by a compiler that is a jar too.

A Java runtime brings no compiler, and the tests ask for nothing but a runtime: so the compiler
(Eclipse's) is fetched and verified like the rest. What it makes is kept in the cache under a name
that changes with the source and the release, so it is made once.

    python -m tests.legacy.jars [1.1.1 ...]     fetches and compiles what is missing of these
                                                releases (of all), for later without a network
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.process import owned_command

HERE = Path(__file__).parent
SOURCE = HERE / "java" / "LegacyHarness.java"
MAIN_CLASS = "LegacyHarness"
COMPILE_TIMEOUT_S = 300.0
LANGUAGE = "8"

V1_1, V0_11, V0_8 = "1.1.1", "0.11.0.3", "0.8.2.2"
RELEASES = {
    V1_1: jars.Artifact(
        "org.apache.kafka", "kafka_2.12", V1_1, HERE / "kafka-1.1.1.lock", megabytes=20, seconds=40
    ),
    V0_11: jars.Artifact(
        "org.apache.kafka",
        "kafka_2.12",
        V0_11,
        HERE / "kafka-0.11.0.3.lock",
        megabytes=16,
        seconds=40,
    ),
    V0_8: jars.Artifact(
        "org.apache.kafka",
        "kafka_2.11",
        V0_8,
        HERE / "kafka-0.8.2.2.lock",
        megabytes=14,
        seconds=40,
    ),
}
COMPILER = jars.Artifact(
    "org.eclipse.jdt", "ecj", "3.39.0", HERE / "ecj-3.39.0.lock", megabytes=4, seconds=20
)


def release_classpath(version: str, java: Java, progress: jars.Progress = lambda _: None) -> str:
    """Class path of a release, a logger first; it holds the consumer, the tools and the broker.
    Fetched if it is not there.
    """
    return os.pathsep.join(
        [jars.logging_classpath(), *map(str, jars.resolve(RELEASES[version], java, progress))]
    )


def harness_classpath(version: str, java: Java, progress: jars.Progress = lambda _: None) -> str:
    """Class path of the harness with a release, compiled if it is not there."""
    release = release_classpath(version, java, progress)
    home = jars.cache_dir() / "legacy"
    home.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    final = home / f"harness-{version}-{digest}"
    with (home / f".{version}.lock").open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not final.is_dir():
            progress(f"Compiling {SOURCE.name} against Kafka {version} ...")
            partial = Path(tempfile.mkdtemp(prefix=".harness-", dir=home))
            try:
                _compile(release, java, partial, progress)
                partial.rename(final)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return os.pathsep.join([str(final), release])


def compiled(
    source: Path, java: Java, progress: jars.Progress = lambda _: None, class_path: str = ""
) -> str:
    """Class path of a source file that needs nothing but Java, and what stands on `class_path`;
    compiled if it is not there.
    """
    home = jars.cache_dir() / "legacy"
    home.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(source.read_bytes() + class_path.encode()).hexdigest()[:16]
    final = home / f"{source.stem}-{digest}"
    with (home / f".{source.stem}.lock").open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not final.is_dir():
            partial = Path(tempfile.mkdtemp(prefix=".compiled-", dir=home))
            try:
                _compile(class_path, java, partial, progress, source)
                partial.rename(final)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return str(final)


def _compile(
    class_path: str, java: Java, target: Path, progress: jars.Progress, source: Path = SOURCE
) -> None:
    compiler = os.pathsep.join(map(str, jars.resolve(COMPILER, java, progress)))
    command = [
        str(java.executable),
        "-XX:+UseSerialGC",
        "-cp",
        compiler,
        "org.eclipse.jdt.internal.compiler.batch.Main",
    ]
    command += [
        f"-{LANGUAGE}",
        "-proc:none",
        "-nowarn",
        "-encoding",
        "UTF-8",
        "-cp",
        class_path,
        "-d",
        str(target),
        str(source),
    ]
    answer = subprocess.run(
        owned_command(command),
        capture_output=True,
        text=True,
        timeout=COMPILE_TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if answer.returncode != 0:
        raise StackError(f"{source.name} does not compile: {answer.stdout}{answer.stderr}")


def main(versions: Sequence[str]) -> int:
    """Fetch and compile what is missing, saying so."""
    try:
        java = find_java()
        for version in versions or RELEASES:
            harness_classpath(version, java, lambda sentence: print(sentence, flush=True))
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
