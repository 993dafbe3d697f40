"""A checkpoint of an earlier release goes on in this one, and back: `python -m
tests.spark.checkpoint_upgrade --from TREE`.

One query on one checkpoint, run by the code of TREE (a checkout of the earlier release), of this
checkout, of TREE and of this one in turn, each until it has read what was there (availableNow), on
a real broker and a real Spark. Each record must be in exactly one batch, and no batch number twice.
Exit status 1 where that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.bench.running import say
from tests.harness.kafka import create_topic, produce_numbered
from tests.kafka.groups import coordinator
from zkcoord.stack.stack import running_stack

ROOT = Path(__file__).parents[2]
PARTITIONS, EACH, TURNS = 4, 250, 4
RUN_S = 600.0


def run(tree: Path, hosts: str, folder: Path) -> None:
    """The query once, by the code of this tree. Raises `CalledProcessError`."""
    command = [sys.executable, "-m", "tests.spark.app", "--zookeeper", hosts, "--group", "upgrade"]
    command += ["--topic", "upgrade", "--folder", str(folder), "--available-now"]
    with (folder / "log.txt").open("ab") as log:
        subprocess.run(
            command,
            cwd=tree,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(tree), "PYSPARK_PYTHON": sys.executable},
            timeout=RUN_S,
            check=True,
        )


def read(folder: Path) -> tuple[Counter[tuple[int, int]], Counter[int]]:
    """How often each (partition, offset), and each batch with records, was written."""
    batches = [
        json.loads(line)
        for path in folder.glob("batches-*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    records = Counter(
        (int(partition), offset)
        for batch in batches
        for partition, offsets in batch["offsets"].items()
        for offset in offsets
    )
    return records, Counter(batch["batch"] for batch in batches if batch["offsets"])


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark.checkpoint_upgrade",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--from", dest="earlier", type=Path, required=True, metavar="TREE", help="its checkout"
    )
    earlier: Path = parser.parse_args(argv).earlier.resolve()
    if not (earlier / "tests" / "spark" / "app.py").is_file():
        parser.error(f"{earlier} is no checkout of zkcoord: clone one there (git worktree add)")
    with tempfile.TemporaryDirectory(prefix="zkcoord-upgrade-") as temporary:
        folder = Path(temporary)
        with running_stack(folder / "stack", progress=say) as stack:
            assert stack.zookeeper is not None and stack.kafka is not None
            hosts, broker = stack.zookeeper.address, stack.kafka.address
            create_topic(broker, "upgrade", PARTITIONS)
            with coordinator(hosts):
                for turn in range(TURNS):
                    tree = ROOT if turn % 2 else earlier
                    produce_numbered(broker, "upgrade", PARTITIONS, EACH, turn * EACH)
                    say(f"turn {turn + 1} of {TURNS}: the code of {tree} ...")
                    run(tree, hosts, folder)
                    records, _ = read(folder)
                    say(f"  {len(records)} records of {(turn + 1) * EACH * PARTITIONS} read")
        records, batches = read(folder)
    wanted = {(p, n) for p in range(PARTITIONS) for n in range(TURNS * EACH)}
    lost, again = wanted - records.keys(), [at for at, times in records.items() if times > 1]
    twice = [number for number, times in batches.items() if times > 1]
    print(
        f"{len(batches)} batches, {len(records)} records: {len(lost)} lost, {len(again)} more than"
        f" once, {len(twice)} batch numbers twice"
    )
    return 1 if lost or again or twice else 0


if __name__ == "__main__":
    sys.exit(main())
