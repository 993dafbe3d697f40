"""The image's base has a digest, whoever names it; by a docker that only writes down what it is
told.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.packages import image
from tests.packages.__main__ import FAILED, MISSING, main
from zkcoord import __version__

DIGEST = "sha256:" + "5a" * 32
DOCKER = """#!/bin/sh
printf '%s\\n' "$*" >> "{log}"
case "$*" in
*imagetools*) {answer} ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the program, whose `answer` is a digest."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    answers(tmp_path, f"echo {DIGEST}")
    return tmp_path


def answers(folder: Path, answer: str) -> None:
    program = folder / "docker"
    program.write_text(DOCKER.format(log=folder / "log", answer=answer), encoding="utf-8")
    program.chmod(0o755)


def told(folder: Path) -> list[str]:
    """What docker build was told."""
    lines = (folder / "log").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("build ")]


def test_a_tag_is_built_on_as_what_it_means_now(docker: Path) -> None:
    assert main(["image"]) == 0
    (line,) = told(docker)
    pinned = f"{image.default_base()}@{DIGEST}"
    assert f"--build-arg BASE={pinned} " in line and f"--tag zkcoord:{__version__} " in line
    assert f"--label org.opencontainers.image.base.digest={DIGEST} " in line


def test_a_digest_that_is_named_is_taken(docker: Path) -> None:
    answers(docker, "exit 1")
    assert main(["image", "--base", f"there/python:3.12@{DIGEST}"]) == 0
    assert f"BASE=there/python:3.12@{DIGEST} " in told(docker)[0]


def test_without_a_registry_it_says_what_to_name(
    docker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(docker, "echo no such host >&2; exit 1")
    assert main(["image"]) == MISSING
    said = capsys.readouterr().err
    assert f"BASE={image.default_base()}@sha256:..." in said and "no such host" in said
    assert told(docker) == [] and said.count("\n") == 1


@pytest.mark.parametrize("digest", ["sha256:12", json.dumps({}), "latest"])
def test_what_is_no_digest_is_not_built_on(docker: Path, digest: str) -> None:
    assert main(["image", "--base", f"python@{digest}"]) == FAILED
    answers(docker, f"echo '{digest}'")
    assert main(["image"]) == FAILED
    assert not (docker / "log").exists() or told(docker) == []
