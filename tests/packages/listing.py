"""What is installed, out of the lock files: as a list for others (CycloneDX), and compared with
what is known of vulnerabilities.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.packages.building import Say
from tests.packages.tools import ROOT, MissingToolError, PackagingError, run
from zkcoord import __version__

LOCKS = {"image": "docker/image.lock", "development": ".ci/test.lock"}
"""What installs by which list: docker/Dockerfile; CI and `make setup LOCK=...`."""
FORMAT = "1.6"
SERVICES = ("pypi", "osv")
AUDITED = 0, 1
NAMED_MAX, SAID_CHARS_MAX = 20, 200


def list_all(python: Path, out: Path, say: Say) -> None:
    """A file for each lock, into `out`. Raises `PackagingError`."""
    out.mkdir(parents=True, exist_ok=True)
    for name, lock in LOCKS.items():
        tool = [python.parent / "cyclonedx-py", "requirements", "--output-reproducible"]
        asked = [*tool, "--spec-version", FORMAT, "--output-format", "JSON", ROOT / lock]
        found = json.loads(run(asked, ROOT))
        path = out / f"zkcoord-{__version__}-{name}.cdx.json"
        path.write_text(json.dumps(whole(found, name), indent=1) + "\n", encoding="utf-8")
        say(f"{path}: {len(found['components'])} components of {lock}")


def whole(found: dict[str, Any], name: str) -> dict[str, Any]:
    """The list, with what it is a list of."""
    reference = f"zkcoord-{name}"
    component = {
        "bom-ref": reference,
        "type": "application",
        "name": "zkcoord",
        "version": __version__,
        "purl": f"pkg:pypi/zkcoord@{__version__}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    parts = [part["bom-ref"] for part in found["components"]]
    others = [d for d in found.get("dependencies", ()) if d["ref"] != reference]
    return {
        **found,
        "metadata": {**found.get("metadata", {}), "component": component},
        "dependencies": [{"ref": reference, "dependsOn": sorted(parts)}, *others],
    }


def audit(python: Path, folder: Path, say: Say) -> None:
    """Raises `PackagingError` where something is known, `MissingToolError` where nobody who knows
    can be reached.
    """
    wrong = []
    for lock in LOCKS.values():
        found = _asked(python, ROOT / lock, folder)
        known = {
            f"{package['name']} {package['version']}: {vulnerability['id']}"
            for package in found["dependencies"]
            for vulnerability in package.get("vulns", ())
        }
        wrong += sorted(known)
        say(f"{lock}: {len(found['dependencies'])} packages, {len(known)} known vulnerabilities")
    if wrong:
        raise PackagingError("known vulnerabilities: " + "; ".join(wrong[:NAMED_MAX]))


def _asked(python: Path, lock: Path, folder: Path) -> dict[str, Any]:
    """What pip-audit found."""
    said: list[str] = []
    for service in SERVICES:
        path = folder / f"{lock.name}-{service}.json"
        tool = [python, "-m", "pip_audit", "--progress-spinner", "off", "--disable-pip"]
        asked = [*tool, "--vulnerability-service", service, "--require-hashes", "-r", lock]
        try:
            run([*asked, "--format", "json", "--output", path], folder, good=AUDITED)
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, PackagingError) as error:
            said.append(f"{service}: {str(error).strip().splitlines()[-1][:SAID_CHARS_MAX]}")
            continue
        except OSError:
            said.append(f"{service}: pip-audit ended without a report")
            continue
        # what it could not ask about pip-audit leaves out, and takes the rest for clean
        left_out = [p for p in found["dependencies"] if "vulns" not in p]
        if not left_out:
            return found
        why = str(left_out[0].get("skip_reason"))[:SAID_CHARS_MAX]
        said.append(f"{service}: {why}")
        if len(left_out) < len(found["dependencies"]):
            names = ", ".join(p["name"] for p in left_out[:NAMED_MAX])
            raise PackagingError(f"{lock.name}: not compared with what is known: {names} ({why})")
    raise MissingToolError(
        "nobody was asked for known vulnerabilities: neither PyPI's nor OSV's list of them can be"
        f" reached from here ({'; '.join(said)}): run python -m tests.packages audit where it can"
    )
