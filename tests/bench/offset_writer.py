"""Other groups' commits: `python -m tests.bench.offset_writer HOSTS RATE [PER_MULTI]` sets so many
offsets a second under /consumers/other-*/offsets, in multis of ten as a commit of ten partitions
would; with 1 for PER_MULTI each in a plain write, as old consumers do.

Multis are pipelined, and at most `IN_FLIGHT_MAX` are out: a server that cannot keep up slows it
down instead of piling them up. Each second it prints {"event": "written", "per_s": acknowledged
offsets}, and it fails when one is refused.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from kazoo.exceptions import NoNodeError

from tests.harness.zookeeper import connect, disconnect

GROUPS = 50
PARTITIONS = 20
PER_MULTI = 10
IN_FLIGHT_MAX = 400
SLICE_S = 0.005
PATH = "/consumers/other-{}/offsets/t/{}"


def leave(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM."""
    raise SystemExit(0)


class Writer:
    """Counts on kazoo's thread, sends on the main one."""

    def __init__(self, hosts: str, rate: int, per_multi: int) -> None:
        self.client: Any = connect(hosts)
        self.rate = rate
        self.per_multi = per_multi
        self.room = threading.Semaphore(IN_FLIGHT_MAX)
        self.acknowledged = 0
        self.failure = ""

    def prepare(self) -> None:
        """The nodes."""
        for group in range(GROUPS):
            for partition in range(PARTITIONS):
                path = PATH.format(group, partition)
                try:
                    self.client.set(path, b"0")
                except NoNodeError:
                    self.client.create(path, b"0", makepath=True)

    def send(self, number: int) -> None:
        """One commit of a group."""
        first = number * self.per_multi % (GROUPS * PARTITIONS)
        paths = [
            PATH.format(at // PARTITIONS, at % PARTITIONS)
            for at in range(first, first + self.per_multi)
        ]
        self.room.acquire()
        if self.per_multi == 1:
            self.client.set_async(paths[0], b"%d" % number).rawlink(self.answered)
            return
        transaction = self.client.transaction()
        for path in paths:
            transaction.set_data(path, b"%d" % number)
        transaction.commit_async().rawlink(self.answered)

    def answered(self, result: Any) -> None:
        """The end of a multi, or of a plain write."""
        self.room.release()
        if result.exception is not None or (
            self.per_multi > 1 and any(isinstance(part, Exception) for part in result.value)
        ):
            self.failure = f"a commit was refused: {result.exception or result.value}"
        else:
            self.acknowledged += self.per_multi

    def run(self) -> int:
        """Write until stopped."""
        began = reported = time.monotonic()
        sent, before = 0, 0
        while not self.failure:
            now = time.monotonic()
            while sent * self.per_multi < (now - began) * self.rate:
                self.send(sent)
                sent += 1
            if now - reported >= 1:
                per_s = (self.acknowledged - before) / (now - reported)
                reported, before = now, self.acknowledged
                print(
                    json.dumps({"event": "written", "t": time.time_ns(), "per_s": round(per_s)}),
                    flush=True,
                )
            time.sleep(SLICE_S)
        print(self.failure, file=sys.stderr)
        return 1


def main() -> int:
    """Run."""
    signal.signal(signal.SIGTERM, leave)
    writer = Writer(
        sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else PER_MULTI
    )
    try:
        writer.prepare()
        return writer.run()
    finally:
        disconnect(writer.client)


if __name__ == "__main__":
    raise SystemExit(main())
