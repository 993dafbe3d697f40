"""Who may act: tokens, sessions, proxies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from zkcoord.console.acting import readers as module
from zkcoord.console.acting.readers import (
    SESSION_MS,
    SESSIONS_MAX,
    SESSIONS_OF_ONE_MAX,
    Readers,
    tokens_of,
)
from zkcoord.errors import ConfigurationError

ANNS, BOBS = "a" * 32, "b" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "tokens"
    found.touch(0o600)
    found.write_text(f"# readers\n\nann {ANNS}\nbob\t{BOBS}\n".replace("\t", " "))
    return found


class Clock:
    """A clock that a test sets."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def readers(path: Path, clock: Clock | None = None) -> Readers:
    return Readers(str(path), "", frozenset(), clock or Clock())


def test_a_token_is_its_readers(path: Path) -> None:
    found = readers(path)
    name, session = found.sign_in(BOBS) or ("", "")
    reader = found.of_session(session)
    assert name == "bob" and reader is not None and reader.name == "bob"
    again = found.sign_in(BOBS) or ("", "")
    other = found.of_session(again[1])
    assert other is not None and other.proof != reader.proof
    for wrong in ("", "ann", ANNS[:-1], ANNS + "a", "\ud800", f"ann {ANNS}", "ü"):
        assert found.sign_in(wrong) is None
    for wrong in ("", session[:-1], "x" * 43):
        assert found.of_session(wrong) is None


def test_a_session_ends(path: Path) -> None:
    clock = Clock()
    found = readers(path, clock)
    one, other = (found.sign_in(ANNS) or ("", ""))[1], (found.sign_in(ANNS) or ("", ""))[1]
    found.sign_out(one)
    assert found.of_session(one) is None and found.of_session(other) is not None
    clock.now_ms = SESSION_MS
    assert found.of_session(other) is None


def test_who_is_struck_off_the_list_is_out_at_once(path: Path) -> None:
    found = readers(path)
    ann, bob = (found.sign_in(ANNS) or ("", ""))[1], (found.sign_in(BOBS) or ("", ""))[1]
    path.write_text(f"ann {'c' * 32}\nbob {BOBS}\n")
    assert found.of_session(ann) is None and found.of_session(bob) is not None
    assert found.sign_in(ANNS) is None and found.sign_in("c" * 32) is not None


def test_sessions_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSIONS_MAX", 3)
    found = readers(path)
    sessions = [(found.sign_in(ANNS) or ("", ""))[1] for _ in range(5)]
    assert [found.of_session(one) is not None for one in sessions] == [False] * 2 + [True] * 3


@pytest.mark.parametrize(
    ("address", "names", "who"),
    [
        ("10.0.0.1", ["ann"], "ann"),
        ("10.0.0.1", [" ann@example.org "], "ann@example.org"),
        ("10.0.0.2", ["ann"], None),
        ("", ["ann"], None),
        ("10.0.0.1", [], None),
        ("10.0.0.1", ["ann", "bob"], None),
        ("10.0.0.1", [""], None),
        ("10.0.0.1", ["a\x00b"], None),
        ("10.0.0.1", ["a" * 101], None),
    ],
)
def test_a_proxys_word(address: str, names: list[str], who: str | None) -> None:
    found = Readers("", "x-user", frozenset({"10.0.0.1"}), Clock()).of_proxy(address, names)
    assert (found and found.name) == who


@pytest.mark.parametrize(
    ("proxy", "address", "counts"),
    [
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("::ffff:7f00:1", "127.0.0.1", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("::1", "127.0.0.1", False),
        ("127.0.0.1", "::ffff:127.0.0.2", False),
        ("127.0.0.1", "::127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "?", False),
    ],
)
def test_an_address_is_the_same_however_it_is_written(
    proxy: str, address: str, counts: bool
) -> None:
    found = Readers("", "x-user", frozenset({proxy}), Clock()).of_proxy(address, ["ann"])
    assert (found is not None) is counts


def test_a_header_that_is_not_asked_for_says_nothing(path: Path) -> None:
    assert readers(path).of_proxy("127.0.0.1", ["ann"]) is None
    assert Readers("", "x-user", frozenset({"::1"}), Clock()).sign_in(ANNS) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 readers"),
        ("# nobody\n", "has 0 readers"),
        ("ann short\n", "line 1"),
        (f"ann {ANNS}\nbob\n", "line 2"),
        (f"ann {ANNS}\nann {BOBS}\n", "names somebody twice"),
        (f"ann {ANNS} more\n", "line 1"),
        (f"ann {'ü' * 32}\n", "line 1"),
        (f"{'a' * 101} {ANNS}\n", "by what is no name"),
        ("".join(f"n{n} {ANNS}\n" for n in range(201)), "has 201 readers"),
        ("#" * 70_000, "larger than"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=why):
        tokens_of(str(path))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        readers(tmp_path / "none")
    (tmp_path / "bytes").touch(0o600)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        tokens_of(str(tmp_path / "bytes"))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_may_read(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        readers(path)
    path.chmod(0o600)
    found = readers(path)
    name, session = found.sign_in(ANNS) or ("", "")
    path.chmod(mode)
    for ask in (lambda: found.sign_in(ANNS), lambda: found.of_session(session)):
        with pytest.raises(ConfigurationError, match="chmod 600"):
            ask()
    path.chmod(0o600)
    assert name == "ann" and found.of_session(session) is not None


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_what_is_no_file_is_not_waited_for(path: Path, kind: str) -> None:
    found = readers(path)
    path.unlink()
    pipe = path.with_name("pipe")
    match kind:
        case "pipe":
            os.mkfifo(path, 0o600)
        case "folder":
            path.mkdir(0o700)
        case _:
            os.mkfifo(pipe, 0o600)
            path.symlink_to(pipe)
    held = os.open(path, os.O_RDWR) if kind != "folder" else -1  # who would be waited for
    try:
        for ask in (lambda: found.sign_in(ANNS), lambda: readers(path)):
            with pytest.raises(ConfigurationError, match="is no file|directory"):
                ask()
    finally:
        if held >= 0:
            os.close(held)


def test_a_link_is_what_it_leads_to(path: Path) -> None:
    """As a mounted secret is: replaced by another link."""
    link = path.with_name("link")
    link.symlink_to(path)
    found = readers(link)
    assert found.sign_in(ANNS) is not None
    link.unlink()
    public = path.with_name("public")
    public.write_text(f"eve {'e' * 32}\n")
    public.chmod(0o644)
    link.symlink_to(public)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        found.sign_in("e" * 32)


def test_a_file_of_somebody_else_lets_nobody_in(path: Path, monkeypatch: Any) -> None:
    theirs = os.stat(path).st_uid + 1
    monkeypatch.setattr(module.os, "geteuid", lambda: theirs)
    real = os.fstat
    monkeypatch.setattr(
        module.os, "fstat", lambda fd: os.stat_result([*real(fd)[:4], theirs + 1, *real(fd)[5:10]])
    )
    with pytest.raises(ConfigurationError, match="another user's"):
        readers(path)


def test_nobody_ends_the_sessions_of_others(path: Path) -> None:
    found = readers(path)
    bob = (found.sign_in(BOBS) or ("", ""))[1]
    anns = [(found.sign_in(ANNS) or ("", ""))[1] for _ in range(SESSIONS_MAX + 5)]
    assert found.of_session(bob) is not None
    assert [one for one in anns if found.of_session(one)] == anns[-SESSIONS_OF_ONE_MAX:]
