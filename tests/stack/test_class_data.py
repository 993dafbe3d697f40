"""Archives of loaded classes: each is for one class path as it is, and a start takes it."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.harness.quick_java import quick_java
from zkcoord.stack import class_data, jars
from zkcoord.stack.java import Java
from zkcoord.stack.servers import java_process
from zkcoord.stack.servers.java_process import JavaProcess


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Java, str]:
    """A Java and a class path of which there is an archive."""
    monkeypatch.setattr(jars, "cache_dir", lambda: tmp_path / "cache")
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_bytes(b"1")
    java, path = quick_java(), f"{tmp_path / 'a.jar'}{os.pathsep}{tmp_path / 'b.jar'}"
    assert class_data.options(java, path) == []
    with class_data.making(java, path) as making:
        flag, _, partial = making.flags[-1].partition("=")
        assert flag == "-XX:ArchiveClassesAtExit" and making.flags[:-1] == java.flags
        Path(partial).write_bytes(b"classes")
    return java, path


def test_one_is_taken_for_its_class_path_and_for_no_other(
    made: tuple[Java, str], tmp_path: Path
) -> None:
    java, path = made
    assert class_data.options(java, path) == [
        f"-XX:SharedArchiveFile={class_data.archive_of(java, path)}"
    ]
    assert class_data.options(java, str(tmp_path / "a.jar")) == []
    (tmp_path / "b.jar").write_bytes(b"12")
    assert class_data.options(java, path) == []


def test_what_is_there_is_not_made_again(made: tuple[Java, str]) -> None:
    java, path = made
    with class_data.making(java, path) as making:
        assert making == java


def test_a_java_that_makes_none_leaves_nothing(made: tuple[Java, str], tmp_path: Path) -> None:
    java, _ = made
    with class_data.making(java, str(tmp_path / "a.jar")):
        pass
    assert class_data.options(java, str(tmp_path / "a.jar")) == []
    assert len(list((tmp_path / "cache").rglob("*"))) == 2, "the folder, and the one archive"


def test_a_server_starts_with_it(
    made: tuple[Java, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, path = made
    start = Mock()
    monkeypatch.setattr(java_process.ServerProcess, "start", start)
    JavaProcess("server", tmp_path / "home", java, owned=True).launch(path, ["Main"], 16, {})
    assert class_data.options(java, path)[0] in start.call_args.args[0]
