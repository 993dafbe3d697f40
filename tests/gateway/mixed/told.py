"""A client that speaks in the lines of `tests.gateway.wire_client`, told about in those of
`consumer.verifiable`, as `zkcoord.demo.gateway.console` tells about a Java client:

    python -m tests.gateway.mixed.told TOPIC -- command of the client

It runs as a child, and joins as soon as it is ready. SIGTERM and SIGINT tell it to close; who kills
it has to kill the child. Times are of the monotonic clock in its lines, and of the machine's clock
here. The exit status is 0 after a clean end, 137 where it was killed, 1 where it ended by itself.
"""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from consumer.verifiable import EventLines
from zkcoord.stack.process import owned_command

EXIT_KILLED = 128 + signal.SIGKILL
READY = "ready"

Told = dict[str, Any]


def events(topic: str, line: str, ahead_ns: int) -> Iterator[Told]:
    """What a line tells, with `event` and `t`; `ahead_ns`: how far the machine's clock is ahead of
    the monotonic one. Raises `ValueError` for what is none.
    """
    at, _, rest = line.strip().partition(" ")
    event, _, listed = rest.partition(" ")
    t = int(at) + ahead_ns
    if event in ("assigned", "revoked", "lost", "took", "stored"):
        numbers = [int(number) for number in listed.split(",") if number]
        if numbers:
            yield {"t": t, **of_partitions(topic, event, numbers)}
    elif event == "joins":
        yield {"event": "registered", "t": t, "name": ""}
    elif event == "closes":
        yield {"event": "closing", "t": t}


def of_partitions(topic: str, event: str, numbers: Sequence[int]) -> Told:
    """What an event with numbers says. Where a client begins it does not tell."""
    names = [f"{topic}-{number}" for number in numbers]
    if event == "assigned":
        return {"event": event, "offsets": dict.fromkeys(names)}
    if event == "revoked":
        return {"event": event, "positions": dict.fromkeys(names, -1)}
    if event == "lost":
        return {"event": event, "partitions": names, "reason": "it says so"}
    if event == "stored":
        return {"event": "committed", "offsets": {names[0]: numbers[1]}}
    _, first, last = numbers
    count = last - first + 1
    return {"event": "records", "ranges": {names[0]: [[first, last, count, 0]]}, "count": count}


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    topic, dashes, *words = sys.argv[1:] if argv is None else argv
    assert dashes == "--"
    lines = EventLines()
    lines.write("start", host=platform.node(), topics=[topic])
    child = subprocess.Popen(
        owned_command(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    orders, asked = child.stdin, list[int]()

    def say(order: str) -> None:
        try:
            orders.write(f"{order}\n")
            orders.flush()
        except BrokenPipeError:
            pass  # it is dead: its end says so below

    def ask(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        say("close")

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    for line in child.stdout:
        ahead_ns = time.time_ns() - time.monotonic_ns()
        if line.split()[1:2] == [READY] and not asked:
            say("join")
            continue
        try:
            found = list(events(topic, line, ahead_ns))
        except ValueError:
            print(f"not a line of a client: {line!r}", file=sys.stderr)
            continue
        for event in found:
            lines.write(event.pop("event"), event.pop("t"), **event)
    status = child.wait()
    if status == -signal.SIGKILL:
        return EXIT_KILLED
    lines.write("closed")
    if not asked or status:
        print(f"the client ended with status {status}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
