"""Makes the archives of what ZooKeeper, Kafka and its tools load (see `class_data`), where they are
not there: half a minute, once. The tests start these hundreds of times.

    python -m tests.harness.archives
"""

from __future__ import annotations

import os
import subprocess
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
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def main() -> int:
    """Make what is missing; of Kafka's tools only where they are there already."""
    java = quick_java()
    kafkas = os.pathsep.join(
        [jars.logging_classpath(), *map(str, jars.resolve(jars.KAFKA, java, print))]
    )
    wanted = [jars.zookeeper_classpath(), kafkas]
    if jars.is_cached(jars.KAFKA_TOOLS):
        wanted.append(jars.tools_classpath(java, print))
    if all(class_data.archive_of(java, class_path).is_file() for class_path in wanted):
        return 0
    with tempfile.TemporaryDirectory() as folder:
        _work(Path(folder), java, *wanted)
    return 0


def _work(home: Path, java: Java, zookeepers: str, kafkas: str, tools: str = "") -> None:
    """Both servers, with a group that reads something, and the tool that describes groups."""
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
            if tools:
                _describe(java, tools, broker.address, topic)
            consumer.close()
            broker.stop()
        server.stop()


def _describe(java: Java, tools: str, bootstrap: str, group: str) -> None:
    asked = ("--bootstrap-server", bootstrap, "--describe", "--group", group)
    with class_data.making(java, tools) as making:
        command = [str(making.executable), *making.flags, "-cp", tools, GROUPS_TOOL, *asked]
        subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
