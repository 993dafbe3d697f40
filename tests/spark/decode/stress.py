"""Reads given ranges by one build of the extension, in many ways, in a process of its own: `python
-m tests.spark.decode.stress SHARED_OBJECT < orders > answers`.

Orders are JSON: the broker, and per range its log, bounds, isolation level and limit of rows.
Answers are a line of JSON per range: a digest of its rows. Besides, in between: readings that are
given up, partitions that are opened twice, a broker that is not there, topics that do not exist, a
forked child. For a build under AddressSanitizer, which ends the process at the first wrong access.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from typing import Any
from unittest import mock

from consumer.spark.decode import Patience, ReadError, engine_c, open_reader
from consumer.spark.plan import PlannedRange
from consumer.spark.schema import ALL_COLUMNS, COLUMNS

MODULE = "consumer.spark.decode._rdk"
HASTY = Patience(probe_s=0.5, answer_s=5.0, unreachable_s=1.0, unknown_s=0.5, stalled_s=300.0)


def use(shared_object: str) -> None:
    """This build is the extension."""
    spec = importlib.util.spec_from_file_location(MODULE, shared_object)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[MODULE] = module
    importlib.import_module("consumer.spark.decode")._rdk = module  # type: ignore[attr-defined]


def digest(rows: list[dict[str, Any]]) -> str:
    """Of rows as Python objects; equal times are one, whatever made them."""
    return hashlib.sha256(
        repr([{**row, "timestamp": row["timestamp"].timestamp()} for row in rows]).encode()
    ).hexdigest()


def disturb(bootstrap: str, wanted: PlannedRange, number: int) -> None:
    """Something that is not reading to the end."""
    told = {"bootstrap.servers": bootstrap}
    reader = open_reader(told, "c", patience=HASTY)
    if number % 4 == 0:
        given_up = reader.read([wanted], COLUMNS)
        next(given_up, None)
        given_up.close()
    elif number % 4 == 1:
        extension, _ = engine_c.load()
        client = extension.Client({"bootstrap.servers": bootstrap, "enable.partition.eof": "true"})
        part = client.open(wanted.topic, wanted.partition, wanted.start, wanted.end)
        for act in (
            lambda: client.open(wanted.topic, wanted.partition, 0, 9),
            lambda: client.open(wanted.topic, -7, 0, 9),
            client.close,
        ):
            try:
                act()
            except (extension.KafkaError, RuntimeError):
                continue
        part.read(3, 50, 500, 7)
        client.errors()
        if os.fork() == 0:
            part.close()
            client.close()
            os._exit(0)
        os.wait()
        del client, part
    elif number % 4 == 2:
        for servers, topic in ((bootstrap, "no-such-topic"), ("127.0.0.1:1", wanted.topic)):
            try:
                list(
                    open_reader({"bootstrap.servers": servers}, "c", patience=HASTY).read(
                        [PlannedRange(topic, 0, 0, 5)], ["value"]
                    )
                )
            except ReadError:
                continue


def main() -> int:
    """Carry out the orders."""
    use(sys.argv[1])
    orders = json.load(sys.stdin)
    for number, order in enumerate(orders["ranges"]):
        wanted = PlannedRange(order["topic"], order["partition"], order["start"], order["end"])
        if number % orders["disturb_every"] == 0:
            disturb(orders["bootstrap"], wanted, number // orders["disturb_every"])
        with mock.patch.object(engine_c, "ROWS_MAX", order["rows_max"]):
            reader = open_reader(
                {"bootstrap.servers": orders["bootstrap"], "isolation.level": order["isolation"]},
                "c",
            )
            rows = [
                row for batch in reader.read([wanted], ALL_COLUMNS) for row in batch.to_pylist()
            ]
        print(json.dumps({"number": number, "digest": digest(rows)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
