"""Programs that only packaging needs: each list beside this file, NAME.lock, is a virtual
environment in the cache folder of the jars, made once for each content of the list.

    python -m tests.packages.tools build kubernetes sbom site    makes what is missing, for later
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from zkcoord.errors import StackError
from zkcoord.stack import jars

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUN_S = 900.0
KEPT_LINES = 15
INTO_SIGHT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_REQUIRE_VIRTUALENV")
"""What would have a program see this checkout, or the environment that it was started from."""


class MissingToolError(StackError):
    """What packaging needs is not on this machine; the message says what."""


class PackagingError(StackError):
    """A check has failed; the message says which."""


def tools(name: str) -> Path:
    """The Python of the environment with NAME.lock in it. Raises `MissingToolError`."""
    lock = HERE / f"{name}.lock"
    home = jars.cache_dir() / "packages"
    home.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(lock.read_bytes() + f"{sys.version}{sys.base_prefix}".encode())
    folder = home / f"{name}-{key.hexdigest()[:16]}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    with (home / f".{name}.lock").open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not ready.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            new_environment(folder)
            pip = [python, "-m", "pip", "install", "--quiet", "--require-hashes"]
            try:
                run([*pip, "--only-binary", ":all:", "--requirement", lock], HERE)
            except PackagingError as error:
                raise MissingToolError(
                    f"the tools of tests/packages/{name}.lock cannot be installed, look at the"
                    f" network and run it again: {error}"
                ) from None
            ready.touch()
    return python


def new_environment(folder: Path) -> None:
    """A virtual environment with nothing but pip in it. Raises `MissingToolError`."""
    try:
        run([sys.executable, "-m", "venv", folder], folder.parent)
    except PackagingError as error:
        raise MissingToolError(
            "Python's venv module does not work here: install it (on Debian and Ubuntu: apt-get"
            f" install python3-venv) and run it again ({error})"
        ) from None


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what leads to this checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in INTO_SIGHT}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", **(more or {})}


def run(
    command: Sequence[str | Path],
    folder: Path,
    more: Mapping[str, str] | None = None,
    timeout_s: float = RUN_S,
    good: Collection[int] = (0,),
) -> str:
    """What a program says on standard output. `more`: variables for it. Raises `PackagingError`
    with its last lines where it ends with another status than those that are `good`.
    """
    try:
        ended = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env=environment(more),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackagingError(f"{_named(command)} cannot be run: {error}") from None
    if ended.returncode not in good:
        said = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[-KEPT_LINES:])
        raise PackagingError(f"{_named(command)} ended with {ended.returncode}: {said}")
    return ended.stdout


def _named(command: Sequence[str | Path]) -> str:
    return " ".join(Path(word).name for word in map(str, command[:5]))


def main(names: Sequence[str]) -> int:
    """Make what is missing, saying so; 4 where it cannot be had."""
    for name in names:
        try:
            tools(name)
        except MissingToolError as error:
            print(error, file=sys.stderr)
            return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
