"""A coordinator that ends, or stops, exactly at a named step: `python -m tests.chaos.stopping FILE
coordinator options...`.

At SIGUSR1 it reads FILE, `STEP kill` or `STEP stop`, and prints {"event": "armed"}; at the first
such step from then on it prints {"event": "step-reached"} and sends itself SIGKILL or SIGSTOP.
Whoever stopped it sends SIGCONT, and it goes on as if nothing had been: a zombie. From then on each
write that its old term still sends is printed with its outcome, {"event": "late-write"}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from zkcoord.cli import main as cli
from zkcoord.core.events import Outcome, Send, Write
from zkcoord.zk.term.writer import TermWriter

BEFORE_STOP, BETWEEN, BEFORE_CLEAN_UP, TAKEOVER = (
    "before-stop",
    "between-stop-and-start",
    "between-start-and-clean-up",
    "during-takeover",
)
STEPS = (BEFORE_STOP, BETWEEN, BEFORE_CLEAN_UP, TAKEOVER)
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def tell(event: str, **fields: Any) -> None:
    """One JSON line, in one write."""
    os.write(1, (json.dumps({"event": event, "t": time.time_ns(), **fields}) + "\n").encode())


class Trap:
    """Where the process ends. `stopped` is the writer of the term in which it was stopped. Of the
    write that meets a step, nothing has been sent.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.step = ""
        self.how = ""
        self.sent: set[str] = set()
        self.stopped: TermWriter | None = None

    def arm(self, _number: int, _frame: FrameType | None) -> None:
        """SIGUSR1."""
        self.step, self.how = self.file.read_text(encoding="utf-8").split()
        self.sent.clear()
        tell("armed", step=self.step)

    def won(self) -> None:
        """A term begins: it is elected, and has read nothing."""
        self._at(TAKEOVER, None)

    def write(self, writer: TermWriter, write: Write) -> None:
        """A write is about to be sent."""
        kinds = {
            "stop" if op.command.stop else "start" if op.command.start else "reject"
            for op in write.ops
            if isinstance(op, Send)
        }
        if "stop" in kinds:
            self._at(BEFORE_STOP, writer)
        if "start" in kinds and f"stop {write.group}" in self.sent:
            self._at(BETWEEN, writer)
        if not kinds and f"start {write.group}" in self.sent:
            self._at(BEFORE_CLEAN_UP, writer)
        self.sent |= {f"{kind} {write.group}" for kind in kinds}

    def outcome(self, writer: TermWriter, outcome: Outcome) -> None:
        """A write was answered."""
        if writer is self.stopped:
            tell("late-write", outcome=outcome.name)

    def _at(self, step: str, writer: TermWriter | None) -> None:
        if step != self.step:
            return
        self.step, self.stopped = "", writer
        tell("step-reached", step=step)
        os.kill(os.getpid(), SIGNALS[self.how])


def set_up(trap: Trap) -> None:
    """Put the trap into this process's coordinator."""
    made: Callable[..., None] = TermWriter.__init__
    sends: Callable[..., None] = TermWriter.write
    answered: Callable[..., Any] = TermWriter._outcome

    def init(self: TermWriter, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        trap.won()

    def write(self: TermWriter, write: Write) -> None:
        trap.write(self, write)
        sends(self, write)

    def outcome(self: TermWriter, *args: Any) -> Any:
        written = answered(self, *args)
        trap.outcome(self, written.outcome)
        return written

    TermWriter.__init__ = init
    TermWriter.write = write
    TermWriter._outcome = outcome


def main(argv: list[str]) -> int:
    """Run; the exit status of the coordinator."""
    trap = Trap(Path(argv[0]))
    set_up(trap)
    signal.signal(signal.SIGUSR1, trap.arm)
    tell("trap-set")
    return cli.main(argv[1:])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
