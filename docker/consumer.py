"""An example of a consumer for compose.yaml: prints what it is handed, and leaves its group when it
is stopped.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from zkcoord.consumer import KafkaConsumer


def main() -> int:
    """Consume until SIGTERM or SIGINT."""
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with KafkaConsumer(
        os.environ["TOPIC"], group_id=os.environ["GROUP"], zookeeper_connect=os.environ["ZOOKEEPER"]
    ) as consumer:
        while not stopping:
            for tp, records in consumer.poll(timeout_ms=500).items():
                for record in records:
                    sys.stdout.write(
                        f"{tp.topic}-{tp.partition} {record.offset} {record.value!r}\n"
                    )
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
