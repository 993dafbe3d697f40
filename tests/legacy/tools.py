"""The command lines of Kafka 1.1.1 that read and write the old layout: each is a process, its
answer what it printed.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.legacy.jars import V1_1, release_classpath
from zkcoord.stack.java import Java
from zkcoord.stack.process import owned_command

TOOL_TIMEOUT_S = 180.0
LIST_GROUPS, EXPORT, IMPORT = (
    "kafka.admin.ConsumerGroupCommand",
    "kafka.tools.ExportZkOffsets",
    "kafka.tools.ImportZkOffsets",
)

_LOG_CONFIG = """status = error
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
"""


@dataclass(frozen=True)
class Answer:
    """What a tool printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it printed, without empty lines."""
        return [line.rstrip() for line in self.out.splitlines() if line.strip()]

    @property
    def table(self) -> list[dict[str, str]]:
        """A table under a line of column names (in capitals, without spaces except in
        LOG-END-OFFSET and the like), one mapping per row.
        """
        heads = next(
            (index for index, line in enumerate(self.lines) if line.startswith("TOPIC")), None
        )
        if heads is None:
            return []
        names = self.lines[heads].split()
        return [dict(zip(names, line.split())) for line in self.lines[heads + 1 :]]


class Tools:
    """The tools of 1.1.1 on one ZooKeeper (a connect string, chroot included)."""

    def __init__(self, home: Path, zookeeper: str, java: Java) -> None:
        self.home = home
        self.zookeeper = zookeeper
        self.java = java
        home.mkdir(parents=True, exist_ok=True)
        self._logging = home / "log4j2.properties"
        self._logging.write_text(_LOG_CONFIG, encoding="utf-8")

    def run(self, main_class: str, *arguments: str) -> Answer:
        """Run one of them to its end."""
        options = [
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={self._logging}",
        ]
        command = [
            str(self.java.executable),
            *options,
            "-cp",
            release_classpath(V1_1, self.java),
            main_class,
            *arguments,
        ]
        found = subprocess.run(
            owned_command(command),
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=self.home,
        )
        return Answer(found.returncode, found.stdout, found.stderr)

    def groups(self) -> list[str]:
        """`kafka-consumer-groups.sh --zookeeper --list`, sorted."""
        answer = self.run(LIST_GROUPS, "--zookeeper", self.zookeeper, "--list")
        assert answer.status == 0, answer
        return sorted(answer.lines)

    def describe(self, group: str) -> Answer:
        """`kafka-consumer-groups.sh --zookeeper --describe --group`."""
        return self.run(LIST_GROUPS, "--zookeeper", self.zookeeper, "--describe", "--group", group)

    def export(self, target: Path, group: str = "") -> Answer:
        """`ExportZkOffsets`: lines of `path:offset` into `target`."""
        return self.run(
            EXPORT,
            "--zkconnect",
            self.zookeeper,
            "--output-file",
            str(target),
            *(("--group", group) if group else ()),
        )

    def restore(self, source: Path) -> Answer:
        """`ImportZkOffsets`."""
        return self.run(IMPORT, "--zkconnect", self.zookeeper, "--input-file", str(source))
