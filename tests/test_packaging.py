"""The package as a user gets it: a wheel, installed with nothing but its base dependencies into an
environment that has never seen this checkout.

pip fetches those dependencies once and keeps them in the cache, so that the test works without a
network from the second time on.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.__main__ import NO_ENGINE
from zkcoord import __version__
from zkcoord.stack.jars import KAFKA, KAFKA_TOOLS, cache_dir

ROOT = Path(__file__).parents[1]
PIP_TIMEOUT_S = 600.0
# What the base may bring with everything that it depends on. Something that appears here by
# accident makes every consumer process heavier.
BASE = {
    "zkcoord",
    "kazoo",
    "kafka-python",
    "crc32c",
    "tenacity",
    "google-re2",
    "orjson",
    "prometheus-client",
    "pip",
    "setuptools",
}

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run with nothing of this checkout in sight; AssertionError with the output unless it ends
    with `status`.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "JAVA_HOME", "VIRTUAL_ENV")
    }
    answer = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PIP_TIMEOUT_S,
        check=False,
    )
    assert answer.returncode == status, answer.stdout + answer.stderr
    return answer


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy of what git would commit, so that no build
    folder is left here and none is reused.
    """
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("zkcoord", "consumer", "migrations"):
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, source / name)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        target,
        source,
        cwd=source,
    )
    return next(target.glob("zkcoord-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The `bin` folder of a clean environment with the wheel and its base dependencies."""
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    run(
        folder / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--find-links",
        dependencies(wheel),
        wheel,
        cwd=folder,
    )
    yield folder / "bin"
    shutil.rmtree(folder)


def dependencies(wheel: Path) -> Path:
    """The folder with the wheels of the base dependencies, filled at the first call on a machine;
    another setup.py or another Python gets another folder.
    """
    key = hashlib.sha256((ROOT / "setup.py").read_bytes() + sys.version.encode()).hexdigest()[:16]
    final = cache_dir() / f"wheels-{key}"
    if not final.is_dir():
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".wheels-", dir=final.parent))
        run(
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--wheel-dir",
            partial,
            wheel,
            cwd=partial,
        )
        for own in partial.glob("zkcoord-*.whl"):
            own.unlink()
        try:
            partial.rename(final)
        except OSError:  # another run was faster
            shutil.rmtree(partial)
    return final


def test_the_wheel_holds_the_lock_file_and_the_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        f"zkcoord/stack/{KAFKA.lock.name}",
        f"zkcoord/stack/{KAFKA_TOOLS.lock.name}",
        "zkcoord/py.typed",
        "consumer/py.typed",
        "zkcoord/stack/keeper.py",
    } <= names
    # setuptools has put it into a folder of its own since 77
    (license_file,) = (name for name in names if name.endswith("/LICENSE"))
    assert license_file.startswith(f"zkcoord-{__version__}.dist-info/")
    assert not [name for name in names if name.startswith("tests")]


def test_the_wheel_offers_the_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"zkcoord-{__version__}.dist-info/METADATA").decode("utf-8")
    offered = {
        line.partition(": ")[2]
        for line in metadata.splitlines()
        if line.startswith("Provides-Extra: ")
    }
    assert offered == {"cli", "console", "demo", "librdkafka", "otel", "sasl", "spark", "test"}
    assert "Requires-Python: >=3.10" in metadata


def test_the_base_is_light(installed: Path) -> None:
    answer = run(
        installed / "python",
        "-c",
        "import importlib.metadata as m; print(*sorted({d.metadata['Name'].lower().replace('_',"
        " '-') for d in m.distributions()}))",
        cwd=installed,
    )
    assert set(answer.stdout.split()) <= BASE


@pytest.mark.parametrize("module", ["zkcoord", "zkcoord.cli.main", "zkcoord.stack.cli", "consumer"])
def test_the_base_imports(installed: Path, module: str) -> None:
    run(installed / "python", "-W", "error", "-c", f"import {module}", cwd=installed)


def test_the_command_is_installed(installed: Path) -> None:
    assert __version__ in run(installed / "zkcoord", "--version", cwd=installed).stdout


def test_the_stack_without_its_extra_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    answer = run(installed / "python", "-m", "zkcoord.stack.cli", "up", cwd=tmp_path, status=1)
    assert answer.stderr.count("\n") == 1 and "pip install" in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_nightly_run_has_the_containers_too() -> None:
    """Where there is no engine it says so, and that alone fails nothing."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    nightly = text.split("\nnightly:", 1)[1].split("\n\n", 1)[0]
    assert f"-m tests.docker || test $$? -eq {NO_ENGINE} ||" in nightly
