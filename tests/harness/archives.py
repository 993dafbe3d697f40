"""python -m tests.harness.archives     makes the archives of what ZooKeeper and Kafka load, where
                                        they are not there (half a minute, once; see `class_data`)

The tests start these servers hundreds of times.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.harness.kafka import create_topic, group_member, new_broker, produce_numbered
from tests.harness.quick_java import quick_java
from tests.harness.wait import wait_until
from tests.harness.zookeeper import TEST_OPTIONS, fresh_chroot
from zkcoord.stack import class_data, jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import ZooKeeperServer

PATIENCE_S = 90.0


def main() -> int:
    """Make what is missing."""
    java = quick_java()
    kafkas = os.pathsep.join(
        [jars.logging_classpath(), *map(str, jars.resolve(jars.KAFKA, java, print))]
    )
    of_both = jars.zookeeper_classpath(), kafkas
    if all(class_data.archive_of(java, class_path).is_file() for class_path in of_both):
        return 0
    with tempfile.TemporaryDirectory() as folder:
        _work(Path(folder), java, *of_both)
    return 0


def _work(home: Path, java: Java, zookeepers: str, kafkas: str) -> None:
    """Both servers, with a group that reads something."""
    with class_data.making(java, zookeepers) as making_zookeepers:
        server = ZooKeeperServer(
            home / "zookeeper", free_port(), making_zookeepers, owned=True, options=TEST_OPTIONS
        )
        server.start()
        with class_data.making(java, kafkas) as making_kafkas:
            broker = new_broker(home / "kafka", fresh_chroot(server.address), making_kafkas)
            broker.start()
            topic = create_topic(broker.address, "archived", 2)
            produce_numbered(broker.address, topic, 2, 10)
            consumer = group_member(broker.address, topic, topic, auto_offset_reset="earliest")
            wait_until(lambda: consumer.poll(200), PATIENCE_S, "records")
            consumer.close()
            broker.stop()
        server.stop()


if __name__ == "__main__":
    raise SystemExit(main())
