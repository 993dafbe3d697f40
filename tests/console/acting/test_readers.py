"""Who may act: tokens, sessions, proxies."""

from __future__ import annotations

from pathlib import Path

import pytest

from zkcoord.console.acting import readers as module
from zkcoord.console.acting.readers import SESSION_MS, Readers, refuse_public, tokens_of
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
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=why):
        tokens_of(str(path))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        readers(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        tokens_of(str(tmp_path / "bytes"))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_may_read(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        readers(path)
    path.chmod(0o600)
    refuse_public(str(path))
