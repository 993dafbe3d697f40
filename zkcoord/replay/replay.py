"""A recorded term again: the inputs of `zkcoord.coordinator.input_recorder` through a fresh core,
and whether it says the same.

The core is pure and deterministic, so anything else than the same actions means that this zkcoord
decides otherwise than the one that recorded, or that the file was changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from zkcoord.coordinator.input_recorder import FORMAT_VERSION, KNOWS, input_files
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.events import Action, Event, Write
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.value_type import value
from zkcoord.core_encoding import ForeignEncoding, codec
from zkcoord.errors import ReplayError

LATER_REPORTS = frozenset({"configuration"})
LATER_DETAILS = frozenset({"decided_ms", "owned", "steps"})
LATER_WORDS = frozenset(KNOWS)
UNFOUNDED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What the core may raise that is told what no decoder of nodes lets through."""

NOW_MS_MAX = 10**14
LINE_BYTES_MAX = 256 * 1024 * 1024

_WORDS = codec(tuple[str, ...])
_EVENT, _ACTION, _OPTIONS = codec(Event), codec(Action), codec(CoordinatorOptions)


@value
class ReplayStep:
    """One input, and what the core answered then. `line` is its line in the file, from 2 on;
    `actions` are plain values as recorded.
    """

    line: int
    event: Event
    actions: list[Any]

    def answers(self) -> list[Action]:
        """The recorded actions as values. Raises `ReplayError`."""
        with _said_by("the actions", self.line):
            return [_ACTION.decode(action) for action in self.actions]


class Recording:
    """A term's file, read line by line. `steps` may be called again and again. `end` says, after a
    whole pass, how the recording ends.
    """

    def __init__(self, name: str, lines: Iterable[bytes] | Path) -> None:
        """Raises `ReplayError` when the first line is not that of a recording."""
        self.name = name
        self.source = lines if isinstance(lines, Path) else list(lines)
        self.end = ""
        self.complete = False
        # The line that was taken last.
        self.line = 1
        header = next(self._lines(), (1, None))[1]
        if not isinstance(header, dict) or header.get("version") != FORMAT_VERSION:
            raise ReplayError(
                f"{name} is not a recording of inputs that this zkcoord reads (its first line names"
                f" no version {FORMAT_VERSION}): name an inputs-<epoch>.jsonl of a coordinator's"
                " journal folder"
            )
        with _said_by(f"the first line of {name}"):
            self.options: CoordinatorOptions = _OPTIONS.decode(header.get("options"))
            self.epoch: int = codec(int).decode(header.get("epoch"))
            self.wall_ms: int = codec(int).decode(header.get("t"))
            self.knows: frozenset[str] = frozenset(_WORDS.decode(header.get("knows", [])))

    @contextmanager
    def believed(self) -> Iterator[None]:
        """What is done with the inputs. Where it fails by one that no decoder of nodes lets
        through, that is the file's fault: raises `ReplayError`.
        """
        try:
            yield
        except UNFOUNDED as error:
            raise ReplayError(
                f"line {self.line} of {self.name}, or what stands before it, is nothing that a"
                f" coordinator is told or says ({type(error).__name__}): the file was changed or"
                " damaged; if it was not, please report it"
            ) from error

    def steps(self) -> Iterator[ReplayStep]:
        """The inputs in order. Raises `ReplayError` for a line that cannot be one."""
        self.complete = False
        self.end = (
            "recorded up to here: the file has no end (the coordinator is still writing it, or was"
            " killed)"
        )
        for number, line in self._lines():
            self.line = number
            if number == 1:
                continue
            if line is None:
                self.end = (
                    "recorded up to here: the last line has no end (the coordinator is still"
                    " writing it, or was killed)"
                )
                return
            if "end" in line:
                self.complete, self.end = True, str(line["end"])
                return
            if "event" not in line or not isinstance(line.get("actions"), list):
                raise ReplayError(
                    f"line {number} of {self.name} is no input: the file was changed or damaged"
                )
            with _said_by(f"line {number} of {self.name}"):
                event = _EVENT.decode(line["event"])
            if not 0 <= event.now_ms <= NOW_MS_MAX:
                raise ReplayError(
                    f"line {number} of {self.name} has a time that no clock has ({event.now_ms}"
                    " ms): the file was changed or damaged"
                )
            yield ReplayStep(number, event, line["actions"])

    def _lines(self) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """(number, object) from 1 on; None for a line without its end."""
        if isinstance(self.source, list):
            yield from self._parsed(self.source)
            return
        try:
            with self.source.open("rb") as file:
                yield from self._parsed(_bounded(file))
        except OSError as error:
            raise ReplayError(
                f"{self.name} cannot be read ({error.strerror}): name a file of inputs, or a"
                " journal's folder"
            ) from error

    def _parsed(self, lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any] | None]]:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                yield number, None
                return
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ReplayError(
                    f"line {number} of {self.name} is not JSON: the file was changed or damaged, or"
                    " is no recording of inputs"
                ) from error
            if not isinstance(found, dict):
                raise ReplayError(
                    f"line {number} of {self.name} is no input: the file was changed or damaged"
                )
            yield number, found


def _bounded(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES_MAX):
        yield line


@contextmanager
def _said_by(what: str, line: int = 0) -> Iterator[None]:
    try:
        yield
    except ForeignEncoding as error:
        raise ReplayError(
            f"{what}{f' of line {line}' if line else ''} cannot be read ({error})"
        ) from error
    except UNFOUNDED as error:
        raise ReplayError(
            f"{what}{f' of line {line}' if line else ''} cannot be read ({type(error).__name__}):"
            " the file was changed or damaged"
        ) from error


@value
class Difference:
    """The first input at which a fresh core said something else; both as plain values."""

    step: ReplayStep
    recorded: Any
    said: Any


@dataclass(slots=True)
class ReplayResult:
    """What a replay found. `now_ms` is the time of the last input, `began_ms` that of the first."""

    inputs: int = 0
    writes: int = 0
    began_ms: int = 0
    now_ms: int = 0
    difference: Difference | None = None
    end: str = ""
    complete: bool = False


@dataclass
class Replay:
    """One recording through a fresh core. Iterate over `steps` to watch it; `verdict` holds when
    that has ended, or at the first difference.
    """

    recording: Recording
    verdict: ReplayResult = field(default_factory=ReplayResult)

    def __post_init__(self) -> None:
        self.core = Coordinator(self.recording.options)
        self.later = {
            "metadata": LATER_REPORTS,
            "detail": LATER_DETAILS,
            "command": LATER_WORDS - self.recording.knows,
        }

    def steps(
        self, before: Callable[[Event], None] = lambda event: None
    ) -> Iterator[tuple[ReplayStep, list[Action]]]:
        """Each input with what the core says to it now; `core` has taken it by then (`before` is
        told before). Ends at the first difference.
        """
        found = self.verdict
        for step in self.recording.steps():
            if not found.inputs:
                found.began_ms = step.event.now_ms
            with self.recording.believed():
                before(step.event)
                actions = self.core.step(step.event)
            found.inputs += 1
            found.now_ms = step.event.now_ms
            found.writes += sum(isinstance(action, Write) for action in actions)
            said = [_ACTION.encode(action) for action in actions]
            if said != step.actions:
                pairs = zip(step.actions, said, strict=False)
                more = said[len(step.actions) :]
                said = [_as_recorded(*pair, self.later) for pair in pairs] + more
            if said != step.actions:
                found.difference = _first(step, said)
                return
            yield step, actions
        found.end, found.complete = self.recording.end, self.recording.complete

    def run(self) -> ReplayResult:
        """To the end, without watching."""
        for _ in self.steps():
            pass
        return self.verdict


def _as_recorded(
    recorded: Any, said: Any, later: Mapping[str, frozenset[str]], name: str = ""
) -> Any:
    """What is said now, less what reports, records and commands did not have yet in the release
    that recorded (`later`, by what it is of): that is no decision. A release that knows such a
    field never leaves it out where it says it; which words of commands it knows its first line
    says.
    """
    if isinstance(recorded, dict) and isinstance(said, dict):
        unknown = later.get(name, frozenset()) - recorded.keys()
        return {
            key: _as_recorded(recorded.get(key), value, later, key)
            for key, value in said.items()
            if key not in unknown
        }
    if isinstance(recorded, list) and isinstance(said, list) and len(recorded) == len(said):
        return [_as_recorded(*pair, later) for pair in zip(recorded, said, strict=True)]
    return said


def _first(step: ReplayStep, said: list[Any]) -> Difference:
    """The first action that differs; None stands for one that is not there."""
    both = zip(
        [*step.actions, *[None] * len(said)], [*said, *[None] * len(step.actions)], strict=False
    )
    recorded, now = next(pair for pair in both if pair[0] != pair[1])
    return Difference(step, recorded, now)


def recordings(path: Path) -> list[Recording]:
    """The recording of a file, or those in a folder, oldest first. Raises `ReplayError`."""
    if not path.is_dir():
        return [Recording(str(path), path)]
    try:
        files = [file for file in input_files(path) if _begun(file)]
    except OSError as error:
        raise ReplayError(
            f"the folder {path} cannot be read ({error.strerror}): name a journal's folder"
        ) from error
    if not files:
        raise ReplayError(
            f"there are no inputs in {path}: a coordinator keeps them with --journal-inputs, in its"
            " --journal-dir"
        )
    return [Recording(str(file), file) for file in files]


def _begun(file: Path) -> bool:
    """Whether a recording has its first line: a coordinator that is killed at once leaves none."""
    with file.open("rb") as found:
        return found.readline(LINE_BYTES_MAX).endswith(b"\n")
