"""The extension is optional: an installation without a compiler works, and says which engine it
has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD_TIMEOUT_S = 300.0
ASK = "from consumer.spark.decode.engines import choose; print(*choose('auto'))"

pytestmark = pytest.mark.slow


def wheel(tmp_path: Path, **environment: str) -> Path:
    """Built from the sources alone, unpacked."""
    source = tmp_path / "source"
    for name in ("zkcoord", "consumer", "migrations"):
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
            )
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
        str(source),
    ]
    built = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(next(tmp_path.glob("zkcoord-*.whl"))).extractall(unpacked)
    return unpacked


def engine_of(unpacked: Path) -> str:
    """What such an installation says."""
    answer = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=unpacked,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_without_a_compiler(tmp_path: Path) -> None:
    unpacked = wheel(tmp_path, CC="/bin/false")
    assert not list(unpacked.rglob("_rdk*.so"))
    assert engine_of(unpacked).startswith("confluent the engine c is not built")


def test_with_a_compiler(tmp_path: Path) -> None:
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        pytest.skip("there is no compiler here")
    unpacked = wheel(tmp_path)
    if not list(unpacked.rglob("_rdk*.so")):
        pytest.skip("the compiler has no headers of Python")
    assert [built.name for built in unpacked.rglob("_rdk*.so")] == ["_rdk.abi3.so"]
    assert engine_of(unpacked).startswith("c librdkafka")
