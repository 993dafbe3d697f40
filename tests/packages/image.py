"""The image out of docker/Dockerfile, on a base that is named by its digest: a tag means another
image tomorrow.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.packages.building import Say
from tests.packages.tools import ROOT, MissingToolError, PackagingError, run
from zkcoord import __version__

DOCKERFILE = ROOT / "docker" / "Dockerfile"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
BUILD_S = 3_600.0


def default_base() -> str:
    """The tag that the Dockerfile names."""
    found = re.search(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.M)
    assert found is not None
    return found[1]


def make(base: str, say: Say) -> str:
    """Build; the image's name. `base`: an image, with its digest or without; "": the Dockerfile's.
    Raises `MissingToolError` where there is no docker, or nobody tells a digest.
    """
    if shutil.which("docker") is None:
        raise MissingToolError(
            "there is no docker here: install it (on Debian and Ubuntu: apt-get install docker.io)"
            " and run it again"
        )
    pinned = pin(base or default_base())
    say(f"building on {pinned}")
    name = f"zkcoord:{__version__}"
    labels = {
        "version": __version__,
        "revision": _revision(),
        "licenses": "Apache-2.0",
        "base.name": pinned.partition("@")[0],
        "base.digest": pinned.partition("@")[2],
    }
    command = ["docker", "build", "--file", str(DOCKERFILE), "--tag", name]
    command += ["--build-arg", f"BASE={pinned}"]
    for key, value in labels.items():
        command += ["--label", f"org.opencontainers.image.{key}={value}"]
    run([*command, "."], ROOT, timeout_s=BUILD_S)
    return name


def pin(image: str) -> str:
    """The image with its digest, which is asked of its registry where it is not named. Raises
    `MissingToolError`.
    """
    _, _, digest = image.partition("@")
    if digest:
        if not DIGEST.fullmatch(digest):
            raise PackagingError(f"{image[:200]} has no digest of the form sha256:(64 digits)")
        return image
    asked = ["docker", "buildx", "imagetools", "inspect", image]
    try:
        said = run([*asked, "--format", "{{.Manifest.Digest}}"], Path.cwd()).strip()
    except PackagingError as error:
        why = str(error).strip().splitlines()[-1]
        raise MissingToolError(
            f"no registry says which digest {image} has now ({why}): name it, make image"
            f" BASE={image}@sha256:..."
        ) from None
    if not DIGEST.fullmatch(said):
        raise PackagingError(f"{said[:200]!r} is no digest of {image}")
    return f"{image}@{said}"


def _revision() -> str:
    try:
        return run(["git", "rev-parse", "HEAD"], ROOT).strip()
    except PackagingError:
        return ""
