"""A program with message streams that writes the lines of `consumer.verifiable`: a thread for each
stream, a line for each record.

    python -m tests.acceptance.streams_app HOSTS GROUP TOPIC STREAMS DELAY_MS
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from consumer import KafkaStream, ZookeeperConsumerConnector
from consumer.streams import ConsumerRebalanceListener
from consumer.verifiable import EventLines, Reporter, named


class GivesUp(ConsumerRebalanceListener):
    """Writes down what is given up, also when the connector is shut down, before anybody else can
    have it: this process's last line comes when its threads have ended, which is later.
    """

    def __init__(self, journal: EventLines) -> None:
        self.journal = journal

    def before_releasing_partitions(self, partition_ownership: Mapping[str, set[int]]) -> None:
        self.journal.write(
            "revoked",
            positions={
                named((topic, number)): None
                for topic, numbers in partition_ownership.items()
                for number in numbers
            },
        )


def main(hosts: str, group: str, topic: str, streams: str, delay_ms: str) -> int:
    """Consume until SIGTERM."""
    journal = EventLines()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def committed(offsets: Mapping[Any, Any], answer: Any) -> None:
        if isinstance(answer, Exception):
            journal.write("committed", error=str(answer))
        else:
            journal.write("committed", offsets={named(tp): o.offset for tp, o in offsets.items()})

    def work(stream: KafkaStream) -> None:
        for message in stream:
            at = named((message.topic, message.partition))
            journal.write(
                "records",
                count=1,
                ranges={at: [[message.offset, message.offset, 1, message.timestamp]]},
                stream=stream.number,
            )
            time.sleep(float(delay_ms) / 1000)

    properties = {
        "zookeeper.connect": hosts,
        "group.id": group,
        "auto.offset.reset": "smallest",
        "auto.commit.interval.ms": "100",
        "zookeeper.session.timeout.ms": "18000",
    }
    connector = ZookeeperConsumerConnector(
        properties, observer=Reporter(journal), default_offset_commit_callback=committed
    )
    connector.set_consumer_rebalance_listener(GivesUp(journal))
    threads = [
        threading.Thread(target=work, args=(stream,))
        for stream in connector.create_message_streams({topic: int(streams)})[topic]
    ]
    journal.write("start")
    for thread in threads:
        thread.start()
    stop.wait()
    connector.shutdown()
    for thread in threads:
        thread.join()
    journal.write("closed")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
