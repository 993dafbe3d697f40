"""A process that fetches a partition which it does not own, as a stray script with Kafka's plain
consumer would: `python -m zkcoord.demo.rogue --bootstrap-servers B --topic T --partition N`.

It writes down what it was handed in the form of `consumer.verifiable`, begins at the partition's
end, and goes on until it is killed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from kafka import KafkaConsumer, TopicPartition

from consumer.verifiable import EventLines, named, ranges_of

POLL_MS = 200


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch until killed."""
    parser = argparse.ArgumentParser(prog="python -m zkcoord.demo.rogue")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partition", type=int, required=True)
    args = parser.parse_args(argv)
    consumer = KafkaConsumer(
        bootstrap_servers=args.bootstrap_servers, group_id=None, auto_offset_reset="latest"
    )
    consumer.assign([TopicPartition(args.topic, args.partition)])
    journal = EventLines()
    while True:
        batch = consumer.poll(POLL_MS)
        if batch:
            journal.write(
                "records",
                count=sum(map(len, batch.values())),
                ranges={named(at): ranges_of(records) for at, records in batch.items()},
            )


if __name__ == "__main__":
    raise SystemExit(main())
