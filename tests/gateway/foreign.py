"""Clients of other languages, and of libraries that the project does not install: what of them is
ours (go/, node/, aio_client.py) is built with the toolchain that is there, against the versions and
hashes of the lock files beside it, into the cache folder of the jars; made once for each content.

    python -m tests.gateway.foreign [franz-go ...]     makes what is missing, for later without a
                                                       network
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import which

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.process import owned_command

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 420.0
NODE_MIN = 18
GO, NODE, AIO_LOCK = HERE / "go", HERE / "node", HERE / "aiokafka.lock"


class ToolchainMissingError(StackError):
    """What a client is built or run with is not on this machine; the message says what."""


def found(tool: str, package: str) -> str:
    """The program of a toolchain. Raises `ToolchainMissingError`."""
    path = which(tool)
    if path is None:
        raise ToolchainMissingError(f"there is no {tool} here: install {package}")
    return path


def go_client(name: str) -> list[str]:
    """The command of a program of go/: franz or sarama."""
    go = found("go", "Go, in the version that tests/gateway/go/go.mod names or newer")
    sources = sorted([*GO.glob("go.*"), *GO.rglob("*.go")])

    def build(folder: Path) -> None:
        _run([go, "build", "-C", str(GO), "-mod=readonly", "-o", f"{folder}/", "./..."], GO)

    return [str(_made("go", sources, build) / name)]


def node_client() -> list[str]:
    """The command of node/wire_client.js."""
    node, npm = found("node", f"Node.js {NODE_MIN} or newer"), found("npm", "npm")
    sources = [NODE / name for name in ("package.json", "package-lock.json", "wire_client.js")]

    def build(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)

    return [node, str(_made("node", sources, build) / "wire_client.js")]


def aiokafka_client() -> list[str]:
    """The command of aio_client.py, with a folder that holds aiokafka and nothing of ours."""

    def build(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--require-hashes", "-r", str(AIO_LOCK), "--target", str(folder)], folder)

    version = f"aiokafka-py{sys.version_info.major}.{sys.version_info.minor}"
    folder = _made(version, [AIO_LOCK], build)
    return [sys.executable, "-m", "tests.gateway.aio_client", str(folder)]


CLIENTS: dict[str, Callable[[], list[str]]] = {
    "franz-go": lambda: go_client("franz"),
    "kafkajs": node_client,
    "sarama": lambda: go_client("sarama"),
    "aiokafka": aiokafka_client,
}
"""Library -> makes the first words of its client's command: the topic and name=value follow."""


def _made(name: str, sources: Sequence[Path], build: Callable[[Path], None]) -> Path:
    """The folder of what is built from these files, built if it is not there."""
    home = jars.cache_dir() / "gateway"
    home.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    for source in sources:
        digest.update(f"{source.relative_to(HERE)}\0".encode() + source.read_bytes() + b"\0")
    final = home / f"{name}-{digest.hexdigest()[:16]}"
    with (home / f".{name}.lock").open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not final.is_dir():
            partial = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home))
            try:
                build(partial)
                partial.rename(final)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return final


def _run(command: Sequence[str], folder: Path) -> None:
    ended = subprocess.run(
        owned_command(command),
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=folder,
    )
    if ended.returncode:
        said = (ended.stderr.strip() or ended.stdout.strip() or "nothing").splitlines()
        raise StackError(f"{' '.join(command[:2])} ended with {ended.returncode}: {said[-1]}")


def main(names: Sequence[str]) -> int:
    """Make what is missing, saying so."""
    for name in names or CLIENTS:
        try:
            CLIENTS[name]()
        except StackError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        print(f"{name}: there", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
