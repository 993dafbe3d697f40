"""Make visible what departed applications of a group have committed, and clean away what they have only staged: for readers that do not want to wait until an application runs again.

    python -m consumer.spark.sink --zookeeper zk1:2181/kafka --group billing --directory /data/orders
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from consumer.spark.sink import steps
from consumer.spark.sink.files import Files, LocalFiles, files_at
from consumer.spark.sink.keeper import Keeper
from consumer.spark.sink.recovery import committed, recover
from zkcoord.errors import ZkcoordError
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import LAYOUTS, layout_named


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m consumer.spark.sink", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zookeeper", required=True, help="host:port,host:port/chroot")
    parser.add_argument("--group", required=True)
    parser.add_argument("--directory", required=True, help="the sink's directory, as its applications name it")
    parser.add_argument("--layout", choices=sorted(LAYOUTS), default="draft")
    args = parser.parse_args(argv)
    try:
        files = _files(args.directory)
        keeper = Keeper(ZkOptions(args.zookeeper))
        try:
            place = steps.Place(layout_named(args.layout), validate_group(args.group), files.uri)
            before = recover(place, keeper, files)
            left = committed(place, keeper)
        finally:
            keeper.close()
    except ZkcoordError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{before} committed batches of {args.group} were not visible, {left} are not now" + (" (those of applications that live are theirs to finish)" if left else ""))
    return 0


def _files(directory: str) -> Files:
    """A local directory needs no Spark."""
    if urlsplit(directory).scheme == "":
        return LocalFiles(Path(directory))
    from pyspark.sql import SparkSession

    return files_at(directory, SparkSession.builder.getOrCreate())


if __name__ == "__main__":
    raise SystemExit(main())
