"""docker/kubernetes against the schemas of Kubernetes' API."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.packages.tools import HERE, ROOT, PackagingError, run

FOLDER = ROOT / "docker" / "kubernetes"
OLDEST = "1.31"
"""The oldest release whose schemas are looked at."""


def named_files() -> list[Path]:
    """What kustomization.yaml makes resources of."""
    text = (FOLDER / "kustomization.yaml").read_text(encoding="utf-8")
    block = text.partition("\nresources:\n")[2]
    return [FOLDER / name for name in re.findall(r"^  - (\S+)$", block, re.M)]


def validated(python: Path) -> tuple[list[dict[str, Any]], str]:
    """All documents, and a sentence. `python` has the tools. Raises `PackagingError`."""
    files = named_files()
    said = json.loads(run([python, "-I", HERE / "schema.py", OLDEST, *files], HERE))
    if said["errors"]:
        raise PackagingError("\n".join(said["errors"]))
    documents: list[dict[str, Any]] = said["documents"]
    return documents, (
        f"docker/kubernetes: {len(documents)} resources in {len(files)} files are as the schemas of"
        f" Kubernetes {' and '.join(said['releases'])} say (not run on a cluster)"
    )
