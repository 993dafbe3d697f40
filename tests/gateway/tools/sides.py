"""A group of two librdkafka clients on either side, the same in everything but who coordinates it,
and whoever asks about it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.gateway.clients import HERE, PATIENCE_S, Librdkafka, shared, tools_classpath
from tests.gateway.tools import commands
from tests.gateway.tools.commands import Command
from tests.gateway.tools.fields import Fields, fields, listed, plain, settings
from tests.harness.wait import wait_until
from tests.legacy.jars import compiled
from zkcoord.stack.java import Java

SOURCE = HERE / "java" / "Tools.java"
WORDS, END = "\x1f", "\x1e"
ASKED_S = 30
PARTITIONS = 3
FIRST, SECOND = "w1", "w2"
INSTANCE = "w2-instance"


class Tools:
    """Kafka's tools of one version, in one virtual machine; a context manager's value."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def says(self, *words: str) -> list[str]:
        """To a command."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(WORDS.join(words) + "\n")
        self._process.stdin.flush()
        said: list[str] = []
        for line in self._process.stdout:
            if line.rstrip("\n") == END:
                return said
            said.append(line.rstrip("\n"))
        raise AssertionError(f"the tools ended with {self._process.wait()}: {said}")


@contextmanager
def tools(version: str, java: Java) -> Iterator[Tools]:
    """While they run."""
    classes = tools_classpath(version, java)
    path = f"{compiled(SOURCE, java, class_path=classes)}:{classes}"
    flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    process = subprocess.Popen(
        [str(java.executable), *flags, "-cp", path, "Tools"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Tools(process)
    finally:
        process.kill()
        process.wait()


class Side:
    """A gateway or a broker, at `address`, with its group. `others` is the other side's group."""

    def __init__(self, address: str, group: str, topic: str, tools: Tools, folder: Path) -> None:
        self.address, self.group, self.topic = address, group, topic
        self.tools = tools
        self.folder = folder
        self.none = f"{group}-none"
        self.others = ""
        self.members: list[Librdkafka] = []

    def begin(self, records: int) -> None:
        """Both have joined, and have read and committed everything."""
        for name, more in ((FIRST, {}), (SECOND, {"group.instance.id": INSTANCE})):
            client = Librdkafka(
                self.address,
                self.group,
                self.topic,
                **{"client.id": name, "partition.assignment.strategy": "range", **more},
            )
            self.members.append(client)
        shared(self.members, PARTITIONS)
        wait_until(lambda: self.taken() == records, PATIENCE_S, "all records")
        wait_until(lambda: self.committed() == records, PATIENCE_S, "their commits")

    def taken(self) -> int:
        """Records."""
        return sum(len(one.taken) for one in self.members)

    def committed(self) -> int:
        """The sum of the next offsets."""
        said = settings(self.asked(Command(commands.KAFKA_PYTHON, "offsets")))
        return sum(int(value.split()[0]) for name, value in said.items() if "-" in name)

    def end(self) -> None:
        """Nobody is in it any more."""
        for one in self.members:
            one.close()
        # a static member that closes keeps its place until it is taken out, or its time is over
        from kafka.admin import KafkaAdminClient, MemberToRemove

        admin = KafkaAdminClient(bootstrap_servers=self.address)
        admin.remove_group_members(self.group, [MemberToRemove(group_instance_id=INSTANCE)])
        admin.close()
        wait_until(
            lambda: (
                settings(self.asked(Command(commands.KAFKA_PYTHON, "list"))).get("state") == "Empty"
            ),
            PATIENCE_S,
            "an empty group",
        )

    def says(self, command: Command) -> Fields:
        """To a command."""
        lines = self.asked(command)
        if command.who != commands.TOOL:
            return settings(lines)
        if command.words.startswith("--list"):
            return listed(lines, "GROUP-A")
        return fields(lines, "GROUP-A")

    def asked(self, command: Command) -> list[str]:
        """The lines, made the same."""
        said = {
            commands.TOOL: self._tool,
            commands.JAVA: self._java,
            commands.CONFLUENT: self._confluent,
            commands.KAFKA_PYTHON: self._kafka_python,
            commands.KCAT: self._kcat,
        }[command.who](command.words)
        names = {self.none: "GROUP-NONE", self.group: "GROUP-A", self.topic: "TOPIC-A"}
        return plain("\n".join(said), {**names, self.others: "GROUP-B", str(self.folder): "FOLDER"})

    def _tool(self, words: str) -> Sequence[str]:
        file = self.folder / "offsets.csv"
        file.write_text(f"{self.topic},0,2\n{self.topic},1,4\n")
        given = words.format(group=self.group, topic=self.topic, none=self.none, file=file)
        return self.tools.says("--bootstrap-server", self.address, *given.split())

    def _java(self, call: str) -> Sequence[str]:
        return self.tools.says("admin", self.address, self.group, self.topic, call)

    def _kcat(self, words: str) -> Sequence[str]:
        kcat = shutil.which("kcat")
        assert kcat is not None
        given = words.format(topic=self.topic).split()
        ended = subprocess.run(
            [kcat, "-b", self.address, *given], capture_output=True, text=True, timeout=ASKED_S
        )
        return (ended.stdout + ended.stderr).splitlines()

    def _confluent(self, call: str) -> Sequence[str]:
        from tests.gateway.tools.python_admins import confluent

        return confluent(self.address, self.group, self.topic, call)

    def _kafka_python(self, call: str) -> Sequence[str]:
        from tests.gateway.tools.python_admins import kafka_python

        return kafka_python(self.address, self.group, self.topic, call)


def is_there(command: Command) -> bool:
    """Whether this machine has who is asked."""
    return command.who != commands.KCAT or shutil.which("kcat") is not None
