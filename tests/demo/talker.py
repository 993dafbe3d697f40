"""A child process for tests: says hello, then what its arguments tell it. `python -m
tests.demo.talker stay|end|fail|deaf`.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time


def tell(event: str) -> None:
    """One line."""
    print(json.dumps({"event": event, "t": time.time_ns()}), flush=True)


def main(what: str) -> int:
    """The exit status."""
    if what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    tell("hello")
    print("this is not JSON", flush=True)
    if what == "fail":
        print("something broke", file=sys.stderr)
        return 3
    while what in ("stay", "deaf"):
        # not for ever: a signal that comes just before it would end nothing
        threading.Event().wait(0.2)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
