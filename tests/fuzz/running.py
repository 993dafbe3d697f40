"""Runs parsers under atheris, one process after the other, and says what came of each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz import sanitized
from tests.fuzz.finding import FOUND, ROOT, is_known, keep
from tests.fuzz.harness import Harness
from tests.fuzz.parsers import module_of

BUILD = ROOT / "build" / "fuzz"
TRACE_CHARS = 3_000
SANITIZED_MAX = 20_000
HANG_S, MEMORY_MB = 600, 4_096
LINE = re.compile(r"#(\d+)\s+(?:DONE|INITED|NEW|REDUCE|RELOAD|pulse)\s+cov: (\d+) ft: (\d+)")
SPEED = re.compile(r"stat::average_exec_per_sec:\s+(\d+)")
UNITS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")


@dataclass
class ParserRun:
    """What came of one. `files`: new findings, as kept; `known`: signatures of those that are;
    `trouble`: why it did not come to its end; `note`: what else was done.
    """

    parser: str
    inputs: int = 0
    edges: int = 0
    features: int = 0
    per_second: int = 0
    files: list[Path] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    trouble: str = ""
    note: str = ""

    def row(self) -> str:
        """A line of the table."""
        said = f"{len(self.files)} new, {len(self.known)} known"
        said += f" ({self.note})" if self.note else ""
        return (
            f"{self.parser:22} {self.inputs:>9} {self.edges:>7} {self.features:>9}"
            f" {self.per_second:>8}  {said if not self.trouble else self.trouble}"
        )


HEADING = f"{'PARSER':22} {'INPUTS':>9} {'EDGES':>7} {'FEATURES':>9} {'PER S':>8}  FINDINGS"


def run_parser(python: Path, harness: Harness, inputs: int, seconds: int) -> ParserRun:
    """So many inputs, or so many seconds (0: however long it takes)."""
    corpus, findings = prepared(harness)
    command = [
        *(str(python), "-m", "tests.fuzz.target", module_of(harness.name)),
        *(harness.name, str(findings)),
        *(f"-runs={inputs}", f"-max_len={harness.bytes_max}", f"-dict={corpus.parent / 'words'}"),
        *(f"-timeout={HANG_S}", f"-rss_limit_mb={MEMORY_MB}", "-print_final_stats=1"),
        *(
            f"-artifact_prefix={corpus.parent}/",
            *([f"-max_total_time={seconds}"] if seconds else ()),
        ),
        str(corpus),
    ]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    (corpus.parent / "log").write_text(ended.stderr, encoding="utf-8")
    run = ParserRun(harness.name)
    for found in LINE.finditer(ended.stderr):
        run.inputs, run.edges, run.features = map(int, found.groups())
    for pattern, name in ((UNITS, "inputs"), (SPEED, "per_second")):
        said = pattern.search(ended.stderr)
        if said is not None:
            setattr(run, name, int(said[1]))
    if ended.returncode:
        run.trouble = f"ended with {ended.returncode}: see {corpus.parent / 'log'}"
        run.files += kept_as_it_is(harness.name, corpus.parent)
    judge(run, harness, findings)
    if harness.name == sanitized.PARSER and not run.trouble:
        under_sanitizers(run, min(inputs, SANITIZED_MAX), corpus.parent)
    return run


def under_sanitizers(run: ParserRun, inputs: int, home: Path) -> None:
    """The extension in C once more, where gcc has its sanitizers."""
    more = sanitized.environment()
    if more is None:
        run.note = "without sanitizers, which gcc lacks here"
        return
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.sanitized", str(inputs), str(home)],
        cwd=ROOT,
        env={**environment(), **more},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if ended.returncode:
        (home / "log").write_text(ended.stderr, encoding="utf-8")
        run.trouble = f"ended with {ended.returncode} under sanitizers: see {home / 'log'}"
        run.files += kept_as_it_is(run.parser, home)
    else:
        run.note = f"{ended.stdout.strip()} more under AddressSanitizer"


def kept_as_it_is(parser: str, home: Path) -> Iterator[Path]:
    """What a process was given when it died of it (a sanitizer), took too long or too much memory:
    it cannot be made smaller here.
    """
    for kind in ("crash", "timeout", "oom"):
        for given in home.glob(f"{kind}-*"):
            path = FOUND / parser / f"{given.name[:18]}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            given.rename(path)
            yield path


def judge(run: ParserRun, harness: Harness, findings: Path) -> None:
    """Tell new ones from known ones; of the new ones keep the smallest input that can be found."""
    latest: dict[str, dict[str, str]] = {}
    for line in findings.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        latest[told["signature"]] = told
    for signature, told in latest.items():
        if is_known(run.parser, signature):
            run.known.append(signature)
            continue
        path = keep(harness, bytes.fromhex(told["input"]), signature)
        run.files.append(path)
        print(
            f"{run.parser}: {signature}: {path.relative_to(ROOT)}\n{told['trace'][-TRACE_CHARS:]}"
        )


def prepared(harness: Harness) -> tuple[Path, Path]:
    """Its corpus, which stays from run to run, with the seeds and what was found in it; and an
    empty file for findings.
    """
    home = BUILD / harness.name
    corpus, findings = home / "corpus", home / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(harness.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    for path in (FOUND / harness.name).glob("*.bin"):
        (corpus / path.name).write_bytes(path.read_bytes())
    words = [f'"{escaped(word)}"' for word in harness.words if 0 < len(word) <= 64]
    (home / "words").write_text("\n".join(words) + "\n", encoding="ascii")
    findings.write_bytes(b"")
    return corpus, findings


def escaped(word: bytes) -> str:
    """As a dictionary of libFuzzer's has it."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in word)


def environment() -> Mapping[str, str]:
    """Our packages beside atheris'."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *packages])}


def cheapest_first(harnesses: Mapping[str, Harness]) -> Iterator[Harness]:
    """Those that are given short inputs first."""
    return iter(sorted(harnesses.values(), key=lambda one: (one.bytes_max, one.name)))
