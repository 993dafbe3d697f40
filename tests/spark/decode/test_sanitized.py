"""The extension under AddressSanitizer and UndefinedBehaviorSanitizer: compiled for it, loaded into
a Python that takes its memory from malloc (so that every buffer has its guards), and made to read
what the other tests read.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

from consumer.spark.plan import PlannedRange
from tests.spark.decode.conftest import DecodeBroker
from tests.spark.decode.stress import digest
from tests.spark.decode.written import COMMITTED, UNCOMMITTED, Log

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

ROOT = Path(__file__).parents[3]
COMPILE_TIMEOUT_S, RUN_TIMEOUT_S = 300.0, 1_200.0
RANGES = 200
DISTURB_EVERY = 7
LIBRARIES = ("libasan.so", "libubsan.so")


def library(name: str) -> str | None:
    """Where gcc has it."""
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"],
        capture_output=True,
        text=True,
        timeout=COMPILE_TIMEOUT_S,
        check=True,
    ).stdout.strip()
    return found if os.path.isabs(found) else None


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension, compiled with both sanitizers."""
    if shutil.which("gcc") is None or not all(map(library, LIBRARIES)):
        pytest.skip("there is no gcc with its sanitizers here")
    built = tmp_path_factory.mktemp("sanitized") / "_rdk.so"
    source = ROOT / "consumer" / "spark" / "decode" / "_rdk.c"
    flags = [
        "-std=c11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-g",
        "-O1",
        "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined",
        "-shared",
        "-fPIC",
        f"-I{sysconfig.get_paths()['include']}",
    ]
    subprocess.run(
        ["gcc", *flags, str(source), "-o", str(built)], timeout=COMPILE_TIMEOUT_S, check=True
    )
    return built


def test_many_ranges(sanitized: Path, broker: DecodeBroker, logs: Mapping[str, Log]) -> None:
    drawn = random.Random(20)
    orders, expected = [], []
    for number in range(RANGES):
        log = logs[drawn.choice(sorted(set(logs) - {"compacted"}))]
        start, end = sorted(drawn.choices(range(log.end + 1), k=2)) if number % 10 else (0, log.end)
        isolation = drawn.choice([UNCOMMITTED, COMMITTED])
        orders.append(
            {
                "topic": log.topic,
                "partition": log.partition,
                "start": start,
                "end": end,
                "isolation": isolation,
                "rows_max": drawn.choice([1, 2, 8, 63, 500, 16_384]),
            }
        )
        expected.append(
            digest(log.within(PlannedRange(log.topic, log.partition, start, end), isolation))
        )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": " ".join(filter(None, map(library, LIBRARIES))),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    told = json.dumps(
        {"bootstrap": broker.address, "disturb_every": DISTURB_EVERY, "ranges": orders}
    )
    answer = subprocess.run(
        [sys.executable, "-m", "tests.spark.decode.stress", str(sanitized)],
        input=told,
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-6_000:]
    assert "Sanitizer" not in answer.stderr and "runtime error" not in answer.stderr, answer.stderr[
        -6_000:
    ]
    assert [json.loads(line)["digest"] for line in answer.stdout.splitlines()] == expected
