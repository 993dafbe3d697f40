"""axe-core, which says where a page keeps somebody out who does not see it, or uses no mouse: taken
from npm's registry at run time, in this version, with these bytes, and kept nowhere.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from tests.console.browser import Browser

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
HAS_NPM = shutil.which("npm") is not None
FETCH_S = 120


def script(folder: Path) -> str:
    """The text of it."""
    subprocess.run(
        ["npm", "pack", f"axe-core@{VERSION}", "--silent"], cwd=folder, check=True, timeout=FETCH_S
    )
    (packed,) = folder.glob("axe-core-*.tgz")
    found = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
    assert found == SHA512, "these are other bytes than were looked at"
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def complaints(browser: Browser, axe: str) -> list[str]:
    """What it finds on the page that is open: the rules of WCAG 2.2 A and AA, and good practice."""
    browser.driver.execute_script(axe)
    found: dict[str, Any] = browser.driver.execute_async_script(
        "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
    )
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {node['html'][:200]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
