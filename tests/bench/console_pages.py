"""Open pages of a console, as browsers hold them.

`python -m tests.bench.console_pages PORT PATH...` says "open" when all of them have had their first
event, and reads until it is killed.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys

EVENT = b"data: "
RECEIVE_BYTES = 256 * 1024
READERS_NICE = 19  # browsers are on other machines


def main(arguments: list[str]) -> int:
    """The command line."""
    os.nice(READERS_NICE)
    port, paths = int(arguments[0]), arguments[1:]
    selector = selectors.DefaultSelector()
    waiting = set()
    for path in paths:
        one = socket.create_connection(("127.0.0.1", port), 60)
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        selector.register(one, selectors.EVENT_READ)
        waiting.add(one)
    while True:
        for key, _ in selector.select():
            data = key.fileobj.recv(RECEIVE_BYTES)  # type: ignore[union-attr]  # a socket
            if not data:
                print("closed", flush=True)
                return 1
            if EVENT in data and key.fileobj in waiting:
                waiting.discard(key.fileobj)  # type: ignore[arg-type]
                if not waiting:
                    print("open", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
