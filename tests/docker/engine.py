"""A Docker engine: the one that runs here, or one of our own in a folder, which leaves nothing
behind.

Our own needs root and `dockerd`. Its bridge, its firewall chains and its FORWARD policy are taken
away again at the end. Where there is no engine and none can be started, `NoEngineError` says why in
one sentence.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from docker.errors import DockerException

import docker
from zkcoord.errors import ScenarioError
from zkcoord.stack.process import poll_until

START_S = 120.0
STOP_S = 60.0
REQUEST_S = 600
INSTALL = "install one (on Debian and Ubuntu: apt-get install docker.io iptables) and run it again"
SOCKET_CHARS_MAX = 100


class NoEngineError(ScenarioError):
    """There is no engine here, and none can be started."""


@contextmanager
def engine(folder: Path) -> Iterator[docker.DockerClient]:
    """A client of an engine; `folder` holds everything of one that is started here. Raises
    `NoEngineError`.
    """
    with ExitStack() as stack:
        client = _running()
        if client is None:
            before = _rules()
            stack.callback(_clean, before)
            client = stack.enter_context(_own(folder, "-P FORWARD ACCEPT" in before["filter"]))
        stack.callback(client.close)
        yield client


def _running() -> docker.DockerClient | None:
    try:
        client = docker.from_env(timeout=REQUEST_S)
        client.ping()
    except DockerException:
        return None
    return client


@contextmanager
def _own(folder: Path, forwards: bool) -> Iterator[docker.DockerClient]:
    if shutil.which("dockerd") is None:
        raise NoEngineError(f"there is no Docker engine on this machine: {INSTALL}")
    if os.geteuid() != 0:
        raise NoEngineError(
            "no Docker engine answers, and only root can start one: start it, or run this as root"
        )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "engine.sock"
    if len(str(path)) > SOCKET_CHARS_MAX:
        raise NoEngineError(
            f"the path {path} is too long for a socket: use a folder with a shorter name"
        )
    with (folder / "engine.log").open("ab") as log:
        process = subprocess.Popen(
            [
                "dockerd",
                "-H",
                f"unix://{path}",
                "--data-root",
                str(folder / "data"),
                "--exec-root",
                str(folder / "exec"),
                "--pidfile",
                str(folder / "engine.pid"),
            ],
            stdout=log,
            stderr=log,
        )
    clients: list[docker.DockerClient] = []
    try:
        if (
            not poll_until(lambda: process.poll() is not None or _answers(path, clients), START_S)
            or not clients
        ):
            last = (
                (folder / "engine.log")
                .read_text(encoding="utf-8", errors="replace")
                .strip()
                .splitlines()[-1:]
            )
            raise NoEngineError(
                f"a Docker engine cannot be started here ({' '.join(last)[-300:]}): start one, or"
                " run this on a machine that allows it"
            )
        if forwards:
            # an engine sets DROP for the whole machine, which is not ours alone
            _said("iptables", "-P", "FORWARD", "ACCEPT")
        yield clients[0]
    finally:
        process.terminate()
        process.wait(STOP_S)


def _answers(path: Path, clients: list[docker.DockerClient]) -> bool:
    """Whether the engine at this socket answers; its client is added then."""
    try:
        clients.append(docker.DockerClient(base_url=f"unix://{path}", timeout=REQUEST_S))
    except DockerException:
        return False
    return True


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _rules() -> dict[str, str]:
    """The firewall as it is before: table -> its rules."""
    return {table: _said("iptables", "-t", table, "-S") for table in ("filter", "nat")}


def _clean(before: dict[str, str]) -> None:
    """Take away what an engine leaves in the kernel: its bridges, its chains, the rules that jump
    to them, its policy.
    """
    for table, rules in before.items():
        for rule in _said("iptables", "-t", table, "-S").splitlines():
            if rule.startswith("-A") and rule not in rules.splitlines():
                _said("iptables", "-t", table, "-D", *rule.split()[1:])
        for chain in re.findall(
            r"^-N (DOCKER\S*)", _said("iptables", "-t", table, "-S"), re.MULTILINE
        ):
            if f"-N {chain}\n" not in rules:
                _said("iptables", "-t", table, "-X", chain)
    _said("ip", "link", "delete", "docker0")


def text_of(container: Any) -> str:
    """What a container has said on both streams."""
    return bytes(container.logs()).decode("utf-8", "replace")
