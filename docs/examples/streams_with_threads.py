"""A program of the old high-level consumer, with four threads: message streams, as
`ZookeeperConsumerConnector` gave them.

Each thread drains one stream; a partition belongs to one stream, so its records are handled in
order. A record counts as processed when its thread asks for the next one. SIGTERM and Ctrl-C end
the streams; what the threads have in hand is finished, and where they stand is stored.

    python streams_with_threads.py --zookeeper zk1:2181/kafka --topic orders --group billing
"""

from __future__ import annotations

import argparse
import signal
import threading

from zkcoord.consumer import KafkaStream, ZookeeperConsumerConnector


def work(stream: KafkaStream) -> None:
    """One thread's work, until the connector is shut down."""
    for message in stream:
        # in one piece, because other threads print as well
        print(
            f"message {stream.number} {message.partition} {message.offset} {message.message}\n",
            end="",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Consume with threads, as with the old consumer.")
    for name in ("zookeeper", "topic", "group"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--threads", type=int, default=4)
    args = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    connector = ZookeeperConsumerConnector(
        {
            "zookeeper.connect": args.zookeeper,
            "group.id": args.group,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": "1000",
        }
    )
    streams = connector.create_message_streams(
        {args.topic: args.threads}, value_decoder=bytes.decode
    )[args.topic]
    threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    stop.wait()
    connector.shutdown()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
