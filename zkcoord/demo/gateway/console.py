"""Kafka's console consumer, as it is, told about in the lines of `consumer.verifiable`:

    python -m zkcoord.demo.gateway.console --classpath JARS --folder FOLDER
        --bootstrap-servers ADDRESS --topic TOPIC --group GROUP

It runs as a child (`java`), whose output is read by `console_output`. SIGTERM and SIGINT end it
cleanly, as they do where nothing stands between; who kills it has to kill the child: then
everything that it has printed is told, and nothing after that. The exit status is 0 after a clean
end, 137 where it was killed, 1 where it ended by itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from consumer.verifiable import EventLines
from zkcoord.demo.gateway.console_output import ConsoleOutput, logging_xml
from zkcoord.errors import StackError
from zkcoord.stack.java import find_java
from zkcoord.stack.process import owned_command

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
READ_BYTES = 1 << 16
EXIT_KILLED = 128 + signal.SIGKILL


def command(args: argparse.Namespace) -> list[str]:
    """The child's words. Raises `StackError` without a Java."""
    logging = Path(args.folder) / "log4j2.xml"
    logging.parent.mkdir(parents=True, exist_ok=True)
    logging.write_text(logging_xml(), encoding="utf-8")
    words = [
        *("--bootstrap-server", args.bootstrap_servers),
        *("--topic", args.topic),
        *("--group", args.group),
        "--from-beginning",
    ]
    for shown in ("print.partition=true", "print.offset=true", "print.value=false"):
        words += ["--property", shown]
    options = [
        f"client.id={args.client_id}",
        f"auto.commit.interval.ms={args.commit_interval_ms}",
    ]
    if args.assignor:
        options.append(f"partition.assignment.strategy={ASSIGNORS[args.assignor]}")
    for option in options:
        words += ["--consumer-property", option]
    java = [str(find_java().executable), *JVM, f"-Dlog4j2.configurationFile={logging}"]
    return [*java, "-cp", args.classpath, CONSOLE, *words]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m zkcoord.demo.gateway.console")
    p.add_argument("--classpath", required=True, help="Kafka's tools, and a logger")
    p.add_argument("--folder", required=True, help="where the child's configuration is written")
    p.add_argument("--bootstrap-servers", required=True)
    p.add_argument("--topic", required=True)
    p.add_argument("--group", required=True)
    p.add_argument("--client-id", default="console-consumer")
    p.add_argument("--commit-interval-ms", type=int, default=5_000)
    p.add_argument("--assignor", choices=ASSIGNORS, help="instead of those that the client has")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    args = parser().parse_args(argv)
    lines = EventLines()
    lines.write("start", host=platform.node(), group=args.group, topics=[args.topic])
    try:
        words = command(args)
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    child = subprocess.Popen(owned_command(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    asked: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        child.terminate()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    assert child.stdout is not None
    output = ConsoleOutput(args.topic)
    while data := os.read(child.stdout.fileno(), READ_BYTES):
        for told in output.feed(data):
            lines.write(told.pop("event"), told.pop("t"), **told)
    status = child.wait()
    if status == -signal.SIGKILL:
        return EXIT_KILLED
    lines.write("closing", time.time_ns())
    lines.write("closed")
    if not asked:
        said = output.others[-1] if output.others else "it printed nothing"
        print(f"the console consumer ended with status {status}: {said}", file=sys.stderr)
    return 0 if asked else 1


if __name__ == "__main__":
    raise SystemExit(main())
