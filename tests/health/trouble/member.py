"""A consumer as a program. Its argument is JSON: `hosts`, `group`, `topics`, `configs`, `dies_at`
([partition, offset]: it kills itself when it is handed that record). It polls until its standard
input ends, then closes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from tests.kafka.groups import consumer


def main() -> None:
    """See the module."""
    told = json.loads(sys.argv[1])
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    with consumer(told["hosts"], told["group"], *told["topics"], **told["configs"]) as one:
        while not over.is_set():
            for tp, records in one.poll(100).items():
                for record in records:
                    if [tp.partition, record.offset] == told["dies_at"]:
                        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
