"""What others wrote never reaches a terminal as it is, and what was done is not told as a failure
because it cannot be printed.
"""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.check.old_world import old_world
from tests.core import script as core_script
from tests.replay.incidents import of_transcript, written
from zkcoord import terminal
from zkcoord.cli.main import main
from zkcoord.coordinator.input_recorder import end_line
from zkcoord.errors import OutputLostError
from zkcoord.text_table import table

ROOT = Path(__file__).parent.parent
PRODUCT = ("zkcoord", "consumer", "migrations")

# Modules that print without it, and why.
PRINT_THEMSELVES = {
    "zkcoord/terminal.py": "it is the function",
    "zkcoord/guardian/companion.py": "one sentence of its own, before anything is imported",
    "zkcoord/assignors/child.py": "one sentence of its own, in a process of its own",
    "zkcoord/stack/": "sentences of its own about servers that it has started",
    "zkcoord/demo/": "its own story, of its own processes",
    "consumer/verifiable.py": "JSON, for programs",
    "consumer/spark/audit/__main__.py": "one word of its own, before anything is imported",
}
SCRIPTS = Path(core_script.__file__).parent / "scripts"
HOSTILE_JSON = b'"g\\u001b[31m\\u202e"'
HOSTILE = "a\x1b[31mb\x9b\u202ec\u200b\u2066d\ud800\x07\x7f\r\u2028\ufeff"


@given(st.text(st.characters(codec=None)))
def test_whatever_the_text_is(text: str) -> None:
    for made, kept in ((terminal.printable(text), ""), (terminal.lines(text), "\n\t")):
        assert all(c.isprintable() or c in kept for c in made)
        assert made.encode() is not None  # no surrogate is left
    if text.isprintable():
        assert terminal.printable(text) == terminal.lines(text) == text


def test_what_is_escaped_can_be_read() -> None:
    assert terminal.printable(HOSTILE) == (
        "a\\x1b[31mb\\x9b\\u202ec\\u200b\\u2066d\\ud800\\x07\\x7f\\r\\u2028\\ufeff"
    )
    assert terminal.printable("grüße a\tb\n") == "grüße a\\tb\\n"
    assert terminal.lines("grüße a\tb\n") == "grüße a\tb\n"


def test_a_cell_of_a_table_is_one_line_of_its_width() -> None:
    assert table((("A", 1), ("B", 1)), [["x\n\x1b[2J", "y"]]).splitlines() == [
        "A          B",
        "x\\n\\x1b[2J y",
    ]


def test_a_stream_that_lacks_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert terminal.out("grüße \u202e\n")
    assert raw.getvalue() == b"gr\\xfc\\xdfe \\u202e\n"


class Full(io.StringIO):
    """A stream that takes nothing."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("closed")])
def test_what_cannot_be_printed(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Full(error))
    with pytest.raises(OutputLostError, match="standard output does not take"):
        terminal.out("asked for\n")
    assert not terminal.out("the table\n", done="12 partitions were reset")
    assert capsys.readouterr().err.startswith("12 partitions were reset; standard output does not")
    monkeypatch.setattr(sys, "stderr", Full(error))
    assert not terminal.out("the table\n", done="12 partitions were reset")
    for gone in ("stdout", "stderr"):
        monkeypatch.setattr(sys, gone, None)
    assert not terminal.out("the table\n", done="12 partitions were reset")
    terminal.err("nobody is told\n")


def test_a_reader_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Full(BrokenPipeError()))
    with pytest.raises(BrokenPipeError):
        terminal.out("asked for\n")
    assert not terminal.out("the table\n", done="done")


SCRIPT = "from zkcoord import terminal; print(terminal.out('x' * 10, done='done'))"


@pytest.mark.parametrize("to", ["/dev/full", "&-"])
def test_the_interpreters_end_does_not_fail_at_what_was_lost(to: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" >{to}', sys.executable, SCRIPT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0 and done.stderr.startswith("done; standard output does not take")
    assert done.stderr.count("\n") == 1


def safe(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


@pytest.mark.parametrize("more", [(), ("--json",), ("--with", "debounce_ms=0")])
def test_a_hostile_recording(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its group, its members and its last word try to write on the terminal."""
    name = sorted(path.stem for path in SCRIPTS.glob("*.txt"))[0]
    lines = [line.replace(b'"g"', HOSTILE_JSON) for line in of_transcript(name)[:-1]]
    assert any(HOSTILE_JSON in line for line in lines)
    path = written(tmp_path, [*lines, end_line(f"ended {HOSTILE}")])
    main(["replay", str(path), *more])
    told = capsys.readouterr()
    assert safe(told.out + told.err) and told.out
    assert more or "\\x1b[31m" in told.out


def test_hostile_names_of_nodes(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As `zkcoord check` and the tools find them; ZooKeeper takes what is no control character."""
    with old_world(zk_hosts) as here:
        here.topic("orders", 1)
        here.healthy("sound", "orders", 1)
        for name in ("x\u202ey", "a\u200bb", "c\u2066d"):
            here.registration("sound", name, b'{"subscription":{"orders\\u001b[2J":1}}')
            here.put(f"/consumers/sound/offsets/{name}/0", b"\x1b[2J")
            here.put(f"/consumers/{name}/offsets/orders/0", b"1")
        for command in (
            ["check"],
            ["groups", "list", "--layout", "isolated"],
            ["groups", "describe", "sound", "--layout", "isolated"],
            ["groups", "mode", "sound", "--layout", "isolated"],
            ["offsets", "show", "sound", "--layout", "isolated"],
            ["groups", "delete", "sound", "--layout", "isolated"],
        ):
            main([*command, "--zookeeper", zk_hosts])
            told = capsys.readouterr()
            assert safe(told.out + told.err), (command, told)
            assert command != ["check"] or "\\u202e" in told.out


def prints(path: str, tree: ast.AST) -> Iterator[str]:
    """Where a module prints by itself: `print`, or a standard stream's `write`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if (
            called == "print"
            or called.endswith(
                ("stdout.write", "stderr.write", "stdout.writelines", "stderr.writelines")
            )
            or called in ("sys.stdout.buffer.write", "pprint", "pprint.pprint")
        ):
            yield f"{path}:{node.lineno} {called}"


def test_nothing_prints_but_through_it() -> None:
    found = [
        where
        for room in PRODUCT
        for file in sorted((ROOT / room).rglob("*.py"))
        if not (path := file.relative_to(ROOT).as_posix()).startswith(tuple(PRINT_THEMSELVES))
        for where in prints(path, ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)
    for bad in ("print(x)", "sys.stdout.write(x)", "sys.stderr.write(x)"):
        assert list(prints("a.py", ast.parse(bad))), bad
    for path in PRINT_THEMSELVES:
        assert (ROOT / path).exists(), path
