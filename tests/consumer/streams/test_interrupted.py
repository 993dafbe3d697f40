"""A signal handler shuts a connector down, or ends the process, at any instruction of a stream's
`next`: what the application was given is processed, and what it was not given comes again.
"""

from __future__ import annotations

import dis
import sys
import threading
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from consumer.api.lifetime import CloseArguments, Lifetime, OpenConsumer
from consumer.streams import connector, queues
from consumer.streams.connector import KafkaStream
from tests.consumer.streams.test_queues import Bench

FILES = (connector.__file__, queues.__file__)
# behind these, and where a function begins, Python lets signal handlers run
PLACES = ("RESUME", "CALL", "JUMP_BACKWARD")


class Streams(SimpleNamespace):
    """As much of a `StreamsConsumer` as a stream asks for."""

    @property
    def closing(self) -> bool:
        return bool(self.queues.closed)


class Interrupted:
    """A stream that has handed out the record 10, and has 11 and 12."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.bench.assign({0: 0})
        self.bench.arrive(0, 10, 11, 12)
        self.ends = 0
        self.lifetime = Lifetime(self.end, self.bench.queues.close, 1_000, True)
        streams: Any = Streams(
            queues=self.bench.queues,
            lifetime=self.lifetime,
            config={"consumer_timeout_ms": 60_000},
        )
        self.stream = KafkaStream(streams, self.bench.line(0), 0, (None, None), OpenConsumer())
        self.given = [next(self.stream).offset]

    def end(self, arguments: CloseArguments) -> None:
        self.ends += 1
        self.bench.queues.processed_by(threading.current_thread())

    def interrupt(self, number: int, raises: bool) -> bool:
        """Ask for the next record, interrupted at the place of this number; whether there is
        one.
        """
        seen, before = 0, dict[FrameType, str]()

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal seen
            if frame.f_code.co_filename not in FILES:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                last = before.get(frame, "RESUME")
                before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
                if last.startswith(PLACES):
                    seen += 1
                    if seen == number:
                        sys.settrace(None)
                        self.lifetime.close()
                        if raises:
                            raise SystemExit
            return trace

        sys.settrace(trace)
        try:
            self.given.append(next(self.stream).record.offset)
        except (StopIteration, SystemExit):
            pass
        finally:
            sys.settrace(None)
        return seen >= number


@pytest.mark.parametrize("raises", [False, True])
def test_at_each_place_of_next(raises: bool) -> None:
    number = 0
    while True:
        number += 1
        one = Interrupted()
        if not one.interrupt(number, raises):
            break
        one.lifetime.close()  # as a `finally` of the application does
        assert one.ends == 1, f"place {number}"
        assert one.bench.positions() == {0: one.given[-1] + 1}, f"place {number}: {one.given}"
    assert number > 20
