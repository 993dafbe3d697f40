"""`zkcoord top` on a real ensemble, in a terminal and in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from tests.console.pictures import line
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.console.terminal.text import group_text, groups_table, sparkline, trouble_texts
from zkcoord.health.trouble.kinds import Trouble, TroubleKind
from zkcoord.znodes.paths import Layout

PATIENCE_S = 60.0
COMMAND = (sys.executable, "-m", "zkcoord.cli.main", "top", "--journal-dir")
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
NAMES = ("billing", "audit", "evil[red]x[red]")


@pytest.fixture
def hosts(zk_hosts: str) -> str:
    """With groups that nobody is in."""
    client = connect(zk_hosts)
    for name in NAMES:
        client.ensure_path(Layout.DRAFT.group(name))
    disconnect(client)
    return zk_hosts


def printed(found: RenderableType) -> str:
    """On a terminal of 120 columns."""
    console = Console(width=120, no_color=True, highlight=False)
    with console.capture() as text:
        console.print(found)
    return text.get()


class Terminal:
    """A process in a terminal of 120 columns; what it has written since the last key."""

    def __init__(self, *command: str) -> None:
        self.child, self.descriptor = pty.fork()
        if not self.child:
            os.environ["TERM"] = "xterm"
            for name in ("COLUMNS", "LINES"):  # which would count instead of the terminal's size
                os.environ.pop(name, None)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
            os.execv(command[0], command)
        self.written = b""

    def shows(self, text: str) -> bool:
        """Whether it has written that."""
        while select.select([self.descriptor], [], [], 0.05)[0]:
            try:
                found = os.read(self.descriptor, 65_536)
            except OSError:  # it has ended
                break
            if not found:
                break
            self.written += found
        return text.encode() in ESCAPES.sub(b"", self.written)

    def press(self, keys: str) -> None:
        self.written = b""
        os.write(self.descriptor, keys.encode())


@pytest.fixture
def terminal(hosts: str, tmp_path: Path) -> Iterator[Terminal]:
    found = Terminal(*COMMAND, str(tmp_path), "--zookeeper", hosts)
    yield found
    os.close(found.descriptor)


def test_groups_are_found_entered_and_left(terminal: Terminal) -> None:
    def shown(text: str) -> None:
        wait_until(lambda: terminal.shows(text), PATIENCE_S, text)

    shown("3 of 3 groups")
    shown("evil[red]x[red]")  # which is no markup
    terminal.press("/bil\r")
    shown("1 of 3 groups")
    terminal.press("\r")
    shown("nobody blocks")
    terminal.press("\x1b")
    shown("1 of 3 groups")
    terminal.press("\x1b")
    shown("3 of 3 groups")
    terminal.press("h")
    shown("what is not well")
    terminal.press(" q")
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.child, 0)[1]) == 0


def test_in_a_pipe_it_prints_once(hosts: str, tmp_path: Path) -> None:
    found = subprocess.run(
        [*COMMAND, str(tmp_path), "--zookeeper", hosts],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert found.returncode == 0, found.stderr
    assert "3 of 3 groups" in found.stdout and "\x1b" not in found.stdout
    assert all(name in found.stdout for name in NAMES)


def test_without_an_ensemble_one_sentence_says_so(tmp_path: Path) -> None:
    found = subprocess.run(
        [*COMMAND, str(tmp_path), "--zookeeper", "127.0.0.1:1", "--connect-timeout-ms", "300"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert found.returncode == 1 and found.stdout == ""
    assert found.stderr.count("\n") == 1 and "127.0.0.1:1" in found.stderr


def test_trouble_is_counted_in_the_list_and_told_with_what_to_do() -> None:
    kind = TroubleKind.FLAPPING_MEMBER
    troubles = [
        Trouble(kind, "billing", f"came and went [red] {n}", "Its log says why", 0, f"m{n}")
        for n in range(5)
    ]
    listed = line("billing")
    listed = replace(listed, listed=replace(listed.listed, paused="ann"), troubles=tuple(troubles))
    text = printed(groups_table([(listed, 3), (line("audit"), 0)], [[], []], 0, 120))
    (head, billing, audit) = text.splitlines()[:3]
    assert "TROUBLE" in head and "Stable, paused" in billing and "paused" not in audit
    at = head.index("TROUBLE") + len("TROUBLE") - 1
    assert (billing[at], audit[at]) == ("5", "-")
    text = printed(group_text("billing", [], [], troubles, [], [], (60, 30)))
    assert "flapping-member of m0: came and went [red] 0." in text
    assert "what to do: Its log says why." in text and "m3" not in text and "and 2 more" in text
    long = replace(troubles[0], evidence="word " * 60)
    assert all(len(one) < 60 for one in map(str, trouble_texts([long], 60)))


def test_bars_are_of_the_highest() -> None:
    assert sparkline([0, 1, 8]) == " ▁█" and sparkline([0, 0]) == "  " and sparkline([]) == ""
