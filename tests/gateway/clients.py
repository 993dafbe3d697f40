"""Unmodified clients and the gateway as a process.

python -m tests.gateway.clients     fetches Kafka's own tools, for later without a network
"""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.harness.command import environment
from tests.harness.wait import wait_until
from zkcoord.errors import StackError
from zkcoord.stack import class_data, jars
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.ports import free_port

HERE = Path(__file__).parent
PATIENCE_S = 90.0
V3, V4 = jars.KAFKA_TOOLS.version, "4.1.1"
TOOLS = {
    V3: jars.KAFKA_TOOLS,
    V4: replace(jars.KAFKA_TOOLS, version=V4, lock=HERE / f"kafka-tools-{V4}.lock"),
}
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class GatewayProcess:
    """`zkcoord gateway` as a process of its own; a context manager. `address` is what clients are
    told. With `named` brokers have no port of their own (--broker-hosts is among the arguments);
    `files`: how many it may open; `program`: a module that is another one in one respect.
    """

    def __init__(
        self,
        home: Path,
        zookeeper: str,
        broker: str,
        *arguments: str,
        broker_id: int = 0,
        named: bool = False,
        files: int | None = None,
        program: str = "zkcoord.cli.main",
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.zookeeper, self.broker, self.arguments = zookeeper, broker, arguments
        self.port, self.broker_port = free_port(), free_port()
        self.broker_id = broker_id
        self.named = named
        self.files = files
        self.program = program
        self.log_path = home / "gateway.log"
        self.process = self._start()

    @property
    def address(self) -> str:
        """For bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    def _start(self) -> subprocess.Popen[bytes]:
        ports = f"{self.broker_id}={self.broker_port}"
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    self.program,
                    "gateway",
                    "--zookeeper",
                    self.zookeeper,
                    "--brokers",
                    self.broker,
                    "--listen",
                    self.address,
                    *(() if self.named else ("--broker-ports", ports)),
                    *self.arguments,
                ],
                env=environment(self.home),
                stdout=log,
                stderr=log,
                cwd=self.home,
                preexec_fn=None if self.files is None else self._limit,
            )

    def _limit(self) -> None:
        assert self.files is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))

    def __enter__(self) -> GatewayProcess:
        wait_until(self._listens, PATIENCE_S, "the gateway's ports")
        return self

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.log()
        for port in (self.port,) if self.named else (self.port, self.broker_port):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                return False
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert "defect" not in self.log() and "Traceback" not in self.log(), self.log()

    def log(self) -> str:
        """What it has said."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def restart(self) -> None:
        """Kill it, and start it again at the same addresses."""
        self.process.kill()
        self.process.wait()
        self.process = self._start()
        wait_until(self._listens, PATIENCE_S, "the gateway's ports")

    def stop(self) -> int:
        """SIGTERM; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


def tools_classpath(version: str, java: Java) -> str:
    """Kafka's own tools and its Java client, fetched if they are not there."""
    return jars.tools_classpath(java, lambda _: None, TOOLS[version])


def java_tool(
    version: str, java: Java, name: str, *arguments: str, timeout_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end."""
    jars_of_it = tools_classpath(version, java)
    quick = (*java.flags, *class_data.options(java, jars_of_it))
    return subprocess.run(
        [str(java.executable), *quick, "-cp", jars_of_it, name, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@contextmanager
def console_consumer(
    version: str, java: Java, bootstrap: str, topic: str, group: str, *more: str
) -> Iterator[list[str]]:
    """Kafka's console consumer while it is on; the lines that it has printed."""
    jars_of_it = tools_classpath(version, java)
    process = subprocess.Popen(
        [
            str(java.executable),
            *java.flags,
            *class_data.options(java, jars_of_it),
            "-cp",
            jars_of_it,
            CONSOLE,
            "--bootstrap-server",
            bootstrap,
            "--topic",
            topic,
            "--group",
            group,
            "--from-beginning",
            *more,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    lines: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=_gather, args=(process, lines), daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _gather(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip("\n"))


class Librdkafka:
    """A confluent-kafka consumer that is polled on a thread of its own. `owned` is what it has now,
    `calls` its callbacks, `taken` (partition, offset) of what it got, `events` what its connections
    met.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, **more: Any) -> None:
        from confluent_kafka import Consumer

        self.owned: set[int] = set()
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.taken: list[tuple[int, int]] = []
        self.errors: list[str] = []
        self.events: list[str] = []
        self.pause_s = 0.0
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "partition.assignment.strategy": "cooperative-sticky",
                "auto.commit.interval.ms": 500,
                "error_cb": lambda error: self.events.append(str(error)),
                **more,
            }
        )
        self._consumer.subscribe(
            [topic],
            on_assign=lambda c, tps: self._called("assigned", tps),
            on_revoke=lambda c, tps: self._called("revoked", tps),
            on_lost=lambda c, tps: self._called("lost", tps),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _called(self, kind: str, tps: Any) -> None:
        numbers = {tp.partition for tp in tps}
        self.calls.append((kind, tuple(sorted(numbers))))
        if kind == "assigned":
            self.owned |= numbers
        else:
            self.owned -= numbers

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            if message.error():
                self.errors.append(str(message.error()))
            else:
                self.taken.append((message.partition(), message.offset()))
        self._consumer.close()

    def close(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def begin_at_start(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    """Commit 0 of each partition, so that no client has to ask where its log begins. Where that is
    answered after the partition was revoked, librdkafka (2.16) asks again and fetches what it does
    not have any more (`rd_kafka_toppar_handle_Offset` begins anew for an outdated answer); records
    were seen to be handed out right after such a partition was assigned again, before any fetch.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    begin = [TopicPartition(topic, number, 0) for number in range(partitions)]
    assert not any(one.error for one in consumer.commit(offsets=begin, asynchronous=False) or ())
    consumer.close()


def shared(consumers: list[Any], partitions: int) -> None:
    """Wait until these have all partitions, each once and evenly."""

    def done() -> bool:
        owned = [set(one.owned) for one in consumers]
        sizes = [len(part) for part in owned]
        return (
            set().union(*owned) == set(range(partitions))
            and sum(sizes) == partitions
            and max(sizes) - min(sizes) <= 1
        )

    wait_until(done, PATIENCE_S, f"{partitions} partitions shared by {len(consumers)} clients")


def main() -> int:
    """Fetch what is missing, saying so."""
    try:
        jars.resolve(TOOLS[V3], find_java(), lambda sentence: print(sentence, flush=True))
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
