"""What the scenario did, written down as it does it: for the verdict (files under `scenario/`) and
for the live view (`steps`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class StepView:
    """One step as people see it. `took_ms` is None until it is balanced."""

    name: str
    began_ns: int
    took_ms: float | None = None
    done: bool = False


class ScenarioJournal:
    """The scenario's journal. Thread-safe: the observer writes into it, too. `succession_ms`: how
    long nobody led after the leading coordinator was killed; `handed_on_ms`: how long after a
    gateway was killed until its clients had all been handed new records through another one.
    """

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._tell = tell
        self.steps: list[StepView] = []
        self.succession_ms: float | None = None
        self.handed_on_ms: float | None = None

    def write(self, event: str, t_ns: int | None = None, **fields: Any) -> None:
        """One line."""
        line = json.dumps(
            {"event": event, "t": time.time_ns() if t_ns is None else t_ns, **fields},
            separators=(",", ":"),
        )
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()

    def began(self, name: str, quiet: bool = False, t_ns: int | None = None) -> StepView:
        """A step begins. `quiet`: it must cause no command."""
        t_ns = time.time_ns() if t_ns is None else t_ns
        self.write("step", t_ns, name=name, quiet=quiet)
        step = StepView(name, t_ns)
        self.steps.append(step)
        self._tell(f"> {name}")
        return step

    def balanced(
        self, step: StepView, clock_ns: int, took_ms: float | None, t_ns: int | None = None
    ) -> None:
        """The step is over; it is counted from `clock_ns` on."""
        self.write("balanced", t_ns, name=step.name, clock=clock_ns)
        step.done, step.took_ms = True, took_ms
        self._tell(
            f"  {step.name}: "
            + (
                "nothing had to move"
                if took_ms is None
                else f"every partition that came is fetched, after {took_ms:.0f} ms"
            )
        )

    def exit(self, process: str, killed: bool, t_ns: int) -> None:
        """A process is gone since `t_ns`."""
        self.write("exit", t_ns, process=process, killed=killed)

    def stored(self, t_ns: int, topic: str, offsets: Mapping[int, int]) -> None:
        """What was found stored, by now, where it was asked for at `t_ns`."""
        self.write(
            "stored",
            t_ns,
            until=time.time_ns(),
            offsets={f"{topic}-{number}": offset for number, offset in offsets.items()},
        )

    def mark(self, label: str, t_ns: int) -> None:
        """Something that belongs into the picture and is no step."""
        self.write("mark", t_ns, label=label)

    def measured(self) -> list[tuple[str, float]]:
        """What took how long, in ms, beside the steps."""
        found = {
            "another coordinator leads after the kill": self.succession_ms,
            "all clients of the killed gateway have new records": self.handed_on_ms,
        }
        return [(name, ms) for name, ms in found.items() if ms is not None]

    def close(self) -> None:
        """No more lines."""
        with self._lock:
            self._file.close()
