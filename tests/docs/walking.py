"""Walks through a page as its reader does: in terminals, with what the page shows as the judge.

A block in the language `console` is what stands in a terminal: `$ COMMAND`, then what it prints. A
block in another language is a file to be saved. The comment before a block says which terminal, or
which file:

    <!-- terminal: NAME -->    without it, the terminal `first`
    <!-- file: NAME -->
    <!-- leave: WHY -->        not walked through here

In a terminal `^C` interrupts what runs there, and a block that begins without `$` is what it prints
meanwhile. What a command prints that has ended must be what is shown, line for line: numbers may be
other numbers, blanks more or fewer blanks, `...` is anything, also lines. Of what goes on running
the lines that are shown must come, in this order. Nothing may run at the end.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import Block, blocks
from tests.harness.wait import wait_until

PATIENCE_S = 120.0
HELD_S = 5.0
"""What a command has started in the background may hold its output open."""
ANYTHING = "..."
INTERRUPT = "^C"
FIRST = "first"
OF_A_SIGNAL = re.compile(r"^bash: line \d+: +\d+ (\w+) .*$")
"""Where somebody sits at it, a shell says just `Killed`."""
KEEP = 'status=$?; env -0 > "$KEPT_ENVIRONMENT"; pwd > "$KEPT_FOLDER"; exit $status'
"""What a shell would still know when the next command comes."""


@dataclass
class Step:
    """A command, an interrupt (`^C`), or ("") a look at what runs; and what is shown."""

    terminal: str
    command: str
    line: int
    shown: list[str] = field(default_factory=list)


def steps(block: Block, terminal: str) -> Iterator[Step]:
    """Those of a block in a terminal."""
    now = Step(terminal, "", block.line)
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ ") or line == INTERRUPT:
            if now.command or now.shown:
                yield now
            now = Step(terminal, line.removeprefix("$ "), number)
        else:
            now.shown.append(line)
    yield now


def shape(shown: str) -> re.Pattern[str]:
    """What a line may look like that stands for the one that is shown."""
    parts = re.split(r"(\.\.\.|\d+|\s+)", shown.strip())
    return re.compile("".join(map(_form, parts)))


def _form(part: str) -> str:
    if part == ANYTHING:
        return ".*"
    if part.isdigit():
        return r"\d+"
    return r"\s+" if part.isspace() else re.escape(part)


def differs(shown: Sequence[str], said: Sequence[str]) -> str:
    """How what is said is not what is shown, all of it and nothing more; "" where it is."""
    left = [line.strip() for line in said if line.strip()]
    free = False
    for wanted in (line for line in shown if line.strip()):
        if wanted.strip() == ANYTHING:
            free = True
            continue
        at = next((n for n, line in enumerate(left) if shape(wanted).fullmatch(line.strip())), None)
        if at is None or (at > 0 and not free):
            return f"shown is {wanted!r}, and what comes is {left[:10]}"
        left, free = left[at + 1 :], False
    return f"more is said than shown: {left[:10]}" if left and not free else ""


def reached(shown: Sequence[str], said: Sequence[str], begin: int = 0) -> int | None:
    """Up to which line what is shown has come, in this order, from a line on; None: not yet."""
    for wanted in (line for line in shown if line.strip() not in ("", ANYTHING)):
        form = shape(wanted)
        at = next((n for n in range(begin, len(said)) if form.fullmatch(said[n].strip())), None)
        if at is None:
            return None
        begin = at + 1
    return begin


class Terminal:
    """A shell, one command after the other."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.name, self.folder = name, folder
        self.environment = dict(environment)
        self._kept = {
            "KEPT_ENVIRONMENT": str(folder / f".{name}.environment"),
            "KEPT_FOLDER": str(folder / f".{name}.folder"),
        }
        self._child: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.said: list[str] = []
        self.looked_at = 0
        """How many lines of it the page has shown."""

    def run(self, command: str) -> None:
        """Begin it."""
        assert not self.busy(), f"in {self.name} something runs, {command} cannot be entered"
        self.said, self.looked_at = [], 0
        self._child = subprocess.Popen(
            ["bash", "-c", f"{command}\n{KEEP}"],
            cwd=self.folder,
            env={**self.environment, **self._kept},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._child,), daemon=True)
        self._reader.start()

    def _read(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            self.said.append(OF_A_SIGNAL.sub(r"\1", line.rstrip("\n")))

    def busy(self) -> bool:
        """Does something run there?"""
        return self._child is not None and self._child.poll() is None

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        assert self._child is not None and self.busy(), f"in {self.name} nothing runs"
        os.killpg(self._child.pid, signal.SIGINT)

    def ended(self) -> int:
        """Wait for its end; its status. The next command knows what this one has left."""
        assert self._child is not None and self._reader is not None
        wait_until(lambda: not self.busy(), PATIENCE_S, f"an end of {self.said[-5:]}")
        self._reader.join(HELD_S)
        kept, folder = (Path(path) for path in self._kept.values())
        if kept.exists():
            pairs = [text.partition("=") for text in kept.read_text().split("\0") if text]
            self.environment = {k: v for k, _, v in pairs if k not in self._kept}
            self.folder = Path(folder.read_text().strip())
            kept.unlink()
        return self._child.returncode

    def kill(self) -> None:
        """Whatever runs there."""
        if self._child is not None:
            try:
                os.killpg(self._child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._child.wait(PATIENCE_S)


class Walk:
    """A page in a folder. `instead`: what stands for a text of the page here, a port say.
    `meanwhile`: called after a step of a terminal that goes on running, by its name.
    """

    def __init__(
        self,
        text: str,
        folder: Path,
        environment: Mapping[str, str],
        instead: Mapping[str, str],
        meanwhile: Mapping[str, Callable[[], None]],
    ) -> None:
        for written, here in instead.items():
            text = text.replace(written, here)
        self._blocks = blocks(text)
        self._folder, self._environment, self._meanwhile = folder, environment, meanwhile
        self._terminals: dict[str, Terminal] = {}

    def goes(self) -> int:
        """All of it; how many commands there were."""
        planned = [self._planned(block) for block in self._blocks]
        in_order = [step for found in planned for step in found]
        count = 0
        try:
            for block, found in zip(self._blocks, planned):
                if block.mark.startswith("file: "):
                    name = block.mark.removeprefix("file: ")
                    (self._folder / name).write_text(block.text, encoding="utf-8")
                for step in found:
                    following = in_order[count + 1 :]
                    self._does(step, [s for s in following if s.terminal == step.terminal])
                    count += 1
            left = [name for name, terminal in self._terminals.items() if terminal.busy()]
            assert not left, f"at the end of the page something runs in {left}"
        finally:
            for terminal in self._terminals.values():
                terminal.kill()
        return count

    def _planned(self, block: Block) -> list[Step]:
        if block.mark.startswith("leave: ") or block.language != "console":
            return []
        name = block.mark.partition("terminal: ")[2] or FIRST
        return list(steps(block, name))

    def _does(self, step: Step, following: Sequence[Step]) -> None:
        if step.terminal not in self._terminals:
            self._terminals[step.terminal] = Terminal(
                step.terminal, self._folder, self._environment
            )
        terminal = self._terminals[step.terminal]
        where = f"line {step.line}, {step.terminal}: {step.command or 'what it says'}"
        print(where, flush=True)
        if step.command == INTERRUPT:
            terminal.said.clear()
            terminal.interrupt()
        elif step.command:
            terminal.run(step.command)
        goes_on = bool(following) and following[0].command in ("", INTERRUPT)
        if goes_on or not step.command:
            self._comes(step, terminal, where)
            assert terminal.busy() or not following, (where, terminal.said)
        else:
            status = terminal.ended()
            assert status == 0, (where, status, terminal.said)
            difference = differs(step.shown, terminal.said)
            assert not difference, f"{where}: {difference}"
        if not step.command or goes_on:
            self._meanwhile.get(step.terminal, lambda: None)()

    def _comes(self, step: Step, terminal: Terminal, where: str) -> None:
        """Wait for what is shown, behind what was shown before."""
        try:
            wait_until(
                lambda: reached(step.shown, terminal.said, terminal.looked_at) is not None,
                PATIENCE_S,
                where,
            )
        except AssertionError:
            said = terminal.said[terminal.looked_at :]
            raise AssertionError(f"{where}: shown is {step.shown}, and what comes {said}") from None
        terminal.looked_at = reached(step.shown, terminal.said, terminal.looked_at) or 0
