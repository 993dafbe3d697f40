"""Run by the Python that has kubernetes-validate: every document of the files that are named,
against Kubernetes' own schemas, in the oldest and the newest release that are asked for. One line
of JSON.

    python schema.py OLDEST FILE...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml


def wrong(document: dict[str, Any], release: str) -> str:
    """What the schema says against it; "" for nothing."""
    try:
        kubernetes_validate.validate(document, release, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    return ""


def main(oldest: str, paths: list[str]) -> None:
    """Print."""
    releases = [oldest, kubernetes_validate.latest_version()]
    documents: list[dict[str, Any]] = []
    errors: list[str] = []
    for path in paths:
        for document in yaml.safe_load_all(Path(path).read_text(encoding="utf-8")):
            documents.append(document)
            name = f"{Path(path).name}: {document['kind']} {document['metadata']['name']}"
            said = {release: wrong(document, release) for release in releases}
            errors += [f"{name}, Kubernetes {r}: {text}" for r, text in said.items() if text]
    print(json.dumps({"releases": releases, "documents": documents, "errors": errors}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
