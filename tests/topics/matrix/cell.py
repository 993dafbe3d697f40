"""One cell: a part of zkcoord on a broker that runs, in a process of its own, so that nothing that
it leaves behind or breaks is in the way of another one.

    python -m tests.topics.matrix.cell PART RELEASE ADDRESS LOGS ZOOKEEPER FOLDER

The last line that it prints says how it went: {"works": .., "note": ..}.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.bench.figures import Row
from tests.legacy.broker_checks import Against, Check, verdict, why
from tests.topics.matrix import gateways, tools
from tests.topics.matrix.members import shim, spark, streams
from zkcoord.stack.process import last_line, owned_command

PARTS: Mapping[str, tuple[str, Check]] = {
    "shim-kafka-python": ("consumers, data_client kafka-python", partial(shim, "kafka-python")),
    "shim-librdkafka": ("consumers, data_client librdkafka", partial(shim, "librdkafka")),
    "streams": ("message streams of the old high-level consumer", streams),
    **{
        f"spark-{engine}": (
            f"a Spark application beside a consumer, engine {engine}",
            partial(spark, engine),
        )
        for engine in ("c", "confluent", "kafka-python")
    },
    "groups": ("zkcoord groups", tools.groups),
    "offsets": ("zkcoord offsets", tools.offsets),
    "offsets-in-kafka": ("offsets in Kafka alone, and in both", tools.kafka_offsets),
    "migrate": ("zkcoord migrate", tools.migrated),
    "check": ("zkcoord check", tools.check),
    "gateway-kafka-python": ("kafka-python through a gateway", gateways.kafka_python),
    "gateway-librdkafka": ("confluent-kafka through a gateway", gateways.librdkafka),
    "gateway-java": ("Kafka's Java client through a gateway", gateways.java),
}
DEADLINE_S = 600.0
STILL_EVERY_S = 30.0


def played(part: str, at: Against, say: Callable[[str], None]) -> Row:
    """One line, whatever happens to the cell's process. All that it has started ends with it."""
    what, began, log = PARTS[part][0], time.monotonic(), at.folder / "cell.log"
    given = [at.release, at.address, at.logs, at.hosts, at.folder]
    command = owned_command([sys.executable, "-m", __name__, part, *map(str, given)])
    said: str | None = None
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as process,
    ):
        try:
            while said is None and time.monotonic() - began < DEADLINE_S:
                try:
                    said = process.communicate(timeout=STILL_EVERY_S)[0]
                except subprocess.TimeoutExpired:
                    say(f"  {part} is at it for {time.monotonic() - began:.0f} s ...")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    seconds = time.monotonic() - began
    if said is None:
        return verdict(what, False, seconds, f"it did not end within {DEADLINE_S:.0f} s")
    try:
        found = json.loads(said.splitlines()[-1])
        return verdict(what, found["works"], seconds, found["note"])
    except (ValueError, IndexError):
        ended = f"it ended with {process.returncode}: {last_line(log)}"
        return verdict(what, False, seconds, ended)


def main(part: str, release: str, address: str, logs: str, hosts: str, folder: str) -> int:
    """Play it; the exit status."""
    at = Against(release, address, Path(logs), hosts, Path(folder))
    works = True
    try:
        note = PARTS[part][1](at)
    except Exception as error:  # thread main
        traceback.print_exc()
        works, note = False, why(error)
    print(json.dumps({"works": works, "note": note}), flush=True)
    return 0 if works else 1


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))  # threads of what failed would hold it up
