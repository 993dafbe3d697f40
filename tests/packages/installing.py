"""Each wheel as a user gets it: installed into a clean environment, by a PATH on which there is no
compiler, from wheels only, in the versions of docker/image.lock; then every command's help, every
module, and the extension.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.packages.building import Built, Say
from tests.packages.tools import HERE, ROOT, PackagingError, new_environment, run

EXTRAS = "cli,console,librdkafka"
OF_EXTRAS = {"pyspark", "pyarrow", "pandas", "opentelemetry", "puresasl", "matplotlib"}
"""What modules may lack that belong to extras which are not installed here."""
LOCK = ROOT / "docker" / "image.lock"
MODULES_MIN, COMMANDS_MIN = 600, 12


def check_installed(wheel: Path, compiled: bool, folder: Path, say: Say) -> None:
    """Raises `PackagingError`."""
    folder.mkdir(parents=True)
    new_environment(folder / "clean")
    programs = folder / "clean" / "bin"
    pinned = folder / "constraints.txt"
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    named = [line.rstrip(" \\") for line in lines if re.match(r"[\w.-]+==", line)]
    pinned.write_text("\n".join(named) + "\n", encoding="utf-8")
    path = {"PATH": str(programs), "CC": "no-compiler-here"}
    pip = [programs / "python", "-m", "pip"]
    wanted = f"{wheel}[{EXTRAS}]"
    run([*pip, "install", "--quiet", "--only-binary", ":all:", "-c", pinned, wanted], folder, path)
    run([*pip, "check"], folder, path)
    commands = re.findall(
        r"^ {4}(\w[\w-]*) {2,}", run([programs / "zkcoord", "--help"], folder, path), re.M
    )
    if len(commands) < COMMANDS_MIN:
        raise PackagingError(f"zkcoord --help names {commands}")
    for command in commands:
        run([programs / "zkcoord", command, "--help"], folder, path)
    found = json.loads(run([programs / "python", "-I", HERE / "probe.py"], folder, path))
    wrong = set(found["lacking"]) - OF_EXTRAS
    if wrong or found["modules"] < MODULES_MIN:
        raise PackagingError(f"of {found['modules']} modules: {sorted(wrong)[:5]}")
    if bool(found["extension"]) is not compiled:
        raise PackagingError(f"{wheel.name} has the extension: {bool(found['extension'])}")
    say(
        f"{wheel.name}: installed without a compiler; {len(commands)} commands and"
        f" {found['modules']} modules; extension:"
        f" {found['extension'] or 'none, as it should be'}"
    )


def run_demo(built: Built, python: Path, folder: Path, say: Say) -> None:
    """`zkcoord demo --fast` out of each wheel, as `pipx run` has it, in a folder that holds nothing
    else. Raises `PackagingError`.
    """
    for wheel in (built.compiled, built.pure):
        place = folder / wheel.stem
        place.mkdir(parents=True)
        more = {"PIPX_HOME": str(folder / "pipx")}
        spec = f"zkcoord[demo] @ {wheel.as_uri()}"
        pipx = [python, "-m", "pipx", "run", "--no-cache", "--spec", spec]
        said = run([*pipx, "zkcoord", "demo", "--fast", "--no-live"], place, more)
        lines = said.strip().splitlines()
        report = place / "zkcoord-demo" / "demo.json"
        if not lines or lines[-1] != "VERDICT: clean" or not report.is_file():
            raise PackagingError(f"the demo out of {wheel.name} said {lines[-3:]}")
        say(f"{wheel.name}: zkcoord demo --fast: {lines[-1]}")
