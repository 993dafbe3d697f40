"""Tries mutants in one process that has loaded the tests and never ran one: for each it forks a
child, in which the code of the functions concerned is replaced, and that runs the tests which run
the changed line, the fastest first, until one fails. Nothing is loaded twice, so that a mutant
costs the milliseconds of its tests.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.mutate.mutations import Mutant, mutated

MEMORY_MAX = 6 << 30  # bytes of address space of a child
SLACK_S = 20.0  # for what a mutant makes slower, beside the time of its tests
# What the tests of one mutant may take, as surveyed, in processor time: on a busy machine no fewer
# are run. The slowest are left out.
TESTS_S = 8.0
# What a test may not ask for: servers, whose connections a forked child would share.
SERVERS = {"java", "zk_server", "old_zk_server", "own_zk_server", "ensemble", "kafka_broker"}


class Verdict(Enum):
    """What became of a mutant."""

    CAUGHT = "caught"
    STUCK = "caught (it did not end)"
    SIMULATED = "caught by the simulator"
    SURVIVED = "survived"
    UNTESTED = "survived: no test runs the line"


@dataclass
class Seen:
    """Of one test: how long it took, by the clock and of the processor, and the lines that it ran,
    by path.
    """

    seconds: float = 0.0
    processor_s: float = 0.0
    lines: dict[str, set[int]] = field(default_factory=dict)


class Lines:
    """Notes the lines that run, of some files, in any thread."""

    def __init__(self, paths: dict[str, str]) -> None:
        # as code objects have it -> as it is called here
        self._paths = paths
        self.seen = Seen()

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        path = self._paths.get(frame.f_code.co_filename)
        if path is None:
            return None
        lines = self.seen.lines.setdefault(path, set())
        lines.add(frame.f_lineno)

        def step(frame: FrameType, event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            return step

        return step

    @contextlib.contextmanager
    def noting(self) -> Iterator[Seen]:
        """What runs inside."""
        self.seen = Seen()
        began, used = time.perf_counter(), time.process_time()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            yield self.seen
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.seen.seconds = time.perf_counter() - began
            self.seen.processor_s = time.process_time() - used


def asks_for_a_server(item: pytest.Item) -> bool:
    """Whether this test cannot be run in a fork."""
    return bool(SERVERS & set(getattr(item, "fixturenames", ())))


def passes(item: pytest.Item) -> bool:
    """Run a test."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        reports = runtestprotocol(item, nextitem=None, log=False)
    return not any(report.failed for report in reports)


def in_child(work: Callable[[], bytes], limit_s: float) -> bytes | None:
    """What `work` gives in a fork of this process; None where it did not end in time or died."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends it, whatever it is at
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            with os.fdopen(write, "wb") as out:
                out.write(work())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as given:
        answer = given.read()
    _, status = os.waitpid(child, 0)
    return answer if status == 0 else None


def survey(items: Sequence[pytest.Item], paths: dict[str, str]) -> dict[str, Seen]:
    """Test -> what it runs, of those that pass here. In a child, so that nothing is left of it."""

    def work() -> bytes:
        lines, found = Lines(paths), {}
        for item in items:
            with lines.noting() as seen:
                passed = passes(item)
            if passed:
                found[item.nodeid] = seen
        return pickle.dumps(found)

    answer = in_child(work, 3600)
    if answer is None:
        raise RuntimeError("the tests could not be run: run them by hand first")
    found: dict[str, Seen] = pickle.loads(answer)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def replace_code(mutant: Mutant, root: Path) -> bool:
    """Give every function that is loaded and stands inside the changed one, or is it, its new code;
    what was remembered of earlier calls is forgotten. Whether there was one.
    """
    file = str(root / mutant.path)
    new = {
        (code.co_qualname, code.co_firstlineno): code
        for code in _codes(compile(mutated(mutant, root), file, "exec", dont_inherit=True))
    }
    replaced = False
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper):
            thing.cache_clear()
        if not isinstance(thing, FunctionType) or thing.__code__.co_filename != file:
            continue
        code = thing.__code__
        within = code.co_qualname == mutant.outer or code.co_qualname.startswith(
            f"{mutant.outer}.<locals>."
        )
        found = new.get((code.co_qualname, code.co_firstlineno)) if within else None
        if found is not None and found.co_freevars == code.co_freevars:
            thing.__code__ = found
            replaced = True
    return replaced


class Trials:
    """Judges mutants by the tests that were collected."""

    def __init__(self, items: Sequence[pytest.Item], seen: dict[str, Seen], root: Path) -> None:
        self._root = root
        self._items = {item.nodeid: item for item in items}
        self._seen = seen
        self._by_line: dict[tuple[str, int], list[str]] = {}
        for name in sorted(seen, key=lambda name: seen[name].processor_s):
            for path, lines in seen[name].lines.items():
                for line in lines:
                    self._by_line.setdefault((path, line), []).append(name)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that run the line, the fastest first, as far as time goes."""
        chosen, left = [], TESTS_S
        for name in self._by_line.get((mutant.path, mutant.line), ()):
            left -= self._seen[name].processor_s
            if chosen and left < 0:
                break
            chosen.append(name)
        return chosen

    def judge(self, mutant: Mutant, simulate: Callable[[], bool]) -> Verdict:
        """`simulate`: whether the simulator objects; it is asked about what tests let through."""
        names = self.tests_of(mutant)
        limit = SLACK_S + 3 * sum(self._seen[name].seconds for name in names)

        def work() -> bytes:
            if not replace_code(mutant, self._root):
                return Verdict.UNTESTED.name.encode()
            for name in names:
                if not passes(self._items[name]):
                    return Verdict.CAUGHT.name.encode()
            return (Verdict.SURVIVED if names else Verdict.UNTESTED).name.encode()

        answer = in_child(work, limit)
        if answer is None:
            return Verdict.STUCK
        verdict = Verdict[answer.decode()]
        if verdict is Verdict.CAUGHT:
            return verdict

        def further() -> bytes:
            replace_code(mutant, self._root)
            return b"1" if simulate() else b"0"

        return Verdict.SIMULATED if in_child(further, 300) in (b"1", None) else verdict
