"""Assignors that do what assignors should not; each is an entry point of
`tests.assignors.installed`.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

from zkcoord.core.assignment import Assignment, AssignmentInput, assign_range
from zkcoord.core.model import Thread, TopicPartition

CALLS = [0]


def good(given: AssignmentInput) -> Assignment:
    """As range; user data tells in which process, and how often it was called."""
    CALLS[0] += 1
    return Assignment(
        assign_range(given).targets,
        (),
        {member: f"{os.getpid()} {CALLS[0]}" for member in given.members},
    )


class Polite:
    """With a method, as the older interface of Kafka has it."""

    def assign(self, given: AssignmentInput) -> Assignment:
        return assign_range(given)


def loops(given: AssignmentInput) -> Assignment:
    while True:
        pass


def loops_where_told(given: AssignmentInput) -> Assignment:
    """Loops for a group of which a member says so."""
    return loops(given) if "loop" in given.user_data.values() else good(given)


def sleeps_once(given: AssignmentInput) -> Assignment:
    """Takes as many seconds as the first member says; where a file is named after them, only as
    long as the file is not there.
    """
    seconds, _, path = next(iter(given.user_data.values())).partition(" ")
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until and not (path and Path(path).exists()):
        time.sleep(0.01)
    return good(given)


def raises(given: AssignmentInput) -> Assignment:
    raise ValueError("no\n such   thing\x1b[31m")


def exits_politely(given: AssignmentInput) -> Assignment:
    sys.exit("enough")


def exits(given: AssignmentInput) -> Assignment:
    os.write(2, b"first line\nlast words\n")
    os._exit(3)


def crashes(given: AssignmentInput) -> Assignment:
    ctypes.string_at(0)
    return good(given)


def hoards(given: AssignmentInput) -> Assignment:
    """Takes all the memory that it gets (or 4 GiB) and says how much it was."""
    everything = []
    try:
        while len(everything) < 256:
            everything.append(bytearray(16 * 1024 * 1024))
    except MemoryError:
        count = len(everything)
        everything.clear()
        raise MemoryError(f"after {16 * count} MiB") from None
    return good(given)


def prints(given: AssignmentInput) -> Assignment:
    print("hello from the assignor")
    os.write(1, b"and from its descriptor 1\n")
    assert sys.stdin.read() == "", "its input is empty"
    return good(given)


def floods(given: AssignmentInput) -> Assignment:
    while True:
        os.write(1, b"x" * 65_536)


def scribbles(given: AssignmentInput) -> Assignment:
    """Writes to every descriptor that it can find."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"not a frame")
        except OSError:
            continue
    return good(given)


def swells(given: AssignmentInput) -> Assignment:
    return Assignment(
        {}, (), {f"{member}{n}": "x" * 10_000 for member in given.members for n in range(1_000)}
    )


def lists(given: AssignmentInput) -> Assignment:
    return []  # type: ignore[return-value]


def names_numbers(given: AssignmentInput) -> Assignment:
    return Assignment({TopicPartition("t", "0"): Thread("m", 0)})  # type: ignore[arg-type]


def invents(given: AssignmentInput) -> Assignment:
    """What only the core can judge."""
    return Assignment({TopicPartition("nowhere", 7): Thread("nobody", 3)})


def breeds(given: AssignmentInput) -> Assignment:
    """Leaves a process behind, told in a file, and loops."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(next(iter(given.user_data.values()))).write_text(f"{os.getpid()} {child.pid}")
    return loops(given)


def dies_later(given: AssignmentInput) -> Assignment:
    """Answers well; the process ends a moment after."""
    if os.fork() == 0:
        parent = os.getppid()
        os.close(1)
        time.sleep(0.05)
        os.kill(parent, 9)
        os._exit(0)
    return good(given)


def remembers_secrets(given: AssignmentInput) -> Assignment:
    return Assignment(
        {},
        (),
        {
            member: os.environ.get("ZKCOORD_ZOOKEEPER_PASSWORD", "nothing")
            for member in given.members
        },
    )
