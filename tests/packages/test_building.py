"""Wheels with and without the extension, built by this Python's own tools; and what `make wheels`
checks, broken once each.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packages import __main__, building
from tests.packages.tools import ROOT, PackagingError, run

pytestmark = pytest.mark.slow
NO_COMPILER = {"CC": "no-compiler-here"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What setup.py needs of this checkout."""
    folder = tmp_path_factory.mktemp("source")
    for name in building.PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def wheel(source: Path, out: Path, extension: str, more: dict[str, str] | None = None) -> Path:
    """Built without a network."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    asked = {"ZKCOORD_EXTENSION": extension, **(more or {})}
    for made in ("build", "zkcoord.egg-info"):
        shutil.rmtree(source / made, ignore_errors=True)
    run([*pip, "--wheel-dir", out, source], source, asked)
    (found,) = out.glob("zkcoord-*.whl")
    return found


@pytest.fixture(scope="module")
def pure(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(source, tmp_path_factory.mktemp("pure"), "off", NO_COMPILER)


def test_the_pure_wheel_is_for_any_platform_and_has_no_extension(pure: Path) -> None:
    assert pure.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(pure).namelist()
    assert "consumer/spark/decode/engine_c.py" in names
    assert not [name for name in names if name.endswith(".so")]


ASKED = """
from consumer.spark.decode.engines import choose
from consumer.spark.decode.errors import EngineUnavailableError
print(*choose("auto"), sep="|")
try:
    choose("c")
except EngineUnavailableError as error:
    print(error)
"""


def test_without_the_extension_another_engine_reads_and_says_why(
    pure: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(pure) as archive:
        archive.extractall(tmp_path)
    said = run([sys.executable, "-c", ASKED], tmp_path, {"PYTHONPATH": str(tmp_path)})
    chosen, refused = said.strip().splitlines()
    assert chosen == f"confluent|{refused}"
    assert refused.startswith("the engine c is not built for this Python (")
    assert "install zkcoord's wheel for this platform" in refused


def test_an_extension_that_is_required_and_cannot_be_built_is_no_wheel(
    source: Path, tmp_path: Path
) -> None:
    with pytest.raises(PackagingError, match="no-compiler-here"):
        wheel(source, tmp_path, "required", NO_COMPILER)
    assert list(tmp_path.iterdir()) == []


def test_another_word_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(PackagingError, match="ZKCOORD_EXTENSION is 'of'"):
        wheel(source, tmp_path, "of")


def test_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is built, or what was built before is deleted."""
    monkeypatch.setattr(__main__, "tools", lambda name: tmp_path / "bin" / "python")
    (tmp_path / "kept").touch()
    with monkeypatch.context() as patched:
        patched.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
        assert __main__.main(["wheels", "--out", str(tmp_path)]) == __main__.MISSING
    assert "apt-get install python3-dev" in capsys.readouterr().err
    with monkeypatch.context() as patched:
        patched.setattr("platform.machine", lambda: "riscv64")
        assert __main__.main(["wheels", "--out", str(tmp_path)]) == __main__.MISSING
    assert "this machine is riscv64" in capsys.readouterr().err
    assert (tmp_path / "kept").exists()


def test_tools_that_cannot_be_installed_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZKCOORD_CACHE", str(tmp_path))
    for name in ("PIP_NO_INDEX", "PIP_NO_CACHE_DIR"):
        monkeypatch.setenv(name, "1")
    assert __main__.main(["kubernetes"]) == __main__.MISSING
    assert "tests/packages/kubernetes.lock cannot be installed" in capsys.readouterr().err
    assert not list(tmp_path.rglob(".ready"))


SHOWN = 'a.whl is consistent with the following platform tag: "{}". The wheel references ...'


@pytest.mark.parametrize(
    ("tag", "finding"),
    [
        ("manylinux_2_17_x86_64", ""),
        ("manylinux_2_5_x86_64", ""),
        ("manylinux_2_34_x86_64", "more than glibc 2.17"),
        ("linux_x86_64", "takes it for linux_x86_64"),
    ],
)
def test_a_wheel_for_newer_systems_only_is_seen(tag: str, finding: str) -> None:
    if not finding:
        assert building.told(SHOWN.format(tag)) == f"auditwheel: {tag}"
        return
    with pytest.raises(PackagingError, match=finding):
        building.told(SHOWN.format(tag))
