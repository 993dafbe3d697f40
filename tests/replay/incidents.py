"""Recordings for tests: from the transcripts of the core, and from the simulator."""

from __future__ import annotations

from pathlib import Path

from tests.core import script
from tests.sim import replay as sim_replay
from tests.sim.world import World
from zkcoord.coordinator.input_recorder import end_line, header_line, step_line
from zkcoord.core.coordinator import Coordinator
from zkcoord.replay.replay import Recording

SCRIPTS = Path(script.__file__).parent / "scripts"


def of_transcript(name: str) -> list[bytes]:
    """The lines of a recording of what a transcript's core is told."""
    return of_lines((SCRIPTS / f"{name}.txt").read_text())


def of_lines(text: str) -> list[bytes]:
    """The same of a transcript's text."""
    with sim_replay.recording() as journals:
        script.replay(text)
    (journal,) = (journal for journal in journals.values() if journal.steps)
    return [
        header_line(journal.core.options, 7, 0),
        *(step_line(event, actions) for event, actions in journal.steps),
        end_line("the transcript ended"),
    ]


def of_seed(seed: int) -> list[Recording]:
    """A simulator run's terms."""
    with sim_replay.recording() as journals:
        World(seed).run()
    return [
        term
        for journal in journals.values()
        if isinstance(journal.core, Coordinator)
        for term in sim_replay.terms(journal)
    ]


def written(folder: Path, lines: list[bytes], name: str = "inputs-7.jsonl") -> Path:
    """A recording as a file."""
    path = folder / name
    path.write_bytes(b"".join(lines))
    return path
