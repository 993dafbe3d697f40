"""The images of the suite: ours, built from docker/Dockerfile on a base that also has a Java for
the servers.

The base is the one in ZKCOORD_DOCKER_BASE; else Debian with what is missing installed, where a
registry answers; else one made here out of Debian packages (mmdebstrap). Our packages come as
wheels from this machine, so that a build needs no network, which an engine of our own may not have.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from docker.errors import APIError, BuildError, DockerException, ImageNotFound

import docker
from tests.docker.engine import NoEngineError

ROOT = Path(__file__).parents[2]
NAME = "zkcoord-suite"
BASE = "zkcoord-suite-base"
PUBLIC_BASE = "debian:bookworm-slim"
EXTRAS = "sasl,console"
PACKAGES = ("python3-venv", "openjdk-17-jre-headless", "procps")
SHIPPED = (
    "zkcoord",
    "consumer",
    "migrations",
    "docker",
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "MANIFEST.in",
)
MAKE_S = 900

Say = Callable[[str], None]


def image(client: docker.DockerClient, folder: Path, say: Say) -> str:
    """Build ours; its name. Raises `NoEngineError` where no base can be had."""
    base = _base(client, folder, say)
    context = folder / "context"
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir(parents=True)
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, context / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
            )
        elif source.exists():
            shutil.copy(source, context / name)
    _wheels(context / "wheels")
    say("building the image from docker/Dockerfile")
    try:
        client.images.build(
            path=str(context),
            dockerfile="docker/Dockerfile",
            tag=NAME,
            rm=True,
            network_mode="none",
            buildargs={
                "BASE": base,
                "LOCK": "",  # wheels of this machine have other hashes
                "EXTRAS": EXTRAS,
                "PIP_ARGS": "--no-index --find-links /src/wheels",
            },
        )
    except BuildError as error:
        tail = "".join(line.get("stream", "") for line in error.build_log)[-1_000:]
        raise AssertionError(f"docker/Dockerfile cannot be built: {error.msg}\n{tail}") from error
    return NAME


def _wheels(folder: Path) -> None:
    """Everything that `pip install .` with these extras needs, and what builds it."""
    folder.mkdir()
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--disable-pip-version-check",
            "--wheel-dir",
            str(folder),
            "setuptools>=64",
            "wheel",
            f"{ROOT}[{EXTRAS}]",
        ],
        "the packages for the image",
    )
    for own in folder.glob("zkcoord-*.whl"):
        own.unlink()


def _base(client: docker.DockerClient, folder: Path, say: Say) -> str:
    given = os.environ.get("ZKCOORD_DOCKER_BASE")
    if given:
        return given
    try:
        client.images.get(BASE)
        return BASE
    except ImageNotFound:
        pass
    if shutil.which("mmdebstrap") and os.geteuid() == 0:
        return _made(client, folder, say)
    return _pulled(client, folder, say)


def _made(client: docker.DockerClient, folder: Path, say: Say) -> str:
    say("making a base image out of Debian packages (about half a minute)")
    archive = folder / "base.tar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    _run(
        [
            "mmdebstrap",
            "--variant=essential",
            f"--include={','.join(PACKAGES)}",
            "bookworm",
            str(archive),
        ],
        "a base image",
    )
    client.api.import_image(str(archive), repository=BASE)
    archive.unlink()
    return BASE


def _pulled(client: docker.DockerClient, folder: Path, say: Say) -> str:
    say(f"building a base image on {PUBLIC_BASE}")
    context = folder / "base"
    context.mkdir(parents=True, exist_ok=True)
    (context / "Dockerfile").write_text(
        f"FROM {PUBLIC_BASE}\nRUN apt-get update && apt-get install -y --no-install-recommends"
        f" {' '.join(PACKAGES)} && rm -rf /var/lib/apt/lists/*\n",
        encoding="utf-8",
    )
    try:
        client.images.build(path=str(context), tag=BASE, rm=True)
    except (BuildError, APIError, DockerException) as error:
        raise NoEngineError(
            f"there is no base image: no registry answers ({str(error)[-200:]}); name one with"
            " python3-venv and Java in ZKCOORD_DOCKER_BASE, or install mmdebstrap and run this as"
            " root"
        ) from error
    return BASE


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAKE_S, check=False)
    if done.returncode:
        raise NoEngineError(
            f"{what} cannot be had ({(done.stderr or done.stdout).strip().splitlines()[-1:]}): look"
            " at the network, then run it again"
        )
