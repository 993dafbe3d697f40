"""Old consumers as processes: started, told what to do, listened to, stopped, paused, killed.

    with LegacyProcess(folder, V1_1, zookeeper, java) as process:
        member = process.consumer("group", topics={"orders": 2})
        member.wait("assigned"); member.commit(); process.kill()

One process (one Java virtual machine, about a second and 100 MB) holds as many consumers as wanted,
each with its own connection and session; what is done to the process (`pause`, `kill`) happens to
all of them. What they say is in `lines` (see java/LegacyHarness.java) and can be judged by
`zkcoord.verdict.lines.consumer`; what they only log is in `gave_up`.
"""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.harness.wait import wait_until
from tests.legacy.jars import MAIN_CLASS, harness_classpath
from zkcoord.core.model import TopicPartition
from zkcoord.stack.java import Java
from zkcoord.stack.process import ServerProcess, identify, last_line, owned_command

HEAP_MB = 192
ANSWER_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 60.0
LAST_ATTEMPT_S = 4.0
DEFAULTS = {"auto.offset.reset": "smallest"}
GAVE_UP = re.compile(
    r"^(\d+) .*ConsumerRebalanceFailedException: (\S+) can't rebalance after \d+ retries",
    re.MULTILINE,
)
CONFLICT = re.compile(
    r"^(\d+) .*conflict in (\S+) data: (\S+)-\d+ stored data: (\S+)", re.MULTILINE
)
BEGAN = re.compile(r"^(\d+) .*begin rebalancing consumer (\S+) try #0\b", re.MULTILINE)

# What was thrown begins on the line of its message; times in milliseconds since 1970.
_LOG_CONFIG = """status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{UNIX_MILLIS}} %-5p %c{{1}} %m %ex{{3}}%n
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
"""

Line = dict[str, Any]


class LegacyProcess:
    """A virtual machine with old consumers of one release. `zookeeper` is a connect string, chroot
    included.
    """

    def __init__(
        self,
        home: Path,
        version: str,
        zookeeper: str,
        java: Java,
        heap_mb: int = HEAP_MB,
        log_level: str = "info",
    ) -> None:
        self.home = home.absolute()
        self.version = version
        self.zookeeper = zookeeper
        self.java = java
        self.heap_mb = heap_mb
        self.log_level = log_level
        self.log = self.home / "consumer.log"
        self.said = self.home / "said.jsonl"
        self.consumers: list[LegacyConsumer] = []
        self._lines: list[Line] = []
        self._of_consumer: dict[str, list[Line]] = {}
        self._read_bytes = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._process: ServerProcess | None = None

    def __enter__(self) -> LegacyProcess:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        """Start it and return when it obeys."""
        self.home.mkdir(parents=True, exist_ok=True)
        logging = self.home / "log4j2.properties"
        logging.write_text(_LOG_CONFIG.format(log=self.log, level=self.log_level), encoding="utf-8")
        options = [
            f"-Xmx{self.heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            f"-Dlog4j2.configurationFile={logging}",
        ]
        command = [
            str(self.java.executable),
            *options,
            "-cp",
            harness_classpath(self.version, self.java),
            MAIN_CLASS,
            self.zookeeper,
        ]
        with self.said.open("ab") as said, self.log.open("ab") as log:
            self._child = subprocess.Popen(
                owned_command(command),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=log,
                start_new_session=True,
                cwd=self.home,
            )
        process_id = identify(self._child.pid)
        assert process_id is not None, "a child that is not reaped is in /proc"
        self._process = ServerProcess(process_id, self._child, self.log)
        self._process.wait_ready(
            lambda: bool(self.lines), ANSWER_TIMEOUT_S, f"The old consumer {self.version}"
        )

    @property
    def pid(self) -> int:
        return self._running().id.pid

    def alive(self) -> bool:
        return self._process is not None and self._process.alive()

    @property
    def lines(self) -> list[Line]:
        """All that was said until now, whole lines only."""
        self._hear()
        return self._lines

    def lines_of(self, key: str) -> list[Line]:
        """What the consumer with this key said until now."""
        self._hear()
        return self._of_consumer.get(key, [])

    def _hear(self) -> None:
        with self.said.open("rb") as stream:
            stream.seek(self._read_bytes)
            whole, newline, _ = stream.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(newline)
        for text in whole.splitlines():
            line = json.loads(text)
            self._lines.append(line)
            self._of_consumer.setdefault(line["consumer"], []).append(line)

    @property
    def gave_up(self) -> list[tuple[float, str]]:
        """(seconds since 1970, consumer id) of each rebalance that a running consumer gave up:
        these are only logged. (One that gives up while it is opened says `failed`.)
        """
        return [
            (int(ms) / 1000, member)
            for ms, member in GAVE_UP.findall(
                self.log.read_text(encoding="utf-8", errors="replace")
            )
        ]

    @property
    def conflicts(self) -> list[tuple[float, str, str]]:
        """(seconds since 1970, consumer id, thread id) of each claim that failed because the owner
        node was there, with whom it named.
        """
        return [
            (int(ms) / 1000, member, stored)
            for ms, _, member, stored in CONFLICT.findall(
                self.log.read_text(encoding="utf-8", errors="replace")
            )
        ]

    @property
    def rebalances(self) -> list[tuple[float, str]]:
        """(seconds since 1970, consumer id) of each rebalance that a consumer began: before it
        stops its fetchers and commits.
        """
        return [
            (int(ms) / 1000, member)
            for ms, member in BEGAN.findall(self.log.read_text(encoding="utf-8", errors="replace"))
        ]

    def consumer(
        self,
        group: str,
        topics: Mapping[str, int] | None = None,
        whitelist: str = "",
        blacklist: str = "",
        threads: int = 1,
        name: str = "",
        strategy: str = "",
        batch: int = 1,
        delay_ms: int = 0,
        wait: bool = True,
        **configs: str | int,
    ) -> LegacyConsumer:
        """Open a consumer: of `topics` (topic -> streams) or of a pattern with `threads` streams.
        Its id is `<group>_<name>`; without a name, one as the old consumer makes it.

        `wait`: until it is registered and has its streams; AssertionError when it fails. `configs`
        are the old consumer's own, with _ for dots (`auto_commit_enable="false"`); `delay_ms` is
        what the application does with each record; `batch` > 1: so many records are told in one
        line, and those of the last, unfinished one not at all when the process is killed.
        """
        name = name or f"host-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
        settings = {
            **DEFAULTS,
            "group.id": group,
            "consumer.id": name,
            **{key.replace("_", "."): str(value) for key, value in configs.items()},
        }
        if strategy:
            settings["partition.assignment.strategy"] = strategy
        chosen = {
            "@whitelist": whitelist,
            "@blacklist": blacklist,
            "@topics": ",".join(f"{topic}:{streams}" for topic, streams in (topics or {}).items()),
        }
        settings |= {key: value for key, value in chosen.items() if value} | {
            "@threads": str(threads),
            "@batch": str(batch),
            "@delay.ms": str(delay_ms),
        }
        member = LegacyConsumer(self, f"{len(self.consumers)}", group, name)
        self.consumers.append(member)
        self.tell("open", member.key, *(f"{key}={value}" for key, value in settings.items()))
        if wait:
            member.wait("registered")
        return member

    def tell(self, *fields: str) -> None:
        """One command."""
        assert self._child is not None and self._child.stdin is not None, "it was started"
        self._child.stdin.write(("\t".join(fields) + "\n").encode())
        self._child.stdin.flush()

    def pause(self) -> None:
        """SIGSTOP."""
        self._running().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._running().signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9; returns when it is gone. Its sessions go on until they expire."""
        self._running().kill()
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def close(self) -> None:
        """Close every consumer in order, then end the process."""
        if self.alive():
            closing = [member for member in self.consumers if not member.said("closed")]
            for member in closing:
                member.ask_to_close()
            for member in closing:
                member.wait("closed")
        self.kill()

    def _running(self) -> ServerProcess:
        assert self._process is not None, "call start() first"
        return self._process


class LegacyConsumer:
    """One old consumer. `name` is what it was given, `id` how it is registered."""

    def __init__(self, process: LegacyProcess, key: str, group: str, name: str) -> None:
        self.process = process
        self.key = key
        self.group = group
        self.name = name
        self.id = f"{group}_{name}"

    @property
    def lines(self) -> list[Line]:
        """All that this consumer said until now."""
        return self.process.lines_of(self.key)

    def said(self, event: str) -> list[Line]:
        """Its lines of one kind."""
        return [line for line in self.lines if line["event"] == event]

    def wait(self, event: str, count: int = 1, timeout_s: float = ANSWER_TIMEOUT_S) -> Line:
        """The `count`-th line of this kind, waited for; AssertionError when a command of it failed
        or the process ended meanwhile.
        """

        def look() -> Line | None:
            found = self.said(event)
            if len(found) < count:
                failed = self.said("failed")
                assert not failed, (
                    f"{self.id} was asked to {failed[-1]['command']}: {failed[-1]['type']}:"
                    f" {failed[-1]['message']}"
                )
                assert self.process.alive(), (
                    f"the process of {self.id} is gone: {last_line(self.process.log)}"
                )
            return found[count - 1] if len(found) >= count else None

        return wait_until(look, timeout_s, f"{event} of {self.id}")

    @property
    def records(self) -> dict[TopicPartition, list[int]]:
        """Offsets in the order in which the application got them; what came twice is there
        twice.
        """
        found: dict[TopicPartition, list[int]] = {}
        for line in self.said("records"):
            for text, ranges in line["ranges"].items():
                topic, _, number = text.rpartition("-")
                found.setdefault(TopicPartition(topic, int(number)), []).extend(
                    itertools.chain.from_iterable(
                        range(first, last + 1) for first, last, *_ in ranges
                    )
                )
        return found

    @property
    def owned(self) -> set[str]:
        """What the consumer itself says that it owns, as topic-number (from 0.9 on: older ones do
        not say).
        """
        told = [line for line in self.lines if line["event"] in ("assigned", "revoked", "closed")]
        return set(told[-1]["offsets"]) if told and told[-1]["event"] == "assigned" else set()

    def gave_up(self) -> list[float]:
        """When (seconds since 1970) it gave up a rebalance, also while it was opened."""
        opening = [
            line["t"] / 1e9
            for line in self.said("failed")
            if line["type"] == "ConsumerRebalanceFailedException"
        ]
        return opening + [when for when, member in self.process.gave_up if member == self.id]

    def gave_up_before(self) -> list[str]:
        """For each rebalance that it gave up the thread that its last attempt found in its way ("":
        none, something else failed).
        """
        mine = [
            (when, stored) for when, member, stored in self.process.conflicts if member == self.id
        ]
        return [
            next(
                (
                    stored
                    for when, stored in reversed(mine)
                    if gave_up_s - LAST_ATTEMPT_S <= when <= gave_up_s
                ),
                "",
            )
            for gave_up_s in self.gave_up()
        ]

    def commit(self) -> dict[str, int]:
        """Commit what was handed out; what is stored then, by topic-number (of partitions that it
        says it owns).
        """
        before = len(self.said("committed"))
        self.process.tell("commit", self.key)
        return self.wait("committed", before + 1)["offsets"]

    def ask_to_close(self) -> None:
        """Begin a close and do not wait."""
        self.process.tell("close", self.key)

    def close(self) -> None:
        """Leave the group in order; returns when it has."""
        self.ask_to_close()
        self.wait("closed", timeout_s=CLOSE_TIMEOUT_S)
