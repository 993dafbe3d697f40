"""A member that keeps its partitions over a restart: the stable name of a pod is its
`group_instance_id`.

Pods of a Kubernetes StatefulSet are called billing-0, billing-1, ... and get their name as
HOSTNAME, also when they are made again. A pod that is back within `group_instance_grace_ms` has the
partitions that it had, and the others notice nothing: a rolling restart moves no partition. Choose
a grace that is longer than a pod takes to come back, and shorter than its partitions may wait when
it does not.

    kind: StatefulSet
    spec:
      serviceName: billing
      replicas: 3
      template:
        spec:
          terminationGracePeriodSeconds: 30
          containers:
          - name: billing
            image: billing
            command: ["python", "stable_pod_name.py", "--zookeeper", "zk1:2181/kafka", "--topic",
                "orders", "--group", "billing"]
"""

from __future__ import annotations

import argparse
import os
import signal

from zkcoord.consumer import ConsumerRebalanceListener, KafkaConsumer, TopicPartition


class Say(ConsumerRebalanceListener):
    """Prints what comes and goes."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        print("assigned", *sorted(tp.partition for tp in assigned), flush=True)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        print("revoked", *sorted(tp.partition for tp in revoked), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Consume as the pod that HOSTNAME names.")
    for name in ("zookeeper", "topic", "group"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--grace-ms", type=int, default=120_000)
    args = parser.parse_args()
    pod = os.environ.get("HOSTNAME")
    if not pod:
        parser.error("HOSTNAME is not set: outside of a pod write HOSTNAME=billing-0 before it")
    stopping: list[int] = []
    # what Kubernetes sends to a pod that is to end
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    with KafkaConsumer(
        zookeeper_connect=args.zookeeper,
        group_id=args.group,
        group_instance_id=pod,
        group_instance_grace_ms=args.grace_ms,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([args.topic], listener=Say())
        while not stopping:
            for tp, records in consumer.poll(500).items():
                for record in records:
                    print("record", tp.partition, record.offset, flush=True)


if __name__ == "__main__":
    main()
