"""Files that options name may be pipes, and one that nobody writes to is said at once."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from zkcoord.cli.main import main
from zkcoord.config.files import NO_WRITER, read_file

SOON_S = 10.0


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A pipe that nobody has open."""
    path = tmp_path / "pipe.toml"
    os.mkfifo(path)
    return path


def writing(path: Path, *parts: bytes) -> threading.Thread:
    """Somebody who writes slowly."""

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            for part in parts:
                time.sleep(0.2)
                file.write(part)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    return writer


def test_a_pipe_that_nobody_writes_to(pipe: Path) -> None:
    began = time.monotonic()
    with pytest.raises(OSError, match=NO_WRITER):
        read_file(str(pipe), 100)
    assert time.monotonic() - began < SOON_S


def test_a_pipe_is_read_as_a_file_is(pipe: Path, tmp_path: Path) -> None:
    writer = writing(pipe, b"one ", b"two")
    assert read_file(str(pipe), 100) == b"one two"
    writer.join()
    (tmp_path / "file").write_bytes(b"one two")
    assert read_file(str(tmp_path / "file"), 100) == b"one two"
    assert read_file(str(tmp_path / "file"), 5) == b"one t"
    with pytest.raises(IsADirectoryError):
        read_file(str(tmp_path), 5)


@pytest.mark.parametrize(
    "arguments",
    [
        ["groups", "list", "--config", "PIPE"],
        ["groups", "list", "--zookeeper-user", "u", "--zookeeper-password-file", "PIPE"],
        ["groups", "list", "--tls", "--tls-ca-file", "PIPE"],
        ["groups", "list", "--tls", "--tls-cert-file", "PIPE"],
        ["groups", "list", "--tls", "--tls-cert-file", "/none", "--tls-key-file", "PIPE"],
        ["offsets", "reset", "g", "--from-file", "PIPE"],
        ["coordinator", "--config", "PIPE"],
        ["replay", "PIPE"],
    ],
)
def test_no_command_waits_for_it(
    arguments: list[str], pipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [] if arguments[0] == "replay" else ["--zookeeper", "127.0.0.1:1"]
    began = time.monotonic()
    status = main([*(str(pipe) if word == "PIPE" else word for word in arguments), *more])
    out, err = capsys.readouterr()
    assert status in (1, 2) and out == "" and time.monotonic() - began < SOON_S
    assert str(pipe)[:40] in err and ("it is no file" in err or NO_WRITER in err), err
