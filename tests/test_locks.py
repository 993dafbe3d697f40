"""What CI and the image install is pinned: every package in one version, every file by its hash,
and all that setup.py asks for is there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)(?: ; [^\\]+?)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")
LOCKS = {
    "docker/build.lock": None,
    "docker/image.lock": ("cli", "sasl", "console"),
    ".ci/test.lock": ("test", "cli"),
    ".ci/java.lock": None,
    "tests/gateway/aiokafka.lock": None,
    "tests/packages/build.lock": None,
    "tests/packages/fuzz.lock": None,
    "tests/packages/kubernetes.lock": None,
    "tests/packages/sbom.lock": None,
    "tests/packages/site.lock": (),
}


def pinned(path: str) -> dict[str, int]:
    """Package -> how many hashes it has; each line is one of the three forms, or a comment."""
    found: dict[str, int] = {}
    latest = ""
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        start = PINNED.match(line)
        if start is not None:
            latest = _same(start[1])
            found.setdefault(latest, 0)
        else:
            assert HASH.match(line), f"{path}: {line}"
            found[latest] += 1
    return found


def _same(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(extras: tuple[str, ...]) -> set[str]:
    """What setup.py asks for, with these extras."""
    program = (
        "import json, runpy, setuptools; found = {};"
        " setuptools.setup = lambda **g: found.update(g);"
        " runpy.run_path('setup.py'); print(json.dumps([found['install_requires'],"
        " found['extras_require']]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    base, more = json.loads(done.stdout)
    texts = [*base, *(text for extra in extras for text in more[extra])]
    return {_same(re.split(r"[\[<>=!~; ]", text)[0]) for text in texts}


@pytest.mark.parametrize("path", LOCKS)
def test_every_package_is_pinned_with_hashes(path: str) -> None:
    found = pinned(path)
    assert found and all(found.values()), found
    extras = LOCKS[path]
    if extras is not None:
        assert wanted(extras) <= set(found), wanted(extras) - set(found)


def test_who_installs_by_them() -> None:
    dockerfile, ci, makefile = (
        (ROOT / path).read_text(encoding="utf-8")
        for path in ("docker/Dockerfile", ".ci/run", "Makefile")
    )
    assert "ARG LOCK=docker/image.lock" in dockerfile
    assert dockerfile.count("--require-hashes") == 2 and "docker/build.lock" in dockerfile
    assert "export LOCK=.ci/test.lock" in ci and "--require-hashes" in makefile
    for path in LOCKS:
        assert f"--output-file {path}" in makefile, path
    for installs in re.findall(r"pip install ([^&;\\]+)", dockerfile):
        assert any(word in installs for word in ("--require-hashes", "--no-index", "EXTRAS")), (
            installs
        )
